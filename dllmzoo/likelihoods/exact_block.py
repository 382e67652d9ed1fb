"""The oracle of block models: an answer's exact block ELBO or log-likelihood."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.likelihoods._blocks import Blocks, Context, Tail, answer_blocks, in_two_streams
from dllmzoo.likelihoods._plan import sequence_views
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.likelihoods._subsets import holds, log_likelihood, share_of_orders, subset_codes
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS

MOST = 8
"""Tokens of the largest block whose masks are enumerated: 255 forwards."""


@LIKELIHOODS.register("exact_block", aliases=("block_enumeration",))
@dataclass(frozen=True)
class ExactBlock:
    r"""Exact block ELBO or log-likelihood of an answer: all masks of its blocks.

    Both numbers are about writing the answer block after block, and inside a block one slot at a
    time in a uniformly random order $\sigma$:

    $$ \mathrm{ELBO} = \sum_b \mathbb E_\sigma \sum_{i \in b} \log p_{i|\sigma}
       = \sum_b \sum_{\emptyset \ne H \subseteq b} \frac{1}{|H| \binom{m_b}{|H|}}
       \sum_{i \in H} \log p(y_i \mid y^b_{\setminus H}, y^{<b}), \qquad
       \log p(y) = \sum_b \log \mathbb E_\sigma \prod_{i \in b} p_{i|\sigma} $$

    with m_b answer slots in block b. The ELBO is the mean of `block_elbo` over its masks. The
    log-likelihood is computed over subsets, from small to large, in log space, block by block.
    Differentiable, so the gradient is exact too.

    Costs 2^B - 1 forwards per sample for blocks of B tokens, whatever the length of the answer:
    view c hides the same subset of every block, in one pass. 15 for blocks of 4, 255 for 8. It
    has no variance and no bias; a confidence order has another law than either number. With
    blocks of one token both are the autoregressive log-likelihood; with one block it is `exact`.

    Args:
        of: `elbo`, or `loglikelihood`, which is never below it.
        tail: what becomes of slots behind the end token in its block; see `block_elbo`. Those
            that are not scored still take their turn in the orders.
        context: attention of the clean stream; `block_causal` is what the sampler saw, and
            `token_causal` a surrogate.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    Raises:
        UsageError: the network has no blocks, or blocks of more than 8 tokens.

    References:
        Arriola et al., 2025, BD3-LM (arXiv:2503.09573); SDAR, 2025 (arXiv:2510.06303). Any-order
        ELBO: Uria et al., 2014 (arXiv:1310.1757). The enumeration is ours.
    """

    of: Literal["elbo", "loglikelihood"] = "elbo"
    tail: Tail = "keep_sampled"
    context: Context = "block_causal"
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    random: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    unit: ClassVar[Unit] = "sequence"
    shares_masks: ClassVar[bool] = True
    needs_blocks: ClassVar[bool] = True
    max_block: ClassVar[int] = MOST
    num_forwards: ClassVar[int] = 2**MOST - 1
    exempt: ClassVar[dict[str, str]] = {
        "unbiased if of=loglikelihood": "it is the log-likelihood, which lies above the ELBO",
    }

    def forwards_in_blocks(self, block_size: int, chosen: int) -> int:
        """2^B - 1 for blocks of B tokens."""
        return 2 ** min(block_size, MOST) - 1

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """One view for each nonempty set of places in a block: view c-1 hides the bits of c."""
        blocks = self._blocks(rollout)
        code_K1 = subset_codes(self._bits(rollout), blocks.size_BL.device).unsqueeze(1)
        size_BL, rank_BL = blocks.size_BL.unsqueeze(1), blocks.rank_BL.unsqueeze(1)
        own_BKL = code_K1 < 2**size_BL
        inside_BKL = holds(code_K1, rank_BL.clamp(min=0)) & own_BKL & blocks.drawn_BL.unsqueeze(1)
        hidden_K1 = holds(code_K1, torch.arange(MOST, device=code_K1.device)).sum(1, keepdim=True)
        weight_BKL = share_of_orders(hidden_K1 * own_BKL, size_BL)
        views = sequence_views(
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
        """Total nats of the sequence."""
        if self.of == "elbo":
            return linear_pool(logprob_BKL, views)
        blocks, bits = self._blocks(rollout), self._bits(rollout)
        B, K, _ = logprob_BKL.shape
        logprob_BKL = torch.where(views.score_BKL, logprob_BKL, 0)
        place_BX = _places(blocks, bits)
        logprob_BKX = logprob_BKL.gather(2, place_BX.unsqueeze(1).expand(-1, K, -1))
        each_RKN = logprob_BKX.view(B, K, blocks.most, bits).transpose(1, 2).flatten(0, 1)
        total_BM = log_likelihood(each_RKN, blocks.size_BM.flatten()).view(B, -1)
        total_BU = total_BM.sum(1, keepdim=True)
        return Estimate(score_BU=total_BU, ratio_BU=total_BU)

    def _blocks(self, rollout: Rollout) -> Blocks:
        blocks = answer_blocks(rollout, self.tail, "likelihood exact_block", "likelihood exact")
        size = rollout.block_size or 0
        if size > MOST:
            raise UsageError(
                f"likelihood exact_block scores every mask of a block, of at most {MOST} tokens, "
                f"and the network's blocks have {size}: 2^{size} - 1 forwards; use likelihood "
                f"block_elbo, or a network of smaller blocks"
            )
        return blocks

    @staticmethod
    def _bits(rollout: Rollout) -> int:
        """Slots that a block can have."""
        return min(rollout.block_size or 1, rollout.canvas)


def _places(blocks: Blocks, bits: int) -> Tensor:
    """Column of each drawn slot, by block and rank, (B, M * bits); column 0 where there is none."""
    B, L = blocks.drawn_BL.shape
    behind = blocks.most * bits  # one more cell, for what is not drawn
    cell_BL = blocks.number_BL * bits + blocks.rank_BL
    cell_BL = torch.where(blocks.drawn_BL, cell_BL, behind)
    column_BL = torch.arange(L, device=cell_BL.device).expand(B, L)
    return cell_BL.new_zeros(B, behind + 1).scatter(1, cell_BL, column_BL)[:, :-1]
