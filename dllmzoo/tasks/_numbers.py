"""The number that a short text states, exactly, or nothing where it is not a single number."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from dllmzoo.tasks._boxed import closing

Percent = Literal["number", "fraction"]

LONGEST = 1000
"""Characters above which a text is no statement of a number."""
MOST_DIGITS = 300

_UNSIGNED = r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)"
_SIGNED = rf"[+-]?\s?{_UNSIGNED}"
_LETTER = r"[^\W\d_]"
_STATED = re.compile(
    rf"(?P<before>[^0-9\\]*?)(?P<sign>(?<![+-])[+-]\s?)?"
    rf"(?:(?P<whole>[0-9]+)?\s*\\frac\{{\s*(?P<top>{_SIGNED})\s*\}}\{{\s*(?P<bottom>{_SIGNED})\s*\}}"
    rf"|(?P<number>{_UNSIGNED})(?:\s*/\s*(?P<divisor>{_SIGNED}))?)"
    r"(?P<percent>\s*%)?(?P<after>[^0-9\\]*)"
)
_BEFORE = re.compile(rf"(?:(?:{_LETTER}|[.,;:?!'\"#\s])*)(?:=\s*)?")
_AFTER = re.compile(
    rf"[.,;:?'\"]*(?:\s(?:{_LETTER}|(?<={_LETTER})-(?={_LETTER})|[.,;:?!'\"()\s])*)?"
)
_VARIABLE_BEFORE = re.compile(r"\b[xyzn]\s*$")
_VARIABLE_AFTER = re.compile(r"\s[xyzn]\b")

_ANYWHERE = (
    r"minus|negative|plus|not|divided|multiplied|(?:hundred|thousand|(?:m|b|tr)illion|dozen)(?:s|ths?)?"
    r"|half|halves|quarters?|thirds?|(?:four|fif|six|seven|eigh|nin|ten)ths|over|under|at\s+(?:least|most)"
)
_COUNTED = (
    r"(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|(?:thir|four|fif|six|seven|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty)"
)
_CHANGED_BEFORE = re.compile(
    rf"\b(?:{_ANYWHERE}|(?:less|more|fewer|greater)\s+than|below|above|up\s+to|about"
    rf"|approximately|nearly|almost|twice|double|triple|times|roots?|sqrt|log|ln|sin|cos|tan)\b"
    rf"|\b(?:{_COUNTED}(?:\s+(?:and|or|to|point))?|pi|\u03c0|i|e)\s*$",
    re.IGNORECASE,
)
_CHANGED_AFTER = re.compile(
    rf"\b(?:{_ANYWHERE}|or\s+(?:more|less|fewer)|squared|cubed|factorial|doubled|tripled|halved"
    rf"|times(?!\W*$|\s+(?:a|an|per|each|as|more)\b))\b"
    rf"|^\s*,?\s*(?:(?:and|or|to|point)\s+)?{_COUNTED}\b(?!-)"
    rf"|^\s*(?:pi|\u03c0|i(?!\.\s*e\b)|e|k|sqrt|log|ln|sin|cos|tan)\b",
    re.IGNORECASE,
)

_SIGNS = str.maketrans(
    {"\u2212": "-", "\u2013": "-", "\ufe63": "-", "\uff0d": "-", "\u00a0": " ", "\u2009": "~"}
    | {"\u202f": "~", "\u20ac": "", "\u00a3": "", "\u00a5": "", "\u00b0": ""}
)
_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\(?:left|right)(?![A-Za-z])|\\!|\\[()\[\]]|\\?\$", ""),
        (r"\{,\}", ","),
        (r"(?<=[0-9])(?:\\[,;: ]|~)(?=[0-9]{3}(?![0-9]))", ","),
        (r"\\[,;: ]|~|\\q?quad(?![A-Za-z])", " "),
        (r"\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})|\\degree(?![A-Za-z])", ""),
        (
            r"\\(?:text(?:rm|bf|it|normal)?|mathrm|mathbf|mbox)\s*\{([^{}]*)\}(?:\^\{?[0-9]\}?)?",
            r" \1 ",
        ),
        (r"\\%|\s+percent\b", "%"),
        (r"\\frac\s*([0-9])\s*([0-9])", r"\\frac{\1}{\2}"),
        (r"\\frac\s*([0-9])\s*\{", r"\\frac{\1}{"),
        (r"\\frac\s*\{([^{}]*)\}\s*([0-9])", r"\\frac{\1}{\2}"),
        (r"\\frac\s*\{([^{}]*)\}\s*\{", r"\\frac{\1}{"),
    )
)


def read_number(text: str, percent: Percent = "number") -> Fraction | None:
    r"""The number that a text states; None for none, for several, and for a formula.

    Read are signs, decimals, thousands in groups of three, fractions (`3/4`, `\frac{3}{4}`), mixed
    numbers (`3\frac{1}{2}`), currencies, units and words around the number, and `name = number`.
    A letter glued to a digit (`3x`, `1e3`), wrong groups (`1,00`), a second number, and words that
    change the value (`minus 5`, `5 million`, `5 and a half`, `about 5`, `5 i`) make it none.

    Args:
        text: an answer, up to 1000 characters.
        percent: whether `50%` is the number 50, or the fraction 1/2.

    Example:
        >>> read_number(r"\$70{,}000"), read_number("72 clips, altogether."), read_number("3 4")
        (Fraction(70000, 1), Fraction(72, 1), None)
    """
    if len(text) > LONGEST or sum(map(str.isdigit, text)) > MOST_DIGITS:
        return None
    stated = _STATED.fullmatch(_plain(text))
    if stated is None or not _stands_alone(stated):
        return None
    if stated["number"] is not None:
        top, bottom, whole = stated["number"], stated["divisor"] or "1", "0"
    else:
        top, bottom, whole = stated["top"], stated["bottom"], stated["whole"] or "0"
    divisor = _fraction(bottom)
    if divisor == 0:
        return None
    value = _fraction(whole) + _fraction(top) / divisor
    if (stated["sign"] or "").startswith("-"):
        value = -value
    return value / 100 if stated["percent"] and percent == "fraction" else value


def last_number(text: str) -> str | None:
    """The last number anywhere in the text, as it is written; None without any."""
    found = re.findall(rf"(?<![\w.,])-?{_UNSIGNED}(?!\w)", text.translate(_SIGNS))
    return found[-1] if found else None


def _plain(text: str) -> str:
    """The text without currency, LaTeX spacing and unit macros; fractions in one form."""
    body = text.translate(_SIGNS)
    for pattern, new in _REWRITES:
        body = pattern.sub(new, body)
    body = body.strip()
    while _wrapped(body):
        body = body[1:-1].strip()
    return body


def _wrapped(body: str) -> bool:
    """Whether one pair of braces or parentheses is around all of it."""
    if body.startswith("{"):
        return closing(body, 0) == len(body) - 1
    return body.startswith("(") and body.find(")") == len(body) - 1 and "(" not in body[1:]


def _stands_alone(stated: re.Match[str]) -> bool:
    """Whether nothing but words and punctuation is around the number, none of it glued on."""
    before, after, sign = stated["before"], stated["after"], stated["sign"] or ""
    if not _BEFORE.fullmatch(before) or not _AFTER.fullmatch(after):
        return False
    if before and (before[-1].isalpha() or before[-1] in "'\".,"):
        return False
    if sign and before:
        apart = sign != sign.strip() and "=" not in before
        if apart or before[-1] not in " =:\n\t":
            return False
    if _VARIABLE_BEFORE.search(before) or _VARIABLE_AFTER.match(after):
        return False
    return not _CHANGED_BEFORE.search(before) and not _CHANGED_AFTER.search(after)


def _fraction(written: str) -> Fraction:
    """The value of digits with a sign, a decimal point and thousands' commas."""
    digits = re.sub(r"[,\s]", "", written)
    return Fraction(f"{digits}0" if digits.endswith(".") else digits)
