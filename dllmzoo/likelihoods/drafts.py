"""Likelihood of drafts: all the tokens that a sampler proposed at each chosen step."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.likelihoods._states import slot_units, state_views
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS

OTHER_TARGET = (
    "it scores every proposal of a step, kept or not, as MDPO does (arXiv:2508.13148), and not "
    "the tokens the step committed"
)


@LIKELIHOODS.register("drafts", aliases=("mdpo",))
@dataclass(frozen=True)
class Drafts:
    r"""Log-prob of each token that the sampler proposed at each chosen step, kept or not.

    View k is the state before the k-th chosen step, M_s being its m_s masked slots. Its targets
    are the draft $y^{(s)}$, the canvas with the sampler's proposal in each masked slot, whose
    reward judges the step:

    $$ \ell_{s,i}(\theta) = \log \pi_\theta(y^{(s)}_i \mid x_s), \quad i \in M_s, \qquad
       \text{weight of the term } \frac{N}{m_s}\, c_{s,i} $$

    with $c_{s,i}$ the old policy's probability of the proposal, a constant of the round: unsure
    proposals count less. Costs one forward for each chosen step. Each value is exact for the
    proposal of its slot, at the sampler's temperature, without guidance; as the log-prob of a
    trajectory it is biased, for it counts what was not kept and leaves out how positions were
    chosen.

    Args:
        weigh_by_confidence: false leaves $c_{s,i}$ out.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    Raises:
        UsageError: no steps were chosen, or the sampler stored no drafts.

    References:
        MDPO, 2025 (arXiv:2508.13148), with a loss of `normaliser: row`. Differs from its release
        in: c is the probability that the old policy has when it is scored, not when it sampled;
        views are averaged, not summed.
    """

    weigh_by_confidence: bool = True
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = True
    marks_parents: ClassVar[bool] = True
    needs_drafts: ClassVar[bool] = True
    random: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    unit: ClassVar[Unit] = "slot"
    shares_masks: ClassVar[bool] = True
    num_forwards: ClassVar[int | None] = None
    exempt: ClassVar[dict[str, str]] = {
        "each_slot_once": OTHER_TARGET,
        "equals_enumeration": OTHER_TARGET,
    }

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """One view per chosen step, all its masked slots scored; the same for every pass."""
        if steps is None:
            raise UsageError(
                "likelihood drafts scores the drafts of chosen denoising steps, and none were "
                "given; add a selector to the recipe, such as `selector: {name: top_advantage}`"
            )
        target_BKL = rollout.draft_before(steps.start_BK)
        if target_BKL is None:
            raise UsageError(
                "likelihood drafts scores what the sampler proposed at every step, and this "
                "rollout stores no proposals; use `sampler: {record_drafts: true}`, or a sampler "
                "that masks tokens again"
            )
        hide_BKL = rollout.hidden_before(steps.start_BK)
        used_BK1 = (steps.weight_BK > 0).unsqueeze(2)
        views = state_views(
            rollout, steps, hide_BKL, hide_BKL & used_BK1,
            self.temperature or rollout.temperature,
        )  # fmt: skip
        views = slot_units(replace(views, target_BKL=target_BKL), steps)
        share_BK = rollout.canvas / views.score_BKL.sum(2).clamp(min=1)
        share_BU = share_BK.unsqueeze(2).expand(views.score_BKL.shape).flatten(1)
        return replace(views, weight_BU=views.weight_BU * share_BU)

    def refine(self, views: Views, old_logprob_BKL: Tensor) -> Views:
        """Weigh each proposal by the old policy's probability of it."""
        if not self.weigh_by_confidence:
            return views
        sure_BKL = torch.where(views.score_BKL, old_logprob_BKL.detach(), 0).exp()
        sure_BU = sure_BKL.flatten(1).to(views.weight_BU.dtype)
        return replace(views, weight_BU=views.weight_BU * sure_BU)

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """The log-prob of each proposal."""
        return linear_pool(logprob_BKL, views)
