"""One HTML file that needs nothing else: template, style, scripts and data put together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dllmzoo

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("base", "export", "chart", "curves", "grid", "states", "viewer", "main")
"""In the order in which they are run; they share one scope."""


def page(data: Mapping[str, Any], *, title: str, live: bool = False) -> str:
    """The page of runs and labs.

    Args:
        data: `runs charts differences` of `collect.collect`, and `labs` as `labs.section` makes
            them; what is missing is left out of the page.
        title: of the page.
        live: whether the page asks the server it came from for new data.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    whole = {"runs": [], "charts": [], "differences": [], "labs": [], "live": live, **data}
    environment = Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"num": shown, "signed": signed}
    shows = sections(whole)
    return environment.get_template("page.html").render(
        title=title, live=live, version=dllmzoo.__version__, notes=notes(whole["runs"]),
        parts=shows.pop("parts"), **shows, differences=whole["differences"], labs=whole["labs"],
        css=Markup((ASSETS / "page.css").read_text(encoding="utf-8")),
        script=Markup(script()), json=Markup(embedded(for_scripts(whole))),
    )  # fmt: skip


def trace_page(traces: Sequence[Mapping[str, Any]], *, title: str) -> str:
    """The denoising viewer alone, for answers of `dllmzoo generate`."""
    runs = [{"name": "", "traces": list(traces), "columns": {}}]
    return page({"viewer_only": runs}, title=title)


def sections(data: Mapping[str, Any]) -> dict[str, Any]:
    """What the template loops over, and the parts of its navigation."""
    runs = data["runs"]
    found: dict[str, Any] = {
        "runs": runs,
        "has_viewer": bool(runs or data.get("viewer_only")),
        "evaluated": [run for run in runs if run.get("outcomes")],
        "answered": [run for run in runs if run.get("changed")],
        "described": [run for run in runs if run.get("settings") or run.get("manifest")],
    }
    wanted = [
        ("runs-part", "Runs", runs), ("curves-part", "Learning curves", runs),
        ("viewer-part", "Denoising", data.get("live") or any(run["traces"] for run in runs)),
        ("evaluation-part", "Evaluation", found["evaluated"]),
        ("answers-part", "Changed answers", found["answered"]),
        ("differences-part", "Recipe differences", data["differences"]),
        *((f"lab-{i}", lab["title"], True) for i, lab in enumerate(data["labs"])),
        ("manifest-part", "How it was made", found["described"]),
    ]  # fmt: skip
    found["parts"] = [{"id": name, "title": title} for name, title, there in wanted if there]
    return found


def notes(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """What of the runs is not on the page, in sentences."""
    said = []
    for run in runs:
        if run["bin"] > 1:
            said.append(
                f"{run['name']}: a point of a curve is the mean of up to {run['bin']} rounds (of "
                f"keys in _max the largest, of ratio_q01 the smallest)."
            )
        read, there = run["files"]
        if run["traces"]:
            said.append(
                f"{run['name']}: the viewer has {len(run['traces'])} answers, of {run['seen']} in "
                f"{read} of {there} rollout files."
            )
    return said


def for_scripts(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data without what the template has written into tables."""
    told = ("settings", "manifest", "outcomes", "changed")
    runs = data["runs"] or data.get("viewer_only", [])
    slim = [{key: value for key, value in run.items() if key not in told} for run in runs]
    labs = [{"charts": lab["charts"]} for lab in data["labs"]]
    kept = {key: data[key] for key in ("charts", "live", "version") if key in data}
    return kept | {"runs": slim, "labs": labs}


def embedded(value: Any) -> str:
    """JSON that may stand in a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def script() -> str:
    """All scripts in one scope of their own."""
    parts = [(ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


NOTHING = "\N{EN DASH}"


def shown(value: float | None) -> str:
    """Four digits; a dash for nothing."""
    return NOTHING if value is None else f"{value:.4g}"


def signed(value: float | None) -> str:
    """A difference, always with its sign."""
    return NOTHING if value is None else f"{value:+.3f}"
