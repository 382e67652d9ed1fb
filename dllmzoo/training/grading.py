"""Rewards of a round: answers are judged while others are sampled, guesses during scoring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from dllmzoo.protocols import Ratio, Task
from dllmzoo.records import Example, Rewards, Rollout
from dllmzoo.training.background import Background
from dllmzoo.training.meter import Meter
from dllmzoo.training.method import Learner
from dllmzoo.training.sampling import answers


@dataclass(frozen=True)
class Judged:
    """What a task says of texts.

    Args:
        rewards: of X texts.
        metrics: of the same texts; empty for guesses.
    """

    rewards: Rewards
    metrics: Mapping[str, Ratio] = field(default_factory=dict)


class Grader:
    """Judges the texts of one round; a context, so that a failure leaves no check running.

    A task that `overlaps` is called in a background thread, one call at a time, while the model
    samples and scores. Any other is called in the thread that asks, once with all texts.

    Args:
        task: whose rewards and metrics.
        learner: its codec makes texts of tokens.
        meter: is told how long the loop judged (`reward`) or waited (`reward_wait`).
    """

    def __init__(self, task: Task, learner: Learner, meter: Meter) -> None:
        """Nothing is judged yet."""
        self.task, self.codec, self.meter = task, learner.codec, meter
        self._thread: Background | None = None
        if getattr(task, "overlaps", False):
            self._thread = Background("rewards", partial(_as_here, learner.accelerator.device))
        self.finals = Verdicts(self._of_answers, meter, self._thread)

    def __enter__(self) -> Grader:
        """Itself."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """End the thread; after an error or an interrupt at once."""
        if self._thread is not None:
            self._thread.finish() if kind is None else self._thread.abandon()

    def answers(self, rollout: Rollout) -> None:
        """Judge the answers of a batch; they join those that came before."""
        texts = self.codec.texts(answers(rollout.tokens_BL, rollout))
        self.finals.add(texts, rollout.examples)

    def guesses(self, rollout: Rollout, guess_BKL: Tensor) -> Verdicts:
        """Judge guessed answers, a flat list ordered (b k)."""
        guessed = rearrange(guess_BKL, "b k l -> (b k) l")
        again = [example for example in rollout.examples for _ in range(guess_BKL.shape[1])]
        verdicts = Verdicts(self._of_guesses, self.meter, self._thread)
        verdicts.add(self.codec.texts(guessed[:, -rollout.canvas :]), again)
        return verdicts

    def _of_answers(self, texts: Sequence[str], examples: Sequence[Example]) -> Judged:
        rewards = self.task.reward(texts, examples)
        return Judged(rewards, self.task.metrics(texts, examples))

    def _of_guesses(self, texts: Sequence[str], examples: Sequence[Example]) -> Judged:
        return Judged(self.task.reward(texts, examples))


class Verdicts:
    """What a task says of texts that come in parts; to ask for it is to wait for it.

    Args:
        judge: of texts and their examples.
        meter: for the time that the loop spends here.
        thread: where parts are judged as they come; None judges all of them when asked.
    """

    def __init__(
        self, judge: Callable[[Sequence[str], Sequence[Example]], Judged], meter: Meter,
        thread: Background | None,
    ) -> None:  # fmt: skip
        """No texts yet."""
        self._judge, self._meter, self._thread = judge, meter, thread
        self._texts: list[str] = []
        self._examples: list[Example] = []
        self._parts: list[Future[Judged]] = []
        self._known: Judged | None = None

    def add(self, texts: Sequence[str], examples: Sequence[Example]) -> None:
        """More texts."""
        self._texts += texts
        self._examples += examples
        if self._thread is not None:
            work = partial(self._judge, list(texts), list(examples))
            self._parts.append(self._thread.call(work))

    @property
    def rewards(self) -> Rewards:
        """Of all texts, in the order in which they came."""
        return self._all.rewards

    @property
    def metrics(self) -> Mapping[str, Ratio]:
        """Of all texts."""
        return self._all.metrics

    @property
    def _all(self) -> Judged:
        if self._known is None:
            if self._thread is None:
                with self._meter.time("reward"):
                    self._known = self._judge(self._texts, self._examples)
            else:
                with self._meter.time("reward_wait"):
                    parts = self._awaited()
                with self._meter.time("reward"):
                    self._known = joined(parts)
        return self._known

    def _awaited(self) -> list[Judged]:
        """The parts; after an error all are judged here, so that it tells of the whole round."""
        try:
            return [part.result() for part in self._parts]
        except Exception:
            assert self._thread is not None
            self._thread.drop()
            wait(part for part in self._parts if not part.cancelled())
            self._judge(self._texts, self._examples)
            raise


def joined(parts: Sequence[Judged]) -> Judged:
    """The verdicts on several lists of texts as one on all of them."""
    rewards = [part.rewards for part in parts]

    def all_of(name: str) -> Tensor:
        return torch.cat([getattr(each, name) for each in rewards])

    together = Rewards(
        all_of("total_X"), all_of("part_XC"), rewards[0].names, all_of("counted_X"),
        all_of("outcome_XC"),
    )  # fmt: skip
    metrics = {
        name: Ratio(
            [hit for part in parts for hit in part.metrics[name].hits],
            [one for part in parts for one in part.metrics[name].outof],
        )
        for name in parts[0].metrics
    }
    return Judged(together, metrics)


@contextmanager
def _as_here(device: Any) -> Iterator[None]:
    """What the loop has set for its own thread: no gradients, and the device of this process."""
    with torch.no_grad(), torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        yield
