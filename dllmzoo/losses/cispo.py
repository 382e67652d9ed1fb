"""CISPO: the policy gradient, each unit weighted by its capped ratio."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.losses._kl import KlPenalty
from dllmzoo.losses._ratio import (
    LengthNorm,
    Level,
    alive,
    clip_metrics,
    constant_weight,
    log_ratio,
    per_length,
    ratio_metrics,
)
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Normaliser, Units
from dllmzoo.zoo import LOSSES


@LOSSES.register("cispo")
@dataclass(frozen=True)
class Cispo(KlPenalty):
    r"""Policy gradient whose importance weights are capped constants: every unit keeps pulling.

    $$ -\,\mathrm{sg}\big(\min(\rho, c)\big)\, A\, \ell(\theta), \qquad
       \rho = \exp(\ell_{new} - \ell_{old}) $$

    Where a clipped surrogate silences a unit that has moved too far, this keeps its gradient and
    bounds its weight. There is no lower bound: a unit that has become unlikely weighs little by
    itself. At the first update of a round all weights are 1 and it is the policy gradient.

    Args:
        cap: c, >= 1, an absolute bound of the ratio, not a distance from 1; null = none.
        ratio_level: `unit` gives each unit its own ratio; `sequence` gives all units of a sequence
            one, from the sum of their log-ratios.
        length_norm: what a log-ratio and a log-prob in total nats are divided by: nothing
            (`none`), the tokens of the unit, and in the ratio of a sequence those of the sequence
            (`token`), or N (`canvas`).
        normaliser: what the sum over units is divided by; see `Units.mean`.

    References:
        MiniMax, 2025, MiniMax-M1 (arXiv:2506.13585). The cap stands for 1 + epsilon there; its
        lower bound, which was not used, is left out. Default cap: ScaleRL (arXiv:2510.13786).
    """

    cap: Annotated[float, Field(ge=1)] | None = 5.0
    ratio_level: Level = "unit"
    length_norm: LengthNorm = "none"
    normaliser: Normaliser = "token"

    units: ClassVar[frozenset[Unit]] = frozenset({"slot", "step", "sequence", "view"})
    needs_old: ClassVar[bool] = True

    @property
    def bounded_weight(self) -> float | None:
        """The cap."""
        return self.cap

    def __call__(
        self,
        new: Estimate,
        old: Estimate | None,
        reference: Estimate | None,
        advantage_BU: Tensor,
        units: Units,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to minimise and metrics per unit; only `new` carries gradient."""
        log_ratio_BU = log_ratio(new, old, units, self.length_norm, self.ratio_level).detach()
        capped_BU = log_ratio_BU.clamp(max=math.log(self.cap or math.inf))
        weight_BU = alive(constant_weight(capped_BU), units)
        score_BU = per_length(alive(new.score_BU, units), units, self.length_norm)
        gain_BU = weight_BU * alive(advantage_BU.detach(), units) * score_BU
        loss = -units.mean(gain_BU, self.normaliser)

        above_BU = capped_BU < log_ratio_BU
        metrics = ratio_metrics(log_ratio_BU, units, capped_BU) | {"weight": weight_BU}
        metrics |= clip_metrics(torch.zeros_like(above_BU), above_BU)
        loss, kl_metrics = self.with_kl(loss, new, old, reference, units)
        return loss, metrics | kl_metrics
