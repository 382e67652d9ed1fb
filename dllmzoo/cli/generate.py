"""`dllmzoo generate`: answers to prompts of your own, step by step if you like."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _output as out
from dllmzoo.cli import _policies as policies
from dllmzoo.cli import _recipes as recipes
from dllmzoo.cli._app import app
from dllmzoo.cli._trace import TraceCommand, Tracer
from dllmzoo.errors import UsageError

if TYPE_CHECKING:
    from dllmzoo.records import Rollout
    from dllmzoo.training.prompts import Codec

HIDDEN = "_"
READ = ("task", "sampler", "selector", "evaluate", "plugins")
"""Sections of a recipe that an answer depends on."""


@dataclass(frozen=True)
class Answer:
    """One answer and how it came about.

    Args:
        prompt: as the model read it.
        text: up to the first end token.
        trace: (step, canvas after it) of every step that committed something.
        line: for the viewer, if a page is wanted.
    """

    prompt: str
    text: str
    trace: list[tuple[int, str]]
    line: dict[str, Any] | None = None


@app.command("generate", cls=TraceCommand)
def generate_answers(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|RUN",
            autocompletion=complete.policies,
            help="A run folder, a model folder, an adapter, a card or a hub id.",
        ),
    ],
    prompts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROMPT",
            help="Prompts; `-` reads one a line from standard input. Default: the first held-out "
            "example of the run's task.",
            show_default=False,
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="The recipe whose sampler is used. Default: the run's.",
            show_default=False,
            autocompletion=complete.recipes,
        ),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            show_default=False,
            help="A change to the recipe, `sampler.block_length=8`; may be repeated.",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Denoising steps.", show_default=False)
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    length: Annotated[
        int | None, typer.Option(min=1, help="Tokens of an answer.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random choices.")] = 0,
    raw: Annotated[
        bool, typer.Option("--raw", help="No chat template, even if the tokenizer has one.")
    ] = False,
    dtype: Annotated[
        str | None, typer.Option(help="float32 or bfloat16.", show_default=False)
    ] = None,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help="Show the answer after every denoising step; `--trace FILE.html` writes a page "
            "to play it, with the model's guess before every step.",
        ),
    ] = False,
    trace_page: Annotated[Path | None, typer.Option("--trace-page", hidden=True)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the model's answer to each prompt."""
    recipes.refuse_unread(change or [], "generate", READ)
    source = policies.source_of(model)
    texts = read_prompts(prompts or [])
    made = recipe_of(source, recipe, change or [], own_prompts=bool(texts))
    sampler = policies.with_steps(
        policies.sampler_of(made, change or []), steps, temperature=temperature,
        answer_length=length,
    )  # fmt: skip
    policy, codec = policies.load_policy(source, dtype or made.model.dtype)
    chat = not raw and getattr(codec.tokenizer, "chat_template", None)
    if not texts:
        asked, task = list(made.task.test(1)), made.task
    else:
        asked, task = list(texts), _AsGiven(blanks(codec) if fills_blanks(sampler) else (), chat)
    tracer = None
    if trace_page is not None:
        from dllmzoo.records import Key

        refuse_page(trace_page)
        tracer = Tracer(policy, codec, made, Key(seed, 0, "select"), rewarded=not texts)
    answers = [
        answer(policy, codec, sampler, task, example, seed, i, tracer)
        for i, example in enumerate(asked)
    ]
    if trace_page is not None:
        write_page(trace_page, answers, model)
    if as_json:
        out.say_json([shown(each, trace) for each in answers])
        return
    for each in answers:
        say(each, trace=trace, head=len(answers) > 1 or not texts)


def refuse_page(path: Path) -> None:
    """Raise unless a page can be written there.

    Raises:
        UsageError: there is no such folder.
    """
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} to write {path.name} into; make it")


def write_page(path: Path, answers: list[Answer], model: str) -> None:
    """The denoising viewer with all answers."""
    from dllmzoo.report.page import trace_page
    from dllmzoo.report.traces import trace
    from dllmzoo.training.files import write_bytes

    lines = [trace(each.line) for each in answers if each.line is not None]
    try:
        write_bytes(path, trace_page(lines, title=f"answers of {model}").encode())
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}; name another file"
        ) from error
    out.warn(f"wrote {path}")


def read_prompts(words: list[str]) -> list[str]:
    """The prompts of the command line; `-` stands for the lines of standard input.

    Raises:
        UsageError: an empty prompt.
    """
    texts = []
    for word in words:
        texts += sys.stdin.read().splitlines() if word == "-" else [word]
    if not all(texts) or (words and not texts):
        raise UsageError("a prompt is empty; give some text, or leave prompts out")
    return texts


def recipe_of(
    source: policies.Source, recipe: str | None, changes: list[str], *, own_prompts: bool
) -> Any:
    """The recipe whose sampler is used; prompts of the user's need no task."""
    try:
        return policies.recipe_for(source, recipe, changes)
    except UsageError:
        if not own_prompts or recipe is not None or source.run is not None:
            raise
    from dllmzoo.recipe import load

    return load(policies.bare_recipe(source.weights), changes)


def fills_blanks(sampler: Any) -> bool:
    """Whether the sampler fills blanks in a given text."""
    return getattr(sampler, "given", None) == "blanks"


def blanks(codec: Codec) -> tuple[str, ...]:
    """How a prompt may spell a blank."""
    from dllmzoo.tasks._given import BLANK

    return BLANK, codec.mask_text


def answer(
    policy: Any, codec: Codec, sampler: Any, task: Any, example: Any, seed: int, number: int,
    tracer: Tracer | None = None,
) -> Answer:  # fmt: skip
    """One example answered; `number` gives every one random numbers of its own.

    Where the sampler fills blanks, the text of an answer is the whole text.
    """
    from dataclasses import replace

    import torch

    from dllmzoo.records import Key

    length, key = sampler.answer_length, Key(seed, 0, "generate")
    rows = codec.prompts(task, [example], 1, answer_length=length)
    if not rows.tokens_BL.shape[1] and not fills_blanks(sampler):
        raise UsageError(f"the tokenizer makes no token of the prompt {example!r}")
    rows = replace(rows, sample_B=torch.full_like(rows.sample_B, number))
    rows = codec.with_given(rows, task, sampler, key.sub("given"))
    with torch.no_grad():
        rollout = sampler(policy.eval(), rows, key)
    text = codec.texts(rollout.tokens_BL[:, -length:])[0]
    read = codec.tokenizer.decode(rows.tokens_BL[0].tolist(), skip_special_tokens=False)
    if isinstance(task, _AsGiven) and task.blanks:
        text = task.prompt(example) + text
    line = None if tracer is None else tracer.line(rollout)
    return Answer(read, text, trace_of(rollout, codec), line)


def trace_of(rollout: Rollout, codec: Codec) -> list[tuple[int, str]]:
    """The answer of the only row after each step that committed something."""
    import torch

    N = rollout.sampler.answer_length
    reveal = rollout.reveal_BL[0][rollout.answer_BL[0]].tolist()
    steps = sorted({step for step in reveal if step >= 0})
    after_BK = torch.tensor([steps], device=rollout.tokens_BL.device) + 1
    shown = rollout.draft_before(after_BK)
    shown = rollout.tokens_BL[:, None].expand(-1, len(steps), -1) if shown is None else shown
    hidden = rollout.hidden_before(after_BK)
    return [
        (
            step,
            "".join(HIDDEN if mask else codec.tokenizer.decode([token]) for token, mask in pairs),
        )
        for k, step in enumerate(steps)
        for pairs in [zip(shown[0, k, -N:].tolist(), hidden[0, k, -N:].tolist(), strict=True)]
    ]


def shown(each: Answer, trace: bool) -> dict[str, Any]:
    """An answer as JSON holds it."""
    row: dict[str, Any] = {"prompt": each.prompt, "text": each.text}
    if trace:
        row["trace"] = [{"step": step, "canvas": canvas} for step, canvas in each.trace]
    return row


def say(each: Answer, *, trace: bool, head: bool) -> None:
    """An answer for people: the bare text, under its prompt if there is more than one."""
    if head:
        out.say(f"> {each.prompt}", style="bold")
    if trace:
        width = len(str(max((step for step, _ in each.trace), default=0)))
        for step, canvas in each.trace:
            line = canvas.replace("\n", "\\n")
            out.say(f"step {str(step).rjust(width)}  {line}", style="dim")
    out.say(each.text)


@dataclass(frozen=True)
class _AsGiven:
    """A task whose examples are prompts; with blanks, what stands before the first is the prompt.

    Args:
        blanks: how a blank may be spelled; nothing = prompts are answered, not filled in.
        chat: whether a prompt is a user's message.
    """

    blanks: tuple[str, ...] = ()
    chat: Any = None

    def prompt(self, example: str) -> Any:
        if self.blanks:
            return example[: self._first(example)]
        return [{"role": "user", "content": example}] if self.chat else example

    def given_blanks(self, example: str, key: Any, sample: int) -> str:
        return example[self._first(example) :]

    def _first(self, example: str) -> int:
        places = [place for blank in self.blanks if (place := example.find(blank)) >= 0]
        if not places:
            raise UsageError(
                f"the sampler fills blanks, and the prompt {example!r} has none; write "
                f"{self.blanks[0]} for each token to fill in, or --set sampler=low_confidence"
            )
        return min(places)
