"""The hard part of AceCode, which several papers on code train on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dllmzoo.errors import TaskError
from dllmzoo.tasks._questions import first_of
from dllmzoo.tasks._tables import Table

RATED = "inferences"
"""Column with answers of models to each question, and the share of tests that each passed."""
MODELS = ("qwen_coder_2.5", "llama3_instruct")
LOW_MEAN, HIGH_SPREAD = 20.0, 40.0
"""Percentiles: of the mean pass rate that is kept at most, then of its spread at least."""
SPOKEN_TO = re.compile(r"\byou\b", re.IGNORECASE)
INSTRUCTION = "You are to write the Python code that this describes, as one self-contained program."


def hard_subset(table: Table, questions: Sequence[str]) -> Table:
    """Questions that two models rarely solve, and not always in the same way.

    Kept are rows whose mean pass rate over the answers of both models is at most the 20th
    percentile; of these, rows whose standard deviation is at least the 40th. A question that does
    not speak to anybody comes a second time with an instruction, as about half of those that ESPO,
    DiffuCoder and JustGRPO train on do; the words of theirs are not known, and these are ours.

    Args:
        table: rows of AceCode.
        questions: columns that may hold the question.

    Raises:
        TaskError: the data hold no pass rates of these models.
    """
    import numpy

    if RATED not in table.columns:
        raise TaskError(
            f"subset: hard chooses by the column {RATED!r} of AceCode, which {table.source} has "
            f"not; there are: {', '.join(table.columns)}. Use subset: all"
        )
    rates = [_rates(row[RATED]) for row in table.rows]
    rated = [number for number, each in enumerate(rates) if each]
    if not rated:
        raise TaskError(
            f"{table.source} holds no pass rates of {' or '.join(MODELS)}, by which subset: hard "
            f"chooses; use subset: all"
        )
    mean = numpy.array([numpy.mean(rates[number]) for number in rated])
    spread = numpy.array([numpy.std(rates[number]) for number in rated])
    low = mean <= numpy.percentile(mean, LOW_MEAN)
    kept = low & (spread >= numpy.percentile(spread[low], HIGH_SPREAD))
    chosen = [table.rows[number] for number, keep in zip(rated, kept, strict=True) if keep]
    rows = [*chosen, *filter(None, (_instructed(row, questions) for row in chosen))]
    return Table(rows, table.columns, table.source)


def _rates(answers: Any) -> list[float]:
    """Pass rates of the answers of both models."""
    if not isinstance(answers, Sequence) or isinstance(answers, str):
        return []
    return [
        float(each["pass_rate"])
        for each in answers
        if isinstance(each, Mapping) and each.get("model_name") in MODELS
        if each.get("pass_rate") is not None
    ]


def _instructed(row: Mapping[str, Any], questions: Sequence[str]) -> dict[str, Any] | None:
    """The row with an instruction before its question; None if it speaks to somebody already."""
    question = first_of(row, questions)
    if not isinstance(question, str) or SPOKEN_TO.search(question):
        return None
    name = next(each for each in questions if row.get(each) is not None)
    return {**row, name: f"{INSTRUCTION}\n\n{question}"}
