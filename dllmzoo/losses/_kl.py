"""KL penalty of a unit: the estimators k1, k2, k3 on its log-prob, or the exact KL of its slots."""

from typing import Literal, Protocol

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.losses._ratio import LengthNorm, alive, bounded, frozen_ratio, per_length
from dllmzoo.records import Estimate, Normaliser, Units

Kind = Literal["none", "k1", "k2", "k3", "exact"]
Anchor = Literal["reference", "old"]
Gradient = Literal["value", "score"]


class KlOptions(Protocol):
    """The fields of a loss that has a KL penalty."""

    @property
    def kl(self) -> Kind:
        """Which estimator."""
        ...

    @property
    def kl_coef(self) -> float:
        """Weight of the penalty."""
        ...

    @property
    def kl_anchor(self) -> Anchor:
        """The policy it is measured to."""
        ...

    @property
    def kl_gradient(self) -> Gradient:
        """What is differentiated."""
        ...

    @property
    def kl_normaliser(self) -> Normaliser | None:
        """Its own normaliser; None = `normaliser`."""
        ...

    @property
    def kl_length_norm(self) -> LengthNorm | None:
        """Its own length norm; None = `length_norm`."""
        ...

    @property
    def normaliser(self) -> Normaliser:
        """Of the surrogate."""
        ...

    @property
    def length_norm(self) -> LengthNorm:
        """Of the surrogate."""
        ...


def has_kl(options: KlOptions, anchor: Anchor) -> bool:
    """Whether a KL to this policy is part of the loss."""
    return options.kl != "none" and options.kl_coef > 0 and options.kl_anchor == anchor


def check_kl(options: KlOptions) -> None:
    """Refuse settings that contradict each other.

    Raises:
        UsageError: an exact KL to the old policy, whose weights are gone when it is needed.
    """
    if options.kl == "exact" and options.kl_anchor == "old":
        raise UsageError(
            "kl: exact compares whole distributions and needs the anchor's weights, which only "
            "kl_anchor: reference has; choose that, or one of k1, k2, k3"
        )


def with_kl(
    loss: Tensor,
    options: KlOptions,
    new: Estimate,
    old: Estimate | None,
    reference: Estimate | None,
    units: Units,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss plus `kl_coef` times the mean KL, and the KL of each unit as a metric."""
    if options.kl == "none" or options.kl_coef == 0:
        return loss, {}
    length_norm = options.kl_length_norm or options.length_norm
    if options.kl == "exact":
        kl_BU = exact_kl(new, units, length_norm)
    else:
        anchor = old if options.kl_anchor == "old" else reference
        anchor_BU = frozen_ratio(anchor, options.kl_anchor)
        kl_BU = estimated_kl(options.kl, options.kl_gradient, new, anchor_BU, units, length_norm)
    penalty = units.mean(kl_BU, options.kl_normaliser or options.normaliser)
    return loss + options.kl_coef * penalty, {"kl": kl_BU.detach()}


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
