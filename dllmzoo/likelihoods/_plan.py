"""Pieces that plans share: random subsets, spaced draws, and views that feed one kind of unit."""

from collections.abc import Iterable
from dataclasses import MISSING, fields
from typing import Any, Literal

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.records import Key, Rollout, Views

Spacing = Literal["independent", "stratified", "strided"]
"""How the K numbers of a sample are laid out in [0, 1)."""


def random_subset(key: Key, rollout: Rollout, among_BL: Tensor, size_B: Tensor) -> Tensor:
    """A uniformly random subset of `among_BL` with `size_B` slots in each row, bool (B, L)."""
    drawn_BL = rollout.slot_uniform(key).masked_fill(~among_BL, 2.0)
    rank_BL = drawn_BL.argsort(dim=1, stable=True).argsort(dim=1)
    return (rank_BL < size_B.unsqueeze(1)) & among_BL


def independent_slots(key: Key, rollout: Rollout, among_BL: Tensor, prob_B: Tensor) -> Tensor:
    """Each slot of `among_BL` on its own with probability `prob_B`, bool (B, L).

    48 random bits a slot: a probability of 1e-7 is met, whose weight of 1e7 would show the error
    of 24 bits.
    """
    high_low = rollout.slot_uniform(key, 2).to(precise(among_BL.device))
    drawn_BL = high_low[:, 0] + high_low[:, 1] * 2.0**-24
    return (drawn_BL < prob_B.to(drawn_BL).unsqueeze(1)) & among_BL


def spaced(key: Key, rollout: Rollout, number: int, spacing: Spacing) -> Tensor:
    """`number` places in [0, 1) for each sample, float64 (B, K) on the CPU.

    Each is uniform over [0, 1) if `independent` or `strided` (one draw, the others 1/K on and
    round the circle); if `stratified`, the k-th is uniform over the k-th K-th of [0, 1).
    """
    if spacing == "strided":
        drawn_BK = key.uniform(rollout.sample_B, 1).double()
    else:
        drawn_BK = key.uniform(rollout.sample_B, number).double()
    if spacing == "independent":
        return drawn_BK
    part_K = torch.arange(number, dtype=torch.float64) / number
    if spacing == "stratified":
        return part_K + drawn_BK / number
    return (drawn_BK + part_K) % 1


def after_end(rollout: Rollout) -> Tensor:
    """Answer slots behind the end token, bool (B, L): hidden in every view, scored in none."""
    return rollout.answer_BL & ~rollout.valid_BL


def precise(device: torch.device) -> torch.dtype:
    """Of weights: float64 where the device has it; pools take the precision of the log-probs."""
    return torch.float32 if device.type == "mps" else torch.float64


def slot_views(
    hide_BKL: Tensor, score_BKL: Tensor, temperature: float, weight_BKL: Tensor | None = None
) -> Views:
    """Views in which every slot is a unit of its own (U = L), of weight 1 unless given."""
    B, K, L = score_BKL.shape
    device = score_BKL.device
    ones_BU = torch.ones(B, L, device=device)
    return Views(
        hide_BKL=hide_BKL,
        score_BKL=score_BKL,
        weight_BKL=score_BKL.float() if weight_BKL is None else weight_BKL * score_BKL,
        unit_BKL=torch.arange(L, device=device).expand(B, K, L).contiguous(),
        size_BU=ones_BU,
        weight_BU=ones_BU,
        column_BU=torch.zeros(B, L, dtype=torch.long, device=device),
        temperature=temperature,
    )


def sequence_views(
    hide_BKL: Tensor, score_BKL: Tensor, weight_BKL: Tensor, size_B: Tensor, temperature: float
) -> Views:
    """Views that all feed one unit, the sequence (U = 1), which stands for `size_B` tokens."""
    B = len(score_BKL)
    return Views(
        hide_BKL=hide_BKL,
        score_BKL=score_BKL,
        weight_BKL=weight_BKL * score_BKL,
        unit_BKL=torch.zeros_like(score_BKL, dtype=torch.long),
        size_BU=size_B.float().unsqueeze(1),
        weight_BU=torch.ones(B, 1, device=score_BKL.device),
        column_BU=torch.zeros(B, 1, dtype=torch.long, device=score_BKL.device),
        temperature=temperature,
    )


def views_apart(
    hide_BKL: Tensor, score_BKL: Tensor, weight_BKL: Tensor, size_B: Tensor, temperature: float
) -> Views:
    """Views each of which is a unit of its own (U = K), an estimate of the whole sequence."""
    B, K, L = score_BKL.shape
    device = score_BKL.device
    return Views(
        hide_BKL=hide_BKL,
        score_BKL=score_BKL,
        weight_BKL=weight_BKL * score_BKL,
        unit_BKL=torch.arange(K, device=device).view(1, K, 1).expand(B, K, L).contiguous(),
        size_BU=size_B.float().unsqueeze(1).expand(B, K).contiguous(),
        weight_BU=torch.ones(B, K, device=device),
        column_BU=torch.zeros(B, K, dtype=torch.long, device=device),
        temperature=temperature,
    )


def refuse_idle(part: Any, names: Iterable[str], because: str) -> None:
    """Refuse options that would say nothing beside another one.

    Args:
        part: a component.
        names: fields that have no meaning here, so must be left at their defaults.
        because: the option that makes them idle, `masks: block_random`.

    Raises:
        UsageError: some of them are set; names them all.
    """
    default = {field.name: _default(field) for field in fields(part)}
    idle = [name for name in names if getattr(part, name) != default[name]]
    if idle:
        said = ", ".join(f"{name} {getattr(part, name)}" for name in idle)
        raise UsageError(f"{said}: no meaning with {because}; leave {', '.join(idle)} out")


def _default(field: Any) -> Any:
    """The default of a field as the component would hold it."""
    value = field.default
    value = getattr(value, "default", value)  # pydantic may wrap it
    for mark in getattr(field.type, "__metadata__", ()):
        if hasattr(mark, "make") and value is not MISSING:
            return mark.make(value)
    return value
