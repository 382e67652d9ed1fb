"""Likelihood of the denoising steps a selector chose: the states the sampler really saw."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._masks import noised_prompt
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.likelihoods._states import committed_in, state_views
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("denoising_steps", aliases=("trajectory",))
@dataclass(frozen=True)
class DenoisingSteps:
    r"""Log-prob of the tokens committed at each chosen denoising step, given its state.

    View k shows the state before the k-th chosen step, with hidden what was still masked, and
    scores what that step (or span of steps) committed:

    $$ \ell_s(\theta) = \sum_{i \in U_s} \log \pi_\theta(y_i \mid x_s) $$

    Costs one forward for each chosen step of nonzero weight. Each step's value is exact for a
    sampler that picks positions without looking at the tokens it drew, at the sampler's
    temperature, without guidance or end rule and up to the probability that the network gives the
    mask token, which is never drawn; over all steps it is then the exact log-prob of the
    trajectory given the order. For confidence and entropy orders it is a surrogate that leaves
    the choice of positions out, hence biased. A span of several steps scores its later tokens
    from a staler state. Where the sampler masks slots again, a step commits what it filled for the
    last time, and a span hides all it commits. Where samples share steps of one trajectory, units
    that start from one shared state are marked as children of one parent.

    Args:
        unit: `step` gives each chosen step one log-prob, one ratio and one advantage; `slot`
            gives each committed token its own, judged by the advantage of the step that
            committed it.
        prompt_noise: probability in [0, 1) that a token of the prompt is hidden, in each view and
            pass anew; d2 uses 0.15. 0 makes all passes alike.
        only_valid: true leaves out what was committed behind the end token.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    Raises:
        UsageError: no steps were chosen; the recipe needs a selector.

    References:
        Kunde et al., 2026 (arXiv:2603.12554). Differs from its release in: the temperature,
        which is 1 there whatever the sampler's; steps may commit any number of tokens. Spans:
        TraceRL (arXiv:2509.06949); d2, with prompt noise (arXiv:2509.21474).
    """

    unit: Literal["step", "slot"] = "step"
    prompt_noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    only_valid: bool = False
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = True
    marks_parents: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    shares_masks: ClassVar[bool] = True
    num_forwards: ClassVar[int | None] = None

    @property
    def random(self) -> bool:
        """Whether passes differ: only the prompt noise does."""
        return self.prompt_noise > 0

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """One view per chosen step; the same for every pass unless the prompt is noised."""
        if steps is None:
            raise UsageError(
                "likelihood denoising_steps scores chosen denoising steps, and none were given; "
                "add a selector to the recipe, such as `selector: {name: all}`"
            )
        inside_BKL = committed_in(rollout, steps)
        if self.only_valid:
            inside_BKL = inside_BKL & rollout.valid_BL.unsqueeze(1)
        # a slot that a span fills, masks and fills again was no mask at its start
        hide_BKL = rollout.hidden_before(steps.start_BK) | inside_BKL
        if self.prompt_noise > 0:
            num_views = steps.start_BK.shape[1]
            hide_BKL = hide_BKL | noised_prompt(key, rollout, num_views, self.prompt_noise)
        score_BKL = inside_BKL & (steps.weight_BK > 0).unsqueeze(2)
        temperature = self.temperature or rollout.temperature
        views = state_views(rollout, steps, hide_BKL, score_BKL, temperature)
        return _by_slot(views, steps) if self.unit == "slot" else views

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """Sum of the log-probs of a unit's tokens."""
        return linear_pool(logprob_BKL, views)


def _by_slot(views: Views, steps: Steps) -> Views:
    """Slot units (U = L): a slot is scored by the first chosen step that committed it.

    Where a selector names a step twice, the slot is still scored once, and its term carries the
    weights of both.
    """
    B, K, L = views.score_BKL.shape
    weight_BU = (views.score_BKL * steps.weight_BK.float().unsqueeze(2)).sum(1)
    first_BKL = views.score_BKL & (views.score_BKL.long().cumsum(1) == 1)
    column_BU, parent_BU = first_BKL.long().argmax(1), views.parent_BU
    return replace(
        views,
        score_BKL=first_BKL,
        weight_BKL=first_BKL.float(),
        unit_BKL=torch.arange(L, device=first_BKL.device).expand(B, K, L).contiguous(),
        size_BU=torch.ones_like(weight_BU),
        weight_BU=weight_BU,
        column_BU=column_BU,
        parent_BU=None if parent_BU is None else parent_BU.gather(1, column_BU),
    )
