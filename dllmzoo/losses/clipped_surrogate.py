"""Clipped surrogate: PPO's objective on the likelihood ratio of a unit."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.losses._kl import Kind, KlPenalty
from dllmzoo.losses._ratio import (
    LengthNorm,
    Level,
    alive,
    bounded,
    clip_metrics,
    log_bounds,
    log_ratio,
    ratio_metrics,
)
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Normaliser, Units
from dllmzoo.zoo import LOSSES


@LOSSES.register("clipped_surrogate", aliases=("ppo", "grpo"))
@dataclass(frozen=True)
class ClippedSurrogate(KlPenalty):
    r"""PPO's clipped surrogate on each unit's likelihood ratio, plus a KL penalty.

    $$ -\min\big(\rho A,\ \mathrm{clip}(\rho, 1-\epsilon_-, 1+\epsilon_+)\, A\big)
       + \beta\,\mathrm{KL}, \qquad \rho = \exp(\ell_{new} - \ell_{old}) $$

    A unit that has moved far enough in the direction its advantage asks for stops pulling. The
    clip is one-sided on purpose, and leaves one corner open: with A < 0 and a ratio above 1 the
    weight is the ratio itself, however large; `ratio_cap` closes it. Exponents are bounded at 82
    nats, so value and gradient stay finite. At the first update of a round every ratio is 1 and
    the gradient is the plain policy gradient.

    Methods that differ in nothing but what a ratio is and what the sum is divided by, on a
    likelihood with slot units:

    | method | `ratio_level` | `length_norm` | `normaliser` | `clip_low`, `clip_high` |
    |---|---|---|---|---|
    | GRPO | unit | none | sequence | 0.2, 0.2 |
    | BNPO, UniGRPO | unit | none | token | 0.2, 0.2 |
    | DAPO | unit | none | token | 0.2, 0.28 |
    | Dr.GRPO | unit | none | fixed | 0.2, 0.2 |
    | GSPO | sequence | token | sequence | 3e-4, 4e-4 |
    | LUSPO | sequence | token | fixed | as GSPO |

    LUSPO is that up to the constant N, which belongs to the learning rate. GSPO on a likelihood
    with sequence units is the same with `ratio_level: unit`. The first four divide A by the
    group's standard deviation, Dr.GRPO does not: that is the advantage's business. DAPO's `token`
    counts the tokens of the whole update, over all processes, as all normalisers do here.

    Args:
        clip_low: epsilon_-, >= 0; how far the ratio may fall below 1; null, or 1 and more, = no
            bound.
        clip_high: epsilon_+, >= 0; how far it may rise above 1; null = no bound.
        ratio_cap: > 1; largest ratio, an absolute number applied before the clip (dual clip);
            beyond it a unit has no gradient; null = no cap.
        log_ratio_clamp: nats, > 0; the log-ratio is kept in +- this before anything else; beyond
            it a unit has no gradient; null = no clamp.
        ratio_level: `unit` gives each unit its own ratio; `sequence` gives all units of a sequence
            one, from the sum of their log-ratios (GSPO: with `length_norm: token`).
        length_norm: what a log-ratio in total nats is divided by: nothing (`none`), the tokens
            of the unit, or of the sequence (`token`), or N (`canvas`).
        normaliser: what the sum over units is divided by; see `Units.mean`.

    References:
        Schulman et al., 2017, eq. 7 (arXiv:1707.06347); GRPO: Shao et al., 2024
        (arXiv:2402.03300); dual clip: Ye et al., 2020 (arXiv:1912.09729); Dr.GRPO: Liu et al.,
        2025 (arXiv:2503.20783); DAPO: Yu et al., 2025 (arXiv:2503.14476); GSPO: Zheng et al.,
        2025 (arXiv:2507.18071); KL estimators: Schulman, 2020, Approximating KL divergence.
    """

    clip_low: Annotated[float, Field(ge=0)] | None = 0.2
    clip_high: Annotated[float, Field(ge=0)] | None = 0.5
    ratio_cap: Annotated[float, Field(gt=1)] | None = None
    log_ratio_clamp: Annotated[float, Field(gt=0)] | None = None
    ratio_level: Level = "unit"
    length_norm: LengthNorm = "none"
    normaliser: Normaliser = "token"
    kl: Kind = "k3"

    units: ClassVar[frozenset[Unit]] = frozenset({"slot", "step", "sequence", "view"})
    needs_old: ClassVar[bool] = True
    uses_score: ClassVar[bool] = False

    @property
    def bounded_weight(self) -> float | None:
        """Largest ratio a unit with gradient can have; None: the corner is open."""
        bounds = [math.exp(self.log_ratio_clamp)] if self.log_ratio_clamp is not None else []
        bounds += [self.ratio_cap] if self.ratio_cap is not None else []
        return min(bounds, default=None)

    def __call__(
        self,
        new: Estimate,
        old: Estimate | None,
        reference: Estimate | None,
        advantage_BU: Tensor,
        units: Units,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to minimise and metrics per unit; only `new` carries gradient."""
        log_ratio_BU = log_ratio(new, old, units, self.length_norm, self.ratio_level)
        kept_BU = log_ratio_BU
        if self.log_ratio_clamp is not None:
            kept_BU = log_ratio_BU.clamp(-self.log_ratio_clamp, self.log_ratio_clamp)
        ratio_BU = bounded(kept_BU).exp()
        if self.ratio_cap is not None:
            ratio_BU = ratio_BU.clamp(max=self.ratio_cap)
        low = 0.0 if self.clip_low is None else 1 - self.clip_low
        high = math.inf if self.clip_high is None else 1 + self.clip_high
        clipped_BU = ratio_BU.clamp(low, high)

        advantage_BU = alive(advantage_BU.detach(), units)
        free_BU, held_BU = ratio_BU * advantage_BU, clipped_BU * advantage_BU
        loss = -units.mean(torch.minimum(free_BU, held_BU), self.normaliser)

        binds_BU = held_BU < free_BU
        used_BU = kept_BU.detach().clamp(max=math.log(self.ratio_cap or math.inf))
        used_BU = torch.where(binds_BU, used_BU.clamp(*self._log_bounds), used_BU)
        metrics = ratio_metrics(log_ratio_BU, units, used_BU)
        metrics |= clip_metrics(binds_BU & (ratio_BU < 1), binds_BU & (ratio_BU > 1))
        loss, kl_metrics = self.with_kl(loss, new, old, reference, units)
        return loss, metrics | kl_metrics

    @property
    def _log_bounds(self) -> tuple[float, float]:
        return log_bounds(self.clip_low, self.clip_high)
