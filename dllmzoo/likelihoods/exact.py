"""The oracle: an answer's exact ELBO or log-likelihood, from every mask there is."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._plan import after_end, sequence_views
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.likelihoods._subsets import holds, log_likelihood, share_of_orders, subset_codes
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("exact", aliases=("enumeration",))
@dataclass(frozen=True)
class Exact:
    r"""Exact ELBO or log-likelihood of a short answer: all masks of its tokens, no chance.

    Both numbers are about generation of the n valid tokens one at a time in a uniformly random
    order $\sigma$, with every slot behind the end token masked throughout:

    $$ \mathrm{ELBO} = \mathbb E_\sigma \sum_i \log p_{i|\sigma}
       = \sum_{H \ne \emptyset} \frac{1}{|H| \binom{n}{|H|}} \sum_{i \in H} \log p(y_i \mid
       y_{\setminus H}), \qquad
       \log p(y) = \log \mathbb E_\sigma \prod_i p_{i|\sigma} $$

    The second is computed over subsets, from small to large, in log space: with F(H) the
    probability of completing the hidden set H, F(H) is the mean over i in H of $p(y_i \mid
    y_{\setminus H})\,F(H \setminus i)$. Differentiable, so the gradient is exact too.

    Costs 2^n - 1 forwards per sample: what other likelihoods are measured against, for answers of
    a few tokens. It has no variance. `elbo` is the ELBO itself; `loglikelihood` is the
    log-likelihood of a random-order sampler, and no bound. A confidence order has another law.

    Args:
        of: `elbo` or `loglikelihood`.
        max_tokens: n of the longest answer that is taken, 8 to 16; forwards and memory double
            with each token. Every row is given 2^min(N, max_tokens) - 1 views (N slots of
            answer), and runs as many as its own n needs.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    Raises:
        UsageError: an answer has more than `max_tokens` valid tokens.

    References:
        Any-order ELBO: Uria et al., 2014 (arXiv:1310.1757); Ou et al., 2024 (arXiv:2406.03736).
    """

    of: Literal["elbo", "loglikelihood"] = "elbo"
    max_tokens: Annotated[int, Field(ge=8, le=16)] = 12
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    random: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    unit: ClassVar[Unit] = "sequence"
    shares_masks: ClassVar[bool] = True
    exempt: ClassVar[dict[str, str]] = {
        "unbiased if of=loglikelihood": "it is the log-likelihood, which lies above the ELBO",
    }

    @property
    def num_forwards(self) -> int:
        """2^max_tokens - 1, the most that an answer needs."""
        return 2**self.max_tokens - 1

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """One view for each nonempty set of valid slots: view c-1 hides the bits of c."""
        length_B, longest = rollout.length_B, int(rollout.length_B.max())
        if longest > self.max_tokens:
            raise UsageError(
                f"likelihood exact scores every mask of an answer, at most max_tokens = "
                f"{self.max_tokens} tokens, and an answer has {longest}: 2^{longest} - 1 forwards; "
                f"use a shorter sampler.answer_length, or likelihood elbo"
            )
        bits = min(rollout.canvas, self.max_tokens)
        code_K = subset_codes(bits, length_B.device)
        rank_BL = (rollout.valid_BL.long().cumsum(1) - 1).clamp(0, max(bits - 1, 0))
        own_BK1 = (code_K < 2 ** length_B.unsqueeze(1)).unsqueeze(2)
        inside_BKL = holds(code_K.unsqueeze(1), rank_BL.unsqueeze(1))
        score_BKL = inside_BKL & rollout.valid_BL.unsqueeze(1) & own_BK1
        size_BK = score_BKL.sum(2)
        return sequence_views(
            score_BKL | after_end(rollout).unsqueeze(1),
            score_BKL,
            share_of_orders(size_BK, length_B.unsqueeze(1)).unsqueeze(2),
            length_B,
            self.temperature or rollout.temperature,
        )

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """Total nats of the sequence."""
        if self.of == "elbo":
            return linear_pool(logprob_BKL, views)
        total_BU = _log_likelihood(logprob_BKL, rollout)
        return Estimate(score_BU=total_BU, ratio_BU=total_BU)


def _log_likelihood(logprob_BKL: Tensor, rollout: Rollout) -> Tensor:
    """The log-likelihood of each row under a random order of its valid slots, (B, 1)."""
    K = logprob_BKL.shape[1]
    bits = (K + 1).bit_length() - 1
    place_BN = (~rollout.valid_BL).long().argsort(dim=1, stable=True)[:, :bits]
    logprob_BKN = logprob_BKL.gather(2, place_BN.unsqueeze(1).expand(-1, K, -1))
    return log_likelihood(logprob_BKN, rollout.length_B).unsqueeze(1)
