"""Floating-point operations of a forward and a backward pass, by formula.

Only matrix products count, a product of (m, k) and (k, n) as 2*m*k*n, attention scores and mixtures
included; norms, rotary embeddings, softmax and the embedding look-up are below a percent. Attention
counts the pairs of a query and a key that are computed, masked or not.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dllmzoo.errors import ModelError
from dllmzoo.zoo import MODELS

if TYPE_CHECKING:
    from dllmzoo.recipe.sections import Lora


@dataclass(frozen=True)
class Linear:
    """A linear layer of a block.

    Args:
        stage: 0 reads the block's input, 1 what attention mixed, 2 and 3 are the MLP.
        name: inside the block.
        inputs: width that comes in.
        outputs: width that goes out.
        every: it sees every token, not only the wanted queries.
    """

    stage: int
    name: str
    inputs: int
    outputs: int
    every: bool = False


@dataclass(frozen=True)
class Shape:
    """What the formulas read off a config.

    Args:
        layers: blocks.
        width: D.
        attention: width of the queries over all heads, H*E.
        vocabulary: V, columns of the logits.
        linears: of one block: queries, keys, values, then the others in order.
        prefix: full name of the first block.
        causal: attention goes by blocks, which the network skips where nobody sees them.
        block_size: tokens of a block; None = every token sees every token.
    """

    layers: int
    width: int
    attention: int
    vocabulary: int
    linears: Sequence[Linear]
    prefix: str
    causal: bool = False
    block_size: int | None = None


@dataclass(frozen=True)
class Pass:
    """What goes through a layer: tokens and wanted slots of all rows, pairs that are attended.

    Args:
        tokens: of all rows, both streams.
        last: queries of the last layer: the wanted slots if they are named.
        wanted: slots of all rows whose logits are asked for.
        pairs: of a query and a key, in a layer that serves every token.
        last_pairs: in the last layer.
    """

    tokens: int
    last: int
    wanted: int
    pairs: int
    last_pairs: int


def flops_forward(
    config: Any,
    rows: int,
    length: int,
    logits: int | None = None,
    *,
    target: int = 0,
    keys: int | None = None,
    lora: Lora | None = None,
) -> int:
    """FLOPs of one forward of `rows` sequences.

    For a block model the count is exact where rows are not padded, the noised blocks are the last
    ones and the wanted slots are spread evenly; else it is a close guess.

    Args:
        config: of a registered family.
        rows: B.
        length: L, padding included.
        logits: S, slots of all rows together whose logits are asked for; None = all of them, those
            of the noised stream where there is one.
        target: columns of the noised stream in a row; 0 = there is none.
        keys: tokens of a row that each query meets, those of a cache and its own L; None = L.
        lora: adapters, which add two thin products to each adapted layer.

    Raises:
        ModelError: no formulas for the family, or no second stream in it.
    """
    shape = shape_of(config)
    run = _pass(shape, rows, length, logits, target, keys)
    adapted = _adapted(config, shape, lora)
    full, last = (
        sum(_linear(layer, run.tokens, queries, adapted) for layer in shape.linears)
        + _attention(shape, pairs)
        for queries, pairs in ((run.tokens, run.pairs), (run.last, run.last_pairs))
    )
    return (shape.layers - 1) * full + last + _head(shape, run.wanted)


def flops_backward(
    config: Any,
    rows: int,
    length: int,
    logits: int | None = None,
    *,
    target: int = 0,
    keys: int | None = None,
    lora: Lora | None = None,
    checkpointing: bool = False,
) -> int:
    """FLOPs of the backward pass that belongs to such a forward.

    Every product costs two: the gradients of both its factors. With adapters the frozen weights
    have no gradient, and nothing flows below the first adapter unless blocks are checkpointed.

    Args:
        config: of a registered family.
        rows: B.
        length: L, padding included.
        logits: S, slots of all rows together whose logits were asked for; None = all of them.
        target: columns of the noised stream in a row; 0 = there is none.
        keys: tokens of a row that each query meets; None = L.
        lora: adapters; the rest of the network is frozen.
        checkpointing: the blocks run forward once more, but for the last product of each.
    """
    forward = flops_forward(config, rows, length, logits, target=target, keys=keys, lora=lora)
    shape = shape_of(config)
    run = _pass(shape, rows, length, logits, target, keys)
    adapted = _adapted(config, shape, lora)
    again = 0
    if checkpointing:
        queries = (shape.layers - 1) * run.tokens + run.last
        again = forward - _head(shape, run.wanted) - queries * _last_product(shape, adapted)
    if lora is None:
        return 2 * forward + again
    total = _head(shape, run.wanted)
    flows = checkpointing  # whether a gradient must reach what a layer reads; peft asks for it then
    for block in range(shape.layers):
        is_last = block == shape.layers - 1
        queries, pairs = (run.last, run.last_pairs) if is_last else (run.tokens, run.pairs)
        q, k, v = (flows or layer.name in adapted for layer in shape.linears[:3])
        total += (q + k + v + (q or k)) * _attention(shape, pairs) // 2
        for stage in range(4):
            here = [layer for layer in shape.linears if layer.stage == stage]
            for layer in here:
                seen = run.tokens if layer.every else queries
                rank = adapted.get(layer.name, 0)
                total += 2 * seen * layer.inputs * layer.outputs * flows
                total += 2 * seen * rank * ((1 + flows) * layer.inputs + 2 * layer.outputs)
            flows = flows or any(layer.name in adapted for layer in here)
    return total + again


def shape_of(config: Any) -> Shape:
    """The shape of a config of a registered family, or of one derived from it.

    Raises:
        ModelError: nobody has written the formulas of its family.
    """
    for cls in type(config).__mro__:
        if (found := SHAPES.get(getattr(cls, "model_type", ""))) is not None:
            return found(config)
    raise ModelError(
        f"no FLOP formulas for the family {config.model_type!r}; there are those of "
        f"{', '.join(SHAPES)}. Add a function to SHAPES in dllmzoo/flops.py"
    )


def _linears(
    names: Sequence[str], width: int, wide: int, narrow: int, inner: int
) -> tuple[Linear, ...]:
    """The seven layers of a block: queries, keys, values, the way back, gate, up, down."""
    q, k, v, back, gate, up, down = names
    return (
        Linear(0, q, width, wide),
        Linear(0, k, width, narrow, every=True),
        Linear(0, v, width, narrow, every=True),
        Linear(1, back, wide, width),
        Linear(2, gate, width, inner),
        Linear(2, up, width, inner),
        Linear(3, down, inner, width),
    )


def _llada(config: Any) -> Shape:
    width, narrow = config.d_model, config.num_kv_heads * config.head_width
    names = ("q_proj", "k_proj", "v_proj", "attn_out", "ff_proj", "up_proj", "ff_out")
    return Shape(
        layers=config.n_layers,
        width=width,
        attention=width,
        vocabulary=config.num_embeddings,
        linears=_linears(names, width, width, narrow, config.mlp_width),
        prefix="model.transformer.blocks.0",
    )


def _qwen(config: Any) -> Shape:
    width, head, inner = config.hidden_size, config.head_dim, config.intermediate_size
    wide, narrow = config.num_attention_heads * head, config.num_key_value_heads * head
    names = (
        *(f"self_attn.{letter}_proj" for letter in "qkvo"),
        "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
    )  # fmt: skip
    return Shape(
        layers=config.num_hidden_layers,
        width=width,
        attention=wide,
        vocabulary=config.num_embeddings,
        linears=_linears(names, width, wide, narrow, inner),
        prefix="model.layers.0",
    )


def _sdar(config: Any) -> Shape:
    block_size = config.block_size if config.attention == "block_causal" else None
    return replace(_qwen(config), causal=True, block_size=block_size)


SHAPES: dict[str, Callable[[Any], Shape]] = {"llada": _llada, "sdar": _sdar, "Dream": _qwen}
"""model_type -> its shape."""


def _pass(
    shape: Shape, rows: int, length: int, logits: int | None, target: int, keys: int | None
) -> Pass:
    """What runs through the layers."""
    if target and (keys is not None or not shape.causal):
        raise ModelError("a second stream needs a network with blocks and no cache; set target=0")
    wanted = rows * (target or length) if logits is None else logits
    if shape.causal and keys is None:
        slots = None if logits is None else -(-logits // rows)
        columns, pairs, last_pairs = _of_a_row(shape.block_size, length, target, slots)
        last = rows * columns if logits is None else logits
        return Pass(rows * columns, last, wanted, rows * pairs, rows * last_pairs)
    met = length if keys is None else keys
    return Pass(rows * length, wanted, wanted, rows * length * met, wanted * met)


@functools.lru_cache(maxsize=1024)
def _of_a_row(
    block_size: int | None, length: int, target: int, slots: int | None
) -> tuple[int, int, int]:
    """Columns of a row, its pairs, and those of its wanted slots: counted on the masks."""
    import torch

    from dllmzoo.models._staircase import Tokens
    from dllmzoo.models._streams import read_columns
    from dllmzoo.models._tiles import tiles

    position_BL = torch.arange(length).unsqueeze(0)
    clean = Tokens.clean(position_BL, position_BL >= 0, block_size or length + 1)
    first, tokens = 0, clean
    if target:
        noised = clean.columns(length - target, length).as_target()
        first = read_columns(clean, noised, "block_causal")
        tokens = clean.columns(0, first).join(noised)
    every = tiles(tokens, tokens, "block_causal", query_seam=first, key_seam=first)
    pairs = sum(part.pairs for part in every)
    if slots is None:
        return tokens.length, pairs, pairs
    place = torch.linspace(first, tokens.length - 1, max(slots, 1)).round().long()
    chosen = Tokens(*(each[:, place] for each in tokens))
    read = tiles(chosen, tokens, "block_causal", key_seam=first)
    return tokens.length, pairs, sum(part.pairs for part in read)


def _linear(layer: Linear, tokens: int, queries: int, adapted: dict[str, int]) -> int:
    seen = tokens if layer.every else queries
    rank = adapted.get(layer.name, 0)
    return 2 * seen * (layer.inputs * layer.outputs + rank * (layer.inputs + layer.outputs))


def _attention(shape: Shape, pairs: int) -> int:
    """Scores and mixture of pairs of a query and a key."""
    return 2 * 2 * pairs * shape.attention


def _last_product(shape: Shape, adapted: dict[str, int]) -> int:
    """What a checkpointed block need not repeat for a token: nothing is saved after it."""
    last = shape.linears[-1]
    return 2 * adapted.get(last.name, last.inputs) * last.outputs


def _head(shape: Shape, scored: int) -> int:
    return 2 * scored * shape.width * shape.vocabulary


def _adapted(config: Any, shape: Shape, lora: Lora | None) -> dict[str, int]:
    """Layer -> rank of its adapter."""
    if lora is None:
        return {}
    from dllmzoo.models._lora import lora_pattern

    pattern = lora_pattern(MODELS.get(config.model_type.lower()), lora)
    return {
        layer.name: lora.rank
        for layer in shape.linears
        if re.fullmatch(pattern, f"{shape.prefix}.{layer.name}")
    }
