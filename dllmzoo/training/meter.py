"""Metrics of one round: sums and counts on each process, reduced over all of them once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from dllmzoo.protocols import Ratio
from dllmzoo.records import ABSTAIN, ERROR, TIMEOUT, Rewards, Rollout, Steps, Units, Views
from dllmzoo.training.reads import Read, of_rollout, of_views

OUTCOMES = {"abstained": ABSTAIN, "errors": ERROR, "timeouts": TIMEOUT}


class Meter:
    """Collects a round's metrics; `row()` is what metrics.jsonl gets.

    Every name is documented in docs/metrics.md. All processes must add the same names.
    """

    def __init__(self, accelerator: Any, micro_batch: int | None = None) -> None:
        """An empty meter; `micro_batch` rows are scored in one forward, None = all."""
        self.accelerator = accelerator
        self.micro_batch = micro_batch
        self.forwards: list[Read] = []
        self._sums: dict[str, float] = {}
        self._counts: dict[str, float] = {}
        self._maxima: dict[str, float] = {}
        self._seconds: dict[str, float] = {}
        self._values: dict[str, list[Tensor]] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Add the wall seconds of the block to `time/NAME`."""
        start = time.perf_counter()
        yield
        self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    def add(self, name: str, total: float, count: float) -> None:
        """A mean: `total` of `count` things seen by this process."""
        self._sums[name] = self._sums.get(name, 0.0) + float(total)
        self._counts[name] = self._counts.get(name, 0.0) + float(count)

    def add_tensor(self, name: str, values: Tensor, keep: Tensor | None = None) -> None:
        """A mean over the entries of a tensor (where `keep`)."""
        kept = values.detach().double() if keep is None else values.detach().double()[keep]
        self.add(name, float(kept.sum()), kept.numel())

    def top(self, name: str, value: float) -> None:
        """A maximum over everything seen by all processes."""
        self._maxima[name] = max(self._maxima.get(name, value), value)

    def spread(self, name: str, values: Tensor) -> None:
        """The quantiles `NAME_q01`, `NAME_q50` and `NAME_q99` of everything seen."""
        self._values.setdefault(name, []).append(values.detach().double().flatten().cpu())

    def total(self, values: Mapping[str, Any]) -> dict[str, float]:
        """The values summed over processes, in float64."""
        device = self.accelerator.device
        vector = torch.tensor(
            [float(torch.as_tensor(value).detach()) for value in values.values()],
            dtype=torch.float64 if device.type != "mps" else torch.float32,
            device=device,
        )
        if self.accelerator.num_processes > 1:
            vector = self.accelerator.reduce(vector, "sum")
        return dict(zip(values, vector.tolist(), strict=True))

    def sampled(self, rollout: Rollout, sampler: Any) -> None:
        """A sampler made the rollout, for the FLOP count."""
        self.forwards += of_rollout(rollout, sampler)

    def scored(
        self, views: Views, rollout: Rollout | None = None, *, times: int = 1,
        backward: bool = False,
    ) -> None:  # fmt: skip
        """The views that score something ran through the model `times` times, for the FLOP count.

        Views of two streams need the `rollout`, whose blocks say what was read of them.
        """
        for read in of_views(views, rollout, self.micro_batch) if times else ():
            rows, logits = read.rows * times, read.logits * times
            self.forwards.append(read._replace(rows=rows, logits=logits, backward=backward))

    def experience(
        self,
        rollout: Rollout,
        steps: Steps | None,
        rewards: Rewards,
        previews: Rewards | None,
        advantage_BA: Tensor,
    ) -> None:
        """Rewards, credit and how the answers were denoised."""
        counted = rewards.counted_X
        self.add_tensor("reward", rewards.total_X, counted)
        self.add_tensor("reward_square", rewards.total_X.double() ** 2, counted)
        for c, name in enumerate(rewards.names):
            self.add_tensor(f"reward/{name}", rewards.part_XC[:, c], rewards.outcome_XC[:, c] == 0)
        self._outcomes("reward", rewards)
        flat, groups = _equal_groups(rewards, rollout.group_B)
        self.add("reward_zero_std_share", flat, groups)
        if previews is not None and steps is not None:
            used_BK = (steps.weight_BK > 0).to(previews.counted_X.device)
            guesses = previews.counted_X.numel() // used_BK.numel()
            used_X = used_BK.flatten().repeat_interleave(guesses)
            self.add_tensor("preview_reward", previews.total_X, previews.counted_X & used_X)
            self._outcomes("preview", previews)
        self.add_tensor("advantage_abs", advantage_BA.abs())
        committed = rollout.reveal_BL >= 0
        self.add_tensor("entropy", rollout.entropy_BL, committed)
        self.add_tensor("confidence", rollout.confidence_BL, committed)
        if steps is not None:
            used = steps.weight_BK > 0
            self.add_tensor("selected_step", steps.start_BK, used)
        self.add_tensor("answer_length", rollout.length_B)
        self.add("tokens_per_forward", float(committed.sum()), max(rollout.forwards, 1))

    def estimator(self, likelihood: Any, views: Views, logprob_BKL: Tensor) -> None:
        """Standard deviation of a sequence's log-prob, from its independent draws."""
        draws = getattr(likelihood, "num_draws", 1)
        if draws < 2 or likelihood.unit not in ("sequence", "view"):
            return
        part_BK = (views.weight_BKL * torch.where(views.score_BKL, logprob_BKL, 0)).sum(2)
        draw_BD = part_BK.double().view(len(part_BK), draws, -1).sum(2)
        each = draws if likelihood.unit == "sequence" else 1  # a sequence's views carry 1 / draws
        self.add_tensor("estimator_std", each * draw_BD.std(1) / math.sqrt(draws))

    def drift(self, before: list[Tensor], after: list[Tensor], *, shards: bool = False) -> None:
        """How far the trained weights moved, as a Euclidean distance; of `shards`, all of them."""
        square = sum(
            float((b - a).double().square().sum()) for a, b in zip(before, after, strict=True)
        )
        if shards:
            square = self.total({"square": square})["square"]
        share = 1 / self.accelerator.num_processes
        self.add("drift", math.sqrt(square) * share, share)

    def _outcomes(self, what: str, rewards: Rewards) -> None:
        """Texts of a component that got no value, counted apart by the reason."""
        for c, name in enumerate(rewards.names):
            for word, outcome in OUTCOMES.items():
                count = float((rewards.outcome_XC[:, c] == outcome).sum())
                self.add(f"{what}_{word}/{name}", count, 1 / self.accelerator.num_processes)

    def ratios(self, metrics: Mapping[str, Ratio], prefix: str) -> None:
        """Metrics of a task as `PREFIX/NAME`."""
        for name, ratio in metrics.items():
            self.add(f"{prefix}/{name}", sum(ratio.hits), sum(ratio.outof))

    def update(
        self, value: Tensor, norm: float, details: Mapping[str, Tensor], units: Units
    ) -> None:
        """One optimiser update: loss, gradient norm before clipping, the loss's own metrics."""
        share = 1 / self.accelerator.num_processes
        self.add("loss", float(value.detach()), share)
        self.add("grad_norm", norm * share, share)
        self.top("grad_norm_max", norm)
        live_BU = units.live_BU
        for name, detail_BU in details.items():
            self.add_tensor(name, detail_BU.expand_as(live_BU), live_BU)
            if name == "log_ratio":
                self.add_tensor("log_ratio_square", detail_BU.expand_as(live_BU) ** 2, live_BU)
            if name == "ratio":
                kept = detail_BU.expand_as(live_BU)[live_BU]
                self.spread(name, kept)
                self.top("ratio_max", float(kept.max()) if kept.numel() else -math.inf)

    def row(self) -> dict[str, float | None]:
        """Every metric, reduced over processes; a mean of nothing is None."""
        sums = self.total({f"sum {name}": value for name, value in self._sums.items()})
        counts = self.total(self._counts)
        row: dict[str, float | None] = {}
        for name, count in counts.items():
            row[name] = sums[f"sum {name}"] / count if count else None
        square = row.pop("reward_square", None)
        if square is not None and row["reward"] is not None:
            row["reward_std"] = max(square - row["reward"] ** 2, 0.0) ** 0.5
        square = row.pop("log_ratio_square", None)
        if square is not None and row["log_ratio"] is not None:
            row["log_ratio_std"] = max(square - row["log_ratio"] ** 2, 0.0) ** 0.5
        row |= self._quantiles()
        for name, value in self._maxima.items():
            each = torch.tensor([value], dtype=torch.float64, device=self.accelerator.device)
            most = float(torch.as_tensor(self.accelerator.gather(each)).max())
            row[name] = None if most == -math.inf else most
        row |= {f"time/{name}": seconds for name, seconds in self._seconds.items()}
        return row

    def _gathered(self, values: Tensor) -> Tensor:
        """The values of all processes, which may hold different numbers of them."""
        world, device = self.accelerator.num_processes, self.accelerator.device
        if world == 1:
            return values
        count = torch.tensor([len(values)], device=device)
        counts = torch.as_tensor(self.accelerator.gather(count)).tolist()
        row = torch.nn.functional.pad(values.to(device), (0, max(counts) - len(values)))
        rows = torch.as_tensor(self.accelerator.gather(row)).view(world, -1)
        return torch.cat([row[:n] for row, n in zip(rows, counts, strict=True)]).cpu()

    def _quantiles(self) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        for name, values in self._values.items():
            every = torch.cat(values)
            order = self._gathered(every).sort().values
            for share in (0.01, 0.5, 0.99):
                at = round(share * (len(order) - 1)) if len(order) else 0
                found[f"{name}_q{round(100 * share):02d}"] = (
                    float(order[at]) if len(order) else None
                )
        return found


def _equal_groups(rewards: Rewards, group_B: Tensor) -> tuple[float, float]:
    """How many groups have counted rewards that are all equal, and how many groups there are."""
    group = group_B.to(rewards.total_X.device).unique(return_inverse=True)[1]
    number = int(group.max()) + 1 if len(group) else 0
    total, counted = rewards.total_X.float(), rewards.counted_X
    low = total.new_full((number,), torch.inf).scatter_reduce(
        0, group, torch.where(counted, total, torch.inf), "amin"
    )
    high = total.new_full((number,), -torch.inf).scatter_reduce(
        0, group, torch.where(counted, total, -torch.inf), "amax"
    )
    return float((low >= high).sum()), float(number)
