"""BGPO: the clipped surrogate, linear in the log-ratio where the advantage is positive."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.losses._ratio import (
    LengthNorm,
    alive,
    bounded,
    clip_metrics,
    log_ratio,
    ratio_metrics,
)
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Normaliser, Units
from dllmzoo.zoo import LOSSES


@LOSSES.register("bgpo")
@dataclass(frozen=True)
class Bgpo:
    r"""Bound on the sequence surrogate that splits into one term for each random view.

    With x the log-ratio of one view,

    $$ -A\,r, \qquad r = \begin{cases} 1 + x & A \ge 0 \\ e^{x} & A < 0 \end{cases} $$

    Both are lower bounds of the gain that the ratio of the averaged views would give (the line
    lies below the exponential, and the exponential is convex), so views can be scored and
    forgotten one after the other. The surrogate ratio r is then clipped like any ratio: `-min(r A,
    clip(r) A)`, and for A < 0 at most `ratio_cap`. All bounds are optional; null for all three is
    the bare bound. With the log-ratio divided by N they hardly ever bind, and one update a round
    is the policy gradient on the estimate over N.

    Args:
        clip_low: >= 0; how far r may fall below 1 with A < 0 before it stops pulling; null, or 1
            and more, = no bound.
        clip_high: >= 0; how far r may rise above 1 with A > 0 before it stops pulling; null = no
            bound.
        ratio_cap: > 1; largest r with A < 0, an absolute number (dual clip); beyond it a view has
            no gradient; null = no cap.
        length_norm: what a log-ratio in total nats is divided by: nothing (`none`), the valid
            tokens (`token`), or N (`canvas`).
        normaliser: what the sum over views is divided by; see `Units.mean`.

    References:
        Lin et al., 2025, Boundary-Guided Policy Optimization (arXiv:2510.11683). Differs from
        the released program in: 1 + x is computed as it stands, not as exp(log(1 + x)), which has
        no value for x <= -1.
    """

    clip_low: Annotated[float, Field(ge=0)] | None = 0.2
    clip_high: Annotated[float, Field(ge=0)] | None = 0.2
    ratio_cap: Annotated[float, Field(gt=1)] | None = 3.0
    length_norm: LengthNorm = "canvas"
    normaliser: Normaliser = "unit"

    units: ClassVar[frozenset[Unit]] = frozenset({"view"})
    needs_old: ClassVar[bool] = True
    uses_score: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = False
    needs_exact_kl: ClassVar[bool] = False
    exempt: ClassVar[dict[str, str]] = {
        "a_clip_acts_at_its_bound": "with A > 0 the bound is one of 1 + x, not of the ratio",
    }

    @property
    def bounded_weight(self) -> float | None:
        """The cap of A < 0; a view with A > 0 weighs 1 at most."""
        return self.ratio_cap

    def __call__(
        self,
        new: Estimate,
        old: Estimate | None,
        reference: Estimate | None,
        advantage_BU: Tensor,
        units: Units,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to minimise and metrics per unit; only `new` carries gradient."""
        advantage_BU = alive(advantage_BU.detach(), units)
        bad_BU = advantage_BU < 0
        log_ratio_BU = log_ratio(new, old, units, self.length_norm)
        power_BU = bounded(log_ratio_BU).exp()
        if self.ratio_cap is not None:
            power_BU = power_BU.clamp(max=self.ratio_cap)
        ratio_BU = torch.where(bad_BU, power_BU, 1 + log_ratio_BU)
        low = None if self.clip_low is None or self.clip_low >= 1 else 1 - self.clip_low
        high = None if self.clip_high is None else 1 + self.clip_high
        clipped_BU = ratio_BU if low is high is None else ratio_BU.clamp(low, high)
        free_BU, held_BU = ratio_BU * advantage_BU, clipped_BU * advantage_BU
        gain_BU = torch.minimum(free_BU, held_BU)
        loss = -units.mean(gain_BU, self.normaliser)

        binds_BU = held_BU < free_BU
        used_BU = torch.where(binds_BU, clipped_BU, ratio_BU).detach()
        metrics = ratio_metrics(log_ratio_BU, units, used_BU.clamp(min=1e-30).log())
        metrics |= {"ratio_clipped": used_BU}
        metrics |= clip_metrics(binds_BU & (ratio_BU < 1), binds_BU & (ratio_BU > 1))
        return loss, metrics
