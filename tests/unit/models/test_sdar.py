import functools

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from dllmzoo import load_model
from dllmzoo.errors import ModelError
from dllmzoo.models.sdar import SDARForCausalLM
from tests.unit.models.blocks import close, drawn, gradients, logits, padded
from tests.unit.models.tiny import tiny_sdar, tokens


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 20])
def test_a_token_reaches_its_own_block_and_later_ones(size):
    model, ids = tiny_sdar(block_size=size), tokens(1, 11)
    for place in (0, 4, 10):
        other = ids.clone()
        other[0, place] = (ids[0, place] + 1) % 6
        change_L = (logits(model, ids) - logits(model, other))[0].abs().amax(-1)
        start = place // size * size
        assert (change_L[:start] == 0).all()
        assert (change_L[start:] > 1e-5).all()


def test_full_attention_reaches_everything_and_is_read_at_each_call():
    model, ids = tiny_sdar(), tokens(2, 8)
    by_blocks = logits(model, ids)
    model.config.attention = "full"
    full = logits(model, ids)
    assert model.block_size is None and not torch.equal(full, by_blocks)
    model.config.attention, model.config.block_size = "block_causal", 8
    close(logits(model, ids), full)
    model.config.block_size = 1000
    close(logits(model, ids), full)
    other = ids.clone()
    other[:, -1] = (ids[:, -1] + 1) % 6
    assert (logits(model, other) - full)[:, 0].abs().max() > 1e-4


def test_a_block_size_of_one_is_qwen3(tmp_path):
    for tied in (False, True):
        ours = tiny_sdar(block_size=1, tie_word_embeddings=tied, max_position_embeddings=128)
        config = ours.config
        theirs = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=9, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, head_dim=6, tie_word_embeddings=tied,
                max_position_embeddings=128, rms_norm_eps=config.rms_norm_eps,
                rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            )
        ).eval()  # fmt: skip
        theirs.load_state_dict(ours.state_dict())
        ids = tokens(3, 70)
        close(logits(ours, ids), logits(theirs, ids))
        mask = padded(ids, (0, 0, 9), (2, 0, 40))
        real = mask.bool()
        place = (mask.cumsum(1) - 1).clamp(min=0)
        expected = logits(theirs, ids, attention_mask=mask, position_ids=place)
        close(logits(ours, ids, mask)[real], expected[real])


@pytest.mark.parametrize("side", ["left", "right", "both"])
def test_a_padded_row_is_the_row_alone(side):
    model, ids = tiny_sdar(), tokens(3, 10)
    holes = {"left": (1, 0, 4), "right": (1, 7, 10), "both": (1, 0, 2)}
    mask = padded(ids, holes[side], *([(1, 8, 10)] if side == "both" else []), (2, 0, 5))
    together = logits(model, ids, mask)
    noise = torch.where(mask.bool(), ids, 7)
    assert torch.equal(logits(model, noise, mask)[mask.bool()], together[mask.bool()])
    for row in range(3):
        real = mask[row].bool()
        close(together[row, real], logits(model, ids[row : row + 1, real])[0])


@pytest.mark.parametrize("at", [False, True])
def test_a_row_of_nothing_but_padding_is_finite_forward_and_backward(at):
    model, ids = tiny_sdar(), tokens(3, 5)
    mask = padded(ids, (1, 0, 5))
    wanted = drawn(ids) if at else None
    for target in (None, ids):
        out = model(ids, mask, target_ids=target, logits_at=wanted).logits
        assert out.isfinite().all()
        out.square().sum().backward()
        assert all(g.isfinite().all() for g in gradients(model).values())


def test_positions_that_are_given_are_used():
    model, ids = tiny_sdar(), tokens(2, 6)
    place = torch.arange(6).expand(2, 6)
    assert torch.equal(logits(model, ids, position_ids=place), logits(model, ids))
    shifted = logits(model, ids, position_ids=place + 3)
    close(shifted, logits(model, ids))  # rotary attention knows distances only; 3 is one block
    assert (logits(model, ids, position_ids=place + 1) - shifted).abs().max() > 1e-3, "the grid"


def test_the_grid_may_start_anywhere():
    model, ids = tiny_sdar(), tokens(2, 8)
    origin = torch.tensor([[2], [3]])
    moved = logits(model, ids, origin=origin)
    for row, start in enumerate([2, 0]):  # 3 is a whole block
        close(moved[row], logits(model, ids[row : row + 1], origin=start)[0])
    model.config.block_size = 100
    # blocks before the origin are negative: two blocks, [0, 2) and [2, 8)
    first = logits(model, ids[:, :2])
    close(logits(model, ids, origin=2)[:, :2], first)


def test_packed_documents_are_documents_alone():
    model, ids = tiny_sdar(), tokens(2, 12)
    document = torch.tensor([[0] * 5 + [1] * 7, [4] * 2 + [5] * 4 + [6] * 6])
    noised = ids.masked_fill(drawn(ids), 8)
    at = drawn(ids, seed=4)
    for mask in (None, padded(ids, (0, 10, 12), (1, 10, 12))):
        together = logits(model, ids, mask, document_ids=document)
        both = logits(model, ids, mask, document_ids=document, target_ids=noised)
        some = logits(model, ids, mask, document_ids=document, target_ids=noised, logits_at=at)
        real = torch.ones_like(at) if mask is None else mask.bool()
        close(some[real[at]], both[at & real])
        for row in range(2):
            for each in document[row].unique():
                here = (document[row] == each) & real[row]
                alone = ids[row : row + 1, here]
                close(together[row, here], logits(model, alone)[0])
                noisy = noised[row : row + 1, here]
                close(both[row, here], logits(model, alone, target_ids=noisy)[0])


@pytest.mark.parametrize("narrow", ["some", "one row", "all", "none"])
def test_logits_at_gives_the_same_numbers_row_by_row(narrow):
    model, ids = tiny_sdar(), tokens(3, 10)
    mask = padded(ids, (0, 0, 4), (2, 8, 10))
    at = {"some": drawn(ids), "all": mask.bool(), "none": torch.zeros_like(ids).bool()}.get(narrow)
    if at is None:
        at = torch.zeros_like(ids).bool()
        at[1, 2:9] = True
    noised = ids.masked_fill(drawn(ids, seed=5), 8)
    real = mask.bool()[at]
    for target in (None, noised):
        every = logits(model, ids, mask, target_ids=target)[at]
        found = logits(model, ids, mask, target_ids=target, logits_at=at)
        assert found.shape == (int(at.sum()), 9)
        close(found[real], every[real])


def test_logits_at_gives_the_same_gradients():
    model, ids = tiny_sdar(tie_word_embeddings=True), tokens(3, 10)
    mask, noised = padded(ids, (0, 0, 4)), ids.masked_fill(drawn(ids, seed=5), 8)
    at = drawn(ids, 0.3) & mask.bool()
    for target in (None, noised):
        found = []
        for narrow in (False, True):
            model.zero_grad()
            out = model(ids, mask, target_ids=target, logits_at=at if narrow else None).logits
            (out if narrow else out[at]).square().sum().backward()
            found.append(gradients(model))
        for name, gradient in found[0].items():
            torch.testing.assert_close(found[1][name], gradient, atol=1e-4, rtol=1e-4)


def test_long_rows_go_in_tiles_with_the_numbers_of_the_whole(monkeypatch):
    model, ids = tiny_sdar(max_position_embeddings=512), tokens(2, 300)
    mask = padded(ids, (0, 0, 37), (1, 290, 300))
    noised, at = ids.masked_fill(drawn(ids), 8), drawn(ids, 0.3) & mask.bool()
    asks = [
        {}, {"logits_at": at}, {"target_ids": noised, "logits_at": at}, {"target_ids": noised},
        {"target_ids": noised, "logits_at": at, "context": "token_causal"},
    ]  # fmt: skip
    monkeypatch.setattr("dllmzoo.models._tiles.TILE", 1000)
    whole = [logits(model, ids, mask, **ask) for ask in asks]
    for tile in (128, 50):
        monkeypatch.setattr("dllmzoo.models._tiles.TILE", tile)
        for ask, expected in zip(asks, whole, strict=True):
            real = ... if "logits_at" in ask else mask.bool()
            close(logits(model, ids, mask, **ask)[real], expected[real])


@pytest.mark.parametrize("at", [False, True])
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_changes_neither_logits_nor_gradients(at, reentrant):
    model, ids = tiny_sdar().train(), tokens(3, 8)
    wanted = drawn(ids) if at else None
    noised = ids.masked_fill(drawn(ids, seed=5), 8)
    run = functools.partial(model, ids, target_ids=noised, logits_at=wanted)
    run().logits.square().sum().backward()
    plain = gradients(model)
    model.zero_grad()
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    out = run().logits
    out.square().sum().backward()
    close(out, logits(model.eval(), ids, target_ids=noised, logits_at=wanted), atol=1e-6)
    for name, gradient in gradients(model).items():
        close(gradient, plain[name], atol=1e-5)


def test_hidden_states_are_the_embedding_the_layers_but_the_last_and_the_final_norm():
    model, ids = tiny_sdar(num_hidden_layers=3), tokens(2, 5)
    hidden = model(ids, output_hidden_states=True).hidden_states
    assert len(hidden) == 4
    assert torch.equal(hidden[0], model.get_input_embeddings()(ids))
    assert torch.equal(model.get_output_embeddings()(hidden[-1]), model(ids).logits)


def test_inputs_of_another_shape_are_refused():
    model, ids = tiny_sdar(), tokens(2, 4)
    wrong = torch.ones(2, 3, dtype=torch.long)
    for name in ("target_ids", "logits_at", "document_ids", "position_ids"):
        with pytest.raises(ModelError, match=rf"{name} has shape \(2, 3\), input_ids \(2, 4\)"):
            model(ids, **{name: wrong})
    with pytest.raises(ModelError, match=r"attention_mask has shape \(2, 3\)"):
        model(ids, wrong)
    with pytest.raises(ModelError, match=r"input_ids must be \(B, L\)"):
        model(ids[0])


def test_a_sequence_that_is_too_long_is_refused_by_its_real_tokens():
    model, ids = tiny_sdar(max_position_embeddings=5), tokens(2, 7)
    mask = padded(ids, (0, 0, 2), (1, 4, 7))
    assert logits(model, ids, mask)[mask.bool()].isfinite().all()
    with pytest.raises(ModelError, match=r"sequence of 6 tokens is longer .* of 5"):
        model(ids, padded(ids, (0, 0, 1), (1, 0, 1)))
    with pytest.raises(ModelError, match="sequence of 7 tokens"):
        model(ids)
    place = torch.arange(4, 7).expand(2, 3)
    with pytest.raises(ModelError, match="sequence of 7 tokens"):
        logits(model, ids[:, 4:], position_ids=place, cache=model.new_cache(3))


def test_positions_behind_the_longest_sequence_are_refused_with_a_cache_too():
    model, ids = tiny_sdar(max_position_embeddings=16), tokens(1, 4)
    place_BL = torch.arange(13, 17).unsqueeze(0)
    with pytest.raises(ModelError, match="17 tokens is longer"):
        logits(model, ids, position_ids=place_BL, cache=model.new_cache(64), store=True)
    logits(model, ids, position_ids=place_BL - 1, cache=model.new_cache(64), store=True)


def test_an_attention_program_that_is_not_built_is_refused(tmp_path):
    tiny_sdar().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="'eager'; sdar has sdpa and flex_attention"):
        SDARForCausalLM.from_pretrained(tmp_path, attn_implementation="eager")
    loaded = SDARForCausalLM.from_pretrained(tmp_path, attn_implementation="flex_attention")
    assert loaded.config._attn_implementation == "flex_attention"
    loaded.config._attn_implementation = "paged|sdpa"
    with pytest.raises(ModelError, match="sdar has sdpa and flex"):
        loaded(tokens(1, 3))
    assert load_model(tmp_path).config._attn_implementation == "sdpa"


@torch.no_grad()
def test_flex_attention_has_the_numbers_of_sdpa():
    model, ids = tiny_sdar(num_hidden_layers=1), tokens(3, 10)
    mask, noised = padded(ids, (0, 0, 4), (2, 8, 10)), ids.masked_fill(drawn(ids), 8)
    place = (mask.cumsum(1) - 1).clamp(min=0)
    found = []
    for implementation in ("sdpa", "flex_attention"):
        model.set_attn_implementation(implementation)
        cache = model.new_cache(10)
        model(ids[:, :6], mask[:, :6], cache=cache, store=True)
        rest = model(ids[:, 6:], mask[:, 6:], position_ids=place[:, 6:], cache=cache).logits
        both = model(ids, mask, target_ids=noised, logits_at=drawn(ids) & mask.bool()).logits
        found.append((rest[mask[:, 6:].bool()], both))
    close(found[1], found[0])


def test_flex_attention_has_no_backward_on_a_cpu():
    model = tiny_sdar()
    model.set_attn_implementation("flex_attention")
    with pytest.raises(ModelError, match=r"no backward pass on a CPU.*'sdpa'"):
        model(tokens(1, 4))


@pytest.mark.gpu
def test_flex_attention_has_the_gradients_of_sdpa_on_a_gpu():
    shape = {"head_dim": 16, "hidden_size": 64, "max_position_embeddings": 512}
    model, ids = tiny_sdar(**shape).cuda(), tokens(3, 300).cuda()
    mask = padded(ids, (0, 0, 37), (2, 280, 300))
    noised = ids.masked_fill(drawn(ids.cpu()).cuda(), 8)
    at = drawn(ids.cpu(), 0.3, seed=4).cuda() & mask.bool()
    found = []
    for implementation in ("sdpa", "flex_attention"):
        model.set_attn_implementation(implementation)
        model.zero_grad()
        out = model(ids, mask, target_ids=noised, logits_at=at).logits
        out.square().sum().backward()
        found.append((out.detach(), gradients(model)))
    torch.testing.assert_close(found[1][0], found[0][0], atol=2e-3, rtol=2e-3)
    for name, gradient in found[0][1].items():
        norm = gradient.norm()
        assert (found[1][1][name] - gradient).norm() <= 1e-2 * norm, name
