"""Clipped surrogate on a tree of samples, plus imitation of a state's better children."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.losses._group import softmax_by, sum_by
from dllmzoo.losses._ratio import alive
from dllmzoo.losses.clipped_surrogate import ClippedSurrogate
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Normaliser, Units
from dllmzoo.zoo import LOSSES

SHARPEST = 1e-6
"""Temperature, reward units, that an annealed one stops at."""


@LOSSES.register("sibling_imitation")
@dataclass(frozen=True)
class SiblingImitation(ClippedSurrogate):
    r"""`clipped_surrogate`, plus a parent state learning what its better children wrote.

    Several samples start from one shared state of the tree. At each of its slots the children
    with A > 0 form a distribution q, of weight softmax(A / tau) each, and the parent's own
    prediction is drawn to it:

    $$ \lambda\, \mathrm{KL}(q, \pi_\theta) \;\to\;
       -\lambda \sum_{c} w_c \log \pi_\theta(y_c), \qquad w = \mathrm{softmax}(A_c / \tau) $$

    The mean is over the slots of a parent that have such a child, then over parents. Both sides
    have the same gradient, and the right one needs only the log-probs that the surrogate uses: no
    further forward. The weights are constants. Samples that share a step share its weight.

    Args:
        normaliser: what the sum over units is divided by; see `Units.mean`. `row` is a mean over
            the slots of an edge, then over edges.
        coef: lambda, >= 0; at the end, if it is annealed; 0 is `clipped_surrogate`.
        temperature: tau, > 0, reward units; at the start, if it is annealed; low imitates only
            the best child.
        anneal_rounds: >= 1; over so many rounds, p going from 0 to 1, lambda rises as
            (e^2p - 1) / (e^2 - 1) and tau falls as (1 - p)^0.7, to 1e-6 at least; null = both
            constant.

    References:
        d-TreeRPO, 2025 (arXiv:2512.09675). Differs from its release in: all edges of a tree make
        one update; p counts rounds, not updates (30,000 there).
    """

    clip_low: Annotated[float, Field(ge=0)] | None = 0.4
    clip_high: Annotated[float, Field(ge=0)] | None = 0.4
    normaliser: Normaliser = "row"
    kl_coef: Annotated[float, Field(ge=0)] = 0.01
    coef: Annotated[float, Field(ge=0)] = 3e-3
    temperature: Annotated[float, Field(gt=0)] = 2.0
    anneal_rounds: Annotated[int, Field(ge=1)] | None = None

    units: ClassVar[frozenset[Unit]] = frozenset({"slot"})
    needs_branches: ClassVar[bool] = True
    exempt: ClassVar[dict[str, str]] = {
        "first_pass_is_the_policy_gradient": "imitation adds a gradient of its own",
    }

    @property
    def bounded_weight(self) -> float | None:
        """None: the gradient of imitation does not grow with the advantage."""
        return None

    def __call__(
        self,
        new: Estimate,
        old: Estimate | None,
        reference: Estimate | None,
        advantage_BU: Tensor,
        units: Units,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to minimise and metrics per unit; only `new` carries gradient."""
        loss, metrics = super().__call__(new, old, reference, advantage_BU, units)
        if self.coef == 0:
            return loss, metrics
        coef, temperature = self._annealed(units)
        part_BU, imitation_BU = imitation(new.score_BU, advantage_BU.detach(), units, temperature)
        parents = max(units.totals.get("parents", 0.0), 1.0)
        return loss + coef * part_BU.sum() / parents, metrics | {"imitation": imitation_BU}

    def _annealed(self, units: Units) -> tuple[float, float]:
        """The weight and the temperature of the round."""
        if self.anneal_rounds is None:
            return self.coef, self.temperature
        if units.key is None:
            raise UsageError(
                "anneal_rounds follows the rounds of a run, and these units carry no key; give "
                "Units a key, or use anneal_rounds: null"
            )
        done = min(units.key.round / self.anneal_rounds, 1.0)
        rise = math.expm1(2 * done) / math.expm1(2)
        return rise * self.coef, max(SHARPEST, self.temperature * (1 - done) ** 0.7)


def imitation(
    score_BU: Tensor, advantage_BU: Tensor, units: Units, temperature: float
) -> tuple[Tensor, Tensor]:
    """Weighted negative log-probs of better children, as terms and as a metric.

    Args:
        score_BU: nats, log-prob of the token that a child wrote at slot u.
        advantage_BU: reward units; children above 0 are imitated.
        units: slot units, so that column u is one slot of all children.
        temperature: of the softmax over advantages.

    Returns:
        Terms (B, U) whose sum is the mean over the slots of each parent, summed over parents; and,
        without gradient, at each unit the mean of its parent, nats a slot.

    Raises:
        UsageError: no states are shared.
    """
    parent_BU = units.parent_BU
    if parent_BU is None:
        raise UsageError(
            "loss sibling_imitation compares samples that start from one shared state, and none "
            "share any; use sampler: {name: tree, ...} with a likelihood that scores its segments"
        )
    _, parent = parent_BU.flatten().unique(return_inverse=True)
    parent_BU = parent.view(parent_BU.shape)
    slot_U = torch.arange(parent_BU.shape[1], device=parent_BU.device)
    _, cell = (parent_BU * len(slot_U) + slot_U).flatten().unique(return_inverse=True)
    cell_BU = cell.view(parent_BU.shape)

    good_BU = units.live_BU & (advantage_BU > 0)
    log_weight_BU = advantage_BU / temperature + units.weight_BU.clamp(min=1e-30).log()
    weight_BU = softmax_by(cell_BU, log_weight_BU.masked_fill(~good_BU, -math.inf), units)
    slots_BU = sum_by(parent_BU, weight_BU, units).round()
    part_BU = -weight_BU * alive(score_BU, units) / slots_BU.clamp(min=1)
    return part_BU, sum_by(parent_BU, part_BU.detach(), units)
