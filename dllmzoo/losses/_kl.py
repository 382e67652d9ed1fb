"""KL penalty of a unit: the estimators k1, k2, k3 on its log-prob, or the exact KL of its slots."""

import inspect
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.losses._options import explain_options
from dllmzoo.losses._ratio import LengthNorm, alive, bounded, frozen_ratio, per_length
from dllmzoo.records import Estimate, Normaliser, Units

Kind = Literal["none", "k1", "k2", "k3", "exact"]
Anchor = Literal["reference", "old"]
Gradient = Literal["value", "score"]


class KlPenalty:
    """Base of losses that may add a KL penalty to their surrogate.

    A subclass states `length_norm` and `normaliser`; its options are followed by those below,
    which it may give other defaults, and whose meaning its docstring need not repeat.

    Args:
        kl: estimator of the KL: `k1`, `k2`, `k3` on the unit's log-prob, `exact` over the whole
            vocabulary, or `none`.
        kl_coef: beta, >= 0; 0 leaves the KL out, and with it the reference policy.
        kl_anchor: the policy the KL is measured to, the `reference` or the `old` one.
        kl_gradient: `value` differentiates the estimator as it stands; `score` adds the
            score-function term, which makes it the gradient of the estimator's mean (`exact` needs
            none).
        kl_normaliser: normaliser of the KL; null = that of the surrogate.
        kl_length_norm: length norm of the KL; null = that of the surrogate.
    """

    length_norm: LengthNorm
    normaliser: Normaliser
    kl: Kind = "none"
    kl_coef: Annotated[float, Field(ge=0)] = 0.04
    kl_anchor: Anchor = "reference"
    kl_gradient: Gradient = "value"
    kl_normaliser: Normaliser | None = None
    kl_length_norm: LengthNorm | None = None

    def __init_subclass__(cls) -> None:
        """Append the options above to those of the subclass, and explain them there too."""
        own = inspect.get_annotations(cls)
        known = getattr(cls, "__dataclass_fields__", {})
        shared = inspect.get_annotations(KlPenalty)
        missing = [name for name in shared if name.startswith("kl") and name not in known]
        cls.__annotations__ = own | {name: shared[name] for name in missing if name not in own}
        explain_options(cls)

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other.

        Raises:
            UsageError: an exact KL to the old policy, whose weights are gone when it is needed.
        """
        if self.kl == "exact" and self.kl_anchor == "old":
            raise UsageError(
                "kl: exact compares whole distributions and needs the anchor's weights, which only "
                "kl_anchor: reference has; choose that, or one of k1, k2, k3"
            )

    @property
    def needs_reference(self) -> bool:
        """Only for a KL estimated from its log-probs; an exact KL reads its whole distribution."""
        return self.has_kl("reference") and self.kl != "exact"

    @property
    def needs_exact_kl(self) -> bool:
        """Only for `kl: exact`."""
        return self.kl == "exact" and self.kl_coef > 0

    def has_kl(self, anchor: Anchor) -> bool:
        """Whether a KL to this policy is part of the loss."""
        return self.kl != "none" and self.kl_coef > 0 and self.kl_anchor == anchor

    def with_kl(
        self,
        loss: Tensor,
        new: Estimate,
        old: Estimate | None,
        reference: Estimate | None,
        units: Units,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss plus `kl_coef` times the mean KL, and the KL of each unit as a metric."""
        if self.kl == "none" or self.kl_coef == 0:
            return loss, {}
        length_norm = self.kl_length_norm or self.length_norm
        if self.kl == "exact":
            kl_BU = exact_kl(new, units, length_norm)
        else:
            anchor = old if self.kl_anchor == "old" else reference
            anchor_BU = frozen_ratio(anchor, self.kl_anchor)
            kl_BU = estimated_kl(self.kl, self.kl_gradient, new, anchor_BU, units, length_norm)
        penalty = units.mean(kl_BU, self.kl_normaliser or self.normaliser)
        return loss + self.kl_coef * penalty, {"kl": kl_BU.detach()}


def estimated_kl(
    kind: Kind,
    gradient: Gradient,
    new: Estimate,
    anchor_BU: Tensor,
    units: Units,
    length_norm: LengthNorm,
) -> Tensor:
    """KL of each unit from the log-probs of its tokens; nats divided as `length_norm` says.

    With d = anchor - new: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - 1 - d. All but k1 are >= 0, and
    all have the KL as their mean over tokens of the new policy (k2 to second order). `score` adds
    the term that makes the gradient that of the *mean*: it is 0 in value, and its gradient is
    the value times the gradient of the unit's log-prob.
    """
    gap_BU = per_length(alive(anchor_BU - new.ratio_BU, units), units, length_norm)
    if kind == "k1":
        kl_BU = -gap_BU
    elif kind == "k2":
        kl_BU = gap_BU.square() / 2
    else:
        kl_BU = torch.expm1(bounded(gap_BU)) - gap_BU
    if gradient == "score":
        logprob_BU = alive(new.ratio_BU, units)
        kl_BU = kl_BU + kl_BU.detach() * (logprob_BU - logprob_BU.detach())
    return kl_BU


def exact_kl(new: Estimate, units: Units, length_norm: LengthNorm) -> Tensor:
    """KL over the whole vocabulary, summed over a unit's slots, divided as `length_norm` says."""
    if new.exact_kl_BU is None:
        raise UsageError(
            "kl: exact reads the KL over the whole vocabulary, which was not scored; it needs a "
            "reference policy and a likelihood that sums unweighted slots"
        )
    return per_length(alive(new.exact_kl_BU, units), units, length_norm)
