"""Laws of model families, on networks with a few hundred weights."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws.case import Case
from dllmzoo.laws.law import (
    MAKERS,
    Report,
    check,
    law,
    require,
    same,
    untouched_global_generator,
)

Model = Any
WORDS = 9
TINY = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": WORDS + 2, "mask_token_id": WORDS + 1,
    "eos_token_id": WORDS, "pad_token_id": WORDS, "block_size": 3, "max_position_embeddings": 64,
}  # fmt: skip


def check_model(part: Any, *, cases: int = 8, seed: int = 0) -> Report:
    """Hold a model (a family, or a built network) to every law of models; see `law.check`."""
    return check("model", part, cases=cases, seed=seed)


def tiny(cls: type, case: Case) -> Any:
    """A network of a family with the usual config names, as small as it can be."""
    from inspect import signature

    known = cls.config_class.attribute_map  # type: ignore[attr-defined]
    settings = {known.get(name, name): number for name, number in TINY.items()}
    takes = set(signature(cls.config_class.__init__).parameters)  # type: ignore[attr-defined]
    config = cls.config_class(**{k: v for k, v in settings.items() if k in takes})  # type: ignore[attr-defined]
    model = cls(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.copy_(case.normal(f"weight {name}", *weight.shape, scale=0.4))
    return model


MAKERS["model"] = tiny


def _words(case: Case, rows: int, length: int, model: Model) -> Tensor:
    words = case.integers("words", 0, WORDS - 1, rows, length)
    return words.masked_fill(case.uniform("hidden", rows, length) < 0.3, model.mask_id)


def _logits(model: Model, *inputs: Tensor, **others: Any) -> Tensor:
    with torch.no_grad(), untouched_global_generator():
        return model(*inputs, **others).logits


def _bidirectional(model: Model) -> str | None:
    return None if model.block_size is None else "it attends by blocks"


def _by_blocks(model: Model) -> str | None:
    return "it has no blocks" if model.block_size is None else None


@law("model", _bidirectional)
def last_token_reaches_the_first(model: Model, case: Case) -> None:
    """Attention is bidirectional: another last token changes the first logits, padded or not."""
    words = _words(case, 1, 2 + case.size, model)
    other = words.clone()
    other[0, -1] = (int(words[0, -1]) + 1) % WORDS
    attend = torch.ones_like(words, dtype=torch.bool)
    attend[0, 0] = case.truth("no padding")
    first = int(attend[0].long().argmax())
    gap = _logits(model, words, attend)[0, first] - _logits(model, other, attend)[0, first]
    require(gap.abs().max() > 0 or first == words.shape[1] - 1, "nothing changes: it is causal")


@law("model", _by_blocks)
def later_blocks_do_not_reach_earlier_ones(model: Model, case: Case) -> None:
    """A token changes logits of its own block, and none of the blocks before it."""
    words = _words(case, 1, 2 * model.block_size + case.size, model)
    at = case.integer("place", 0, words.shape[1] - 1)
    other = words.clone()
    other[0, at] = (int(words[0, at]) + 1) % WORDS
    gap_L = (_logits(model, words) - _logits(model, other))[0].abs().amax(-1)
    start = at // model.block_size * model.block_size
    same(gap_L[:start], torch.zeros(start), "logits of earlier blocks change", 1e-6)
    require(gap_L[start] > 0, "the token's own block does not change")


@law("model", _by_blocks)
def one_pass_over_two_streams_is_a_pass_for_each_block(model: Model, case: Case) -> None:
    """A noised block reads the clean blocks before it, and itself: no other block of any stream."""
    size, words = model.block_size, _words(case, 2, 2 * model.block_size + case.size, model)
    noised = words.masked_fill(case.uniform("noise", *words.shape) < 0.5, model.mask_id)
    both = _logits(model, words, target_ids=noised)
    for start in range(0, words.shape[1], size):
        block = slice(start, start + size)
        alone = _logits(model, torch.cat([words[:, :start], noised[:, block]], 1))[:, block]
        same(both[:, block], alone, f"logits of the noised block at {start}", 2e-4)


@law("model", _by_blocks)
def cached_blocks_are_the_whole_row(model: Model, case: Case) -> None:
    """Blocks read one by one against a cache have the logits that they have in the whole row."""
    size, words = model.block_size, _words(case, 2, 2 * model.block_size + case.size, model)
    whole, place = _logits(model, words), torch.arange(words.shape[1]).expand(words.shape)
    cache = model.new_cache(words.shape[1])
    for start in range(0, words.shape[1], size):
        block = slice(start, start + size)
        options = {"position_ids": place[:, block], "cache": cache}
        masks = torch.full_like(words[:, block], model.mask_id)
        _logits(model, masks, **options)  # is not stored, so changes nothing
        found = _logits(model, words[:, block], store=True, **options)
        same(found, whole[:, block], f"logits of the block at {start}", 2e-4)


@law("model")
def batch_and_padding_invariant(model: Model, case: Case) -> None:
    """A row's logits do not depend on its neighbours or on padding at either side."""
    B, L = case.integer("rows", 1, 4), case.integer("length", 1, 6)
    words = _words(case, B, L, model)
    length_B = case.integers("lengths", 1, L, B)
    left = case.integer("left", 0, 3)
    row_L = torch.arange(L + left + 2)
    wide = torch.full((B, L + left + 2), model.mask_id)
    attend = (row_L >= left) & (row_L < left + length_B.unsqueeze(1))
    for b, length in enumerate(length_B.tolist()):
        wide[b, left : left + length] = words[b, :length]
    together = _logits(model, wide, attend)
    for b, length in enumerate(length_B.tolist()):
        alone = _logits(model, words[b : b + 1, :length])[0]
        same(together[b, left : left + length], alone, f"logits of row {b}", 2e-4)


@law("model")
def wanted_slots_only(model: Model, case: Case) -> None:
    """`logits_at` gives the rows of the wanted slots, row by row; (B, L, V) otherwise."""
    B, L = case.integer("rows", 1, 4), case.integer("length", 1, 6)
    words, wanted = _words(case, B, L, model), case.uniform("wanted", B, L) < 0.5
    wanted[0, 0] = True
    whole = _logits(model, words)
    require(whole.shape[:2] == (B, L), f"logits have shape {tuple(whole.shape)}")
    same(_logits(model, words, logits_at=wanted), whole[wanted], "logits of wanted slots", 2e-4)


@law("model")
def saving_and_loading_is_exact(model: Model, case: Case) -> None:
    """A saved network loads with the same tensor names and the same bits."""
    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = type(model).from_pretrained(folder).eval()
        saved = [load_file(path) for path in sorted(Path(folder).glob("*.safetensors"))]
    names = [name for file in saved for name in file]
    require(len(names) == len(set(names)), "a tensor is saved twice")
    ours, theirs = model.state_dict(), loaded.state_dict()
    require(
        set(names) <= set(ours) == set(theirs), f"names differ: {sorted(set(ours) ^ set(names))}"
    )
    for name, weight in ours.items():
        same(theirs[name], weight, f"weight {name}")
    words = _words(case, 2, 4, model)
    same(_logits(loaded, words), _logits(model, words), "logits of the loaded network")
