"""Every combination of recipes, values and seeds, from the words of a command line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

from dllmzoo.errors import UsageError
from dllmzoo.lab.runs import Arm

OPEN = {"[": "]", "{": "}", "(": ")"}
LONGEST = 40
"""Characters of a value in the name of a run."""


def split_values(text: str) -> tuple[str, ...]:
    """The values between the commas of a word; brackets and quotes keep theirs together.

    A bracket or a quote that is never closed leaves the text whole: the recipe's parser will say
    what is wrong with it.

    Example:
        >>> split_values("[5,8],[6,8]")
        ('[5,8]', '[6,8]')
    """
    values: list[str] = []
    closing: list[str] = []
    quote, start, fresh = "", 0, True  # fresh: a value begins here, so a quote opens a string
    i = 0
    while i < len(text):
        char = text[i]
        if quote:
            if (char == "\\" and quote == '"') or (char == quote == "'" == text[i + 1 : i + 2]):
                i += 1  # the next one stands for itself
            elif char == quote:
                quote = ""
        elif char in "\"'" and fresh:
            quote, fresh = char, False
        elif char in OPEN:
            closing.append(OPEN[char])
            fresh = True
        elif closing and char == closing[-1]:
            closing.pop()
            fresh = False
        elif char == "," and not closing:
            values.append(text[start:i])
            start, fresh = i + 1, True
        elif not char.isspace():
            fresh = char in ",:"
        i += 1
    if quote or closing:
        return (text.strip(),)
    return tuple(value.strip() for value in (*values, text[start:]))


def parse_axes(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Key -> values, of words `key=a,b,c`, in the order given.

    Raises:
        UsageError: a word is no change to a recipe, a key or a value comes twice, or a value
            between two commas is empty.
    """
    axes: dict[str, tuple[str, ...]] = {}
    for word in words:
        key, equals, text = word.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UsageError(f"{word!r} changes nothing in a recipe: write key=value")
        if key in axes:
            raise UsageError(f"{key} is given twice; write its values with commas: {key}=1,2")
        values = split_values(text)
        if len(values) > 1 and not all(values):
            raise UsageError(f"{word!r} has an empty value between its commas; write null for none")
        if len(set(values)) < len(values):
            raise UsageError(f"{word!r} has the same value twice")
        if key == "output":
            raise UsageError(
                "each run of a sweep has its own `output`; give --output for the sweep"
            )
        axes[key] = values
    return axes


def refuse_taken(changes: Iterable[str], taken: Mapping[str, str]) -> None:
    """Raise if a change to all runs is of a key that tells the runs apart, or was to be lost.

    Args:
        changes: words `key=value`.
        taken: key -> who sets it and everything below it.

    Raises:
        UsageError: names the first such key.
    """
    for word in changes:
        changed = word.partition("=")[0].strip()
        for key, who in taken.items():
            if changed == key or changed.startswith(f"{key}."):
                raise UsageError(f"{changed} cannot be changed here: {key} is set by {who}")


def grid(recipes: Sequence[str], axes: dict[str, tuple[str, ...]], seeds: int | None) -> list[Arm]:
    """An arm for every recipe, combination of values, and seed; the seed varies fastest.

    Args:
        recipes: files or names of packaged recipes.
        axes: as `parse_axes` gives them.
        seeds: run seeds 0, 1, ... seeds - 1; None = as the recipe or `seed=` says.

    Raises:
        UsageError: seeds are asked for in two ways.
    """
    if seeds is not None:
        if "seed" in axes:
            raise UsageError("--seeds and seed= both set the seeds; give one of them")
        if seeds < 1:
            raise UsageError("--seeds must be 1 or more")
        axes = {**axes, "seed": tuple(map(str, range(seeds)))}
    varied = [key for key, values in axes.items() if len(values) > 1 or key == "seed"]
    words = {
        key: [f"{short}={value}" for value in _file_words(axes[key])]
        for key, short in zip(varied, _short(varied), strict=True)
    }
    arms = []
    for recipe, label in zip(recipes, labels(recipes), strict=True):
        for places in product(*(range(len(values)) for values in axes.values())):
            chosen = dict(zip(axes, places, strict=True))
            name = ",".join([label, *(words[key][chosen[key]] for key in varied)])
            overrides = tuple(f"{key}={axes[key][place]}" for key, place in chosen.items())
            arms.append(Arm(name, recipe, overrides))
    return arms


def labels(recipes: Sequence[str]) -> list[str]:
    """A short name for each recipe: that of its file, with folders where two share it.

    Raises:
        UsageError: a recipe is given twice.
    """
    if len(set(recipes)) < len(recipes):
        twice = next(recipe for recipe in recipes if recipes.count(recipe) > 1)
        raise UsageError(f"{twice} is given twice")
    paths = [Path(re.sub(r"\.ya?ml$", "", recipe)) for recipe in recipes]
    names = [path.name for path in paths]
    return _file_words(
        [
            "-".join(part for part in path.parts if part not in ("/", ".", ".."))
            if names.count(path.name) > 1
            else path.name
            for path in paths
        ]
    )


def _short(keys: Sequence[str]) -> list[str]:
    """The last word of each dotted key, or all of it where two would be alike."""
    last = [key.rpartition(".")[2] for key in keys]
    return [key if last.count(word) > 1 else word for key, word in zip(keys, last, strict=True)]


def _file_words(values: Sequence[str]) -> list[str]:
    """Values as parts of a file name; long ones, and those that would be alike, get a hash."""
    plain = [_plain(value) for value in values]
    return [
        f"{word[:LONGEST]}-{hashlib.sha256(value.encode()).hexdigest()[:6]}"
        if len(word) > LONGEST or plain.count(word) > 1
        else word
        for word, value in zip(plain, values, strict=True)
    ]


def _plain(value: str) -> str:
    """A value without what a file name cannot hold; a minus sign stays."""
    word = re.sub(r"[^\w.+-]+", "-", value, flags=re.ASCII).rstrip("-")
    return (word if value.startswith("-") else word.lstrip("-")) or "x"
