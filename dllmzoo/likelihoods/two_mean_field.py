"""Two-forward likelihood: tokens of before a random step, and tokens from it on."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.likelihoods._plan import slot_views
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("two_mean_field", aliases=("diffpo",))
@dataclass(frozen=True)
class TwoMeanField:
    r"""Log-prob of each token from the prompt, or from the state at one random step.

    For each sample and pass a step s is drawn among those that committed a token. Tokens that
    stood in its state $x_s$ are scored from the prompt alone, the others from $x_s$:

    $$ \ell_i(\theta) = \begin{cases}
       \log \pi_\theta(y_i \mid q, \text{all masked}) & i \text{ revealed before } s \\
       \log \pi_\theta(y_i \mid q, x_s) & \text{otherwise} \end{cases} $$

    Costs at most 2 forwards per sample and pass (1 for the first step). Biased: closer to the
    sampler than one forward from the wholly hidden answer, yet within each half no token sees
    another. It needs answers that a sampler wrote step by step; slots that no step committed and
    slots after the end token are not scored. Where masked slots can be masked again, $x_s$ is the
    stored state.

    Args:
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    References:
        Zhao et al., 2025, DiFFPO (arXiv:2510.02212). No code was released. Differs from it in: the
        correction between surrogate and sampler and the trained threshold are left out.
    """

    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    reads_reveal: ClassVar[bool] = True
    random: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    shares_masks: ClassVar[bool] = True
    unit: ClassVar[Unit] = "slot"
    num_forwards: ClassVar[int | None] = 2
    exempt: ClassVar[dict[str, str]] = {
        "unbiased": "it scores tokens in two groups, each from one state, as DiFFPO does "
        "(arXiv:2510.02212), and leaves out what the tokens of a group tell of each other",
    }

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """Two views: the wholly hidden answer, and the state before a random step."""
        step_B1 = _random_step(rollout, key).unsqueeze(1)
        state_BL = rollout.hidden_before(step_B1).squeeze(1)
        scored_BL = rollout.valid_BL & (rollout.reveal_BL >= 0)
        views = slot_views(
            torch.stack([rollout.answer_BL, state_BL], 1),
            torch.stack([scored_BL & ~state_BL, scored_BL & state_BL], 1),
            self.temperature or rollout.temperature,
        )
        shown_BKL = rollout.draft_before(step_B1)
        if shown_BKL is None:
            return views
        return replace(views, shown_BKL=shown_BKL.expand_as(views.hide_BKL).contiguous())

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """The log-prob of each token."""
        return linear_pool(logprob_BKL, views)


def _random_step(rollout: Rollout, key: Key) -> Tensor:
    """A random step of each row among those that committed something, (B,); 0 if none did."""
    B, T = len(rollout.reveal_BL), rollout.num_steps
    empty_BT = torch.zeros(B, T + 1, dtype=torch.long, device=rollout.reveal_BL.device)
    ran_BT = empty_BT.scatter(1, rollout.reveal_BL + 1, 1)[:, 1:]
    drawn_B = key.sub("step").uniform(rollout.sample_B, 1).squeeze(1).to(ran_BT.device)
    count_B = ran_BT.sum(1)
    wanted_B = (drawn_B * count_B).long().clamp(max=(count_B - 1).clamp(min=0))
    found_BT = (ran_BT.cumsum(1) == wanted_B.unsqueeze(1) + 1) & (ran_BT > 0)
    return found_BT.long().argmax(1)
