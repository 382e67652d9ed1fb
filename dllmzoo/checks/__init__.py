"""What must fit together before weights are loaded: parts, counts, model, tokenizer, data."""

from __future__ import annotations

from dllmzoo.checks._found import Found
from dllmzoo.checks._model import check_model
from dllmzoo.checks._parts import check_counts, check_evaluation, check_parts
from dllmzoo.checks._task import check_task
from dllmzoo.errors import Problem
from dllmzoo.recipe.recipe import Recipe


def check(recipe: Recipe) -> list[Problem]:
    """Every problem across the parts of a recipe, each at the key to change; reads no weights.

    A part that leaves out what its protocol lets it say is taken to need and give the usual.

    Args:
        recipe: as `dllmzoo.recipe.load` returns it.
    """
    found = Found(recipe)
    if recipe.stage == "rl":
        check_parts(recipe, found)
        check_counts(recipe, found)
    check_evaluation(recipe, found)
    network = check_model(recipe, found)
    check_task(recipe, found, network)
    return found.in_order()
