"""What choosing denoising steps costs: the policy gradient left out, against its entropy bound."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from dllmzoo.lab.estimators.bench import Bench
from dllmzoo.lab.estimators.lattice import Lattice, all_orders
from dllmzoo.lab.estimators.logits import largest_logit_gradient
from dllmzoo.lab.estimators.reader import pull_back
from dllmzoo.lab.estimators.results import Selected, Skipped
from dllmzoo.lab.estimators.spec import Spec, changed
from dllmzoo.lab.estimators.trial import (
    CannotMeasure,
    Estimator,
    chosen,
    plans,
    refuse,
    score_gradient,
)
from dllmzoo.records import Key, Rollout, Steps

MOST_TRAJECTORIES = 8192
MOST_SPREAD = 1000
"""Trajectories whose single terms are still told apart."""
REPEATED, MOST_REPEATS = 12288, 64
"""Trajectories over all repeats of a random selector, and most repeats."""
BEST = "best fixed steps"


@dataclass(frozen=True)
class Trajectory:
    """Every trajectory of the random-order sampler, or a sample, with weights.

    Args:
        rollout: a row each.
        weight_B: float64, probability; adds up to 1.
        advantage_B: float64.
        entropy_BT: float64 nats, of the slot that each step commits.
        surprisal_BT: float64 nats, minus its log-prob.
        complete: whether these are all there are.
    """

    rollout: Rollout
    weight_B: Tensor
    advantage_B: Tensor
    entropy_BT: Tensor
    surprisal_BT: Tensor
    complete: bool


@dataclass(frozen=True)
class FixedSteps:
    """A selector of the same steps for every trajectory."""

    kept: tuple[int, ...]

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """In the order given; the key is not read."""
        start_BK = torch.tensor(self.kept).expand(len(rollout.tokens_BL), -1)
        return Steps(start_BK, start_BK + 1, torch.ones(start_BK.shape))


class Selection:
    """Measures one selector after another on the same trajectories."""

    def __init__(self, bench: Bench, likelihood: Any) -> None:
        """Gather trajectories, and the gradient of each step in time."""
        self.bench, self.likelihood = bench, likelihood
        self.world = bench.world
        self.every = trajectories(bench)
        B, T = self.every.entropy_BT.shape
        self.step_BT = torch.arange(T).expand(B, T)
        self.by_step = torch.stack([self.kept(FixedSteps((s,))) for s in range(T)])
        self.whole = self.by_step.sum(0)
        self.norm = float(self.whole.norm())
        reward = self.world.advantage_X.abs().max()
        self.bound = 2 * float(reward) * largest_logit_gradient(self.world)

    def kept(self, selector: Any, repeat: int = 0) -> Tensor:
        """Expected gradient of the terms of the steps that a selector picks."""
        return next(self._gradients(selector, repeat, one=True))

    def best(self) -> list[Selected]:
        """For K = 1 to T, the K steps of least error, by trying all sets."""
        T = len(self.by_step)
        found = []
        for K in range(1, T + 1):
            sets = list(itertools.combinations(range(T), K))
            lengths = [float((self.whole - self.by_step[list(s)].sum(0)).norm()) for s in sets]
            steps = sets[lengths.index(min(lengths))]
            selector = FixedSteps(steps)
            kept = self.by_step[list(steps)].sum(0)
            found.append(
                self._selected(BEST, steps, self.steps(selector), kept, 0.0, self._spread(selector))
            )
        return found

    def of(self, name: str, selector: Any) -> Selected:
        """One selector; random ones are repeated, with other numbers each time.

        Raises:
            CannotMeasure: it reads what the lab's trajectories have not.
        """
        refuse(Estimator("", name, self.likelihood, selector))
        steps = self.steps(selector)
        random = not _alike(steps, self.steps(selector, 1))
        repeats = min(max(6, REPEATED // len(self.step_BT)), MOST_REPEATS) if random else 1
        made = torch.stack([self.kept(selector, repeat) for repeat in range(repeats)])
        chance = math.sqrt(float(made.var(0).sum()) / repeats) if random else 0.0
        return self._selected(name, None, steps, made.mean(0), chance, self._spread(selector))

    def steps(self, selector: Any, repeat: int = 0) -> Steps:
        """The steps that a selector picks."""
        key = self.bench.key(f"selection/{repeat}")
        try:
            found = chosen(selector, self.every.rollout, self.every.advantage_B, key)
        except (ValueError, LookupError) as error:
            raise CannotMeasure(f"it refuses: {error}") from error
        assert found is not None
        return found

    def _selected(
        self, name: str, fixed: tuple[int, ...] | None, steps: Steps, kept: Tensor, chance: float,
        spread: float | None,
    ) -> Selected:  # fmt: skip
        used_BK = steps.weight_BK > 0
        inside = (self.step_BT.unsqueeze(1) >= steps.start_BK.unsqueeze(2)) & (
            self.step_BT.unsqueeze(1) < steps.stop_BK.unsqueeze(2)
        )
        out_BT = ~(inside & used_BK.unsqueeze(2)).any(1)
        plain = bool(((steps.weight_BK == 0) | (steps.weight_BK == 1)).all())
        single = bool((steps.stop_BK - steps.start_BK)[used_BK].le(1).all())
        every = self.every
        sums = [
            float((every.weight_B * (value_BT * out_BT).sum(1)).sum())
            for value_BT in (every.entropy_BT, every.surprisal_BT)
        ]
        bounds = [self.bound * each / self.norm if plain and single else None for each in sums]
        off = float((kept - self.whole).square().sum())
        cosine = float(torch.cosine_similarity(kept, self.whole, dim=0))
        length = float(kept.norm()) / self.norm
        return Selected(
            selector=name,
            steps=fixed,
            kept=float((every.weight_B * used_BK.sum(1)).sum()),
            error=math.sqrt(max(off - chance**2, 0.0)) / self.norm,
            resolution=chance / self.norm,
            bound=bounds[0],
            surprisal_bound=bounds[1],
            cosine=cosine,
            std=spread,
            batch_cosine=None
            if spread is None or length == 0
            else cosine * length / math.hypot(length, spread / math.sqrt(self.bench.group)),
        )

    def _spread(self, selector: Any) -> float | None:
        """Relative spread of the term of one trajectory; None where there are too many."""
        every = self.every
        if not every.complete or len(every.weight_B) > MOST_SPREAD:
            return None
        mean, square = torch.zeros_like(self.whole), 0.0
        for b, grad in enumerate(self._gradients(selector, 0, one=False)):
            mean = mean + grad  # already weighed with the probability
            square += float(grad.square().sum() / every.weight_B[b])
        return math.sqrt(max(square - float(mean.square().sum()), 0.0)) / self.norm

    def _gradients(self, selector: Any, repeat: int, *, one: bool) -> Iterator[Tensor]:
        """Weighted gradients of the chosen terms, of all trajectories together or of each."""
        every, world = self.every, self.world
        estimator = Estimator("", "", self.likelihood, selector)
        key = self.bench.key(f"selection/{repeat}")
        total: Tensor | None = None
        for planned in plans(world, estimator, every.rollout, every.advantage_B, key):
            rows = planned.rows
            grad_BKL = score_gradient(estimator, planned, every.advantage_B[rows])
            grad_BKL = grad_BKL * every.weight_B[rows].view(-1, 1, 1)
            place_B = torch.zeros_like(rows) if one else torch.arange(len(rows))
            count = 1 if one else len(rows)
            for grad in pull_back(
                world.old, planned.found, grad_BKL, place_B, count, world.micro_batch
            ):
                if one:
                    total = grad if total is None else total + grad
                else:
                    yield grad
        if total is not None:
            yield total


def _alike(first: Steps, second: Steps) -> bool:
    pairs = ((first.start_BK, second.start_BK), (first.weight_BK, second.weight_BK))
    return all(torch.equal(one, other) for one, other in pairs)


def trajectories(bench: Bench) -> Trajectory:
    """All trajectories where they are few enough, else those of the bench."""
    world = bench.world
    truth, X, N = world.old_truth, len(world.prob_X), world.slots
    complete = math.factorial(N) * X <= MOST_TRAJECTORIES
    if complete and isinstance(truth, Lattice):
        order_BN = all_orders(N)
        index_B = torch.arange(X).repeat_interleave(len(order_BN))
        path = truth.along(index_B, order_BN.repeat(X, 1))
        weight_B = path.logprob_BN.sum(1).exp()
        rollout = world.rollout(path)
    else:
        path = bench.path
        rollout, index_B = bench.rollout, bench.index_B
        weight_B = torch.ones(len(index_B), dtype=torch.float64)
    by_time_BN = path.reveal_BN.argsort(1)
    return Trajectory(
        rollout, weight_B / weight_B.sum(), world.advantage_X[index_B],
        path.entropy_BN.gather(1, by_time_BN), -path.logprob_BN.gather(1, by_time_BN), complete,
    )  # fmt: skip


def select(
    bench: Bench, likelihood: Any, specs: list[tuple[str, Spec]]
) -> tuple[list[Selected], list[Skipped]]:
    """Every selector at K = 1 to T kept steps, and the best fixed sets."""
    study = Selection(bench, likelihood)
    found, skipped = study.best(), []
    for name, spec in specs:
        try:
            found += [study.of(name, part) for part in dialled(study, spec)]
        except CannotMeasure as reason:
            skipped.append(Skipped(f"selector {name}", str(reason)))
    return sorted(
        found, key=lambda each: (each.selector != BEST, each.selector, each.kept)
    ), skipped


def dialled(study: Selection, spec: Spec) -> list[Any]:
    """The selector at settings that keep 1, 2, ... T steps, or as near as they come.

    Turned is `steps` if it has that option, else its first numeric one, over a range of values.

    Raises:
        CannotMeasure: it reads what the lab's trajectories have not.
    """
    refuse(Estimator("", spec.text, study.likelihood, spec.part))
    T = study.step_BT.shape[1]
    free = [f.name for f in fields(spec.part) if f.name not in spec.fixed]
    numeric = [n for n in free if type(getattr(spec.part, n)) in (int, float)]
    if "steps" in numeric:
        return _made(spec.part, "steps", list(range(1, T + 1)))
    if not numeric:
        return [spec.part]
    name = numeric[0]
    values: list[Any] = list(range(1, T + 1))
    if type(getattr(spec.part, name)) is float:
        entropy = study.every.rollout.block_entropy_BT.flatten()
        grid = torch.linspace(0, 1, 33)
        values = sorted({*grid.tolist(), *entropy.quantile(grid).tolist()})
    parts = _made(spec.part, name, values)
    counts = [_mean_kept(study, part) for part in parts]
    nearest = {
        min(range(len(parts)), key=lambda i, K=K: abs(counts[i] - K)) for K in range(1, T + 1)
    }
    return [parts[i] for i in sorted(nearest, key=lambda i: counts[i])]


def _mean_kept(study: Selection, selector: Any) -> float:
    used_BK = study.steps(selector, 0).weight_BK > 0
    return float((study.every.weight_B * used_BK.sum(1)).sum())


def _made(part: Any, name: str, values: list[Any]) -> list[Any]:
    made = [changed(part, name, value) for value in values]
    return [each for each in made if each is not None]
