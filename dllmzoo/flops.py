"""Floating-point operations of a forward and a backward pass, by formula.

Only matrix products count, a product of (m, k) and (k, n) as 2*m*k*n, attention scores and mixtures
included; norms, rotary embeddings, softmax and the embedding look-up are below a percent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    """

    layers: int
    width: int
    attention: int
    vocabulary: int
    linears: Sequence[Linear]
    prefix: str


def flops_forward(
    config: Any, rows: int, length: int, logits: int | None = None, *, lora: Lora | None = None
) -> int:
    """FLOPs of one forward of `rows` sequences.

    Args:
        config: of a registered family.
        rows: B.
        length: L, padding included.
        logits: S, slots of all rows together whose logits are asked for; None = all of them.
        lora: adapters, which add two thin products to each adapted layer.
    """
    shape = shape_of(config)
    tokens = rows * length
    scored = tokens if logits is None else logits
    adapted = _adapted(config, shape, lora)
    full, last = (
        sum(_linear(layer, tokens, queries, adapted) for layer in shape.linears)
        + _attention(shape, queries, length)
        for queries in (tokens, scored)
    )
    return (shape.layers - 1) * full + last + _head(shape, scored)


def flops_backward(
    config: Any,
    rows: int,
    length: int,
    logits: int | None = None,
    *,
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
        lora: adapters; the rest of the network is frozen.
        checkpointing: the blocks run forward once more, but for the last product of each.
    """
    forward = flops_forward(config, rows, length, logits, lora=lora)
    shape = shape_of(config)
    tokens = rows * length
    scored = tokens if logits is None else logits
    adapted = _adapted(config, shape, lora)
    again = 0
    if checkpointing:
        queries = (shape.layers - 1) * tokens + scored
        again = forward - _head(shape, scored) - queries * _last_product(shape, adapted)
    if lora is None:
        return 2 * forward + again
    total = _head(shape, scored)
    flows = checkpointing  # whether a gradient must reach what a layer reads; peft asks for it then
    for block in range(shape.layers):
        queries = scored if block == shape.layers - 1 else tokens
        q, k, v = (flows or layer.name in adapted for layer in shape.linears[:3])
        total += (q + k + v + (q or k)) * _attention(shape, queries, length) // 2
        for stage in range(4):
            here = [layer for layer in shape.linears if layer.stage == stage]
            for layer in here:
                seen = tokens if layer.every else queries
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


def _llada(config: Any) -> Shape:
    width, mlp = config.d_model, config.mlp_width
    narrow = config.num_kv_heads * config.head_width
    return Shape(
        layers=config.n_layers,
        width=width,
        attention=width,
        vocabulary=config.num_embeddings,
        linears=(
            Linear(0, "q_proj", width, width),
            Linear(0, "k_proj", width, narrow, every=True),
            Linear(0, "v_proj", width, narrow, every=True),
            Linear(1, "attn_out", width, width),
            Linear(2, "ff_proj", width, mlp),
            Linear(2, "up_proj", width, mlp),
            Linear(3, "ff_out", mlp, width),
        ),
        prefix="model.transformer.blocks.0",
    )


SHAPES: dict[str, Callable[[Any], Shape]] = {"llada": _llada}
"""model_type -> its shape."""


def _linear(layer: Linear, tokens: int, queries: int, adapted: dict[str, int]) -> int:
    seen = tokens if layer.every else queries
    rank = adapted.get(layer.name, 0)
    return 2 * seen * (layer.inputs * layer.outputs + rank * (layer.inputs + layer.outputs))


def _attention(shape: Shape, queries: int, length: int) -> int:
    """Scores and mixture: every query meets every key of its row."""
    return 2 * 2 * queries * length * shape.attention


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
