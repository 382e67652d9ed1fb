"""Evidence lower bound of a block model: every block hidden on its own, all in one pass."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.likelihoods._blocks import (
    Blocks,
    Context,
    Tail,
    answer_blocks,
    in_two_streams,
    random_part_of_blocks,
)
from dllmzoo.likelihoods._plan import Spacing, precise, sequence_views, views_apart
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("block_elbo", aliases=("blockwise_k", "ebpo"))
@dataclass(frozen=True)
class BlockElbo:
    r"""Unbiased ELBO of an answer written block by block; a view masks every block in one pass.

    A block model gives an answer the probability $\prod_b p(y^b \mid y^{<b})$. In each block b,
    of m_b answer slots, a view v hides a random set $H_{vb}$ of k slots, k uniform in 1..m_b, each
    block on its own, and

    $$ \hat E(y) = \frac1K \sum_{v=1}^K \sum_b \frac{m_b}{k_{vb}}
       \sum_{i \in H_{vb}} \log \pi_\theta(y_i \mid y^b_{\setminus H_{vb}}, y^{<b}). $$

    Costs K forwards per sample and pass, whatever the number of blocks: the noised blocks are a
    second stream behind the clean answer, and each sees the clean blocks before its own (twice
    the tokens of a plain forward at most). The grid of blocks and their size are the network's;
    the first block may begin with the end of the prompt, which stays visible.

    Its mean over masks is exactly the mean, over all orders inside the blocks, of the answer's
    chain of log-probs: a lower bound on its log-likelihood when slots are drawn one at a time in
    random order inside each block. A ratio of two such estimates, being an exponential, is biased
    however many views it averages. The variance falls as 1/K for independent views, and is far
    below that of `elbo` on the same model, which hides later blocks' contexts too. With blocks of
    one token it is the exact autoregressive log-likelihood; with one block it is `elbo`.

    | tail | slots behind the end token, in its block |
    |---|---|
    | `keep_sampled` | hidden or shown as the masks fall, as the sampler saw them; not scored |
    | `pad_end` | the same, but shown as end tokens |
    | `score_tail` | the same as `keep_sampled`, and scored: all that the sampler drew |

    m_b counts them in all three, so the three share their masks; only slots that a sampler left
    empty, as `block_diffusion` never does in such a block, stay masked unless `pad_end` fills them.
    Later blocks are left out.

    Args:
        views: K >= 1, masks of the whole answer.
        spacing: of the numbers in [0, 1) that the k are made from: `independent`; `stratified`,
            in each block one in each K-th of the range, in a random turn; `strided`, one number a
            sample, the others 1 / (K blocks) further round the circle, over all blocks of the
            first view, then of the second and so on. k is uniform in every block of every view
            under all three; the last two have a smaller variance.
        tail: what becomes of slots behind the end token; see the table.
        context: attention of the clean stream. `block_causal` is what the sampler saw;
            `token_causal` lets a token see the tokens before it only, another function of the
            same weights: a surrogate.
        unit: `sequence` averages the views; `view` gives each its own log-prob and ratio, of the
            whole sequence.
        shares_masks: true lets new, old and reference policy score the same masks, so the first
            ratio of a round is exactly 1; false gives old and reference masks of their own.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    Raises:
        UsageError: the network has no blocks.

    References:
        Arriola et al., 2025, BD3-LM (arXiv:2503.09573): the bound, and one pass for all blocks;
        SDAR, 2025 (arXiv:2510.06303). StableDRL, 2026 (arXiv:2603.06743): ratios of it, published
        without code; its clean stream may be read as `token_causal`. EBPO in LLaDA2.1, 2026
        (arXiv:2602.08676): `views: 16, spacing: strided` with an undivided sequence ratio, the
        noise levels and weights being those of its re-implementation. Differs from BD3-LM in: a
        number of hidden slots is drawn, not a rate, so no block is without a hidden slot.
    """

    views: Annotated[int, Field(ge=1)] = 2
    spacing: Spacing = "independent"
    tail: Tail = "keep_sampled"
    context: Context = "block_causal"
    unit: Literal["sequence", "view"] = "sequence"
    shares_masks: bool = True
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    random: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    needs_blocks: ClassVar[bool] = True

    @property
    def num_forwards(self) -> int:
        """K."""
        return self.views

    @property
    def num_draws(self) -> int:
        """K where views are independent."""
        return self.views if self.spacing == "independent" else 1

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """K views, each with a random part of every block hidden."""
        blocks = answer_blocks(rollout, self.tail, "likelihood block_elbo", "likelihood elbo")
        size_BL, dtype = blocks.size_BL.unsqueeze(1), precise(blocks.size_BL.device)
        place_BKM = self._places(blocks, rollout, key).to(size_BL.device, dtype)
        hidden_BKL = 1 + (blocks.at(place_BKM) * size_BL).long().clamp(max=size_BL - 1)
        order_BKL = rollout.slot_uniform(key.sub("subset"), self.views)
        inside_BKL = random_part_of_blocks(blocks, order_BKL, hidden_BKL)
        weight_BKL = size_BL / hidden_BKL.clamp(min=1).to(dtype)
        if self.unit == "sequence":
            weight_BKL = weight_BKL / self.views
        make = views_apart if self.unit == "view" else sequence_views
        views = make(
            inside_BKL | blocks.apart_BL.unsqueeze(1),
            inside_BKL & blocks.scored_BL.unsqueeze(1),
            weight_BKL,
            blocks.scored_BL.sum(1),
            self.temperature or rollout.temperature,
        )
        return in_two_streams(views, self.context, blocks.shown_BL)

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """The estimate of the ELBO, total nats of the sequence."""
        return linear_pool(logprob_BKL, views)

    def _places(self, blocks: Blocks, rollout: Rollout, key: Key) -> Tensor:
        """A number in [0, 1) for every block of every view, float64 (B, K, M) on the CPU."""
        K, M = self.views, blocks.most
        view_K1 = torch.arange(K, dtype=torch.float64).unsqueeze(1)
        if self.spacing == "strided":
            live_BM = blocks.size_BM.cpu() > 0
            count_B11 = live_BM.sum(1).view(-1, 1, 1).clamp(min=1)
            rank_B1M = (live_BM.long().cumsum(1) - 1).clamp(min=0).unsqueeze(1)
            offset_B11 = key.sub("size").uniform(rollout.sample_B, 1, 1).double()
            return (offset_B11 + (view_K1 * count_B11 + rank_B1M) / (K * count_B11)) % 1
        drawn_BKM = key.sub("size").uniform(rollout.sample_B, M, K).double().transpose(1, 2)
        if self.spacing == "independent":
            return drawn_BKM
        turn_B1M = (key.sub("turn").uniform(rollout.sample_B, M).double() * K).floor().unsqueeze(1)
        return ((view_K1 + turn_B1M) % K + drawn_BKM) / K
