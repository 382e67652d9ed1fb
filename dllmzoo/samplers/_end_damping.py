"""Holding end tokens back while an answer is young."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

Factor = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", validate_default=True))
class EndDamping:
    r"""A factor on the certainty of end tokens that grows over the T denoising steps.

    At step s `linear` is $lo + (hi - lo) s / (T - 1)$, and `pow2`, for steps that double in size,
    $lo + (hi - lo) (2^{s+1} - 1) / 2^T$.

    Args:
        lo: factor at the start, in [0, 1].
        hi: factor at the end, in [0, 1].
        ramp: how it gets from one to the other.

    References:
        Yang et al., 2025, CJ-GRPO (arXiv:2509.23924), end early rejection: .4 and 1 with the
        linear ramp, .01 and 1 with the other.
    """

    lo: Factor = 0.4
    hi: Factor = 1.0
    ramp: Literal["linear", "pow2"] = "linear"

    def factor(self, step: Any, num_steps: int) -> Any:
        """What the certainty of an end token is multiplied by at a step, or at many, of T."""
        if hasattr(step, "double"):
            step = step.double()
        if self.ramp == "linear":
            progress = step / (num_steps - 1) if num_steps > 1 else 1.0
        else:
            progress = 2.0 ** (step + 1 - num_steps) - 2.0**-num_steps
        return self.lo + (self.hi - self.lo) * progress
