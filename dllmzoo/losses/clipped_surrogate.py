"""Clipped surrogate: PPO's objective on the likelihood ratio of a unit."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.losses._kl import Anchor, Gradient, Kind, check_kl, has_kl, with_kl
from dllmzoo.losses._ratio import LengthNorm, alive, bounded, log_ratio, row_log_ratio
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Normaliser, Units
from dllmzoo.zoo import LOSSES


@LOSSES.register("clipped_surrogate", aliases=("ppo", "grpo"))
@dataclass(frozen=True)
class ClippedSurrogate:
    r"""PPO's clipped surrogate on each unit's likelihood ratio, plus a KL penalty.

    $$ -\min\big(\rho A,\ \mathrm{clip}(\rho, 1-\epsilon_-, 1+\epsilon_+)\, A\big)
       + \beta\,\mathrm{KL}, \qquad \rho = \exp(\ell_{new} - \ell_{old}) $$

    A unit that has moved far enough in the direction its advantage asks for stops pulling. The
    clip is one-sided on purpose, and leaves one corner open: with A < 0 and a ratio above 1 the
    weight is the ratio itself, however large; `ratio_cap` closes it. Exponents are bounded at 82
    nats, so value and gradient stay finite. At the first update of a round every ratio is 1 and
    the gradient is the plain policy gradient.

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
        kl: estimator of the KL: `k1`, `k2`, `k3` on the unit's log-prob, `exact` over the whole
            vocabulary, or `none`.
        kl_coef: beta, >= 0; 0 leaves the KL out, and with it the reference policy.
        kl_anchor: the policy the KL is measured to, the `reference` or the `old` one.
        kl_gradient: `value` differentiates the estimator as it stands; `score` adds the
            score-function term, which makes it the gradient of the estimator's mean (`exact` needs
            none).
        kl_normaliser: normaliser of the KL; null = that of the surrogate.
        kl_length_norm: length norm of the KL; null = that of the surrogate.

    References:
        Schulman et al., 2017, eq. 7 (arXiv:1707.06347); GRPO: Shao et al., 2024
        (arXiv:2402.03300); dual clip: Ye et al., 2020 (arXiv:1912.09729); GSPO: Zheng et al.,
        2025 (arXiv:2507.18071); KL estimators: Schulman, 2020, Approximating KL divergence.
    """

    clip_low: Annotated[float, Field(ge=0)] | None = 0.2
    clip_high: Annotated[float, Field(ge=0)] | None = 0.5
    ratio_cap: Annotated[float, Field(gt=1)] | None = None
    log_ratio_clamp: Annotated[float, Field(gt=0)] | None = None
    ratio_level: Literal["unit", "sequence"] = "unit"
    length_norm: LengthNorm = "none"
    normaliser: Normaliser = "token"
    kl: Kind = "k3"
    kl_coef: Annotated[float, Field(ge=0)] = 0.04
    kl_anchor: Anchor = "reference"
    kl_gradient: Gradient = "value"
    kl_normaliser: Normaliser | None = None
    kl_length_norm: LengthNorm | None = None

    units: ClassVar[frozenset[Unit]] = frozenset({"slot", "step", "sequence", "view"})
    needs_old: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse an exact KL to the old policy."""
        check_kl(self)

    @property
    def needs_reference(self) -> bool:
        """Only for a KL estimated from its log-probs; an exact KL reads its whole distribution."""
        return has_kl(self, "reference") and self.kl != "exact"

    @property
    def needs_exact_kl(self) -> bool:
        """Only for `kl: exact`."""
        return self.kl == "exact" and self.kl_coef > 0

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
        of_level = row_log_ratio if self.ratio_level == "sequence" else log_ratio
        log_ratio_BU = of_level(new, old, units, self.length_norm)
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
        metrics = {
            "ratio": bounded(log_ratio_BU.detach()).exp(),
            "log_ratio": log_ratio_BU.detach(),
            "clip_fraction": binds_BU.float(),
            "clip_low_fraction": (binds_BU & (ratio_BU < 1)).float(),
            "clip_high_fraction": (binds_BU & (ratio_BU > 1)).float(),
        }
        loss, kl_metrics = with_kl(loss, self, new, old, reference, units)
        return loss, metrics | kl_metrics
