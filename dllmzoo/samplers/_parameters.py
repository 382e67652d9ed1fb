"""The docstring of a subclass: its own parameters behind those that it inherits."""

from __future__ import annotations

import inspect
import re

ARGS = re.compile(r"\n\nArgs:\n((?: {4}.*(?:\n|$))+)")


def with_inherited(doc: str, parent: str) -> str:
    r"""`doc` with one Args section: what `parent` says, then what it says itself.

    Args:
        doc: of a subclass, as it stands in the source.
        parent: of its base. Where both explain a parameter, `doc` is right.

    Example:
        >>> print(with_inherited("A.\n\nReferences:\n    X.", "B.\n\nArgs:\n    a: one."))
        A.
        <BLANKLINE>
        Args:
            a: one.
        <BLANKLINE>
        References:
            X.
    """
    doc, entries = inspect.cleandoc(doc), _entries(parent) | _entries(doc)
    if not doc or not entries:
        return doc
    body = ARGS.sub("\n" if "\n\nReferences:" in doc else "", doc)
    head, section, tail = re.sub(r"\n{3,}", "\n\n", body).partition("\n\nReferences:")
    args = "\n".join(entries.values())
    return f"{head.rstrip()}\n\nArgs:\n{args}{section}{tail}"


def _entries(doc: str) -> dict[str, str]:
    """Parameter -> its lines."""
    found = ARGS.search(inspect.cleandoc(doc))
    if found is None:
        return {}
    entries = re.split(r"\n(?= {4}\S)", found[1].rstrip("\n"))
    return {each.strip().partition(":")[0]: each for each in entries}
