"""An approximate cache of a sampler: whether the network makes one, and that it is never silent."""

from __future__ import annotations

from typing import Any

from dllmzoo.checks._found import Found
from dllmzoo.recipe.plain import name_of
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.zoo import MODELS


def check_cache(recipe: Recipe, found: Found) -> None:
    """A sampler's cache that the network lacks; a notice where answers are approximations."""
    samplers = {"sampler": recipe.sampler, "evaluate.sampler": recipe.evaluate.sampler}
    for key, sampler in samplers.items():
        if getattr(sampler, "needs_canvas_cache", False) and found.sound(key, "model.name"):
            _network(recipe, found, key, sampler)
            _notice(recipe, key, sampler)


def _network(recipe: Recipe, found: Found, key: str, sampler: Any) -> None:
    from dllmzoo.samplers._canvas_reads import with_cache

    family = recipe.model.name
    if not hasattr(MODELS.get(family), "new_canvas_cache"):
        found.add(
            f"{key}.cache",
            f"sampler {name_of(sampler)} keeps keys and values of the canvas, and networks of the "
            f"family {family} do not",
            f"remove cache, or use a network of {' or '.join(with_cache())}",
        )
    elif recipe.model.compile:
        found.add(
            "model.compile",
            f"blocks are compiled for forwards without a cache, and {key}.cache reads from one",
            f"use compile: false, or remove {key}.cache",
        )


def _notice(recipe: Recipe, key: str, sampler: Any) -> None:
    """What is approximate, once for each sampler."""
    if not getattr(sampler, "approximate", False):
        return
    notice = f"{key}.cache ({sampler.cache.kind}) is an approximation: "
    if key == "evaluate.sampler" or recipe.stage == "sft":
        notice += "evaluations say what the model does with old keys and values"
    else:
        notice += (
            "answers do not follow the policy's own law; the metric sampling_gap says how many "
            "nats a token is off"
        )
        if recipe.evaluate.sampler is None:
            notice += ". Evaluations use it too, unless evaluate.sampler names another sampler"
    recipe.notices.extend({notice} - set(recipe.notices))
