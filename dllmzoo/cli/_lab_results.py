"""The results of the labs, as the report shows them: tables, sentences, charts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dllmzoo.errors import UsageError

Section = dict[str, Any]
"""`title notes tables charts`; a table has `title head rows`, a chart is one of report/assets."""

FILES = ("compare.json", "curves.json", "rates.json", "stability.json", "estimators.json",
         "table.json")  # fmt: skip
"""What the labs leave in their folders."""


def files(word: Path) -> list[Path]:
    """The result files that a word of the command line stands for; nothing if it is no result."""
    if word.is_file():
        return [word]
    return [found for name in FILES if (found := word / name).is_file()]


def section(file: Path) -> Section:
    """One result file, or a card of registry/results.

    Raises:
        UsageError: the file is no result of a lab.
    """
    content = _read(file)
    for keys, show in READERS:
        if keys <= content.keys():
            try:
                return show(content)
            except (KeyError, TypeError, AttributeError) as error:
                raise UsageError(
                    f"{file} looks like the result of a lab but lacks something ({error!r}); was "
                    f"it written by another version of dllmzoo?"
                ) from error
    raise UsageError(
        f"{file} is no result that the report knows; it reads {', '.join(FILES)} of the labs and "
        f"cards of registry/results"
    )


def _read(file: Path) -> dict[str, Any]:
    import yaml

    try:
        text = file.read_text(encoding="utf-8")
        content = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{file} cannot be read as JSON or YAML: {error}") from error
    return content if isinstance(content, dict) else {}


def _table(found: tuple[Sequence[str], Sequence[Sequence[Any]], str]) -> dict[str, Any]:
    head, rows, title = found
    return {"head": list(head), "rows": [list(row) for row in rows], "title": title}


def _chart(title: str, x: str, lines: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    empty = {"unit": "", "meaning": "", "log": False}
    return empty | {"title": title, "xTitle": x, "lines": list(lines)} | more


def _compared(result: dict[str, Any]) -> Section:
    from dllmzoo.lab.compare.report import tables, verdicts

    lines = [
        {
            "label": f"{method['label']}, seed {run['seed']}",
            "x": [point["flops"] for point in run["curve"]],
            "y": [point["value"] for point in run["curve"]],
        }
        for method in result["methods"]
        for run in method["runs"]
    ]
    return {
        "title": f"Comparison by {result['metric']}",
        "notes": list(verdicts(result)),
        "tables": [_table(table) for table in tables(result)],
        "charts": [_chart("every run", "training FLOPs", lines)],
    }


def _mean_curves(result: dict[str, Any]) -> Section:
    def lines(cost: str) -> Iterator[dict[str, Any]]:
        for label, points in result["methods"].items():
            yield {
                "label": label,
                "x": [p[cost] for p in points], "y": [p["mean"] for p in points],
                "low": [p["low"] for p in points], "high": [p["high"] for p in points],
            }  # fmt: skip

    charts = [_chart(f"{result['metric']} by {c}", c, list(lines(c))) for c in result["costs"]]
    note = "Mean over seeds with its 95 % interval, against what was spent."
    return {"title": "Comparison: curves", "notes": [note], "tables": [], "charts": charts}


def _rates(result: dict[str, Any]) -> Section:
    from dllmzoo.lab.compare.report import rates

    return {
        "title": "Learning rates tried", "notes": [], "tables": [_table(rates(result))],
        "charts": [],
    }  # fmt: skip


def _stability(result: dict[str, Any]) -> Section:
    from dllmzoo.lab.stability.report import tables, verdicts

    charts = []
    keys = [key for key in result["runs"][0]["curves"][0] if key.startswith("eval/")]
    for condition in dict.fromkeys(run["condition"] for run in result["runs"]):
        runs = [run for run in result["runs"] if run["condition"] == condition]
        for key, log in ((keys[0], False), ("ratio_max", True), ("grad_norm_max", True)):
            lines = [_column(run, key) for run in runs]
            shown = [line for line in lines if line["y"]]
            if shown:
                charts.append(_chart(f"{condition}: {key}", "updates", shown, log=log))
    return {
        "title": "Stability under noisy ratios",
        "notes": list(verdicts(result)),
        "tables": [_table(table) for table in tables(result)],
        "charts": charts,
    }


def _column(run: Mapping[str, Any], key: str) -> dict[str, Any]:
    rows = [row for row in run["curves"] if row.get(key) is not None]
    return {
        "label": f"{run['arm']}, seed {run['seed']}", "x": [row["update"] for row in rows],
        "y": [row[key] for row in rows],
    }  # fmt: skip


def _swept(result: dict[str, Any]) -> Section:
    from dllmzoo.lab.sweep import tables

    lines = [
        {
            "label": run["arm"],
            "x": [point["round"] for point in run["curve"]],
            "y": [point["value"] for point in run["curve"]],
        }
        for run in result["runs"]
    ]
    return {
        "title": "Sweep", "notes": [], "tables": [_table(table) for table in tables(result)],
        "charts": [_chart("every run", "round", lines)],
    }  # fmt: skip


ERRORS: tuple[tuple[str, str, str], ...] = (
    ("values", "loglikelihood", "log-likelihood: RMSE, nats"),
    ("ratios", "ratio", "ratio of an answer: RMSE"),
)


def _estimators(result: dict[str, Any]) -> Section:
    """The points by forwards; an estimator whose pool depends on the sign has its first entry."""
    lines: dict[str, dict[str, dict[str, list[float]]]] = {}
    rows = []
    for point in result["points"]:
        cells: list[Any] = [point["label"], f"{point['forwards']:.3g}"]
        for part, field, title in ERRORS:
            found = point[part][0][field] if point[part] else {}
            cells += [_short(found.get(name)) for name in ("bias", "std", "rmse")]
            _add(lines, title, point, found.get("rmse"))
        gradient = point["gradient"] or {}
        cells += [_short(gradient.get(name)) for name in ("cosine_of_mean", "error", "cosine")]
        _add(lines, "policy gradient: error of one", point, gradient.get("error"))
        rows.append(cells)
    head = ("estimator", "forwards", "log-lik. bias", "std", "RMSE", "ratio bias", "std", "RMSE",
            "gradient cosine of mean", "error of one", "cosine of one")  # fmt: skip
    kept = [
        [each["selector"], _short(each["kept"]), _short(each["error"]), _short(each["bound"]),
         _short(each["cosine"])]
        for each in result["selection"]
    ]  # fmt: skip
    tables = [_table((head, rows, "Estimators against exact values, by forwards"))]
    if kept:
        heads = ("selector", "steps kept", "error", "entropy bound", "cosine of mean")
        tables.append(_table((heads, kept, "Step selection, relative to the whole gradient")))
    charts = [
        _chart(title, "forwards", [{"label": name, **xy} for name, xy in found.items()], log=True)
        for title, found in lines.items()
    ]
    return {
        "title": "Estimators", "notes": [result["title"], *result["notes"]], "tables": tables,
        "charts": charts,
    }  # fmt: skip


def _add(
    lines: dict[str, dict[str, dict[str, list[float]]]], title: str, point: Mapping[str, Any],
    value: float | None,
) -> None:  # fmt: skip
    """One point to the line of its family: an estimator at several numbers of forwards."""
    if value is None:
        return
    selector = point["selector"]
    family = f"{point['name']}@{selector['name']}" if selector else point["name"]
    line = lines.setdefault(title, {}).setdefault(family, {"x": [], "y": []})
    line["x"].append(point["forwards"])
    line["y"].append(value)


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _card(card: dict[str, Any]) -> Section:
    made = [f"Made by {card['command']}"]
    made += [f"on {card['machine']}"] if card.get("machine") else []
    made += [f"seeds {', '.join(map(str, card['seeds']))}"] if card.get("seeds") else []
    return {
        "title": card["title"][:1].upper() + card["title"][1:],
        "notes": [*card.get("verdicts", ()), f"{', '.join(made)}.", *card.get("notes", ())],
        "tables": [_table((card["columns"], card["rows"], card["name"]))],
        "charts": [],
    }


READERS: tuple[tuple[set[str], Callable[[dict[str, Any]], Section]], ...] = (
    ({"methods", "pairs", "budget_flops"}, _compared),
    ({"methods", "costs"}, _mean_curves),
    ({"rates", "table"}, _rates),
    ({"cells", "verdicts", "runs"}, _stability),
    ({"points", "selection"}, _estimators),
    ({"folder", "runs"}, _swept),
    ({"columns", "rows", "command"}, _card),
)
"""Keys that tell a file, and how it is shown."""
