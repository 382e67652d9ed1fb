"""Where in a text its answer stands; one order for rewards and for evaluation."""

from __future__ import annotations

import re
from typing import Literal

from dllmzoo.tasks._boxed import boxed
from dllmzoo.tasks._numbers import last_number
from dllmzoo.tasks._parse import last_answer

Which = Literal["last", "first"]
Extracted = tuple[str | None, str]
"""The answer's text, and the way it was found, one of `WAYS`; None and `nothing`."""

WAYS = ("tag_boxed", "tag", "boxed", "hash", "phrase", "last_number", "nothing")
_PHRASE = re.compile(r"answer\s+is\s*:?[ \t]*(.*?)(?=\.(?:\s|$)|\n|$)", re.IGNORECASE)
_SPACED_TAG = re.compile(r"<reasoning>.*</reasoning>\s*<answer>.*</answer>", re.DOTALL)
TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")


def number_answer(text: str, which: Which = "last", lenient: bool = False) -> Extracted:
    r"""The stated result of a word problem; the first of these that is there.

    `\boxed{}` inside the last answer tag; that tag's text; `\boxed{}` anywhere; what follows the
    last `####` on its line; what follows the last "answer is"; if `lenient`, the last number.

    Args:
        text: a whole answer.
        which: of several boxes, the last or the first.
        lenient: whether any last number will do.
    """
    inside = last_answer(text)
    if inside is not None:
        box = _one(inside, which)
        return (inside.strip(), "tag") if box is None else (box, "tag_boxed")
    if (box := _one(text, which)) is not None:
        return box, "boxed"
    if "####" in text:
        return text.rpartition("####")[2].strip().partition("\n")[0].strip(), "hash"
    if phrases := _PHRASE.findall(text):
        return phrases[-1].strip(), "phrase"
    if lenient and (number := last_number(text)) is not None:
        return number, "last_number"
    return None, "nothing"


def formula_answer(text: str, which: Which = "last") -> Extracted:
    r"""The result of a maths problem: `\boxed{}` anywhere, else the text of the last answer tag."""
    if (box := _one(text, which)) is not None:
        return box, "boxed"
    inside = last_answer(text)
    return (None, "nothing") if inside is None else (inside.strip(), "tag")


def well_formed(text: str) -> bool:
    """Whether the text is one reasoning block and then one answer block, and nothing else."""
    once = all(text.count(tag) == 1 for tag in TAGS)
    return once and _SPACED_TAG.fullmatch(text.strip()) is not None


def boxed_and_answer_tags(text: str) -> float:
    r"""d1's score of a form as it is meant: answer tag and `\boxed` 1, the tag alone 0.75.

    Without an answer tag 0.5 if there is a `\boxed`, else 0.25.
    """
    inside = last_answer(text)
    box = boxed(text if inside is None else inside)
    return (0.0 if inside is None else 0.5) + (0.5 if box else 0.25)


def _one(text: str, which: Which) -> str | None:
    found = boxed(text)
    if not found:
        return None
    return found[-1 if which == "last" else 0]
