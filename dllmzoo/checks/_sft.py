"""What supervised training asks of the network's attention."""

from __future__ import annotations

import inspect
from typing import Any

from dllmzoo.checks._blocks import without_blocks
from dllmzoo.checks._files import Network
from dllmzoo.checks._found import Found
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.zoo import MODELS


def check_sft(recipe: Recipe, found: Found, network: Network) -> None:
    """Noise levels of blocks, and documents in one row; reads no weights."""
    if not found.sound("stage", "model.name", "model.weights", "model.config"):
        return
    if recipe.sft.noise == "block" and found.sound("sft.noise"):
        why = without_blocks(recipe, network)
        if why is not None:
            found.add(
                "sft.noise",
                f"noise: block has a level for each block of the network's attention, and {why}",
                "use noise: row, or model.name: sdar with attention: block_causal",
            )
    if recipe.sft.pack is not None and found.sound("sft.pack"):
        family: Any = MODELS.get(recipe.model.name)
        if "document_ids" not in inspect.signature(family.forward).parameters:
            found.add(
                "sft.pack",
                f"pack puts several documents into a row, and {recipe.model.name} has no mask that "
                f"keeps them apart",
                "use pack: null with tail: batch, which fills rows up to the longest answer",
            )
