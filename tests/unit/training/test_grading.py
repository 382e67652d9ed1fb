"""Checks beside the model: what overlaps, that no number changes, and how they end."""

import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch
from accelerate import Accelerator

from dllmzoo.errors import TaskError
from dllmzoo.records import Rewards
from dllmzoo.tasks._rewards import score
from dllmzoo.training.background import Background
from dllmzoo.training.grading import Grader, Verdicts
from dllmzoo.training.loop import collect, train
from dllmzoo.training.meter import Meter
from tests.unit.training.small import Digits, Ranks, budget, digit_sum, flat, learner, method

SAMPLED = 16
"""Answers of a round; each has two guesses."""


@dataclass(frozen=True)
class Beside(Digits):
    """Digits that may be judged in another thread."""

    overlaps: ClassVar[bool] = True


@dataclass(frozen=True)
class Watched(Beside):
    """Tells an event's worth before each judgement: `before(texts)`."""

    before: Any = field(default=None)

    def reward(self, texts: Any, examples: Any) -> Rewards:
        self.before(texts)
        return super().reward(texts, examples)


class Telling:
    """A sampler or a network that calls `told(number)` before each of its calls."""

    def __init__(self, part: Any, told: Any) -> None:
        self._part, self._told, self._calls = part, told, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        self._calls += 1
        self._told(self._calls)
        return self._part(*args, **options)


def one_round(parts, made=None, **changes):
    made = made or learner()
    meter = Meter(made.accelerator)
    return collect(parts, budget(**changes), made, meter, 3, 1), meter.row()


def numbers(row):
    return {name: value for name, value in row.items() if not name.startswith("time/")}


def test_answers_of_a_batch_are_judged_while_the_next_one_is_sampled():
    sampling = [threading.Event() for _ in range(5)]
    judged = []

    def before(texts):
        judged.append(len(texts))
        if len(judged) < 4:  # of four batches; the loop would wait here for ever without a thread
            assert sampling[len(judged) + 1].wait(30), "the next batch is being sampled"

    parts = method(task=Watched(before=before))
    sampler = Telling(parts.sampler, lambda number: sampling[number].set())
    parts = method(task=parts.task, sampler=sampler, advantage="group_relative")
    one_round(parts, rollout_batch=4)
    assert judged == [4, 4, 4, 4]


def test_guesses_are_judged_while_the_reference_scores():
    scoring = threading.Event()

    def before(texts):
        assert len(texts) == SAMPLED or scoring.wait(30)

    made = learner()
    reference = made.reference
    assert reference is not None
    reference.register_forward_pre_hook(lambda *_: scoring.set())
    loss = ("clipped_surrogate", {"kl": "k3", "kl_coef": 0.1})
    seen, _ = one_round(method(task=Watched(before=before), loss=loss), made)
    assert seen.previews is not None and len(seen.previews.total_X) == 2 * SAMPLED


def test_a_round_scores_before_the_last_reward_is_known():
    scoring = threading.Event()
    made = learner()

    def before(texts):
        assert scoring.wait(30)

    made.policy.register_forward_pre_hook(lambda module, _: module.training or scores())

    def scores():
        if sampled.is_set():
            scoring.set()

    sampled = threading.Event()
    parts = method(task=Watched(before=before), advantage="group_relative")
    sampler = parts.sampler

    class Last(Telling):
        def __call__(self, *args: Any, **options: Any) -> Any:
            made = super().__call__(*args, **options)
            sampled.set()
            return made

    parts = method(task=parts.task, sampler=Last(sampler, id), advantage="group_relative")
    seen, _ = one_round(parts, made)
    assert len(seen.rewards.total_X) == SAMPLED


PARTS = [
    {},
    {"advantage": ("stepwise_one_shot", {"guesses": 2})},
    {"likelihood": "mean_field", "selector": None, "advantage": "group_relative"},
    {
        "sampler": ("running_confidence", {"answer_length": 6, "block_length": 6, "steps": 3}),
        "selector": ("top_advantage", {"steps": 2}), "likelihood": "drafts",
        "advantage": "preview_gain",
    },
]  # fmt: skip


@pytest.mark.parametrize("parts", PARTS, ids=["previews", "guesses", "sequences", "drafts"])
@pytest.mark.parametrize("batch", [3, 16])
@pytest.mark.parametrize("abstain", ["none", "odd"])
def test_rewards_metrics_and_weights_are_those_of_judging_in_turn(parts, batch, abstain):
    found = []
    for task in (Digits(abstain=abstain), Beside(abstain=abstain)):
        made = learner(lr=0.05)
        rows = []
        for _, meter, seen in train(
            method(task=task, **parts), budget(rollout_batch=batch), made, seed=3, rounds=range(2)
        ):
            rows.append((numbers(meter.row()), seen.rewards))
        found.append((rows, flat(made.policy)))
    (before, weights), (after, again) = found
    assert torch.equal(weights, again)
    for (row, rewards), (other, judged) in zip(before, after, strict=True):
        assert row == other
        assert rewards.names == judged.names
        for name in ("total_X", "part_XC", "counted_X", "outcome_XC"):
            assert torch.equal(getattr(rewards, name), getattr(judged, name))


@pytest.mark.parametrize("world", [1, 2, 4])
def test_every_number_of_processes_trains_as_one_that_judges_in_turn(world):
    def trained(task, world):
        def work(accelerator):
            made = learner(accelerator=accelerator, lr=0.05)
            list(train(method(task=task), budget(rollout_batch=3), made, seed=3, rounds=range(2)))
            return flat(made.policy)

        return Ranks(world).run(work)[0]

    assert torch.equal(trained(Beside(), world), trained(Digits(), world))


def test_the_time_that_the_loop_waited_is_told():
    _, row = one_round(method(task=Beside()))
    assert row["time/reward_wait"] >= 0 and row["time/reward"] >= 0
    _, row = one_round(method())
    assert "time/reward_wait" not in row and row["time/reward"] > 0


@dataclass(frozen=True)
class Here(Watched):
    """A task that does not say that it may be judged elsewhere."""

    overlaps: ClassVar[bool] = False


def test_a_task_that_does_not_overlap_is_called_once_and_in_the_thread_of_the_loop():
    calls = []
    task = Here(before=lambda texts: calls.append((len(texts), threading.current_thread())))
    one_round(method(task=task), rollout_batch=4)
    assert calls == [(16, threading.main_thread()), (32, threading.main_thread())]


def test_the_thread_computes_no_gradients_and_ends_with_the_round():
    grads = []
    task = Watched(before=lambda _: grads.append(torch.is_grad_enabled()))
    one_round(method(task=task), rollout_batch=4)
    assert grads == [False] * 5
    assert not [each for each in threading.enumerate() if each.name == "rewards"]


@dataclass(frozen=True)
class Failing(Digits):
    """Fails on texts of one digit sum; `overlaps` as asked."""

    overlaps: bool = False
    bad: int = -1

    def reward(self, texts: Any, examples: Any) -> Rewards:
        def function(texts, _):
            if any(digit_sum(text) == self.bad for text in texts):
                raise ValueError("cannot read it")
            return [1.0] * len(texts)

        return score({"digits": function}, {"digits": 1.0}, texts, examples)


def test_an_error_tells_of_the_same_text_as_when_all_are_judged_together():
    seen, made = one_round(method())[0], learner()
    texts = made.codec.texts(seen.rollout.tokens_BL[:, -6:])
    sums = [digit_sum(text) for text in texts]
    row = max(sums.index(each) for each in sums)  # the first of its kind, behind the first batch
    assert row >= 3
    said = []
    for overlaps in (False, True):
        with pytest.raises(TaskError, match=f"fails on text {row} ") as error:
            one_round(method(task=Failing(overlaps=overlaps, bad=sums[row])), rollout_batch=3)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_an_error_that_does_not_come_again_is_not_lost():
    def before(texts):
        if threading.current_thread() is not threading.main_thread():
            raise ConnectionError("the judge is away")

    with pytest.raises(ConnectionError, match="the judge is away"):
        one_round(method(task=Watched(before=before)), rollout_batch=4)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupt_does_not_wait_for_what_is_being_judged(error):
    judging = threading.Event()

    def before(texts):
        judging.set()
        while True:
            threading.Event().wait(0.001)

    def told(number):
        if number == 2:
            assert judging.wait(30)
            raise error("now")

    parts = method(task=Watched(before=before))
    parts = method(task=parts.task, sampler=Telling(parts.sampler, told))
    with pytest.raises(error, match="now"):
        one_round(parts, rollout_batch=4)
    assert not [each for each in threading.enumerate() if each.name == "rewards"]


def test_guesses_come_in_the_order_of_rows_then_states():
    seen, _ = one_round(method())
    made = learner()
    with Grader(Beside(), made, Meter(made.accelerator)) as grader:
        verdicts = grader.guesses(seen.rollout, seen.guess_BKL)
        assert verdicts.metrics == {}
        for b in range(SAMPLED):
            for k in range(2):
                text = made.codec.texts(seen.guess_BKL[b, k : k + 1, -6:])[0]
                found = verdicts.rewards.total_X[2 * b + k].item()
                assert found == pytest.approx(digit_sum(text) / 24)


def test_nothing_is_judged_twice_at_once_after_an_error():
    now, most, lock = 0, 0, threading.Lock()

    def judge(texts, examples):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.05)
        with lock:
            now -= 1
        if "bad" in texts:
            raise ValueError("bad")

    verdicts = Verdicts(judge, Meter(Accelerator(cpu=True), 4), Background("rewards"))
    for text in ("bad", "good", "good"):
        verdicts.add([text], [None])
    with pytest.raises(ValueError, match="bad"):
        _ = verdicts.rewards
    assert most == 1
