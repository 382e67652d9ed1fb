"""Another advantage, for prompts that are neither too easy nor too hard."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.advantages._group import answer_rewards, group_mean, group_sum
from dllmzoo.advantages._processes import every_process
from dllmzoo.errors import UsageError
from dllmzoo.recipe.part import Part
from dllmzoo.records import Key, Rewards, Rollout, Steps
from dllmzoo.zoo import ADVANTAGES

ROUNDING = 1e-6
"""Rewards are float32: four fifths must not miss a limit of 0.8 by their last bit."""


@ADVANTAGES.register("pass_rate_filter")
@dataclass(frozen=True)
class PassRateFilter:
    r"""An inner advantage where a prompt's pass rate lies in [low, high], and 0 elsewhere.

    A prompt that is nearly always or nearly never solved says little about which answers are
    better; its samples get 0. They stay in the round: normalisers still count them (but
    `nonzero`), and so does a KL. The rate is over the samples whose reward counts.

    `keep` and `of` limit the prompts besides: of every `of` consecutive prompts of the round, at
    most `keep` are left. First those whose rewards differ, in a random order that the round and
    the prompt's number decide; then those of equal rewards, higher rewards first and, among
    these, those that took more denoising steps. That does not depend on how prompts are shared
    out over processes.

    Args:
        inner: the advantage of the prompts that are kept.
        low: smallest pass rate that is kept, itself included; reward units.
        high: largest pass rate that is kept, itself included; reward units.
        passed_from: reward from which an answer has passed, the rate being the share of such
            answers; null = the rate is the mean reward, which is the same for rewards 0 and 1.
        keep: how many prompts are left of `of`, >= 1; null = all.
        of: consecutive prompts, >= `keep`.

    References:
        Limits 0.2 and 0.8: Wang et al., 2025, TraceRL (arXiv:2509.06949). Differs from its
        release in: dropped prompts are given advantage 0, not taken out. `keep: 4, of: 8`: RLDF,
        2026 (arXiv:2605.25638), where the 8 are those of one device.
    """

    inner: Annotated[Any, Part("advantage")] = "z_score"
    low: Annotated[float, Field(allow_inf_nan=False)] = 0.2
    high: Annotated[float, Field(allow_inf_nan=False)] = 0.8
    passed_from: Annotated[float, Field(allow_inf_nan=False)] | None = None
    keep: Annotated[int, Field(ge=1)] | None = None
    of: Annotated[int, Field(ge=1)] = 8

    exempt: ClassVar[dict[str, str]] = {
        "shift": "the limits are of the rewards themselves",
        "scale": "the limits are of the rewards themselves",
    }

    def __post_init__(self) -> None:
        """Refuse limits that nothing can meet."""
        if self.low > self.high:
            raise UsageError(f"low {self.low} is above high {self.high}, so no prompt is kept")
        if self.keep is not None and self.keep > self.of:
            raise UsageError(f"keep {self.keep} of {self.of} prompts: use keep <= of")

    @property
    def needs_previews(self) -> bool:
        """As the inner advantage."""
        return self.inner.needs_previews

    @property
    def guesses(self) -> int:
        """As the inner advantage."""
        return getattr(self.inner, "guesses", 1)

    @property
    def per_step(self) -> bool:
        """As the inner advantage."""
        return self.inner.per_step

    @property
    def needs_group(self) -> bool:
        """As the inner advantage."""
        return self.inner.needs_group

    @property
    def needs_every_step(self) -> bool:
        """As the inner advantage."""
        return getattr(self.inner, "needs_every_step", False)

    @property
    def needs_branches(self) -> bool:
        """As the inner advantage."""
        return getattr(self.inner, "needs_branches", False)

    @property
    def compares_groups(self) -> bool:
        """Whether a group's advantages depend on the other groups of the round."""
        return self.keep is not None or getattr(self.inner, "compares_groups", False)

    def __call__(
        self,
        rewards: Rewards,
        previews: Rewards | None,
        steps: Steps | None,
        rollout: Rollout,
        round: int,
    ) -> Tensor:
        """advantage_BA of the inner advantage, 0 for the prompts that are dropped."""
        advantage_BA = self.inner(rewards, previews, steps, rollout, round)
        return torch.where(self._kept(rewards, rollout, round), advantage_BA, 0)

    def _kept(self, rewards: Rewards, rollout: Rollout, round: int) -> Tensor:
        """Bool (B, 1): the rows of prompts that are kept."""
        group_B = rollout.group_B
        reward_B1, counted_B1 = answer_rewards(rewards, rollout)
        passed_B1 = reward_B1 if self.passed_from is None else reward_B1 >= self.passed_from
        rate_B1 = group_mean(passed_B1, counted_B1, group_B, others=False)
        inside_B1 = (rate_B1 >= self.low - ROUNDING) & (rate_B1 <= self.high + ROUNDING)
        if self.keep is None:
            return inside_B1
        inside_B1 = inside_B1 & (group_sum(counted_B1.double(), group_B) > 0)
        gap_B1 = reward_B1 - group_mean(reward_B1, counted_B1, group_B, others=False)
        differ_B1 = group_sum((counted_B1 & (gap_B1 != 0)).double(), group_B) > 0
        ran_B1 = _steps_taken(rollout).double().unsqueeze(1)
        facts = [
            group_B.unsqueeze(1), inside_B1, differ_B1, rate_B1, group_sum(ran_B1, group_B),
        ]  # fmt: skip
        rows = every_process(torch.cat([fact.double() for fact in facts], 1))
        kept = self._first(rows.unique(dim=0).tolist(), round)
        return torch.isin(group_B, torch.tensor(kept, dtype=group_B.dtype).to(group_B)).unsqueeze(1)

    def _first(self, prompts: list[list[float]], round: int) -> list[int]:
        """Numbers of the prompts that are kept; of each, `_kept` says what is known."""
        group_X = torch.tensor([int(prompt[0]) for prompt in prompts])
        chance = Key(0, round, "pass_rate_filter").uniform(group_X).tolist()
        runs: dict[int, list[tuple[tuple[float, ...], int]]] = {}
        for (group, inside, differ, rate, ran), number in zip(prompts, chance, strict=True):
            if inside:
                order = (0.0, number) if differ else (1.0, -rate, -ran)
                runs.setdefault(int(group) // self.of, []).append((order, int(group)))
        return [group for run in runs.values() for _, group in sorted(run)[: self.keep]]


def _steps_taken(rollout: Rollout) -> Tensor:
    """How many denoising steps of each row committed something, int64 (B,)."""
    B, T = len(rollout.tokens_BL), rollout.num_steps
    column_BL = rollout.reveal_BL + 1
    return column_BL.new_zeros(B, T + 1).scatter(1, column_BL, 1)[:, 1:].sum(1)
