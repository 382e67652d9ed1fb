"""StableDRL: bounded, self-normalised importance weights over the samples of a prompt."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.losses._group import count_by, group_index, softmax_by
from dllmzoo.losses._ratio import (
    LengthNorm,
    alive,
    clip_metrics,
    constant_weight,
    log_bounds,
    log_ratio,
    ratio_metrics,
)
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
        clipped_BU = log_ratio_BU
        if self.clip:
            clipped_BU = log_ratio_BU.clamp(*log_bounds(self.clip_low, self.clip_high))
        group_BU = group_index(units)
        if self.self_normalise:
            weight_BU = softmax_by(group_BU, clipped_BU, units)
        else:
            size_BU = count_by(group_BU, units).clamp(min=1)
            weight_BU = alive(constant_weight(clipped_BU) / size_BU, units)

        score_BU = alive(new.score_BU, units) / units.size_BU.clamp(min=1)
        loss = -units.mean(
            weight_BU * alive(advantage_BU.detach(), units) * score_BU, self.normaliser
        )
        metrics = ratio_metrics(log_ratio_BU, units, clipped_BU) | {"weight": weight_BU}
        metrics |= clip_metrics(clipped_BU > log_ratio_BU, clipped_BU < log_ratio_BU)
        return loss, metrics
