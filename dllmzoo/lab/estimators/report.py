"""The results as tables of text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dllmzoo.lab.estimators.results import Errors, Gradient, Result

Table = tuple[tuple[str, ...], list[tuple[str, ...]], str]
"""Headers, rows and title."""


def tables(result: Result) -> list[Table]:
    """The tables that hold something, those of estimators sorted by forwards."""
    return list(named_tables(result).values())


def named_tables(result: Result) -> dict[str, Table]:
    """The tables by a word for each."""
    left_out = [(each.name, each.reason) for each in result.skipped]
    found: dict[str, Table] = {
        "values": _values(result),
        "ratios": _ratios(result),
        "gradients": _gradients(result),
        "selection": _selection(result),
        "skipped": (("left out", "why"), left_out, "Left out"),
    }
    return {name: table for name, table in found.items() if table[1]}


def number(value: float | None) -> str:
    """Three decimals, fewer of large numbers; `-` for nothing."""
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value) or abs(value) >= 1e4:
        return f"{value:.1e}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"


def signed(value: float, error: float) -> str:
    """A bias with its standard error; without one where nothing is random."""
    shown = number(value) if abs(value) >= 5e-4 else "0.000"
    plus = "+" if value > 0 and shown != "0.000" else ""
    return f"{plus}{shown}" + (f" ± {number(error)}" if error >= 1e-6 else "")


def _values(result: Result) -> Table:
    rows = [
        (
            point.label + ("" if value.advantage == "any" else f" (A {_sign(value.advantage)})"),
            number(point.forwards),
            signed(value.loglikelihood.bias, value.loglikelihood.bias_se),
            signed(value.elbo.bias, value.elbo.bias_se),
            number(value.loglikelihood.std),
            number(value.loglikelihood.rmse),
            number(value.elbo.rmse),
            value.estimates,
        )
        for point in result.points
        for value in point.values
    ]
    headers = (
        "estimator",
        "forwards",
        "bias to log-likelihood",
        "bias to ELBO",
        "std",
        "RMSE to log-likelihood",
        "RMSE to ELBO",
        "estimates",
    )
    title = (
        f"Log-likelihood of an answer, nats (mean {number(result.loglikelihood)}, "
        f"ELBO {number(result.elbo)})"
    )
    return headers, rows, title


def _sign(advantage: str) -> str:
    return "> 0" if advantage == "positive" else "<= 0"


def _ratios(result: Result) -> Table:
    rows = [
        (point.label, number(point.forwards), ratio.masks, *_three(ratio.log), *_three(ratio.ratio))
        for point in result.points
        for ratio in point.ratios
    ]
    shift = number(result.options.shift)
    headers = (
        "estimator",
        "forwards",
        "masks",
        "log: bias",
        "log: std",
        "log: RMSE",
        "ratio: bias",
        "ratio: std",
        "ratio: RMSE",
    )
    title = f"Importance ratio of an answer (true log-ratio {shift} nats, root mean square)"
    return headers, rows, title


def _three(found: Errors) -> tuple[str, str, str]:
    return signed(found.bias, found.bias_se), number(found.std), number(found.rmse)


def _gradients(result: Result) -> Table:
    rows = [
        (point.label, number(point.forwards), *_gradient(point.gradient))
        for point in result.points
        if point.gradient is not None
    ]
    if result.exact_score is not None and rows:
        rows.append(("(exact log-likelihood)", "-", *_gradient(result.exact_score)))
    group = result.options.group
    headers = (
        "estimator",
        "forwards",
        "cosine of mean",
        "scale",
        "bias",
        "std",
        "error of one",
        "cosine of one",
    )
    title = f"Policy gradient, relative to the exact one; one estimate = {group} answers"
    return headers, rows, title


def _gradient(found: Gradient) -> Iterator[str]:
    yield number(found.cosine_of_mean)
    yield number(found.scale)
    yield f"{number(found.bias)} ± {number(found.resolution)}"
    yield number(found.std)
    yield number(found.error)
    yield f"{number(found.cosine)} ± {number(found.cosine_se)}"


def _selection(result: Result) -> Table:
    rows = [
        (
            each.selector + ("" if each.steps is None else f" {list(each.steps)}"),
            number(each.kept),
            f"{number(each.error)}" + (f" ± {number(each.resolution)}" if each.resolution else ""),
            number(each.bound),
            number(each.cosine),
            number(each.std),
            number(each.batch_cosine),
        )
        for each in result.selection
    ]
    headers = (
        "selector",
        "steps kept",
        "error",
        "entropy bound",
        "cosine of mean",
        "std of one trajectory",
        f"cosine of {result.options.group}",
    )
    title = f"Step selection of {result.options.selector_of}, relative to the whole gradient"
    return headers, rows, title
