"""`dllmzoo plan`: what a recipe would need on GPUs that are not here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _output as out
from dllmzoo.cli import _recipes as recipes
from dllmzoo.cli._app import app

if TYPE_CHECKING:
    from dllmzoo.training.forecast import Forecast


@app.command("plan")
def plan_recipe(
    recipe: Annotated[str, recipes.ARGUMENT],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help=recipes.OVERRIDES_HELP, show_default=False),
    ] = None,
    gpus: Annotated[int, typer.Option(min=1, help="How many of them.")] = 1,
    gpu: Annotated[
        str,
        typer.Option(
            autocompletion=complete.gpus,
            help="Their kind: a100, h100, h200, ...; a wrong name lists them all.",
        ),
    ] = "h100",
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
) -> None:
    """Estimate memory and time of a round on GPUs, and say what to change where it does not fit.

    Nothing is loaded or downloaded: a card states the shape of its network.
    """
    loaded = recipes.load_checked(recipe, list(overrides or ()))
    from dllmzoo.training import forecast
    from dllmzoo.training import gpus as kinds

    kind = kinds.gpu(gpu)
    found = forecast.forecasts(loaded, kind, gpus)
    notes = notes_of(loaded, gpus)
    if as_json:
        layouts = [
            asdict(each) | {"total": each.total, "fits": each.fits, "round": each.round}
            for each in found
        ]
        out.say_json({
            "estimate": True, "gpu": asdict(kind), "gpus": gpus, "layouts": layouts,
            "utilisation": forecast.UTILISATION, "rounds": loaded.train.rounds, "notes": notes,
        })  # fmt: skip
        return
    for note in notes:
        out.say(f"cannot run: {note}", style="red")
    headers = ("", *("sharded (FSDP2)" if each.sharded else "copied (DDP)" for each in found))
    title = f"{loaded.title or loaded.name}: ESTIMATE for {gpus} x {kind.title}"
    out.table(headers, list(rows_of(found, loaded.train.rounds)), title=title)
    out.say()
    out.say(
        f"An estimate: {100 * forecast.UTILISATION:.0f} % of the published peak, or the time to "
        f"read or gather the weights where that takes longer; rewards and checkpoints left out."
    )
    for each in found:
        if each.advice:
            layout = "sharded" if each.sharded else "copied"
            out.say(f"{layout} does not fit; try, in this order: {'; '.join(each.advice)}")


def rows_of(found: list[Forecast], rounds: int) -> list[tuple[str, ...]]:
    """Lines of the table: memory of one GPU, then time."""
    names = dict.fromkeys(name for each in found for name in each.memory)
    rows = [(name, *(size(each.memory.get(name, 0.0)) for each in found)) for name in names]
    rows += [
        ("memory of one GPU", *(size(each.total) for each in found)),
        ("of which there is", *(size(each.available) for each in found)),
        ("fits", *("yes" if each.fits else "NO" for each in found)),
    ]
    phases = dict.fromkeys(name for each in found for name in each.seconds)
    rows += [
        (f"time of {name}", *(span(each.seconds.get(name, 0.0)) for each in found))
        for name in phases
    ]
    rows += [
        ("time of a round", *(span(each.round) for each in found)),
        (f"time of {rounds:,} rounds", *(span(rounds * each.round) for each in found)),
    ]
    return rows


def notes_of(recipe: Any, gpus: int) -> list[str]:
    """What keeps the recipe from running on that many processes."""
    prompts = recipe.train.prompts
    if prompts % gpus == 0:
        return []
    low = prompts // gpus * gpus
    fits = " or ".join(str(number) for number in (low, low + gpus) if number)
    return [f"train.prompts is {prompts}, which {gpus} processes cannot share evenly; use {fits}"]


def size(number: float) -> str:
    """Bytes as `12.3 GB`, decimal as GPU makers count."""
    return f"{number / 1e9:.1f} GB" if number >= 1e8 else f"{number / 1e6:.1f} MB"


def span(seconds: float) -> str:
    """A time as `12.3 s`, `4.5 min`, `6.7 h` or `8.9 days`."""
    for unit, length in (("days", 86400 * 2), ("h", 3600), ("min", 120)):
        if seconds >= length:
            return f"{seconds / {'days': 86400, 'h': 3600, 'min': 60}[unit]:.1f} {unit}"
    return f"{seconds:.3g} s"
