r"""One spelling of a LaTeX result, so that equal results are mostly equal strings.

The list of rewritings is the usual one for MATH answers; `released_form` is exactly it, with
its faults, `normal_form` adds what it lacks.
"""

from __future__ import annotations

import re

_DROPPED = ("\n", "\\!")
_AFTER_BACKSLASHES = (
    ("\\\\", "\\"),
    ("tfrac", "frac"),
    ("dfrac", "frac"),
    ("\\left", ""),
    ("\\right", ""),
    ("^{\\circ}", ""),
    ("^\\circ", ""),
    ("\\$", ""),
)
_LEADING_POINT = ((" .", " 0."), ("{.", "{0."))
_UNITS = "\\text{ "
_SHORT_FRAC = re.compile(r"\\frac(?!\{)(.)(.)", re.DOTALL)
_SHORT_ROOT = re.compile(r"\\sqrt(?!\{)(.)", re.DOTALL)
_SLASH = re.compile(r"(-?(?:0|[1-9][0-9]*))/(-?(?:0|[1-9][0-9]*))")
_WORDS = re.compile(r"\\(?:text(?:rm|bf|it|normal)?|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_SPACING = re.compile(r"\\[,;: ]|\\q?quad(?![A-Za-z])|~")
_DELIMITERS = re.compile(r"\\[()\[\]]|\$")


def released_form(text: str) -> str:
    r"""The spelling that the released d1 rewards compare.

    Raises:
        ValueError: two units, or nothing after a `\frac` or `\sqrt`; they then compare the
            texts as they are.
    """
    return _without_spaces(_without_name(_prepared(text)))


def normal_form(text: str) -> str:
    r"""`released_form` made total, without delimiters, `\text` and a final full stop.

    Example:
        >>> normal_form(r"x = \dfrac12."), normal_form("1/2"), normal_form(r"\text{even}")
        ('\\frac{1}{2}', '\\frac{1}{2}', 'even')
    """
    body = _SPACING.sub(" ", text.strip().replace("\\!", ""))
    body = _DELIMITERS.sub("", body.replace("\\$", "")).strip().removesuffix(".").strip()
    head, units, _ = body.partition(_UNITS)
    body = _WORDS.sub(r"\1", head if units and head.strip() else body)
    try:
        return released_form(body)
    except ValueError:
        return "".join(body.split())


def _prepared(text: str) -> str:
    for gone in _DROPPED:
        text = text.replace(gone, "")
    for old, new in _AFTER_BACKSLASHES:
        text = text.replace(old, new)
    if _UNITS in text:
        head, *units = text.split(_UNITS)
        if len(units) > 1:
            raise ValueError("two units")
        text = head
    text = text.replace("\\%", "")
    for old, new in _LEADING_POINT:
        text = text.replace(old, new)
    return f"0{text}" if text.startswith(".") else text


def _without_name(text: str) -> str:
    """`x = 5` -> ` 5`, if what is left of a single equals sign has at most two characters."""
    sides = text.split("=")
    return sides[1] if len(sides) == 2 and len(sides[0]) <= 2 else text


def _without_spaces(text: str) -> str:
    if text.endswith("\\sqrt"):
        raise ValueError("a root of nothing")
    text = _SHORT_ROOT.sub(r"\\sqrt{\1}", text).replace(" ", "")
    if text.endswith("\\frac"):
        raise ValueError("a fraction of nothing")
    text = _whole_fractions(text)
    if text == "0.5":
        return "\\frac{1}{2}"
    slash = _SLASH.fullmatch(text)
    if text.count("/") == 1 and slash is None:
        _refuse_words(text)
    return f"\\frac{{{slash[1]}}}{{{slash[2]}}}" if slash else text


def _refuse_words(text: str) -> None:
    """The released code turns both sides of a slash into integers and gives up on words."""
    for side in text.split("/"):
        int(side)


def _whole_fractions(text: str) -> str:
    r"""`\frac12` and `\frac1{72}` with all their braces; as it is if one is cut off."""
    if re.search(r"\\frac[^{]$", text):
        return text
    return _SHORT_FRAC.sub(
        lambda found: (
            f"\\frac{{{found[1]}}}" + (found[2] if found[2] == "{" else f"{{{found[2]}}}")
        ),
        text,
    )
