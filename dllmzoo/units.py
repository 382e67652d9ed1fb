"""Units of credit in one optimiser step, and the only normaliser of losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dllmzoo.records import Key, Rollout, Views

Normaliser = Literal["token", "sequence", "fixed", "row", "nonzero", "step", "unit", "group"]


@dataclass(frozen=True)
class Units:
    """Facts about the units of ONE optimiser step; its `mean` is the only normaliser.

    Args:
        live_BU: bool, units that count.
        size_BU: float32, tokens each stands for.
        weight_BU: float32, importance weight of each term.
        row_BU: int64, view that scored the unit.
        group_B: int64, prompt of each row.
        length_B: int64, valid answer tokens of each row.
        canvas: N, answer slots, those that were given included.
        totals: `tokens scored sequences nonzero rows units groups` of the whole optimiser step, and
            `parents` where states are shared; reduced over ranks before any split.
        sample_B: int64, index of each row in the round.
        parent_BU: int64, units of equal number start from one shared state; None = no sharing.
        key: of the optimiser step, for losses that depend on the round or draw numbers; None
            outside a run.
    """

    live_BU: Tensor
    size_BU: Tensor
    weight_BU: Tensor
    row_BU: Tensor
    group_B: Tensor
    length_B: Tensor
    canvas: int
    totals: Mapping[str, float]
    sample_B: Tensor | None = None
    parent_BU: Tensor | None = None
    key: Key | None = None

    @classmethod
    def of(
        cls,
        views: Views,
        rollout: Rollout,
        totals: Mapping[str, float] | None = None,
        *,
        advantage_BU: Tensor | None = None,
        key: Key | None = None,
    ) -> Units:
        """The facts of these rows; totals of these rows alone unless given."""
        K = views.score_BKL.shape[1]
        view_BKL = torch.arange(K, device=views.score_BKL.device).view(1, K, 1)
        view_BKL = view_BKL.expand_as(views.score_BKL)
        unit = torch.where(views.score_BKL, views.unit_BKL, 0).flatten(1)
        value = torch.where(views.score_BKL, view_BKL, 0).flatten(1)
        row_BU = torch.zeros_like(views.column_BU).scatter_reduce(1, unit, value, "amax")
        if totals is None:
            totals = cls.totals_of(views, rollout, advantage_BU)
        return cls(
            views.live_BU, views.size_BU, views.weight_BU, row_BU, rollout.group_B,
            rollout.length_B, rollout.canvas, totals, rollout.sample_B, views.parent_BU, key,
        )  # fmt: skip

    @staticmethod
    def totals_of(
        views: Views,
        rollout: Rollout,
        advantage_BU: Tensor | None = None,
        counted_B: Tensor | None = None,
    ) -> dict[str, float]:
        """What the normalisers divide by, summed over these rows; add them up over ranks.

        Rows that do not count (`counted_B` False) are in none of it; their views score nothing.
        """
        live_BU = views.live_BU
        if counted_B is None:
            counted_B = torch.ones_like(live_BU[:, 0])
        moved_B = live_BU.any(1) if advantage_BU is None else (advantage_BU != 0).any(1)
        totals = {
            "tokens": float(rollout.length_B[counted_B].sum()),
            "scored": float((views.size_BU * live_BU).sum()),
            "sequences": float(counted_B.sum()),
            "nonzero": float(moved_B.sum()),
            "rows": float(views.score_BKL.any(2).sum()),
            "units": float(live_BU.sum()),
            "groups": float(rollout.group_B[counted_B].unique().numel()),
        }
        if views.parent_BU is not None:
            totals["parents"] = float(views.parent_BU[live_BU].unique().numel())
        return totals

    def mean(self, term_BU: Tensor, how: Normaliser) -> Tensor:
        """The weighted terms of live units, divided as `how` says; a scalar.

        The sum of this scalar over ranks and micro-batches is the value of the whole step.

        Args:
            term_BU: float32.
            how: `token` divides by the tokens that live units stand for (total nats in, nats per
                token out); `sequence` averages the units of a sequence, then sequences; `fixed`
                divides by sequences * N; `row` averages the units of a view, then views;
                `nonzero` divides by N * sequences with a nonzero advantage; `step` divides a
                term by its unit's size, then averages over units; `unit` averages over units;
                `group` sums inside a prompt's group, then averages over groups.
        """
        total = {name: max(value, 1.0) for name, value in self.totals.items()}
        live_BU = self.live_BU.to(term_BU.dtype)
        if how == "token":
            share_BU = live_BU / total["scored"]
        elif how == "sequence":
            share_BU = live_BU / live_BU.sum(1, keepdim=True).clamp(min=1) / total["sequences"]
        elif how == "fixed":
            share_BU = live_BU / (total["sequences"] * self.canvas)
        elif how == "row":
            share_BU = live_BU / self._units_per_row().clamp(min=1) / total["rows"]
        elif how == "nonzero":
            share_BU = live_BU / (total["nonzero"] * self.canvas)
        elif how == "step":
            share_BU = live_BU / self.size_BU.clamp(min=1) / total["units"]
        elif how == "unit":
            share_BU = live_BU / total["units"]
        elif how == "group":
            share_BU = live_BU / total["groups"]
        else:
            raise ValueError(f"no normaliser named {how!r}; there are {Normaliser.__args__}")
        return (torch.where(self.live_BU, term_BU, 0) * share_BU * self.weight_BU).sum()

    def _units_per_row(self) -> Tensor:
        views = int(self.row_BU.max()) + 1 if self.row_BU.numel() else 1
        live_BU = self.live_BU.to(self.size_BU.dtype)
        count_BK = live_BU.new_zeros(len(live_BU), views).scatter_add(1, self.row_BU, live_BU)
        return count_BK.gather(1, self.row_BU)
