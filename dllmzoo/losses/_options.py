"""Options that several losses share are explained once, in the docstring of their base class."""

import inspect
import re

ENTRY = re.compile(r"^ {4}(\w+):.*(?:\n {5,}.*)*", re.MULTILINE)
"""One parameter of a Google-style `Args:` section."""


def explain_options(cls: type) -> None:
    """Add to the `Args:` of a class what the base classes say of options it does not list.

    Entries come in the order of the fields. For `__init_subclass__`, before the class is made a
    dataclass; a class without a docstring is left alone.
    """
    if not cls.__doc__:
        return
    head, own, tail = _split(inspect.cleandoc(cls.__doc__))
    entries: dict[str, str] = {}
    for base in reversed(cls.__mro__[1:]):
        entries |= _entries(inspect.cleandoc(base.__dict__.get("__doc__") or ""))
    entries |= own
    order = [*getattr(cls, "__dataclass_fields__", {}), *inspect.get_annotations(cls)]
    names = [name for name in dict.fromkeys(order) if name in entries]
    if names:
        args = "\n".join(entries[name] for name in names)
        cls.__doc__ = f"{head}\n\nArgs:\n{args}\n\n{tail}".rstrip() + "\n"


def _split(doc: str) -> tuple[str, dict[str, str], str]:
    """A docstring as what stands before its parameters, these, and the sections after them."""
    head, found, rest = doc.partition("\nArgs:\n")
    if not found:
        head, found, rest = doc.partition("\nReferences:\n")
        return head.rstrip(), {}, f"References:\n{rest}" if found else ""
    body = re.match(r"(?: +.*\n?|\n)*", rest)
    end = body.end() if body else 0
    return head.rstrip(), _entries(doc), rest[end:].lstrip("\n")


def _entries(doc: str) -> dict[str, str]:
    """Parameter -> its entry in the `Args:` section, as it stands."""
    _, _, rest = doc.partition("\nArgs:\n")
    body = re.match(r"(?: +.*\n?|\n)*", rest)
    return {found[1]: found[0] for found in ENTRY.finditer(body[0] if body else "")}
