"""Methods at equal compute, with learning rates tuned for each: what, how, and what came out."""

from dllmzoo.lab.compare.options import Options
from dllmzoo.lab.compare.plot import plot
from dllmzoo.lab.compare.report import named_tables, tables, verdicts
from dllmzoo.lab.compare.study import forecast, run

__all__ = ["Options", "forecast", "named_tables", "plot", "run", "tables", "verdicts"]
