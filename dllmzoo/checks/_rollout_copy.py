"""A copy of the policy that samples in another precision: what it cannot be made of."""

from __future__ import annotations

from dllmzoo.checks._found import Found
from dllmzoo.recipe.recipe import Recipe


def check_rollout_copy(recipe: Recipe, found: Found) -> None:
    """`train.rollout_dtype` beside packed weights, and where nothing is sampled."""
    if recipe.train.rollout_dtype is None or not found.sound("train.rollout_dtype"):
        return
    if recipe.model.quantize is not None:
        found.add(
            "train.rollout_dtype",
            "rollout_dtype copies the weights in another precision, and those of model.quantize: "
            "4bit are packed and compute in bfloat16",
            "remove rollout_dtype",
        )
    if recipe.stage == "sft":
        notice = "train.rollout_dtype is not read in stage: sft, which samples nothing to train on"
        recipe.notices.extend({notice} - set(recipe.notices))
