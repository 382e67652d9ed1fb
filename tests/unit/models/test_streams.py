import pytest
import torch
import torch.nn.functional as F

from dllmzoo.errors import ModelError, UsageError
from tests.unit.models.blocks import close, drawn, gradients, in_blocks, logits, padded
from tests.unit.models.tiny import tiny_sdar, tokens


def separate(model, ids, noised, mask=None):
    """The logits of each noised block behind its clean blocks, block after block."""
    found = torch.zeros(*ids.shape, 9, dtype=model.dtype)
    for row in range(len(ids)):
        real = torch.ones_like(ids[row]).bool() if mask is None else mask[row].bool()
        clean, noisy = ids[row : row + 1, real], noised[row : row + 1, real]
        pieces = []
        for start in range(0, clean.shape[1], model.block_size):
            stop = start + model.block_size
            mixed = torch.cat([clean[:, :start], noisy[:, start:stop]], 1)
            pieces.append(model(mixed).logits[0, start:])
        found[row, real] = torch.cat(pieces)
    return found


def test_one_pass_is_a_pass_for_each_block_whatever_the_padding():
    model, ids = tiny_sdar(), tokens(3, 11)
    noised = ids.masked_fill(drawn(ids), 8)
    for mask in (None, padded(ids, (0, 0, 4), (2, 9, 11))):
        with torch.no_grad():
            expected = separate(model, ids, noised, mask)
        real = torch.ones_like(ids).bool() if mask is None else mask.bool()
        close(logits(model, ids, mask, target_ids=noised)[real], expected[real])


def test_the_gradient_of_one_pass_is_that_of_the_passes_for_each_block():
    # a detached clean stream would lose the part that flows through earlier blocks
    model, ids = tiny_sdar().double(), tokens(2, 11)
    noised = ids.masked_fill(drawn(ids), 8)
    model(ids, target_ids=noised).logits.square().sum().backward()
    found = gradients(model)
    model.zero_grad()
    separate(model, ids, noised).square().sum().backward()
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(found[name], gradient, atol=1e-9, rtol=1e-9)


def test_a_token_causal_context_is_another_one():
    model, ids = tiny_sdar(), tokens(2, 9)
    found = {
        how: logits(model, ids, target_ids=ids, context=how)
        for how in ("block_causal", "token_causal")
    }
    close(found["token_causal"][:, :3], found["block_causal"][:, :3])  # no clean block is read
    assert (found["token_causal"] - found["block_causal"])[:, 3:].abs().max() > 1e-4
    one = logits(model, ids, context="token_causal")
    model.config.block_size = 1
    close(one, logits(model, ids))
    with pytest.raises(UsageError, match=r"context is 'causal', must be one of block_causal, tok"):
        model(ids, context="causal")


def test_blocks_without_a_wanted_slot_do_not_run(monkeypatch):
    model, ids = tiny_sdar(), tokens(2, 12)
    at = torch.zeros_like(ids).bool()
    at[0, 4], at[1, 7:9] = True, True
    seen = []
    monkeypatch.setattr(
        model.model.embed_tokens, "forward",
        lambda ids: seen.append(ids.shape) or F.embedding(ids, model.model.embed_tokens.weight),
    )  # fmt: skip
    logits(model, ids, target_ids=ids, logits_at=at)
    # the clean stream up to the end of block 1 (6 slots, read by block 2), one noised block
    assert seen == [(2, 6 + 3)]


def test_cached_blocks_are_the_uncached_row():
    model, ids = tiny_sdar(), tokens(3, 11)
    close(in_blocks(model, ids), logits(model, ids))
    # a ragged batch whose grids differ: the columns hold whole blocks of each row
    mask = padded(ids, (0, 0, 3), (2, 9, 11))
    close(
        in_blocks(model, ids, mask)[mask.bool()],
        logits(model, ids, mask)[mask.bool()],
    )


def test_rows_may_stand_at_blocks_of_their_own():
    # row 0 has stored 3 tokens and row 1 has stored 6; both read their next block
    model, ids = tiny_sdar(), tokens(2, 9)
    expected = [logits(model, ids[:1, :6])[0, 3:], logits(model, ids[1:])[0, 6:]]
    cache = model.new_cache(9)
    mask = padded(ids[:, :6], (0, 3, 6))
    logits(model, ids[:, :6], mask, cache=cache, store=True)
    block = torch.stack([ids[0, 3:6], ids[1, 6:]])
    place = torch.tensor([[3, 4, 5], [6, 7, 8]])
    found = logits(model, block, position_ids=place, cache=cache)
    close(found, torch.stack(expected))
    at = torch.tensor([[False, True, True], [True, False, False]])
    narrow = logits(model, block, position_ids=place, cache=cache, logits_at=at)
    close(narrow, found[at])
    swapped = logits(
        model, block[[1]], position_ids=place[[1]], cache=cache.take(torch.tensor([1]))
    )
    close(swapped, found[[1]])


def test_what_is_not_stored_is_forgotten():
    model, ids = tiny_sdar(), tokens(1, 6)
    cache, place = model.new_cache(6), torch.arange(6).unsqueeze(0)
    logits(model, ids[:, :3], cache=cache, store=True)
    for _ in range(2):
        logits(model, torch.full((1, 3), 8), position_ids=place[:, 3:], cache=cache)
    found = logits(model, ids[:, 3:], position_ids=place[:, 3:], cache=cache)
    assert cache.used == 3
    close(found, logits(model, ids)[:, 3:])


def test_hidden_states_of_the_clean_stream_are_those_of_the_cached_prefill():
    model, ids = tiny_sdar(num_hidden_layers=3).double(), tokens(2, 9)
    with torch.no_grad():
        both = model(ids, target_ids=ids, output_hidden_states=True).hidden_states
        cache = model.new_cache(9)
        alone = model(ids[:, :6], cache=cache, store=True, output_hidden_states=True).hidden_states
        model(ids[:, 6:], position_ids=torch.arange(6, 9).expand(2, 3), cache=cache, store=True)
    for one, two in zip(both[:-1], alone[:-1], strict=True):
        close(one[:, :6], two, atol=1e-12)
    # keys that the noised stream read = keys in the cache, layer by layer
    for layer, hidden in enumerate(both[:-1]):
        block = model.model.layers[layer]
        with torch.no_grad():
            read = block.self_attn.v_proj(block.input_layernorm(hidden[:, :6]))
        close(cache.stored(layer)[1][:, :, :6].transpose(1, 2).flatten(2), read, atol=1e-12)


def test_misuse_of_a_cache_is_refused():
    model, ids = tiny_sdar(), tokens(1, 6)
    cache = model.new_cache(4)
    with pytest.raises(UsageError, match=r"holds 4 tokens a row and 6 are needed.*new_cache\(6\)"):
        logits(model, ids, cache=cache)
    with pytest.raises(UsageError, match="read without gradient"):
        model(ids[:, :3], cache=cache)
    logits(model, ids[:, :3], cache=cache, store=True)
    with pytest.raises(ModelError, match="position_ids must say where"):
        logits(model, ids[:, 3:4], cache=cache)
    with pytest.raises(ModelError, match="give no target_ids"):
        logits(model, ids, target_ids=ids, cache=model.new_cache(6))
