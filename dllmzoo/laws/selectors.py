"""Laws of selectors of denoising steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.branches import first_sharers
from dllmzoo.laws import inputs, trees
from dllmzoo.laws.case import Case
from dllmzoo.laws.law import (
    LawError,
    Report,
    check,
    law,
    require,
    same,
    untouched_global_generator,
)
from dllmzoo.records import Key, Rollout, Steps, take

Selector = Any
FIELDS = ("start_BK", "stop_BK", "weight_BK")


def check_selector(part: Any, *, cases: int = 20, seed: int = 0) -> Report:
    """Hold a selector (a class or an instance) to every law of selectors; see `law.check`.

    Two class variables claim more than every selector must hold, and are then tested:
    `state_only`, whether a step is chosen does not depend on what happens at it or later;
    `unbiased`, the weights of a step have the mean 1. A property `by_group` says that a row's
    steps depend on the other samples of its prompt, as those of `needs_branches` do.
    """
    return check("selector", part, cases=cases, seed=seed)


def choose(selector: Selector, rollout: Rollout, case: Case, tag: str = "select") -> Steps:
    """The selector's choice; one that ranks by advantage gets random advantages of all steps."""
    return chosen(selector, rollout, case.key(tag))


def chosen(selector: Selector, rollout: Rollout, key: Key) -> Steps:
    """The selector's choice with a key of one's own."""
    if not getattr(selector, "needs_advantage", False):
        return selector(rollout, key)
    rows = [Case(int(i)).normal("advantage", rollout.num_steps) for i in rollout.sample_B]
    return selector(rollout, key, torch.stack(rows))


def num_steps(selector: Selector) -> int | None:
    """K where it is a number of steps that the selector is told."""
    steps = getattr(selector, "steps", None)
    return steps if isinstance(steps, int) else None


def played(selector: Selector, case: Case) -> Rollout:
    """A random rollout with at least as many steps as the selector keeps, or a tree."""
    if getattr(selector, "needs_branches", False):
        return trees.rollout(case)
    complete = case.truth("complete")
    return inputs.rollout(case, min_steps=num_steps(selector) or 1, complete=complete)


def some_rows(selector: Selector, rollout: Rollout, case: Case) -> Tensor:
    """Some rows in another order; whole groups where their samples are looked at together."""
    order = case.order("rows", len(rollout.tokens_BL))
    if getattr(selector, "by_group", False) or getattr(selector, "needs_branches", False):
        groups = int(rollout.group_B.max()) + 1
        kept = case.order("groups", groups)[: case.integer("kept groups", 1, groups)]
        return order[torch.isin(rollout.group_B[order], kept)]
    return order[: case.integer("kept rows", 1, len(order))]


def used_steps(steps: Steps, num_steps: int) -> Tensor:
    """How many entries of positive weight hold each step, int64 (B, T)."""
    return (_holds(steps, num_steps) & (steps.weight_BK > 0).unsqueeze(2)).sum(1)


def step_weights(steps: Steps, num_steps: int) -> Tensor:
    """Weight of each step, summed over the entries that hold it, float64 (B, T)."""
    return (_holds(steps, num_steps) * steps.weight_BK.double().unsqueeze(2)).sum(1)


def _holds(steps: Steps, num_steps: int) -> Tensor:
    step_T = torch.arange(num_steps)
    return (steps.start_BK.unsqueeze(2) <= step_T) & (step_T < steps.stop_BK.unsqueeze(2))


def busy_steps(rollout: Rollout) -> Tensor:
    """Steps that committed something, bool (B, T)."""
    step_T1 = torch.arange(rollout.num_steps).unsqueeze(1)
    return (rollout.reveal_BL.unsqueeze(1) == step_T1).any(2)


@law("selector")
def spans_inside(selector: Selector, case: Case) -> None:
    """Spans lie inside [0, T], weights are finite and >= 0, and all three tables are (B, K)."""
    rollout = played(selector, case)
    steps = choose(selector, rollout, case)
    start_BK, stop_BK, weight_BK = steps.start_BK, steps.stop_BK, steps.weight_BK
    require(
        start_BK.shape == stop_BK.shape == weight_BK.shape and start_BK.ndim == 2,
        f"shapes {[tuple(t.shape) for t in (start_BK, stop_BK, weight_BK)]}",
    )
    require(len(start_BK) == len(rollout.tokens_BL), f"{len(start_BK)} rows")
    require(start_BK.dtype == stop_BK.dtype == torch.int64, f"dtypes {start_BK.dtype}")
    require(weight_BK.is_floating_point(), f"weights are {weight_BK.dtype}")
    T = rollout.num_steps
    inside = (start_BK >= 0) & (start_BK <= stop_BK) & (stop_BK <= T)
    require(inside.all(), f"a span outside [0, {T}]: {start_BK.tolist()} to {stop_BK.tolist()}")
    require(((weight_BK >= 0) & weight_BK.isfinite()).all(), f"weights {weight_BK.tolist()}")


@law("selector")
def empty_spans_weigh_nothing(selector: Selector, case: Case) -> None:
    """An entry has weight above 0 only if its span committed something."""
    rollout = played(selector, case)
    steps = choose(selector, rollout, case)
    filled_BK = (_holds(steps, rollout.num_steps) & busy_steps(rollout).unsqueeze(1)).any(2)
    wrong = ((steps.weight_BK > 0) & ~filled_BK).nonzero().tolist()
    require(not wrong, f"weight above 0 at (row, column) {wrong}, where nothing was committed")


@law("selector")
def something_is_chosen(selector: Selector, case: Case) -> None:
    """A row in which every step committed something has an entry of weight above 0."""
    rollout = played(selector, case)
    steps = choose(selector, rollout, case)
    full_B = busy_steps(rollout).all(1)
    require((steps.weight_BK[full_B] > 0).any(1).all(), f"weights {steps.weight_BK.tolist()}")


@law("selector")
def distinct(selector: Selector, case: Case) -> None:
    """No step is in two entries of positive weight of a row."""
    rollout = played(selector, case)
    count_BT = used_steps(choose(selector, rollout, case), rollout.num_steps)
    require((count_BT <= 1).all(), f"uses of each step: {count_BT.tolist()}")


def _has_steps(selector: Selector) -> str | None:
    return None if num_steps(selector) else "it has no number of steps"


@law("selector", _has_steps)
def first_choice_first(selector: Selector, case: Case) -> None:
    """Column k is the k-th choice: a selector that keeps fewer keeps the first columns."""
    rollout = played(selector, case)
    fewer = replace(selector, steps=case.integer("fewer", 1, selector.steps))
    some, all_ = choose(fewer, rollout, case), choose(selector, rollout, case)
    for name in FIELDS:
        found, expected = getattr(some, name), getattr(all_, name)[:, : fewer.steps]
        if name == "weight_BK":  # 1 / K may be a factor of every weight
            found, expected = (
                w / w.amax(1, keepdim=True).clamp(min=1e-9) for w in (found, expected)
            )
        same(found, expected, f"{name} of {fewer.steps} of {selector.steps} steps", 1e-5)


def _can_keep_all(selector: Selector) -> str | None:
    keeps = getattr(selector, "num_selected", lambda num_steps: 0)
    return None if num_steps(selector) or keeps(7) == 7 else "it never keeps all steps"


@law("selector", _can_keep_all)
def all_when_k_is_t(selector: Selector, case: Case) -> None:
    """With K = T every step that committed something is used once, with weight 1."""
    rollout = played(selector, case)
    T = rollout.num_steps
    whole = replace(selector, steps=T) if num_steps(selector) else selector
    steps = choose(whole, rollout, case)
    same(used_steps(steps, T), busy_steps(rollout).long(), "uses of each step")
    used = steps.weight_BK > 0
    same(steps.weight_BK[used], torch.ones(int(used.sum())), "weights of used entries")


@law("selector")
def batch_invariant(selector: Selector, case: Case) -> None:
    """A row's steps do not depend on the other rows or on the order of rows."""
    rollout = played(selector, case)
    rows = some_rows(selector, rollout, case)
    whole, part = choose(selector, rollout, case), choose(selector, take(rollout, rows), case)
    for name in FIELDS:
        same(getattr(part, name), getattr(whole, name)[rows], f"{name} of rows {rows.tolist()}")


def _ranks_entropy(selector: Selector) -> str | None:
    if getattr(selector, "needs_branches", False):
        return "branches decide, not entropies"
    return None


@law("selector", _ranks_entropy)
def ties_to_the_smaller_step(selector: Selector, case: Case) -> None:
    """A selector that ranks by entropy ranks equal entropies by time, the smaller step first."""
    N = max(2, case.integer("slots", 2, 8), num_steps(selector) or 1)
    B = case.integer("rows", 1, 4)
    reveal_BN = torch.stack([case.order(f"reveal {b}", N) for b in range(B)])
    words_BN = torch.zeros(B, N, dtype=torch.long)

    def start(entropy_BN: Tensor, tag: str = "select") -> Tensor:
        return choose(
            selector, inputs.played(words_BN, reveal_BN, entropy_BN=entropy_BN), case, tag
        ).start_BK

    rising, equal = start(1 + reveal_BN.float()), start(torch.ones(B, N))
    falling = start(1.0 + N - reveal_BN)
    draws = any(not torch.equal(equal, start(torch.ones(B, N), f"other {i}")) for i in range(20))
    if torch.equal(rising, falling) or draws:
        return
    require((equal.diff(dim=1) > 0).all(), f"equal entropies are ranked {equal.tolist()}")


@law("selector")
def keyed_randomness(selector: Selector, case: Case) -> None:
    """The same key gives the same steps, and the global generator is not touched."""
    rollout = played(selector, case)
    with untouched_global_generator():
        first, second = choose(selector, rollout, case), choose(selector, rollout, case)
    for name in FIELDS:
        same(getattr(second, name), getattr(first, name), f"{name} of the same key")


def _knows_cost(selector: Selector) -> str | None:
    return None if hasattr(selector, "num_selected") else "it does not say what it costs"


@law("selector", _knows_cost)
def cost_is_known(selector: Selector, case: Case) -> None:
    """A sample has at most `num_selected(T)` entries of weight above 0, on average over a batch."""
    rollout = played(selector, case)
    steps = choose(selector, rollout, case)
    used, limit = int((steps.weight_BK > 0).sum()), selector.num_selected(rollout.num_steps)
    B = len(steps.weight_BK)
    require(used <= B * limit, f"{used} entries in {B} rows, num_selected says {limit}")


def _claims_state_only(selector: Selector) -> str | None:
    claims = getattr(selector, "state_only", False)
    return None if claims else "it does not claim that its choice depends on the state only"


@law("selector", _claims_state_only)
def states_decide(selector: Selector, case: Case) -> None:
    """Whether a step is chosen does not depend on what happens at that step or later."""
    B, T = case.integer("rows", 1, 4), max(num_steps(selector) or 1, case.integer("steps", 1, 6))
    N = T + case.integer("more slots", 0, 3)
    reveal_BN = torch.stack([torch.arange(N)[case.order(f"reveal {b}", N)] % T for b in range(B)])
    step = case.integer("step", 0, T - 1)

    def rest(tag: str) -> Rollout:
        """A rollout whose steps before `step` are always the same, and no step is empty."""
        order_BN = torch.stack([case.order(f"{tag} {b}", N) for b in range(B)])
        later_BN, moved_BN = reveal_BN >= step, reveal_BN.clone()
        for b in range(B):
            slots = later_BN[b].nonzero()[:, 0]
            moved_BN[b, slots] = reveal_BN[b, slots[order_BN[b, : len(slots)].argsort()]]
        words_BN = case.integers("words", 0, 4, B, N)
        words_BN = torch.where(later_BN, case.integers(f"words {tag}", 0, 4, B, N), words_BN)
        nats_BN = case.uniform("nats", B, N, high=2.0)
        nats_BN = torch.where(later_BN, case.uniform(f"nats {tag}", B, N, high=2.0), nats_BN)
        block_BT = case.uniform("block", B, T, high=2.0)
        block_BT[:, step + 1 :] = case.uniform(f"block {tag}", B, T, high=2.0)[:, step + 1 :]
        return inputs.played(
            words_BN, moved_BN, num_steps=T, entropy_BN=nats_BN, block_entropy_BT=block_BT
        )

    weights = [step_weights(choose(selector, rest(tag), case), T)[:, step] for tag in "ab"]
    same(weights[1], weights[0], f"weight of step {step} of {T} when what follows differs", 1e-6)


def _claims_unbiased(selector: Selector) -> str | None:
    claims = getattr(selector, "unbiased", False)
    return None if claims else "it does not claim that its weights make up for what it leaves out"


@law("selector", _claims_unbiased)
def weights_are_unbiased(selector: Selector, case: Case) -> None:
    """The weights of a step that committed something have the mean 1 over the draws."""
    one = take(played(selector, case), torch.tensor([0]))
    rows = 4096
    many = replace(take(one, torch.zeros(rows, dtype=torch.long)), sample_B=torch.arange(rows))
    even = Even(case.seed, 0, "select")
    weight_BT = step_weights(chosen(selector, many, even), one.num_steps)
    mean_T, most_T = weight_BT.mean(0), weight_BT.amax(0)
    gap_T = torch.where(busy_steps(one)[0], (mean_T - 1).abs(), 0)
    # evenly spread numbers miss a mean by less than the largest weight per row and column
    columns = num_steps(selector) or 1
    bound_T = 0.15 + 2 * columns * most_T / rows
    require((gap_T <= bound_T).all(), f"mean weights of the steps {mean_T.tolist()}")


@dataclass(frozen=True)
class Even(Key):
    """A key whose numbers are spread evenly over the rows, so that few rows give a mean."""

    def uniform(self, sample_B: Tensor, *shape: int) -> Tensor:
        """Every column holds the numbers (i + 1/2) / B, in an order of its own."""
        B = len(sample_B)
        columns = max(1, int(torch.tensor(shape).prod()))
        generator = super().generator()
        order = torch.rand(columns, B, generator=generator).argsort(1)
        return ((order.T + 0.5) / B).reshape(B, *shape)

    def generator(self, sample: int = -1) -> torch.Generator:
        """Refused: a mean over rows needs numbers that are drawn for rows."""
        raise LawError("a selector that claims to be unbiased draws by `key.uniform`")


def _needs_branches(selector: Selector) -> str | None:
    return None if getattr(selector, "needs_branches", False) else "it reads no branches"


@law("selector", _needs_branches)
def shared_steps_count_once(selector: Selector, case: Case) -> None:
    """The weights of a step that samples share add up to 1 over the samples that share it."""
    rollout = played(selector, case)
    weight_BT = step_weights(choose(selector, rollout, case), rollout.num_steps)
    sharer_BT = first_sharers(rollout)
    sum_BT = torch.zeros_like(weight_BT).scatter_add(0, sharer_BT, weight_BT).gather(0, sharer_BT)
    busy_BT = busy_steps(rollout)
    same(sum_BT[busy_BT], torch.ones(int(busy_BT.sum())), "weights of a step over its samples")
