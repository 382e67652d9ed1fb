"""What the loader would refuse, asked of the family's own code before a weight is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dllmzoo.checks._files import Vocabulary
from dllmzoo.checks._found import Found
from dllmzoo.errors import DllmzooError
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.zoo import MODELS


def check_loading(
    recipe: Recipe, found: Found, config: Mapping[str, Any], vocabulary: Vocabulary | None, *,
    written: bool,
) -> None:  # fmt: skip
    """A config that the family does not build, end tokens that differ, adapters on nothing.

    Args:
        recipe: its model section is sound.
        found: takes the problems.
        config: fields of the network; empty where nothing is known.
        vocabulary: of the tokenizer; None where nothing is known.
        written: the config is a whole config.json, not some facts about one.
    """
    family: Any = MODELS.get(recipe.model.name)
    made, told = None, {problem.path for problem in found.problems}
    if written and config and "model.weights" not in told:
        made = _config(recipe, found, family, config)
    key = "model.weights" if recipe.model.tokenizer is None else "model.tokenizer"
    if config and vocabulary is not None and key not in told:
        _end(key, found, family, config, vocabulary)
    if recipe.model.lora is not None and found.sound("model.lora"):
        _adapters(recipe, found, family, config if made is None else made)


def _config(recipe: Recipe, found: Found, family: Any, config: Mapping[str, Any]) -> Any:
    """The config as the family reads it; None if it refuses."""
    try:
        return family.config_class.from_dict(dict(config))
    except (DllmzooError, ValueError, TypeError) as error:
        found.add(
            "model.weights",
            f"its config.json is refused: {error}",
            f"use a checkpoint that {recipe.model.name} builds, or mend the file",
        )
        return None


def _end(
    key: str, found: Found, family: Any, config: Mapping[str, Any], vocabulary: Vocabulary
) -> None:
    """An answer must end where the tokenizer says that texts end."""
    stated, wanted = config.get("eos_token_id"), vocabulary.eos_id
    listed = stated if isinstance(stated, list | tuple) else [stated]
    turn = getattr(family, "end_of_turn", {}).get(config.get("vocab_size"))
    ends = {number for number in [*listed, turn] if isinstance(number, int)}
    if wanted is None or not ends or wanted in ends:
        return
    found.add(
        key,
        f"the tokenizer's end token has id {wanted}, and answers end at "
        f"{', '.join(map(str, sorted(ends)))}: eos_token_id of the config",
        "use the tokenizer that was published with these weights, or write both ids into "
        "eos_token_id",
    )


def _adapters(recipe: Recipe, found: Found, family: Any, config: Any) -> None:
    """Presets and names of layers, held against the layers of a network without storage."""
    import torch

    from dllmzoo.models._lora import check_targets, lora_pattern

    lora = recipe.model.lora
    assert lora is not None
    try:
        lora_pattern(family, lora)
        if lora.targets is None:
            return
        if isinstance(config, Mapping):
            known = {"num_hidden_layers", "n_layers"} & set(config)
            config = family.config_class(**{name: config[name] for name in known})
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            check_targets(family(config), lora)
    except (DllmzooError, ValueError, TypeError) as error:
        key = "targets" if lora.targets is not None else "preset"
        found.add(f"model.lora.{key}", str(error).removeprefix("model.lora.targets: "))
