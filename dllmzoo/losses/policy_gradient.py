"""Policy gradient: the score of each unit times its advantage."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dllmzoo.losses._kl import KlPenalty
from dllmzoo.losses._ratio import LengthNorm, alive, per_length
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Normaliser, Units
from dllmzoo.zoo import LOSSES


@LOSSES.register("policy_gradient", aliases=("reinforce",))
@dataclass(frozen=True)
class PolicyGradient(KlPenalty):
    r"""REINFORCE: minus the advantage times the log-prob of each unit, no ratio and no clip.

    $$ -A\,\ell(\theta) $$

    Right for one update per batch of samples. It knows nothing of the policy that sampled, so
    several passes over the same samples drift without a bound.

    Args:
        length_norm: what a log-prob in total nats is divided by: nothing (`none`), the tokens of
            the unit (`token`), or N (`canvas`).
        normaliser: what the sum over units is divided by; see `Units.mean`.

    References:
        Williams, 1992, Simple statistical gradient-following algorithms.
    """

    length_norm: LengthNorm = "none"
    normaliser: Normaliser = "token"

    units: ClassVar[frozenset[Unit]] = frozenset({"slot", "step", "sequence", "view"})

    @property
    def needs_old(self) -> bool:
        """Only for a KL to it."""
        return self.has_kl("old")

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
        return self.with_kl(loss, new, old, reference, units)
