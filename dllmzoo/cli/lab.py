"""`dllmzoo lab`: experiments over many runs, each with a table, JSON and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dllmzoo.cli import _cards as keep
from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _output as out
from dllmzoo.cli import _recipes as recipes
from dllmzoo.cli._app import Commands, app
from dllmzoo.cli.listing import PLUGIN_HELP
from dllmzoo.cli.sweep import JOBS_HELP, SEEDS_HELP, narrator, show_forecast, show_tables
from dllmzoo.errors import RunError, UsageError

JSON_HELP = "Print the result as JSON; progress goes to standard error."
DRY_HELP = "Check every run and say what it costs; stop."
CARD_HELP = "Keep the tables as results of a checkout: registry/results/NAME.yaml and its figure."

lab = typer.Typer(
    name="lab",
    cls=Commands,
    help="Measure methods and estimators: bias and variance, stability, learning at equal compute.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(lab)


@lab.command("estimators")
def estimators(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Option(
            autocompletion=complete.policies,
            help="`table`, an enumerable toy; or a trained model: folder, card, hub id.",
        ),
    ] = "table",
    chosen: Annotated[
        list[str] | None,
        typer.Option(
            "--estimators",
            help="Likelihoods with options, `elbo:subset=uniform_t` or `name@selector:option=1`, "
            "with commas between them; all registered ones if left out; may be repeated.",
            show_default=False,
        ),
    ] = None,
    views: Annotated[
        str, typer.Option(metavar="A,B,C", help="Numbers of forward passes to try.")
    ] = "1,2,4,8",
    draws: Annotated[
        int | None,
        typer.Option(help="Rows behind each number; 8192 of the table, 2048 of a model."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the table, the answers and the masks.")] = 0,
    slots: Annotated[int, typer.Option(help="Answer slots that are not given.")] = 4,
    scale: Annotated[
        float | None,
        typer.Option(help="Of the table's logits: more makes slots depend more on each other."),
    ] = None,
    shift: Annotated[
        float | None, typer.Option(help="Size of the true log-ratio of the two policies, nats.")
    ] = None,
    group: Annotated[int | None, typer.Option(help="Answers in one gradient estimate.")] = None,
    estimates: Annotated[int | None, typer.Option(help="Gradient estimates of each.")] = None,
    measures: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Some of `values,ratios,gradients,selection`."),
    ] = None,
    selectors: Annotated[
        list[str] | None,
        typer.Option(help="Of the step selection, like --estimators.", show_default=False),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Makes the prompt of a trained model: `name:option=value`.")
    ] = None,
    example: Annotated[int, typer.Option(help="Held-out example, from 0.")] = 0,
    plugin: Annotated[list[str] | None, typer.Option(help=PLUGIN_HELP)] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of estimators.json and the figures.")
    ] = Path("runs/estimators"),
    card: Annotated[str | None, typer.Option(metavar="NAME", help=CARD_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Measure estimators: bias and variance of likelihoods, ratios and policy gradients.

    Everything is compared with the exact value, by forward passes spent.
    """
    from dllmzoo.lab import estimators as study

    given = {
        "scale": scale, "shift": shift, "group": group, "estimates": estimates, "task": task,
        "measures": None if measures is None else tuple(filter(None, measures.split(","))),
    }  # fmt: skip
    options = study.Options(
        model=model, estimators=tuple(chosen or ()), views=numbers("--views", views, int),
        draws=draws, seed=seed, slots=slots, selectors=tuple(selectors or ()), example=example,
        plugins=tuple(plugin or ()), **{k: v for k, v in given.items() if v is not None},
    )  # fmt: skip
    keep.refuse(card)
    keep.folder(output)
    result = study.run(options, narrator(as_json=as_json))
    tables, plain = study.named_tables(result), study.plain(result)
    keep.write(output / "estimators.json", plain)
    figures = keep.draw(study, result, output)
    if card is not None:
        first = next(iter(tables), "")
        pictures = {
            "selection" if path.stem == "selection" else first: path for path in figures
        }  # fmt: skip
        measured = {word: table for word, table in tables.items() if word != "skipped"}
        keep.cards(
            card, keep.command(ctx), measured, pictures, verdicts=(),
            minutes=result.seconds / 60, notes=(result.title, *result.notes), seeds=(seed,),
        )  # fmt: skip
    show_outcome(
        plain, tables, result.notes, f"estimators.json in {output}", title=result.title,
        as_json=as_json,
    )  # fmt: skip


@lab.command("stability")
def stability(
    ctx: typer.Context,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help=recipes.OVERRIDES_HELP, show_default=False),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two losses on five seeds; else the full grid.")
    ] = False,
    conditions: Annotated[
        str | None, typer.Option(metavar="A,B", help="Sources of noise, instead of the grid's.")
    ] = None,
    arms: Annotated[
        str | None, typer.Option(metavar="A,B", help="Losses, instead of the grid's.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help=f"{SEEDS_HELP} Else as many as the grid says.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help=JOBS_HELP)] = 2,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the runs, resumable.")
    ] = Path("runs/stability"),
    card: Annotated[str | None, typer.Option(metavar="NAME", help=CARD_HELP)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=DRY_HELP)] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Measure stability: which loss survives noisy importance ratios, and for how long.

    The same command goes on later; the full grid goes on from the quick one.
    """
    from dllmzoo.lab import stability as study
    from dllmzoo.lab.sweep import forecast

    options = study.Options(
        grid="quick" if quick else "full", conditions=words_of(conditions), arms=words_of(arms),
        seeds=seeds, changes=tuple(changes or ()), jobs=jobs, output=output,
    )  # fmt: skip
    keep.refuse(card)
    if dry_run:
        show_forecast(forecast(options.runs(), output), as_json=as_json)
        return
    result = study.run(options, narrator(as_json=as_json))
    conclude(
        ctx, study, result, card=card, picture=output / "stability",
        wrote=f"stability.json in {output}", as_json=as_json,
    )  # fmt: skip


@lab.command("compare")
def compare(
    ctx: typer.Context,
    budget_flops: Annotated[
        float, typer.Option(help="FLOPs of one run: rollouts, scoring and training; say 1e13.")
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE|KEY=VALUE",
            autocompletion=complete.recipes,
            help="Recipes beside those of --recipes, and changes to all of them.",
            show_default=False,
        ),
    ] = None,
    chosen: Annotated[
        list[str] | None,
        typer.Option(
            "--recipes",
            autocompletion=complete.recipes,
            help="Files or names of packaged recipes, with commas between them, or a pattern: "
            "`'recipes/*_sudoku.yaml'`; may be repeated.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help=SEEDS_HELP)] = 3,
    rates: Annotated[
        Path | None,
        typer.Option(help="Learning rates of the methods, a `rates.json` that --tune wrote."),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="First run every method at these factors of its learning rate, on another seed, "
            "and take the best: `0.5,1,2`.",
        ),
    ] = None,
    tune_budget_flops: Annotated[
        float | None,
        typer.Option(help="FLOPs of one run of --tune; as --budget-flops if left out."),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Further numbers of denoising steps the trained policies are evaluated at; half "
            "and twice the usual ones if left out.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help=JOBS_HELP)] = 1,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the comparison, resumable.")
    ] = Path("runs/compare"),
    card: Annotated[str | None, typer.Option(metavar="NAME", help=CARD_HELP)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=DRY_HELP)] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Compare methods at equal compute: curves, intervals over seeds, and who is told apart.

    Every recipe gets the rounds that spend the same FLOPs. The same command goes on later.
    """
    sources, changes = recipes.split_words(words or ())
    from dllmzoo.lab import compare as study
    from dllmzoo.lab.sweep import forecast

    options = study.Options(
        recipes=tuple(sources) + names_of(chosen or ()),
        overrides=tuple(changes),
        budget_flops=budget_flops,
        seeds=seeds,
        rates=rates,
        tune=numbers("--tune", tune, float),
        tune_budget_flops=tune_budget_flops,
        steps=None if steps is None else numbers("--steps", steps, int),
        jobs=jobs,
        output=output,
    )
    keep.refuse(card)
    if dry_run:
        arms = study.forecast(options, narrator(as_json=as_json))
        show_forecast(forecast(arms, output), as_json=as_json)
        return
    result = study.run(options, narrator(as_json=as_json))
    conclude(
        ctx, study, result, card=card, picture=output / "curves",
        wrote=f"compare.json and curves.json in {output}", as_json=as_json,
    )  # fmt: skip


def conclude(
    ctx: typer.Context, study: Any, result: Mapping[str, Any], *, card: str | None, picture: Path,
    wrote: str, as_json: bool,
) -> None:  # fmt: skip
    """Draw, keep and show what a laboratory of many runs found.

    Raises:
        RunError: some runs failed; what did not was shown.
    """
    tables, verdicts = study.named_tables(result), study.verdicts(result)
    figures = keep.draw(study, result, picture)
    if card is not None:
        keep.cards(
            card, keep.command(ctx), tables, first_figure(tables, figures), verdicts=verdicts,
            minutes=result["minutes"], recipes=result["recipes"], seeds=result["seeds"],
        )  # fmt: skip
    show_outcome(result, tables, verdicts, wrote, as_json=as_json)
    refuse_failures(result["failed"])


def show_outcome(
    plain: Any, tables: Mapping[str, Any], sentences: Sequence[str], wrote: str, *,
    as_json: bool, title: str = "",
) -> None:  # fmt: skip
    """The result as JSON, or its tables, what they say, and what was written."""
    if as_json:
        out.say_json(plain)
        return
    if title:
        out.say(title)
    show_tables(list(tables.values()))
    if sentences:
        out.say("\n" + "\n".join(sentences))
    out.say(f"\nwrote {wrote}")


def first_figure(tables: Mapping[str, Any], figures: Sequence[Path]) -> dict[str, Path]:
    """The first figure, for the first table."""
    return dict(zip(tables, figures[:1], strict=False))


def refuse_failures(failed: Mapping[str, str]) -> None:
    """End with an error if something failed; what did not was shown.

    Raises:
        RunError: says what failed and why.
    """
    if failed:
        raise RunError("\n".join(f"{name} failed: {why}" for name, why in failed.items()))


def names_of(words: Sequence[str]) -> tuple[str, ...]:
    """Recipes between commas; a file keeps its own."""
    found: list[str] = []
    for word in words:
        found += [word] if Path(word).exists() else words_of(word)
    return tuple(found)


def words_of(text: str | None) -> tuple[str, ...]:
    """Words between commas; none where the option is not given.

    Raises:
        UsageError: there is nothing between the commas.
    """
    found = tuple(filter(None, map(str.strip, (text or "").split(","))))
    if text is not None and not found:
        raise UsageError(f"{text!r} names nothing; leave the option out, or give words with commas")
    return found


def numbers(option: str, text: str | None, kind: Any) -> tuple[Any, ...]:
    """Numbers between commas.

    Raises:
        UsageError: one of them is none.
    """
    try:
        return tuple(map(kind, words_of(text)))
    except ValueError:
        word = "whole numbers" if kind is int else "numbers"
        raise UsageError(f"{option} takes {word} with commas between them, not {text!r}") from None
