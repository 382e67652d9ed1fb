"""What a text answers: the last answer tag, and a Sudoku grid inside it."""

from __future__ import annotations

import re

_TAG = re.compile("<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_COMPACT = re.compile("[1-4]{16}")
_ROW = re.compile("[1-4]{4}")


def last_answer(text: str) -> str | None:
    """What stands in the last closed answer tag; None where there is none."""
    inside = _TAG.findall(text)
    return inside[-1] if inside else None


def exact_grid(text: str) -> str | None:
    """The text itself, if it is 16 digits 1-4 and nothing else."""
    return text if _COMPACT.fullmatch(text) else None


def written_grid(text: str) -> str | None:
    """The 16 digits of a grid that stands alone in the text, or None.

    Either one run of 16 digits 1-4, or exactly four rows of four. Rows are divided by the
    strongest separator that occurs (newline, `|`, comma, blank); weaker ones may stand between
    the digits of a row. Anything else in the text, words above all, is a parse failure.
    """
    body = text.strip()
    if _COMPACT.fullmatch(body):
        return body
    for separator, weaker in (("\n", "|, \t\r"), ("|", ", \t"), (",", " \t"), (" ", "\t")):
        if separator in body:
            drop = str.maketrans("", "", weaker)
            rows = [row.translate(drop) for row in body.split(separator)]
            rows = [row for row in rows if row]
            fits = len(rows) == 4 and all(map(_ROW.fullmatch, rows))
            return "".join(rows) if fits else None
    return None


def cut_digits(text: str) -> str | None:
    """All digits of the text, cut or filled up with 0 to 16, as d1 reads them; None without any."""
    digits = "".join(filter(str.isdigit, text))
    return digits[:16].ljust(16, "0") if digits else None
