"""`dllmzoo eval`: answers to held-out examples, every answer and setting written down."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dllmzoo.cli import _answer_file as files
from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _eval_report as reports
from dllmzoo.cli import _output as out
from dllmzoo.cli import _policies as policies
from dllmzoo.cli import _protocol as protocol
from dllmzoo.cli import _recipes as recipes
from dllmzoo.cli._app import app
from dllmzoo.errors import Interrupted, TaskError, UsageError

if TYPE_CHECKING:
    from dllmzoo.records import Example


@app.command("eval")
def evaluate_model(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|RUN",
            autocompletion=complete.policies,
            help="A run folder, a model folder, an adapter, a card or a hub id.",
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE|KEY=VALUE",
            autocompletion=complete.recipes,
            help="The recipe whose task and sampler are used (default: the run's), and changes.",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Another task than the recipe's.", show_default=False)
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(min=1, help="Held-out examples. Default: the recipe's.", show_default=False),
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(help="Answer lengths, 128,256,512: one file of each.", show_default=False),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, help="Answers to each example: their mean, and pass@k.")
    ] = 1,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0, show_default=False,
            help="Of the answers. Default: 0; with --samples that of the training sampler.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="A published protocol, d1; what you change wins.", show_default=False),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Denoising steps. Default: the recipe's.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random choices.")] = 0,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Answers at a time.", show_default=False)
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32 or bfloat16.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            show_default=False,
            help="The JSON-lines file. Default: a new one in `evaluations/` of the run or here.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with --output, or with the last file.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --output.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:  # fmt: skip
    """Answer held-out examples, greedily or several times each, and write one line an answer."""
    if resume and overwrite:
        raise UsageError("--resume goes on and --overwrite starts over; leave one of them out")
    named, changes = recipes.split_words(words or ())
    if len(named) > 1:
        raise UsageError(f"one recipe at a time, not {' and '.join(named)}")
    source = policies.source_of(model)
    wanted = protocol.Wanted(
        preset, protocol.parse_lengths(lengths), samples, temperature, steps, seed
    )
    plans = protocol.plans(source, named[0] if named else None, changes, task, wanted)
    found = _evaluated(
        source, plans, wanted, output=output, examples=examples, batch=batch, dtype=dtype,
        resume=resume, overwrite=overwrite,
    )  # fmt: skip
    if not out.is_main_process():
        return
    if as_json:
        shown = [{**settings, "file": str(file)} for settings, file in found]
        out.say_json(shown if wanted.lengths else shown[0])
        return
    if wanted.lengths:
        reports.report_lengths(found)
    else:
        reports.report(*found[0])
    reports.warn_of_other_settings(source, plans[0])
    reports.warn_of_device(found[0][0])


def _evaluated(
    source: policies.Source, plans: list[protocol.Plan], wanted: protocol.Wanted, *,
    output: Path | None, examples: int | None, batch: int | None, dtype: str | None,
    resume: bool, overwrite: bool,
) -> list[tuple[dict[str, Any], Path]]:  # fmt: skip
    """Settings, results and file of every plan; those of the main process only."""
    from dllmzoo.recipe.plain import name_of, plain_part

    recipe = plans[0].recipe
    held_out = _held_out(recipe.task, examples or recipe.evaluate.examples)
    folder = (source.run or Path(".")) / "evaluations"
    base = output or files.new_file(folder, name_of(recipe.task), resume=resume)
    paths = [
        files.of_length(base, plan.sampler.answer_length) if wanted.lengths else base
        for plan in plans
    ]
    common = {
        "format": files.FORMAT, "model": source.spec, "weights": source.weights,
        "preset": wanted.preset, "examples": len(held_out), "samples": wanted.samples,
        "seed": wanted.seed, "dtype": dtype or recipe.model.dtype, "data": _hash(held_out),
    }  # fmt: skip
    settings = [
        common | {"task": plain_part(plan.recipe.task), "sampler": plain_part(plan.sampler)}
        for plan in plans
    ]
    if out.is_main_process():
        for path, each in zip(paths, settings, strict=True):
            _refuse(path, each, resume=resume, overwrite=overwrite)
    policy, codec = policies.load_policy(source, common["dtype"])
    for plan in plans:
        _refuse_misfits(plan, policy, codec, held_out)
    machine = _machine() | {"policy": policies.fingerprint(policy)}
    accelerator = None
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        from dllmzoo.training.processes import join_processes

        accelerator = join_processes()
    size = batch or recipe.evaluate.batch
    return [
        (
            _one(plan, path, each | machine, policy, codec, held_out, size, accelerator, resume),
            path,
        )
        for plan, path, each in zip(plans, paths, settings, strict=True)
    ]


def _held_out(task: Any, number: int) -> list[Example]:
    """The examples that are asked.

    Raises:
        UsageError: there are none, or their data cannot be read.
    """
    try:
        found = task.test(number)
    except TaskError as error:
        raise UsageError(str(error)) from error
    if not found:
        raise UsageError("the task has no held-out examples")
    return found


def _refuse_misfits(plan: protocol.Plan, policy: Any, codec: Any, held_out: list[Example]) -> None:
    """What the network cannot be asked, before a file is begun or replaced.

    Raises:
        UsageError: a prompt leaves no room for the answer, or steps would do nothing.
    """
    from dllmzoo.training.answers import refuse_idle_steps

    refuse_idle_steps(plan.sampler, policy)
    try:
        codec.prompts(plan.recipe.task, held_out, 1, answer_length=plan.sampler.answer_length)
    except TaskError as error:
        raise UsageError(str(error)) from error


def _one(
    plan: protocol.Plan, path: Path, settings: dict[str, Any], policy: Any, codec: Any,
    held_out: list[Example], batch: int, accelerator: Any, resume: bool,
) -> dict[str, Any]:  # fmt: skip
    """All answers of one plan, written as they come, from where an earlier sitting ended."""
    from dllmzoo.training.answers import answers

    task, samples = plan.recipe.task, settings["samples"]
    line = _line(task, held_out)
    file = None
    if out.is_main_process():
        if resume and path.exists():
            reports.warn_of_begun_elsewhere(files.known_settings(path), settings)
        file = files.begun(path, settings, resume=resume)
    start = _from_main(len(file.lines) if file else 0, accelerator)
    try:
        for part, forwards in answers(
            policy, codec, task, plan.sampler,
            lambda texts, asked: reports.verdicts(task, texts, asked),
            examples=held_out, batch=batch, samples=samples, seed=settings["seed"], start=start,
            accelerator=accelerator,
        ):  # fmt: skip
            if file is not None:
                file.append([line(each) for each in part], forwards)
                _progress(len(file.lines), len(held_out) * samples)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; go on with --resume --output {path}") from None
    if file is None:
        return {}
    forwards = {"forwards": file.forwards, "forwards_per_answer": file.forwards / len(file.lines)}
    return file.finish(reports.results(file.lines, plan, samples) | forwards)


def _line(task: Any, held_out: list[Example]) -> Callable[[Any], dict[str, Any]]:
    """Makes the line of an answer; examples whose ids are not theirs alone are counted instead."""
    ids = [example.get("id", x) for x, example in enumerate(held_out)]
    if len(set(map(str, ids))) < len(ids):
        ids = list(range(len(ids)))

    def made(each: Any) -> dict[str, Any]:
        example = held_out[each.item]
        return {
            "id": ids[each.item],
            "sample": each.sample,
            "prompt": task.prompt(example),
            "text": each.text,
            **each.verdict,
            "example": dict(example),
        }

    return made


def _refuse(path: Path, settings: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
    """What can be refused before a model is loaded.

    Raises:
        UsageError: the file is there and neither flag says what to do, or was made otherwise.
    """
    if not path.exists() or overwrite:
        return
    if not resume:
        raise UsageError(
            f"{path} is there already; go on with it with --resume, or replace it with --overwrite"
        )
    files.refuse_other(path, settings)


def _from_main(number: int, accelerator: Any) -> int:
    """The main process's number, on all of them."""
    if accelerator is None:
        return number
    from accelerate.utils import broadcast_object_list

    return broadcast_object_list([number])[0]


def _hash(examples: list[Example]) -> str:
    """Equal hashes were scored on equal data."""
    text = json.dumps([dict(each) for each in examples], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _machine() -> dict[str, Any]:
    """Where the answers are made."""
    import torch

    from dllmzoo.training.manifest import versions

    return {
        "device": policies.best_device().partition(":")[0],
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "versions": versions(),
    }


def _progress(done: int, total: int) -> None:
    """How far it is, for somebody who watches."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {total} answers" + ("\n" if done == total else ""))
        sys.stderr.flush()
