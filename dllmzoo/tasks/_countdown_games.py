"""Countdown games: made at random with a solution, split by their numbers, solved by search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Any

import torch

from dllmzoo.errors import TaskError
from dllmzoo.records import Example
from dllmzoo.tasks._splits import shuffle_rank

Numbers = tuple[int, ...]
Game = dict[str, Any]
"""`numbers` and `target`, and `solution` where one is known."""

PATIENCE = 1000
"""Games in a row without a new one after which no more are looked for."""

BARREN = 100_000
"""Sets of numbers drawn without a game after which there is held to be none."""

NUMBERS_AT_ONCE = 64
"""Sets of numbers drawn at a time; changing it changes every generated game."""

_SIGNS = "+-*/"
_LEVEL = {"+": 1, "-": 1, "*": 2, "/": 2}
_LIST = re.compile(r"[\[(]?\s*[0-9]+(?:\s*[,; ]\s*[0-9]+)*\s*[\])]?")
NUMBERS, TARGET = ("nums", "numbers", "input"), ("target", "output")


@dataclass(frozen=True)
class _Part:
    """An expression with its value; `level` 3 binds like a number."""

    value: Fraction
    text: str
    level: int = 3


def same_numbers(game: Example) -> Numbers:
    """The numbers of a game in order: what training and test must not share."""
    return tuple(sorted(game["numbers"]))


def held_out(numbers: Sequence[int], share: float, seed: int) -> bool:
    """Whether games with these numbers, in any order and with any target, are test games.

    The choice comes from a hash, so that it is the same everywhere and for ever.

    Args:
        numbers: of a game.
        share: of all sets of numbers that is held out, in (0, 1).
        seed: of the choice.
    """
    rank = shuffle_rank(seed, " ".join(map(str, sorted(numbers))))
    return int.from_bytes(rank[:8], "big") < share * 2**64


def games(
    count: int,
    largest: int,
    largest_target: int,
    wanted: Callable[[Sequence[int]], bool],
    generator: torch.Generator,
) -> Iterator[Game]:
    """Endless independent games that have a solution.

    The numbers are uniform among those that are wanted; they are joined at random, two at a
    time, until one value is left. Every value on the way is a positive integer, and the last one,
    the target, is at most `largest_target`; other games are thrown away.

    Args:
        count: numbers of a game, >= 2.
        largest: number, >= 1; the smallest is 1.
        largest_target: largest target, >= 1.
        wanted: whether a game may have these numbers.
        generator: the only source of randomness.

    Raises:
        TaskError: no game is found among 100 000 sets of numbers.
    """
    barren = 0
    while True:
        if barren >= BARREN:
            raise TaskError(
                f"no game of {count} numbers up to {largest} with a target up to {largest_target} "
                f"is found on this side of the split; raise task.largest or task.largest_target, "
                f"or change task.test_share"
            )
        barren += NUMBERS_AT_ONCE
        drawn = torch.randint(largest, (NUMBERS_AT_ONCE, count), generator=generator) + 1
        for numbers in filter(wanted, drawn.tolist()):
            part = _joined([_Part(Fraction(n), str(n)) for n in numbers], generator)
            if part is not None and part.value <= largest_target:
                barren = 0
                yield {"numbers": numbers, "target": int(part.value), "solution": part.text}


def distinct(endless: Iterator[Game], num: int) -> list[Game]:
    """The first `num` games with different numbers or targets; fewer where they run out."""
    found: dict[tuple[Numbers, int], Game] = {}
    repeated = 0
    for game in endless:
        if len(found) >= num or repeated >= PATIENCE:
            break
        before = len(found)
        found.setdefault((same_numbers(game), game["target"]), game)
        repeated = 0 if len(found) > before else repeated + 1
    return list(found.values())[:num]


def solve(numbers: Sequence[int], target: int) -> str | None:
    """An expression of all the numbers that reaches the target; None if there is none.

    Every way to join them is tried: without a solution 0.1 s for four numbers, a minute for six.
    """
    return _solved([_Part(Fraction(n), str(n)) for n in numbers], Fraction(target), set())


def game_of(row: Mapping[str, Any]) -> Game:
    """A game of a row of data: lists of numbers, or text such as `3,5,2`.

    Raises:
        ValueError: no list of numbers, or no target.
    """
    given = next((row[name] for name in NUMBERS if row.get(name) is not None), None)
    target = next((row[name] for name in TARGET if row.get(name) is not None), None)
    if isinstance(given, str) and _LIST.fullmatch(given.strip()):
        numbers = [int(n) for n in re.findall("[0-9]+", given)]
    elif isinstance(given, Sequence) and not isinstance(given, str) and all(map(_whole, given)):
        numbers = [int(n) for n in given]
    else:
        raise ValueError(f"{given!r} is no list of positive integers")
    if len(numbers) < 2:
        raise ValueError(f"{given!r} holds fewer than two numbers")
    if not re.fullmatch("[0-9]+", str(target).strip()):
        raise ValueError(f"the target {target!r} is no integer")
    return {"numbers": numbers, "target": int(str(target).strip())}


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _joined(parts: list[_Part], generator: torch.Generator) -> _Part | None:
    """All parts joined in a random way; None where a value would be no positive integer."""
    while len(parts) > 1:
        first, second = torch.randperm(len(parts), generator=generator)[:2].tolist()
        sign = _SIGNS[int(torch.randint(len(_SIGNS), (), generator=generator))]
        part = _together(parts[first], sign, parts[second])
        if part is None or part.value <= 0 or part.value.denominator != 1:
            return None
        parts = [p for i, p in enumerate(parts) if i not in (first, second)] + [part]
    return parts[0]


def _solved(parts: list[_Part], target: Fraction, seen: set[tuple[Fraction, ...]]) -> str | None:
    if len(parts) == 1:
        return parts[0].text if parts[0].value == target else None
    values = tuple(sorted(part.value for part in parts))
    if values in seen:
        return None
    seen.add(values)
    for i, j in permutations(range(len(parts)), 2):
        rest = [part for k, part in enumerate(parts) if k not in (i, j)]
        for sign in _SIGNS:
            part = _together(parts[i], sign, parts[j])
            found = part and _solved([*rest, part], target, seen)
            if found:
                return found
    return None


def _together(left: _Part, sign: str, right: _Part) -> _Part | None:
    """`left sign right` with the parentheses it needs; None for a division by 0."""
    if sign == "/" and right.value == 0:
        return None
    level = _LEVEL[sign]
    before = f"({left.text})" if left.level < level else left.text
    tight = right.level < level or (right.level == level and sign in "-/")
    after = f"({right.text})" if tight else right.text
    a, b = left.value, right.value
    value = {"+": a + b, "-": a - b, "*": a * b}[sign] if sign != "/" else a / b
    return _Part(value, f"{before}{sign}{after}", level)
