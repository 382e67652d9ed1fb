"""Selector of the fewest denoising steps that hold a share of the entropy."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import Field

from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.selectors._steps import Over, best_steps, step_entropies
from dllmzoo.zoo import SELECTORS


@SELECTORS.register("entropy_mass")
@dataclass(frozen=True)
class EntropyMass:
    r"""The fewest denoising steps that hold a `share` of a sequence's entropy.

    Steps are ranked as by `entropy`, and each sequence keeps the first

    $$ K_i = \min \Big\{ K : \sum_{k \le K} H_{(k)} \ge a \sum_s H_s \Big\} $$

    of them, so that easy sequences cost less than hard ones. Columns beyond a sequence's own K
    have weight 0. Like `entropy`, a biased truncation that looks at the whole trajectory.

    Args:
        share: a, in (0, 1]; 1 keeps every step that committed something.
        steps: largest K, >= 1; null = as many as the share takes, up to T.
        over: what a step's entropy is taken over: `committed_mean` and `committed_sum`, the slots
            it committed; `block_mean`, all slots still masked in the active block.

    References:
        The adaptive choice in the release of Kunde et al., 2026 (arXiv:2603.12554). Differs from
        it in: every sequence has its own K, where the release takes the largest of those on one
        device for all.
    """

    share: Annotated[float, Field(gt=0, le=1)] = 0.7
    steps: Annotated[int, Field(ge=1)] | None = None
    over: Over = "committed_mean"

    exempt: ClassVar[dict[str, str]] = {
        "all_when_k_is_t": "steps beyond the share have weight 0",
    }

    def num_selected(self, num_steps: int) -> int:
        """K for a rollout of `num_steps` steps, at most."""
        return num_steps if self.steps is None else min(self.steps, num_steps)

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Column k is the k-th most uncertain step of each row; the key is not read."""
        entropy_BT, count_BT = step_entropies(rollout, self.over)
        columns = rollout.num_steps if self.steps is None else self.steps
        ranked = best_steps(entropy_BT, count_BT > 0, columns)
        if self.share == 1:
            return ranked
        total_B1 = (entropy_BT.double() * (count_BT > 0)).sum(1, keepdim=True)
        index_BK = ranked.start_BK.clamp(max=rollout.num_steps - 1)
        held_BK = entropy_BT.double().gather(1, index_BK) * (ranked.weight_BK > 0)
        before_BK = held_BK.cumsum(1) - held_BK
        needed_BK = before_BK < self.share * total_B1
        needed_BK[:, 0] = True  # where no step has any entropy, the first one stands for them
        return replace(ranked, weight_BK=ranked.weight_BK * needed_BK)
