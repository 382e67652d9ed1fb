"""Likelihood of the denoising steps a selector chose: the states the sampler really saw."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._block_steps import block_state_views, slot_starts
from dllmzoo.likelihoods._masks import noised_prompt
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.likelihoods._states import committed_in, parents, state_views
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("denoising_steps", aliases=("trajectory",))
@dataclass(frozen=True)
class DenoisingSteps:
    r"""Log-prob of the tokens committed at each chosen denoising step, given its state.

    View k shows the state before the k-th chosen step, with hidden what was still masked, and
    scores what that step (or span of steps) committed:

    $$ \ell_s(\theta) = \sum_{i \in U_s} \log \pi_\theta(y_i \mid x_s) $$

    Costs one forward for each chosen step of nonzero weight. On a block model,
    `layout: dual_stream` gives the same numbers in fewer forwards: view r shows, in every block at
    once, the state before the r-th of its chosen steps, behind a clean stream of finished blocks,
    and scores what that step committed there. It costs as many forwards (of up to twice the
    tokens) as the most chosen steps of one block: at most the block size, where none is chosen
    twice. Units, weights and advantages stay one per chosen step; only `normaliser: row` of a
    loss, which averages over views, sees fewer of them.

    Each step's value is exact for a sampler that picks positions without looking at the tokens it
    drew, at the sampler's temperature, without guidance or end rule and up to the probability that
    the network gives the mask token, which is never drawn; over all steps it is then the exact
    log-prob of the trajectory given the order. For confidence and entropy orders it is a surrogate
    that leaves the choice of positions out, hence biased. A span of several steps scores its later
    tokens from a staler state; in `dual_stream` one that reaches over several blocks is less
    stale, for each block is shown with those before it finished. Where the sampler masks slots
    again, a step commits what it filled for the last time, and a span hides all it commits. Where
    samples share steps of one trajectory, units that start from one shared state are marked as
    children of one parent. Nothing is random without prompt noise.

    Args:
        unit: `step` gives each chosen step one log-prob, one ratio and one advantage; `slot`
            gives each committed token its own, judged by the advantage of the step that
            committed it.
        prompt_noise: probability in [0, 1) that a token of the prompt is hidden, in each view and
            pass anew; d2 uses 0.15. 0 makes all passes alike.
        only_valid: true leaves out what was committed behind the end token.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).
        layout: `full`, one view for each chosen step, with any network and sampler;
            `dual_stream`, all blocks of a block model in one view, for samplers that finish a
            block before they begin the next, such as `block_diffusion`.

    Raises:
        UsageError: no steps were chosen, the recipe needs a selector; prompt noise in two
            streams; a network without blocks, or a step that wrote into several blocks or into
            one behind an unfinished one, with `layout: dual_stream`.

    References:
        Kunde et al., 2026 (arXiv:2603.12554). Differs from its release in: the temperature,
        which is 1 there whatever the sampler's; steps may commit any number of tokens. Spans, and
        all blocks in one pass: TraceRL (arXiv:2509.06949); differs from its release in: the grid
        of blocks starts at the first token, as in SDAR's sampler (arXiv:2510.06303), not at the
        answer. d2, with prompt noise (arXiv:2509.21474).
    """

    unit: Literal["step", "slot"] = "step"
    prompt_noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    only_valid: bool = False
    temperature: Annotated[float, Field(gt=0)] | None = None
    layout: Literal["full", "dual_stream"] = "full"

    uses_steps: ClassVar[bool] = True
    marks_parents: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    shares_masks: ClassVar[bool] = True
    num_forwards: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        """Refuse prompt noise that a clean stream would undo."""
        if self.layout == "dual_stream" and self.prompt_noise > 0:
            raise UsageError(
                f"prompt_noise {self.prompt_noise}: blocks read the prompt in the clean stream, "
                f"where nothing is hidden; leave prompt_noise out, or use layout: full"
            )

    @property
    def needs_blocks(self) -> bool:
        """Whether the network must attend in blocks."""
        return self.layout == "dual_stream"

    def forwards_in_blocks(self, block_size: int, chosen: int) -> int:
        """Views of a sample, at most, that `chosen` different steps cost."""
        return min(block_size, chosen) if self.layout == "dual_stream" else chosen

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
        views = self._in_blocks if self.layout == "dual_stream" else self._one_by_one
        planned = views(rollout, steps, key)
        return _by_slot(planned, rollout, steps) if self.unit == "slot" else planned

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """Sum of the log-probs of a unit's tokens."""
        return linear_pool(logprob_BKL, views)

    def _one_by_one(self, rollout: Rollout, steps: Steps, key: Key) -> Views:
        """View k is the state before the k-th chosen step."""
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
        return state_views(rollout, steps, hide_BKL, score_BKL, temperature)

    def _in_blocks(self, rollout: Rollout, steps: Steps, key: Key) -> Views:
        """View r is the state before the r-th chosen step of every block."""
        scored_BL = rollout.valid_BL if self.only_valid else rollout.answer_BL
        return block_state_views(rollout, steps, scored_BL, self.temperature or rollout.temperature)


def _by_slot(views: Views, rollout: Rollout, steps: Steps) -> Views:
    """Slot units (U = L): a slot is scored by the first chosen step that committed it.

    Where a selector names a step twice, the slot is still scored once, and its term carries the
    weights of both.
    """
    B, K, L = views.score_BKL.shape
    chosen = views.size_BU.shape[1]
    unit_BKL = views.unit_BKL.masked_fill(~views.score_BKL, 0)
    each_BKL = views.weight_BU.gather(1, unit_BKL.flatten(1)).view(B, K, L)
    weight_BU = (each_BKL * views.score_BKL).sum(1)
    first_BL = views.unit_BKL.masked_fill(~views.score_BKL, chosen).amin(1)
    first_BKL = views.score_BKL & (views.unit_BKL == first_BL.unsqueeze(1))
    column_BU = torch.where(first_BL < chosen, first_BL, 0)
    start_BL = steps.start_BK.gather(1, column_BU)
    if views.layout == "dual_stream":
        start_BL = slot_starts(rollout, start_BL)
    return replace(
        views,
        score_BKL=first_BKL,
        weight_BKL=first_BKL.float(),
        unit_BKL=torch.arange(L, device=first_BKL.device).expand(B, K, L).contiguous(),
        size_BU=torch.ones_like(weight_BU),
        weight_BU=weight_BU,
        column_BU=column_BU,
        parent_BU=parents(rollout, start_BL),
    )
