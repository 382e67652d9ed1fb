"""DPO: preferences between the samples of a prompt, against a reference policy."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import logsigmoid

from dllmzoo.losses._group import group_index
from dllmzoo.losses._ratio import LengthNorm, alive, frozen_ratio, per_length
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Units
from dllmzoo.zoo import LOSSES


@LOSSES.register("dpo", aliases=("vrpo",))
@dataclass(frozen=True)
class Dpo:
    r"""Logistic loss on how much more the winner's log-prob has risen than the loser's.

    $$ -\log \sigma\big(\beta\,[(\ell - \ell_{ref})_{win} - (\ell - \ell_{ref})_{lose}]\big) $$

    Within a prompt's group every sample with A > 0 wins against every sample with A < 0: a stored
    preference pair is a group of two, and sampled answers give all pairs that their rewards
    order. Only the sign of A is read; samples with A = 0 take no part. The loss is the mean over
    the pairs of a group, then over groups; a group without a pair gives 0 and counts. With an
    ELBO as log-prob this is VRPO, whose variance falls if both policies score the same masks.

    Args:
        beta: > 0, per nat; how far the policy may move from the reference; per nat and token with
            `length_norm: token`, so that 0.2 over N slots is 0.2 with `canvas`.
        label_smoothing: in [0, 0.5); share of the pairs taken to be the wrong way round.
        length_norm: what log-probs in total nats are divided by: nothing (`none`), the valid
            tokens (`token`), or N (`canvas`).

    References:
        Rafailov et al., 2023 (arXiv:2305.18290); VRPO: Zhu et al., 2025, LLaDA 1.5
        (arXiv:2505.19223); label smoothing: Mitchell, 2023, A note on DPO with noisy preferences.
    """

    beta: Annotated[float, Field(gt=0)] = 0.2
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    length_norm: LengthNorm = "none"

    units: ClassVar[frozenset[Unit]] = frozenset({"sequence"})
    needs_old: ClassVar[bool] = False
    uses_score: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = True
    needs_exact_kl: ClassVar[bool] = False
    bounded_weight: ClassVar[float | None] = None
    exempt: ClassVar[dict[str, str]] = {
        "first_pass_is_the_policy_gradient": "it reads the sign of the advantage, not its size",
        "better_answer_becomes_more_likely": "smoothed labels pull too sure a preference back",
    }

    def __call__(
        self,
        new: Estimate,
        old: Estimate | None,
        reference: Estimate | None,
        advantage_BU: Tensor,
        units: Units,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to minimise and metrics per unit; only `new` carries gradient."""
        gap_BU = alive(new.ratio_BU - frozen_ratio(reference, "reference"), units)
        gain_B = per_length(gap_BU, units, self.length_norm)[:, 0]
        group_B = group_index(units)[:, 0]
        win_X, lose_X = _pairs(alive(advantage_BU.detach(), units)[:, 0], group_B)
        margin_X = self.beta * (gain_B[win_X] - gain_B[lose_X])
        share = self.label_smoothing
        loss_X = -(1 - share) * logsigmoid(margin_X) - share * logsigmoid(-margin_X)
        right_X = (margin_X.sign() + 1) / 2
        mean = _MeanOfPairs(win_X, group_B)
        loss = units.mean(mean.term(loss_X).unsqueeze(1), "group")
        metrics = {
            "margin": mean.of_group(margin_X.detach(), 0.0).unsqueeze(1),
            "accuracy": mean.of_group(right_X.detach(), 0.5).unsqueeze(1),
        }
        return loss, metrics


def _pairs(advantage_B: Tensor, group_B: Tensor) -> tuple[Tensor, Tensor]:
    """Row numbers of winner and loser, of every pair of a sample with A > 0 and one with A < 0."""
    better = (advantage_B > 0).unsqueeze(1) & (advantage_B < 0).unsqueeze(0)
    together = group_B.unsqueeze(1) == group_B.unsqueeze(0)
    win_X, lose_X = (better & together).nonzero(as_tuple=True)
    return win_X, lose_X


class _MeanOfPairs:
    """Means over the pairs of a group."""

    def __init__(self, win_X: Tensor, group_B: Tensor) -> None:
        self.win_X, self.group_B = win_X, group_B
        num_groups = int(group_B.max()) + 1 if group_B.numel() else 0
        self.count_P = torch.bincount(group_B[win_X], minlength=num_groups)

    def term(self, value_X: Tensor) -> Tensor:
        """Each winner's part of its group's mean, (B,): they add up to the mean."""
        part_X = value_X / self.count_P[self.group_B[self.win_X]]
        return part_X.new_zeros(len(self.group_B)).index_add(0, self.win_X, part_X)

    def of_group(self, value_X: Tensor, without: float) -> Tensor:
        """The mean of each row's group, (B,); `without` where the group has no pair."""
        part_B = self.term(value_X)
        mean_P = part_B.new_zeros(len(self.count_P)).index_add(0, self.group_B, part_B)
        return torch.where(self.count_P > 0, mean_P, without)[self.group_B]
