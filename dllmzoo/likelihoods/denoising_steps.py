"""Likelihood of the denoising steps a selector chose: the states the sampler really saw."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._plan import slot_views
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("denoising_steps", aliases=("trajectory",))
@dataclass(frozen=True)
class DenoisingSteps:
    r"""Log-prob of the tokens committed at each chosen denoising step, given its state.

    View k hides what was still masked before the k-th chosen step and scores what that step
    (or span of steps) committed:

    $$ \ell_s(\theta) = \sum_{i \in U_s} \log \pi_\theta(y_i \mid x_s) $$

    Costs one forward for each chosen step of nonzero weight. Each step's value is exact for a
    sampler that picks positions without looking at the tokens it drew, at the sampler's
    temperature, without guidance or end rule and up to the probability that the network gives the
    mask token, which is never drawn; over all steps it is then the exact log-prob of the
    trajectory given the order. For confidence and entropy orders it is a surrogate that leaves
    the choice of positions out, hence biased. A span of several steps scores its later tokens
    from a staler state.

    Args:
        unit: `step` gives each chosen step one log-prob, one ratio and one advantage; `slot`
            gives each committed token its own, judged by the advantage of the step that
            committed it.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    Raises:
        UsageError: no steps were chosen; the recipe needs a selector.

    References:
        Kunde et al., 2026 (arXiv:2603.12554). Differs from its release in: the temperature,
        which is 1 there whatever the sampler's; steps may commit any number of tokens.
    """

    unit: Literal["step", "slot"] = "step"
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = True
    random: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    shares_masks: ClassVar[bool] = True
    num_forwards: ClassVar[int | None] = None

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """One view per chosen step; the same for every pass."""
        if steps is None:
            raise UsageError(
                "likelihood denoising_steps scores chosen denoising steps, and none were given; "
                "add a selector to the recipe, such as `selector: {name: all}`"
            )
        temperature = self.temperature or rollout.temperature
        reveal_BKL = rollout.reveal_BL.unsqueeze(1)
        inside_BKL = (reveal_BKL >= steps.start_BK.unsqueeze(2)) & (
            reveal_BKL < steps.stop_BK.unsqueeze(2)
        )
        score_BKL = inside_BKL & (steps.weight_BK > 0).unsqueeze(2)
        hide_BKL = rollout.hidden_before(steps.start_BK)
        if self.unit == "slot":
            return _by_slot(hide_BKL, score_BKL, steps, temperature)
        B, K, L = score_BKL.shape
        column_BK = torch.arange(K, device=score_BKL.device).expand(B, K).contiguous()
        return Views(
            hide_BKL=hide_BKL,
            score_BKL=score_BKL,
            weight_BKL=score_BKL.float(),
            unit_BKL=column_BK.unsqueeze(2).expand(B, K, L).contiguous(),
            size_BU=score_BKL.sum(2).float(),
            weight_BU=steps.weight_BK.float(),
            column_BU=column_BK,
            temperature=temperature,
        )

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """Sum of the log-probs of a unit's tokens."""
        return linear_pool(logprob_BKL, views)


def _by_slot(hide_BKL: Tensor, score_BKL: Tensor, steps: Steps, temperature: float) -> Views:
    """Slot units: a slot is scored by the first chosen step that committed it.

    Where a selector names a step twice, the slot is still scored once, and its term carries the
    weights of both.
    """
    weight_BU = (score_BKL * steps.weight_BK.float().unsqueeze(2)).sum(1)
    first_BKL = score_BKL & (score_BKL.long().cumsum(1) == 1)
    return replace(
        slot_views(hide_BKL, first_BKL, temperature),
        weight_BU=weight_BU,
        column_BU=first_BKL.long().argmax(1),
    )
