"""What must fit together before weights are loaded: parts, counts, model, tokenizer, data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dllmzoo.checks._blocks import check_blocks
from dllmzoo.checks._cache import check_cache
from dllmzoo.checks._found import Found
from dllmzoo.checks._model import check_model
from dllmzoo.checks._parts import check_counts, check_evaluation, check_parts
from dllmzoo.checks._protocol import check_protocols
from dllmzoo.checks._rollout_copy import check_rollout_copy
from dllmzoo.checks._sft import check_sft
from dllmzoo.checks._task import check_task
from dllmzoo.errors import Problem, RecipeError
from dllmzoo.recipe._explain import in_order
from dllmzoo.recipe.recipe import Recipe, Source, attempt


def check(recipe: Recipe, known: Sequence[Problem] = ()) -> list[Problem]:
    """Every problem across the parts of a recipe, each at the key to change; reads no weights.

    A part that leaves out what its protocol says only `where it applies` is taken to need and to
    give the usual; one that leaves out more is a problem.

    Args:
        recipe: as `dllmzoo.recipe.load` returns it.
        known: problems of single keys, from which nothing further is concluded.
    """
    found = Found(recipe, known)
    check_protocols(recipe, found)
    if recipe.stage == "rl" and found.sound("stage"):
        check_parts(recipe, found)
        check_counts(recipe, found)
    check_evaluation(recipe, found)
    network = check_model(recipe, found)
    check_blocks(recipe, found, network)
    check_cache(recipe, found)
    check_rollout_copy(recipe, found)
    if recipe.stage == "sft":
        check_sft(recipe, found, network)
    check_task(recipe, found, network)
    return found.in_order()


def load_checked(
    source: Source, overrides: Iterable[str] | Mapping[str, Any] = (), *, smoke: bool = False
) -> Recipe:
    """A recipe that is fit to run: `dllmzoo.recipe.load`, then `check`.

    Raises:
        RecipeError: the problems of single keys and those across parts, all at once.
    """
    recipe, problems = attempt(source, overrides, smoke=smoke)
    if recipe is not None:
        problems = in_order([*problems, *check(recipe, problems)])
    if problems or recipe is None:
        raise RecipeError(problems)
    return recipe
