"""A run: folder, evaluation, checkpoints, resume and stopping, around either training loop."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllmzoo.errors import HealthError, Interrupted
from dllmzoo.training.folder import RunFolder, finished, refuse_another_recipe, refuse_folder
from dllmzoo.training.stops import noted

if TYPE_CHECKING:
    from dllmzoo.training.interrupt import StopRequest

log = logging.getLogger("dllmzoo")


def train(
    recipe: Any,
    overrides: Sequence[str] = (),
    *,
    resume: str | Path | None = None,
    overwrite: bool = False,
    smoke: bool = False,
    command: str | None = None,
    policy: Any = None,
    tokenizer: Any = None,
) -> Iterator[dict[str, Any]]:
    """Train as a recipe says; yields the metrics of each round, written to the run folder before.

    The recipe is checked before this returns, weights are loaded at the first `next`. The first
    row is the evaluation of round 0. Closing the generator saves a checkpoint.

    Args:
        recipe: a path, the name of a packaged recipe, a mapping (whose parts may be built
            objects), or a `Recipe`.
        overrides: `key=value` with dotted keys.
        resume: `"auto"` goes on in the folder that `output` names, a path in that folder.
        overwrite: replace the run that is in the folder.
        smoke: apply the recipe's `smoke` block: seconds instead of minutes.
        command: what the user typed, for the manifest.
        policy: a model in memory to train instead of `model.weights`.
        tokenizer: goes with `policy`.

    Returns:
        A generator of metrics rows; keys are documented in docs/metrics.md.

    Raises:
        RecipeError: all problems of the recipe at once.
        UsageError: the run folder holds a run and neither `resume` nor `overwrite` is given.
        RunError: a resumed run was made by another recipe.
        HealthError: a number is not finite or the policy collapsed; the last good checkpoint is
            named.
        Interrupted: a signal asked to stop; the round was finished and saved.
    """
    from dllmzoo.checks import load_checked

    loaded = load_checked(recipe, overrides, smoke=smoke)
    for notice in loaded.notices:
        log.info(notice)
    folder = RunFolder(Path(resume) if resume not in (None, "auto") else Path(loaded.output))
    if os.environ.get("RANK", "0") == "0":  # others may see what the first has just made
        refuse_folder(folder, resume, overwrite, loaded.model.weights)
    run = _Run(loaded, folder, resume is not None, command, policy, tokenizer)
    return noted(run.rounds(), folder)


class _Run:
    """State of one run between rounds."""

    def __init__(
        self, recipe: Any, folder: RunFolder, resuming: bool, command: str | None, policy: Any,
        tokenizer: Any,
    ) -> None:  # fmt: skip
        self.recipe = recipe
        self.folder = folder
        self.resuming = resuming
        self.command = command
        self.given = policy, tokenizer
        self.accelerator: Any = None
        self.saver: Any = None
        self.watch: Any = None
        self.started = 0.0
        self.earlier = 0.0  # minutes of earlier sittings
        self.saved: int | None = None

    def rounds(self) -> Iterator[dict[str, Any]]:
        """The generator that `train` returns."""
        from dllmzoo.training.interrupt import stop_request
        from dllmzoo.training.setup import make_accelerator
        from dllmzoo.training.watch import watched

        train = self.recipe.train
        if self.resuming and self._is_done():
            return
        self.started = time.monotonic()
        self.accelerator = make_accelerator(train, self.folder.path / "trackers")
        with watched(self.accelerator, self._how_to_go_on) as watch, stop_request() as stop:
            self.watch = watch
            try:
                yield from self._sitting(stop)
            finally:
                if train.trackers:
                    self.accelerator.end_training()

    def _sitting(self, stop: StopRequest) -> Iterator[dict[str, Any]]:
        """From the last checkpoint to the end, a stop or a failure."""
        self._open()
        if self.state.round == 0:
            yield self._first()
        with self.saver:
            try:
                yield from self._recorded(stop)
            except GeneratorExit:
                self._save(now=True)
                raise
        self._finish()

    def _recorded(self, stop: StopRequest) -> Iterator[dict[str, Any]]:
        """Each round as a row that is on disk, with its checkpoint where one is due."""
        for round, meter, seen in self._loop():
            self.saver.check()
            row = self._row(round, meter, seen)
            stopping, late = self._flags(stop.signal is not None)
            last = round == self.recipe.train.rounds or late
            row |= self._evaluation(round, last)
            self._keep(row, last or stopping)
            yield row
            self._refuse_collapse(row)
            if stopping and not last:
                raise Interrupted(
                    f"stopped by {stop.signal or 'another process'} after round {round}, "
                    f"saved in {self.folder.last_checkpoint()}; go on with --resume auto"
                )
            if last:
                break

    def _open(self) -> None:
        """Make or reopen the folder, load the networks, go to the last checkpoint."""
        from dllmzoo.training import checkpoint
        from dllmzoo.training.preflight import at_start
        from dllmzoo.training.saving import Saver
        from dllmzoo.training.setup import make_learner
        from dllmzoo.training.trackers import start_trackers
        from dllmzoo.training.watch import may_be_silent

        self.main = self.accelerator.is_main_process
        self.state = checkpoint.State()
        last = self._resumed_from() if self.resuming else None
        with may_be_silent(self.watch):
            self.learner = make_learner(
                self.recipe, self.accelerator, policy=self.given[0], tokenizer=self.given[1]
            )
            if last is not None:
                self.state = checkpoint.load(last, self.learner)
                self.saved, self.earlier = self.state.round, self.state.minutes
                log.info("going on after round %d of %s", self.state.round, last)
            at_start(self.recipe, self.learner)
        train = self.recipe.train
        self.saver = Saver(
            self.folder.path, self.learner, keep_last=train.keep_last, behind=train.async_save,
            watch=self.watch,
        )  # fmt: skip
        if self.main:
            self._write_start(fresh=last is None)
        self.accelerator.wait_for_everyone()
        if self.recipe.train.trackers:
            start_trackers(self.accelerator, self.recipe, self.folder.path)

    def _is_done(self) -> bool:
        """Whether the run in the folder, which must be of this recipe, has nothing left to do."""
        from dllmzoo.recipe import difference, load

        train = self.recipe.train
        if not self.folder.recipe.exists():
            log.info("%s holds no run yet; starting one", self.folder.path)
            return False
        refuse_another_recipe(self.folder, difference(load(self.folder.recipe), self.recipe))
        if finished(self.folder, train.rounds, train.max_minutes):
            log.info("%s is finished; nothing to do", self.folder.path)
            return True
        return False

    def _resumed_from(self) -> Path | None:
        if not self.folder.recipe.exists():
            return None
        last = self.folder.last_checkpoint()
        if last is None:
            log.info("%s holds no checkpoint yet; starting over", self.folder.path)
        return last

    def _write_start(self, *, fresh: bool) -> None:
        from dllmzoo.recipe import dump, resolved
        from dllmzoo.training.files import write_bytes
        from dllmzoo.training.manifest import manifest

        if fresh:
            self.folder.clear()
            self.folder.path.mkdir(parents=True, exist_ok=True)
            about = manifest(self.recipe, self.learner, self.command or " ".join(sys.argv))
            self.folder.note(**about, data=self._data_hash())
        else:
            self.folder.cut_back(self.state.round)
            resumed = [*self.folder.manifest().get("resumed_after", []), self.state.round]
            self.folder.note(resumed_after=resumed, finished=None, stopped=None)
            self.folder.forget_end()
        write_bytes(self.folder.recipe, dump(resolved(self.recipe)).encode())

    def _data_hash(self) -> str:
        """Fingerprint of the held-out examples: equal hashes were scored on equal data."""
        examples = self.recipe.task.test(self.recipe.evaluate.examples)
        text = json.dumps([dict(e) for e in examples], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def _loop(self) -> Iterator[tuple[int, Any, Any]]:
        from dllmzoo.training import loop, setup, sft

        rounds = range(self.state.round + 1, self.recipe.train.rounds + 1)
        budget, seed = setup.budget_of(self.recipe), self.recipe.seed
        try:
            if self.recipe.stage == "sft":
                data = setup.demonstrations_of(self.recipe)
                yield from sft.train(data, budget, self.learner, seed=seed, rounds=rounds)
            else:
                method = setup.method_of(self.recipe)
                yield from loop.train(method, budget, self.learner, seed=seed, rounds=rounds)
        except HealthError as error:
            raise HealthError(f"{error}; {self._last_good()}") from None

    def _first(self) -> dict[str, Any]:
        """Row 0: the policy before the first update."""
        row = {"round": 0, "update": 0, **self._evaluation(0, True)}
        if self.main:
            self.folder.append(row)
        return row

    def _row(self, round: int, meter: Any, seen: Any) -> dict[str, Any]:
        from dllmzoo.training.cost import flops_of, memory_peak

        rate = self.learner.scheduler.get_last_lr()[0]
        row = {"round": round, "update": self.learner.scheduler.last_epoch, "lr": rate}
        row |= meter.row()
        policy = self.accelerator.unwrap_model(self.learner.policy)
        flops = flops_of(policy.config, self.recipe.model, meter.forwards)
        row["flops"] = meter.total({"flops": flops})["flops"]
        seconds = sum(value for name, value in row.items() if name.startswith("time/"))
        row["flops_per_second"] = row["flops"] / seconds if seconds else None
        row["time/elapsed"] = self._minutes() * 60
        row["memory_peak"] = memory_peak(self.accelerator.device)
        if self.recipe.train.log_rollouts and round % self.recipe.train.log_rollouts == 0:
            self._log_rollouts(round, seen)
        return row

    def _log_rollouts(self, round: int, seen: Any) -> None:
        from dllmzoo.training.rollouts import lines

        if seen is None:
            return
        mine = lines(seen, self.learner.codec)
        if self.accelerator.num_processes > 1:
            from accelerate.utils import gather_object

            mine = sorted(gather_object(mine), key=lambda line: line["sample"])
        if self.main:
            self.folder.write_rollouts(round, mine)

    def _evaluation(self, round: int, edge: bool) -> dict[str, Any]:
        """Evaluation metrics of this round; at the edges of the run with all step counts."""
        from dllmzoo.training.evaluate import evaluate, evaluator, greedy
        from dllmzoo.training.kept_answers import keep_answers
        from dllmzoo.training.sampling import together

        options = self.recipe.evaluate
        if not (edge or (options.every and round % options.every == 0)):
            return {}
        start = time.perf_counter()
        task, row = self.recipe.task, {}
        examples = task.test(options.examples)
        policy = self.accelerator.unwrap_model(self.learner.policy)
        sampler = evaluator(self.recipe)
        for steps in dict.fromkeys((options.steps, *(options.also_steps if edge else ()))):
            result = evaluate(
                policy, self.learner.codec, task, together(greedy(sampler, steps)),
                examples=examples, batch=options.batch, accelerator=self.accelerator,
            )  # fmt: skip
            prefix = "eval" if steps == options.steps else f"eval/steps{steps}"
            row |= {f"{prefix}/{name}": value for name, value in result.metrics.items()}
            if edge and self.main:
                when = "start" if round == 0 else "end"
                self.folder.note_solved(when, steps, result.solved)
                if steps == options.steps:
                    keep_answers(self.folder.path, when, task, result)
        row["time/evaluate"] = time.perf_counter() - start
        self._judge(round, row[f"eval/{task.primary}"])
        return row

    def _judge(self, round: int, value: float | None) -> None:
        """Keep count of the best and of collapsed evaluations."""
        if value is None:
            return
        state, floor = self.state, self.recipe.evaluate.floor
        if round == 0:
            self.state = replace(state, first_value=value)
            return
        low = floor is not None and value < floor * (state.first_value or 0.0)
        self.state = replace(state, low_evaluations=state.low_evaluations + 1 if low else 0)
        if not low and (state.best is None or value > state.best["value"]):
            self.state = replace(self.state, best={"round": round, "value": value})

    @property
    def _collapsed(self) -> bool:
        return self.state.low_evaluations >= 3

    def _refuse_collapse(self, row: dict[str, Any]) -> None:
        if self._collapsed:
            primary, floor = self.recipe.task.primary, self.recipe.evaluate.floor
            raise HealthError(
                f"the policy collapsed: {primary} was below {floor} of its start "
                f"({self.state.first_value:.3f}) three times in a row, now "
                f"{row[f'eval/{primary}']:.3f} at round {row['round']}; {self._last_good()}"
            )

    def _keep(self, row: dict[str, Any], must_save: bool) -> None:
        """Write the round's row; save if it is due, asked for, or the best so far."""
        round, every = row["round"], self.recipe.train.save_every
        self.state = replace(self.state, round=round)
        if self.main:
            self.folder.append(row)
        if self.recipe.train.trackers:
            numbers = {name: value for name, value in row.items() if value is not None}
            self.accelerator.log(numbers, step=round)
        best = self.state.best is not None and self.state.best["round"] == round
        if must_save or best or (every is not None and round % every == 0):
            self._save(now=must_save)

    def _save(self, *, now: bool) -> None:
        from dllmzoo.training.health import refuse_broken_weights

        if now:
            self.saver.wait()
        if self.saved == self.state.round or self._collapsed:
            return
        self.saver.wait()
        refuse_broken_weights(self.learner, self.state.round, self._last_good())
        self.state = replace(self.state, minutes=self._minutes())
        self.saver.save(self.state, now=now)
        self.saved = self.state.round

    def _finish(self) -> None:
        from dllmzoo.training.export import save_final
        from dllmzoo.training.watch import may_be_silent

        with may_be_silent(self.watch):
            save_final(self.folder.final, self.recipe.model, self.learner)
        if self.main:
            self.folder.note(finished={"round": self.state.round, "minutes": self._minutes()})
        self.accelerator.wait_for_everyone()

    def _minutes(self) -> float:
        """Wall minutes of this run, earlier sittings included."""
        return self.earlier + (time.monotonic() - self.started) / 60

    def _flags(self, asked: bool) -> tuple[bool, bool]:
        """Whether any process was asked to stop, and whether the time is up; equal everywhere."""
        limit = self.recipe.train.max_minutes
        late = limit is not None and self._minutes() >= limit
        if self.accelerator.num_processes == 1:
            return asked, late
        import torch

        both = torch.tensor([float(asked), float(late)], device=self.accelerator.device)
        total = self.accelerator.reduce(both, "sum")
        return bool(total[0] > 0), bool(total[1] > 0)

    def _how_to_go_on(self) -> str:
        """What is left when a process of the run is gone."""
        last = self.folder.last_checkpoint()
        kept = "nothing was saved yet" if last is None else f"what is saved is {last}"
        return f"{kept}; start the run again with --resume auto, on as many processes as you like"

    def _last_good(self) -> str:
        """The newest checkpoint that followed no low evaluation."""
        from dllmzoo.training import checkpoint

        self.saver.settle()
        found = checkpoint.checkpoints(self.folder.path)
        good = [path for path in found if checkpoint.read_state(path).low_evaluations == 0]
        if not good:
            return "no good checkpoint was saved (set `train.save_every`)"
        return f"the last good checkpoint is {good[-1]}"
