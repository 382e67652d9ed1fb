"""Selector of the denoising steps whose state is uncertain enough."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import busy_steps, every_step
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("entropy_gate")
@dataclass(frozen=True)
class EntropyGate:
    r"""Every denoising step from a state of more than `threshold` nats of mean entropy.

    $$ s \text{ is kept} \iff \bar h(x_s) > h $$

    with the mean entropy over the slots still masked in the active block before the step. That
    is known before anything is drawn at the step, so the choice does not depend on the action: a
    baseline that depends on the state alone stays without effect on the expected gradient, which
    a choice of the K most uncertain steps of a trajectory does not allow. What the gate leaves
    out is left out of the gradient for good. Costs as many views as steps pass, at most T.

    Args:
        threshold: h, nats, >= 0. 0 keeps every state with any doubt left.

    References:
        No paper; the deterministic choice of steps for which the argument of Kunde et al., 2026
        (arXiv:2603.12554) about baselines holds.
    """

    threshold: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.5

    state_only: ClassVar[bool] = True
    exempt: ClassVar[dict[str, str]] = {
        "all_when_k_is_t": "steps from states below the threshold have weight 0",
        "something_is_chosen": "every state may lie below the threshold",
    }

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps: all of them, should all pass."""
        return num_steps

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Column k is step k, weight 0 where it does not pass; the key is not read."""
        return every_step(busy_steps(rollout) & (rollout.block_entropy_BT > self.threshold))
