"""The program that a text answers with; one order for rewards and for evaluation."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Literal

from dllmzoo.tasks._parse import last_answer

Way = Literal["tag_fenced", "fenced", "whole", "nothing"]
WAYS: tuple[Way, ...] = ("tag_fenced", "fenced", "whole", "nothing")
_FENCE = re.compile(r"```[ \t]*([\w+-]*)[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_PYTHON = ("python", "py", "python3")
LONGEST = 100_000
"""Characters of a text that is looked at as a program."""
_DOES_SOMETHING = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.Return, ast.Import,
    ast.ImportFrom,
)  # fmt: skip


def extracted(text: str, prefix: str = "") -> tuple[str | None, Way]:
    """The program of a text, and how it was found; the first of these that is there.

    The last block fenced as Python inside the last answer tag (as anything, if none is called
    Python); such a block anywhere; the text of the tag, or all of the text, if it is a program.

    Args:
        text: a whole answer.
        prefix: that a program may go on from, a signature.
    """
    inside = last_answer(text)
    if inside is not None and (block := _last_block(inside)) is not None:
        return block, "tag_fenced"
    if (block := _last_block(text)) is not None:
        return block, "fenced"
    for whole in (inside, text):
        if whole is not None and (is_program(whole) or (prefix and is_program(prefix + whole))):
            return whole, "whole"
    return None, "nothing"


def _last_block(text: str) -> str | None:
    blocks = _FENCE.findall(text)
    named = [code for language, code in blocks if language.lower() in _PYTHON]
    return (named or [code for _, code in blocks] or [None])[-1]


def tree(code: str) -> ast.Module | None:
    """The syntax of a program; None if it is none."""
    if len(code) > LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def is_program(code: str) -> bool:
    """Whether a text is Python that does something, not a word that happens to be a name."""
    syntax = tree(code)
    return syntax is not None and any(isinstance(n, _DOES_SOMETHING) for n in ast.walk(syntax))


def defines(code: str, name: str) -> bool:
    """Whether a program binds a name by a definition, an assignment or an import."""
    syntax = tree(code)
    return syntax is not None and name in bound(syntax)


def bound(syntax: ast.Module) -> set[str]:
    """Names that the top level of a program binds."""
    names: set[str] = set()
    for node in syntax.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return names


def fenced_released(text: str) -> float:
    """ESPO's and DiffuCoder's format: 1 for a fenced block that parses, 0.5 if it does not, 0."""
    code, way = extracted(text)
    if code is None or way == "whole":
        return 0.0
    return 0.5 if tree(code) is None else 1.0
