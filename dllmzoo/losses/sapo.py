"""SAPO: a soft gate in place of the clip."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.losses._kl import KlPenalty
from dllmzoo.losses._ratio import LengthNorm, Level, alive, bounded, log_ratio, ratio_metrics
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Normaliser, Units
from dllmzoo.zoo import LOSSES


@LOSSES.register("sapo")
@dataclass(frozen=True)
class Sapo(KlPenalty):
    r"""Soft adaptive surrogate: a sigmoid of the ratio, steepest at 1, instead of a clip.

    $$ -\frac{4}{\tau}\,\sigma\big(\tau(\rho - 1)\big)\,A, \qquad
       \rho = \exp(\ell_{new} - \ell_{old}), \quad
       \tau = \tau_+ \text{ if } A > 0 \text{ else } \tau_- $$

    Its slope at ratio 1 is 1, so the first update of a round is the policy gradient; away from 1
    the gradient fades smoothly on both sides, whatever the sign of A. No corner is open: an
    exploding ratio loses its gradient.

    Args:
        tau_pos: > 0; how fast the gradient fades where A > 0; large is narrow.
        tau_neg: > 0; the same where A < 0; the paper lets it fade a little faster.
        ratio_level: `unit` gives each unit its own ratio; `sequence` gives all units of a sequence
            one, from the sum of their log-ratios.
        length_norm: what a log-ratio in total nats is divided by: nothing (`none`), the tokens
            of the unit, or of the sequence (`token`), or N (`canvas`).
        normaliser: what the sum over units is divided by; see `Units.mean`.

    References:
        Gao et al., 2025, Soft Adaptive Policy Optimization (arXiv:2511.20347).
    """

    tau_pos: Annotated[float, Field(gt=0)] = 1.0
    tau_neg: Annotated[float, Field(gt=0)] = 1.05
    ratio_level: Level = "unit"
    length_norm: LengthNorm = "none"
    normaliser: Normaliser = "sequence"

    units: ClassVar[frozenset[Unit]] = frozenset({"slot", "step", "sequence", "view"})
    needs_old: ClassVar[bool] = True
    uses_score: ClassVar[bool] = False

    @property
    def bounded_weight(self) -> float | None:
        """Bounds 4 s'(y) (1 + y / tau), the slope times the ratio: s' <= 1/4 and y s' < 0.9/4."""
        return 1 + 0.9 / min(self.tau_pos, self.tau_neg)

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
        log_ratio_BU = log_ratio(new, old, units, self.length_norm, self.ratio_level)
        tau_pos, tau_neg = (log_ratio_BU.new_tensor(x) for x in (self.tau_pos, self.tau_neg))
        tau_BU = torch.where(advantage_BU > 0, tau_pos, tau_neg)
        gate_BU = torch.sigmoid(tau_BU * (bounded(log_ratio_BU).exp() - 1))
        loss = -units.mean(4 / tau_BU * gate_BU * advantage_BU, self.normaliser)

        loss, kl_metrics = self.with_kl(loss, new, old, reference, units)
        return loss, ratio_metrics(log_ratio_BU, units) | kl_metrics
