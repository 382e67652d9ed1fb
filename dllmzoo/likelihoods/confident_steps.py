"""Likelihood of chosen steps and of what the policy was already sure of before them."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.likelihoods._states import committed_in, slot_units, state_views
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS

MORE_SLOTS = (
    "it scores a token in every chosen state that made it likely, besides the step that committed "
    "it, as RLDF does (arXiv:2605.25638)"
)


@dataclass(frozen=True)
class Candidates(Views):
    """Views whose scored slots are candidates.

    Args:
        committed_BKL: bool, scored slots that the view's step committed.
    """

    committed_BKL: Tensor | None = None


@LIKELIHOODS.register("confident_steps", aliases=("rldf",))
@dataclass(frozen=True)
class ConfidentSteps:
    r"""Log-prob of each token a chosen step committed, and of hidden ones already likely.

    View k is the state before the k-th chosen step. It scores, each slot a unit of its own, the
    valid slots that the step committed, and every other hidden valid slot whose final token had
    probability `confidence` or more:

    $$ \ell_{s,i}(\theta) = \log \pi_\theta(y_i \mid x_s), \qquad
       i \in U_s\ \text{or}\ \pi_{old}(y_i \mid x_s) \ge c $$

    The second kind is found once a round with the old policy, so that no split of the work moves
    it. Costs one forward for each chosen step. Biased as the log-prob of a trajectory: a token can
    count in several views, and the choice of positions is left out.

    Args:
        confidence: c, in (0, 1]; RLDF uses 0.6.
        temperature: > 0, of the log-softmax and so of c; null takes the sampler's (1 if it is
            greedy).

    Raises:
        UsageError: no steps were chosen; the recipe needs a selector.

    References:
        RLDF, 2026 (arXiv:2605.25638). Differs from its release in: the sure tokens are found with
        the old policy also where a round has one update (the same then); tokens after the end are
        out; the temperature.
    """

    confidence: Annotated[float, Field(gt=0, le=1)] = 0.6
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = True
    marks_parents: ClassVar[bool] = True
    random: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    unit: ClassVar[Unit] = "slot"
    shares_masks: ClassVar[bool] = True
    num_forwards: ClassVar[int | None] = None
    exempt: ClassVar[dict[str, str]] = {
        "each_slot_once": MORE_SLOTS,
        "equals_enumeration": MORE_SLOTS,
    }

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """One view per chosen step, its hidden valid slots scored; the same for every pass."""
        if steps is None:
            raise UsageError(
                "likelihood confident_steps scores chosen denoising steps, and none were given; "
                "add a selector to the recipe, such as `selector: {name: surprisal}`"
            )
        hide_BKL = rollout.hidden_before(steps.start_BK)
        committed_BKL = rollout.valid_BL.unsqueeze(1) & committed_in(rollout, steps)
        hide_BKL = hide_BKL | committed_BKL
        used_BK1 = (steps.weight_BK > 0).unsqueeze(2)
        score_BKL = hide_BKL & rollout.valid_BL.unsqueeze(1) & used_BK1
        views = state_views(
            rollout, steps, hide_BKL, score_BKL, self.temperature or rollout.temperature
        )
        views = slot_units(views, steps)
        known = {name: getattr(views, name) for name in Views.__dataclass_fields__}
        return Candidates(**known, committed_BKL=committed_BKL & score_BKL)

    def refine(self, views: Views, old_logprob_BKL: Tensor) -> Views:
        """Drop the candidates that the step did not commit and the old policy was not sure of."""
        sure_BKL = old_logprob_BKL.detach().exp() >= self.confidence
        committed_BKL = getattr(views, "committed_BKL", None)
        kept_BKL = sure_BKL if committed_BKL is None else sure_BKL | committed_BKL
        return replace(views, score_BKL=views.score_BKL & kept_BKL)

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """The log-prob of each scored token."""
        return linear_pool(logprob_BKL, views)
