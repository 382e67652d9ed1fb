"""Answers that a task gives with its prompts: whole ones, or texts with blanks."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from dllmzoo.tasks._grids import DIGITS

BLANK = "[MASK]"
"""One blank token in a given text, whatever the tokenizer calls its mask token."""


def spoilt(example: Mapping[str, str], generator: torch.Generator) -> str:
    """The solution with some blank cells wrong: one to all of them, each with another digit.

    Args:
        example: `puzzle` and `solution`; without a blank nothing can be spoilt.
        generator: the only source of randomness.
    """
    blanks = [cell for cell, clue in enumerate(example["puzzle"]) if clue == "0"]
    grid = list(example["solution"])
    if not blanks:
        return "".join(grid)
    wrong = 1 + int(torch.randint(len(blanks), (), generator=generator))
    for place in torch.randperm(len(blanks), generator=generator)[:wrong].tolist():
        others = [digit for digit in DIGITS if digit != grid[blanks[place]]]
        grid[blanks[place]] = others[int(torch.randint(len(others), (), generator=generator))]
    return "".join(grid)
