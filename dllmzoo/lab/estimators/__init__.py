"""The estimator lab: bias, variance and cost of likelihoods, ratios and policy gradients."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dllmzoo.lab.estimators.options import Options as Options

if TYPE_CHECKING:
    from dllmzoo.lab.estimators.experiment import run
    from dllmzoo.lab.estimators.figures import plot
    from dllmzoo.lab.estimators.report import Table, named_tables, tables
    from dllmzoo.lab.estimators.results import Result, plain

__all__ = ["Options", "Result", "Table", "named_tables", "plain", "plot", "run", "tables"]

_HOMES = {
    "Result": "results",
    "Table": "report",
    "named_tables": "report",
    "plain": "results",
    "plot": "figures",
    "run": "experiment",
    "tables": "report",
}


def __getattr__(name: str) -> Any:
    """Import what is heavy when it is first used."""
    if name in _HOMES:
        home = importlib.import_module(f"dllmzoo.lab.estimators.{_HOMES[name]}")
        return getattr(home, name)
    raise AttributeError(f"module 'dllmzoo.lab.estimators' has no attribute {name!r}")
