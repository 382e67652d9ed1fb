"""StableDRL: bounded, self-normalised importance weights over the samples of a prompt."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.losses._ratio import LengthNorm, alive, bounded, log_ratio
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Units
from dllmzoo.zoo import LOSSES


@LOSSES.register("stable_drl", aliases=("snis",))
@dataclass(frozen=True)
class StableDrl:
    r"""Self-normalised importance sampling over a group, ratios clipped whatever the sign of A.

    With $c_i = \mathrm{clip}(\rho_i, 1-\epsilon_-, 1+\epsilon_+)$ and weights without gradient,

    $$ -\frac{1}{P} \sum_{groups} \sum_{i \in group} w_i A_i \frac{\ell_i(\theta)}{n_i},
       \qquad w_i = \frac{c_i}{\sum_{j \in group} c_j} $$

    The weights of a group are >= 0 and sum to 1, so its gradient lies in the convex hull of the
    samples' own: one noisy ratio cannot blow up the update, and noise that a whole group shares
    cancels. A clipped sample keeps its full gradient. The weights are a softmax over the group
    of clipped log-ratios, in log space and float32. Samples whose answer is not scored stay out.

    Args:
        clip_low: epsilon_-, >= 0, a distance from 1: the ratio counts as at least 1 - clip_low;
            null, or 1 and more, = no bound.
        clip_high: epsilon_+, >= 0, a distance from 1: the ratio counts as at most 1 + clip_high;
            null = no bound. The paper's 5 and 5 is at most 6; the release's cap of 5 is null and 4.
        clip: false leaves both bounds out.
        self_normalise: false weighs with c_i / G instead of c_i / sum of c.
        length_norm: what a log-ratio in total nats is divided by: the valid tokens of the
            sequence (`token`), nothing (`none`), or N (`canvas`). The score is per token anyway.
        normaliser: `group`: a sum inside each group, a mean over groups.

    References:
        StableDRL, 2026 (arXiv:2603.06743). Differs from its release in: the
        softmax is over a prompt's group, not over a process's batch; the lower bound exists;
        each of the two devices has a switch of its own.
    """

    clip_low: Annotated[float, Field(ge=0)] | None = 5.0
    clip_high: Annotated[float, Field(ge=0)] | None = 5.0
    clip: bool = True
    self_normalise: bool = True
    length_norm: LengthNorm = "token"
    normaliser: Literal["group"] = "group"

    units: ClassVar[frozenset[Unit]] = frozenset({"sequence"})
    needs_old: ClassVar[bool] = True
    needs_reference: ClassVar[bool] = False
    needs_exact_kl: ClassVar[bool] = False

    @property
    def bounded_weight(self) -> float | None:
        """1 if self-normalised, else the upper bound of the ratio; None without either."""
        if self.self_normalise:
            return 1.0
        return 1 + self.clip_high if self.clip and self.clip_high is not None else None

    def __call__(
        self,
        new: Estimate,
        old: Estimate | None,
        reference: Estimate | None,
        advantage_BU: Tensor,
        units: Units,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to minimise and metrics per unit; only `new` carries gradient."""
        raw_BU = log_ratio(new, old, units, self.length_norm).detach()
        log_ratio_BU = raw_BU.to(torch.promote_types(raw_BU.dtype, torch.float32))
        low, high = self._log_bounds()
        clipped_BU = log_ratio_BU.clamp(low, high)
        share_BU, num_BU = _group_softmax(clipped_BU, units)
        weight_BU = share_BU
        if not self.self_normalise:
            weight_BU = alive(bounded(clipped_BU).exp() / num_BU.clamp(min=1), units)

        score_BU = alive(new.score_BU, units) / units.size_BU.clamp(min=1)
        loss = -units.mean(
            weight_BU * alive(advantage_BU.detach(), units) * score_BU, self.normaliser
        )
        square_BU, _ = _group_sum(share_BU.square(), units)
        metrics = {
            "ratio": bounded(log_ratio_BU).exp(),
            "ratio_clipped": bounded(clipped_BU).exp(),
            "log_ratio": log_ratio_BU,
            "weight": weight_BU,
            "clip_fraction": (clipped_BU != log_ratio_BU).float(),
            "clip_low_fraction": (clipped_BU > log_ratio_BU).float(),
            "clip_high_fraction": (clipped_BU < log_ratio_BU).float(),
            "ess_share": torch.where(square_BU > 0, 1 / (square_BU * num_BU), 0),
        }
        return loss, metrics

    def _log_bounds(self) -> tuple[float, float]:
        """Bounds of the log-ratio, nats; infinite where there is none."""
        low, high = -math.inf, math.inf
        if self.clip and self.clip_low is not None and self.clip_low < 1:
            low = math.log(1 - self.clip_low)
        if self.clip and self.clip_high is not None:
            high = math.log1p(self.clip_high)
        return low, high


def _group_index(units: Units, device: torch.device) -> tuple[int, Tensor]:
    """Number of groups, and the group of each unit counted from 0, (B, U)."""
    groups, index_B = units.group_B.to(device).unique(return_inverse=True)
    return len(groups), index_B.unsqueeze(1).expand(units.live_BU.shape)


def _group_sum(value_BU: Tensor, units: Units) -> tuple[Tensor, Tensor]:
    """Sum over the live units of a unit's group, and how many they are; (B, U) each."""
    num_groups, index_BU = _group_index(units, value_BU.device)
    empty_P = value_BU.new_zeros(num_groups)
    index = index_BU.flatten()
    sum_P = empty_P.index_add(0, index, alive(value_BU, units).flatten())
    num_P = empty_P.index_add(0, index, units.live_BU.to(value_BU.dtype).flatten())
    return sum_P[index_BU], num_P[index_BU]


def _group_softmax(value_BU: Tensor, units: Units) -> tuple[Tensor, Tensor]:
    """Softmax over the live units of a group (0 for the others), and how many they are."""
    num_groups, index_BU = _group_index(units, value_BU.device)
    open_BU = value_BU.masked_fill(~units.live_BU, -math.inf)
    lowest_P = value_BU.new_full((num_groups,), -math.inf)
    peak_P = lowest_P.scatter_reduce(0, index_BU.flatten(), open_BU.flatten(), "amax")
    peak_BU = torch.where(peak_P.isfinite(), peak_P, 0)[index_BU]
    power_BU = (open_BU - peak_BU).exp()
    sum_BU, num_BU = _group_sum(power_BU, units)
    return power_BU / torch.where(sum_BU > 0, sum_BU, 1), num_BU
