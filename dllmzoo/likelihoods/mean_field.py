"""One-forward likelihood: every answer token from a wholly hidden answer."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from dllmzoo.likelihoods._masks import noised_prompt
from dllmzoo.likelihoods._plan import sequence_views, slot_views
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("mean_field", aliases=("full_mask", "diffu_grpo"))
@dataclass(frozen=True)
class MeanField:
    r"""Log-prob of each answer token given a fully hidden answer: one forward for all.

    $$ \ell_i(\theta) = \log \pi_\theta(y_i \mid \tilde q, \text{all masked}) $$

    where each token of the prompt is hidden too with probability `prompt_noise` ($\tilde q$);
    tokens that were given inside the answer are not. Costs one forward per sample and pass, the
    cheapest there is. Biased: it is the exact law of a one-step sampler only; as an estimate of
    the log-prob of an answer that took several steps it leaves every dependence between answer
    tokens out. Fresh prompt noise in each pass acts as a regulariser over several passes.

    Args:
        prompt_noise: probability in [0, 1) that a prompt token is hidden; 0 makes all passes
            alike.
        unit: `slot` gives each valid answer token its own ratio; `sequence` sums them.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    References:
        Zhao et al., 2025, d1 (arXiv:2504.12216). Differs from its release in: the noise of a
        pass is keyed by pass and sample, so every pass sees its own mask whatever the
        accumulation; the log-softmax has the sampler's temperature.
    """

    prompt_noise: Annotated[float, Field(ge=0, lt=1)] = 0.15
    unit: Literal["slot", "sequence"] = "slot"
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    shares_masks: ClassVar[bool] = True
    num_forwards: ClassVar[int | None] = 1
    exempt: ClassVar[dict[str, str]] = {
        "unbiased": "it scores every token from a wholly hidden answer, as d1 does "
        "(arXiv:2504.12216), and so leaves out what answer tokens tell of each other",
    }

    @property
    def random(self) -> bool:
        """Whether passes differ: only the prompt noise does."""
        return self.prompt_noise > 0

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """One view: the answer hidden, the prompt noised, the valid answer slots scored."""
        temperature = self.temperature or rollout.temperature
        hide_BKL, score_BKL = rollout.answer_BL.unsqueeze(1), rollout.valid_BL.unsqueeze(1)
        if self.random:
            hide_BKL = hide_BKL | noised_prompt(key, rollout, 1, self.prompt_noise)
        if self.unit == "slot":
            return slot_views(hide_BKL, score_BKL, temperature)
        return sequence_views(hide_BKL, score_BKL, score_BKL.float(), rollout.length_B, temperature)

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """Sum of the log-probs of a unit's tokens."""
        return linear_pool(logprob_BKL, views)
