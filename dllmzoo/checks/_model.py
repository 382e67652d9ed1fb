"""Model, weights, tokenizer and ids that do not belong together."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dllmzoo import catalogue
from dllmzoo.checks._files import CHARACTERS, Network, Vocabulary, config_of, locate, vocabulary_of
from dllmzoo.checks._found import Found
from dllmzoo.checks._loading import check_loading
from dllmzoo.errors import DllmzooError
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.zoo import MODELS


def check_model(recipe: Recipe, found: Found) -> Network:
    """Problems of the model section; what is known of the network, for the task's checks."""
    model = recipe.model
    if not found.sound("model.weights", "model.config", "model.tokenizer"):
        return Network()
    if model.weights is None and model.config is None:
        found.add(
            "model",
            "there is nothing to load and nothing to build: weights and config are both missing",
            f"write weights: one of {_known()}, a folder or a hub id; or config: {{...}}",
        )
        return Network()
    if model.weights is not None and model.config is not None:
        found.add(
            "model.config",
            "weights bring their own config, so this one would not be read",
            "remove config, or remove weights to train from nothing",
        )
    if model.weights is None:
        return _from_nothing(recipe, found)
    config: Mapping[str, Any] = {}
    try:
        where = locate(model.weights)
        config = config_of(where)
    except DllmzooError as error:
        found.add("model.weights", str(error), _weights_hint(model.weights))
        return Network()
    vocabulary = _vocabulary(recipe, found)
    ours = not config or _family(recipe, found, config)
    if config:
        _ids(recipe, found, config, vocabulary)
    if ours:
        check_loading(recipe, found, config, vocabulary, written=isinstance(where, Path))
    return Network(config, vocabulary)


def _from_nothing(recipe: Recipe, found: Found) -> Network:
    """A network built from `model.config`: its fields and its ids, by the family's own config."""
    model = recipe.model
    if model.tokenizer is None:
        found.add(
            "model.tokenizer",
            "a network from nothing needs a tokenizer",
            f'write tokenizer: "{CHARACTERS}01234=" for one token a character, or a folder',
        )
        return Network()
    vocabulary = _vocabulary(recipe, found)
    fields = dict(model.config or {})
    family: Any = MODELS.get(model.name)
    cls = family.config_class
    known = config_fields(cls)
    for name in fields:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]!r}?" if close else f"fields: {', '.join(sorted(known))}"
            found.add(f"model.config.{name}", f"{model.name} has no field {name!r}", hint)
    fields = {name: value for name, value in fields.items() if name in known}
    derived: dict[str, int | None] = {}
    if vocabulary is not None and vocabulary.size is not None:
        derived = {"pad_token_id": vocabulary.pad_id, "eos_token_id": vocabulary.eos_id}
        known_ids = {"vocab_size": vocabulary.size, "mask_token_id": vocabulary.mask_id}
        derived |= {name: value for name, value in known_ids.items() if value is not None}
    for name, value in derived.items():
        if value is None:
            continue
        given = fields.get(name, value)
        too_few = name == "vocab_size" and isinstance(given, int) and given < value
        if too_few or (name != "vocab_size" and given != value):
            found.add(
                f"model.config.{name}",
                f"{name} is {given}, and the tokenizer has {value}",
                f"remove {name}: it is taken from the tokenizer",
            )
            fields[name] = value
    try:
        made = cls(**(derived | fields))
    except (DllmzooError, ValueError, TypeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        for line in lines[1:] or lines:
            found.quote("model.config", line)
        return Network(fields, vocabulary)
    check_loading(recipe, found, made.to_dict(), vocabulary, written=False)
    return Network(made.to_dict(), vocabulary)


def config_fields(cls: Any) -> set[str]:
    """Fields that a family's config gives a meaning."""
    parameters = inspect.signature(cls.__init__).parameters.values()
    named = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD} - {"self"}
    return named | set(getattr(cls, "fixed_fields", ()))


def _vocabulary(recipe: Recipe, found: Found) -> Vocabulary | None:
    model = recipe.model
    path = "model.weights" if model.tokenizer is None else "model.tokenizer"
    spec = model.weights if model.tokenizer is None else model.tokenizer
    if spec is None:
        return None
    if spec.startswith(CHARACTERS):
        characters = spec.removeprefix(CHARACTERS)
        twice = sorted({each for each in characters if characters.count(each) > 1})
        if not characters or twice:
            what = f"names {twice[0]!r} twice" if twice else "names no character"
            found.add(path, f"the tokenizer {spec!r} {what}", "write each character once")
            return None
    try:
        return vocabulary_of(spec)
    except DllmzooError as error:
        found.add(path, str(error))
        return None


def _family(recipe: Recipe, found: Found, config: Mapping[str, Any]) -> bool:
    """Whether the weights are of the family that the recipe names."""
    name, held = recipe.model.name, str(config.get("model_type", ""))
    if importlib.util.find_spec(f"dllmzoo.models.{name}") is not None:
        expected = name
    else:
        family: Any = MODELS.get(name)
        expected = family.config_class.model_type
    fits = held.lower() == expected.lower()
    if not fits:
        hint = f"write model.name: {held.lower()}" if held.lower() in MODELS.names() else ""
        found.add(
            "model.weights",
            f"these weights are of the family {held or 'unknown'!r}, and model.name is {name!r}",
            hint or f"choose weights of {name}; families built here: {', '.join(MODELS.names())}",
        )
    return fits


def _ids(
    recipe: Recipe, found: Found, config: Mapping[str, Any], vocabulary: Vocabulary | None
) -> None:
    mask_id, size = config.get("mask_token_id"), config.get("vocab_size")
    rows = config.get("embedding_size") or size
    if not isinstance(mask_id, int):
        found.add("model.weights", "the config has no mask_token_id, and nothing can be masked")
        return
    if isinstance(rows, int) and not 0 <= mask_id < rows:
        found.add("model.weights", f"mask_token_id {mask_id} is none of the {rows} embeddings")
    family = str(config.get("model_type")).lower()
    for card in catalogue.cards("models"):
        public = card.family == family and card.vocab_size == size
        if public and card.mask_token_id not in (None, mask_id):
            found.add(
                "model.weights",
                f"mask_token_id is {mask_id}, and the public vocabulary of {size} tokens has its "
                f"mask at {card.mask_token_id}",
                f"see the card {card.name}",
            )
            break
    if vocabulary is None:
        return
    path = "model.weights" if recipe.model.tokenizer is None else "model.tokenizer"
    if vocabulary.mask_id is not None and vocabulary.mask_id != mask_id:
        found.add(
            path,
            f"the tokenizer's mask token has id {vocabulary.mask_id}, and the config's "
            f"mask_token_id is {mask_id}",
            "use the tokenizer that was published with these weights",
        )
    if vocabulary.size is not None and isinstance(rows, int) and vocabulary.size > rows:
        found.add(
            path,
            f"the tokenizer has ids up to {vocabulary.size - 1}, and the network only {rows} "
            f"embeddings",
            "use the tokenizer that was published with these weights",
        )


def _known() -> str:
    return ", ".join([*catalogue.names("weights"), *catalogue.names("models")])


def _weights_hint(spec: str) -> str:
    if spec.startswith("runs/"):
        return "train it first, or name the folder of another run"
    return f"cards: {_known()}"
