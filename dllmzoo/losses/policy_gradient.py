"""Policy gradient: the score of each unit times its advantage."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from dllmzoo.losses._kl import Anchor, Gradient, Kind, check_kl, has_kl, with_kl
from dllmzoo.losses._ratio import LengthNorm, alive, per_length
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Normaliser, Units
from dllmzoo.zoo import LOSSES


@LOSSES.register("policy_gradient", aliases=("reinforce",))
@dataclass(frozen=True)
class PolicyGradient:
    r"""REINFORCE: minus the advantage times the log-prob of each unit, no ratio and no clip.

    $$ -A\,\ell(\theta) $$

    Right for one update per batch of samples. It knows nothing of the policy that sampled, so
    several passes over the same samples drift without a bound.

    Args:
        length_norm: what a log-prob in total nats is divided by: nothing (`none`), the tokens of
            the unit (`token`), or N (`canvas`).
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
        Williams, 1992, Simple statistical gradient-following algorithms.
    """

    length_norm: LengthNorm = "none"
    normaliser: Normaliser = "token"
    kl: Kind = "none"
    kl_coef: Annotated[float, Field(ge=0)] = 0.04
    kl_anchor: Anchor = "reference"
    kl_gradient: Gradient = "value"
    kl_normaliser: Normaliser | None = None
    kl_length_norm: LengthNorm | None = None

    units: ClassVar[frozenset[Unit]] = frozenset({"slot", "step", "sequence", "view"})

    def __post_init__(self) -> None:
        """Refuse an exact KL to the old policy."""
        check_kl(self)

    @property
    def needs_old(self) -> bool:
        """Only for a KL to it."""
        return has_kl(self, "old")

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
        """Every unit weighs 1."""
        return 1.0

    def __call__(
        self,
        new: Estimate,
        old: Estimate | None,
        reference: Estimate | None,
        advantage_BU: Tensor,
        units: Units,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to minimise and metrics per unit; only `new` carries gradient."""
        score_BU = per_length(alive(new.score_BU, units), units, self.length_norm)
        loss = -units.mean(alive(advantage_BU.detach(), units) * score_BU, self.normaliser)
        return with_kl(loss, self, new, old, reference, units)
