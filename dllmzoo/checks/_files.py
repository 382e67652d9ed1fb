"""What the small files of a checkpoint say, read without transformers and without weights."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dllmzoo import catalogue
from dllmzoo.errors import ModelError
from dllmzoo.recipe._explain import shown

CONFIG, ADAPTER = "config.json", "adapter_config.json"
TOKENIZER = "tokenizer_config.json"
CHARACTERS = "characters:"
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w.-]+)?")
SPECIAL = 3
"""Padding, end and mask, which follow the characters of a character tokenizer in that order."""


@dataclass(frozen=True)
class Vocabulary:
    """What a tokenizer says of itself.

    Args:
        mask_id: id of its mask token; None = it has none, or it is not known.
        size: ids it uses; None = not known.
        characters: all that it can write, if it is a tokenizer of single characters.
        chat: whether it renders chat messages; None = not known.
        eos_id: id of its end token; None = it has none, or it is not known.
        pad_id: id of its padding token; the same.
    """

    mask_id: int | None = None
    size: int | None = None
    characters: str | None = None
    chat: bool | None = None
    eos_id: int | None = None
    pad_id: int | None = None


@dataclass(frozen=True)
class Network:
    """What is known of the model before it is loaded.

    Args:
        config: fields of config.json, or of the card; empty where nothing is at hand.
        vocabulary: of its tokenizer; None where nothing is at hand.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Vocabulary | None = None

    @property
    def longest(self) -> int | None:
        """Tokens of the longest sequence."""
        for name in ("max_sequence_length", "max_position_embeddings"):
            if isinstance(value := self.config.get(name), int):
                return value
        return None


def locate(spec: str) -> Path | dict[str, Any] | None:
    """The folder, or the card, that `spec` means; None for a hub id, which is not looked up.

    Raises:
        ModelError: it is none of these; suggests cards.
    """
    folder = Path(os.path.expanduser(spec))
    if os.path.isdir(folder):
        for each in (folder, folder / "final"):
            if (each / CONFIG).is_file() or (each / ADAPTER).is_file():
                return each
        raise ModelError(f"the folder {spec} holds neither {CONFIG} nor {ADAPTER}")
    if (shipped := catalogue.weights_folder(spec)) is not None:
        return shipped
    if spec in catalogue.names("models"):
        return catalogue.card("models", spec)
    if HUB_ID.fullmatch(spec) and not spec.startswith(("./", "../", "~", "runs/")):
        return None
    known = sorted({*catalogue.names("weights"), *catalogue.names("models")})
    close = difflib.get_close_matches(spec, known, n=2, cutoff=0.5)
    guess = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise ModelError(
        f"{shown(spec)} is neither a folder, nor a card, nor a hub id (owner/name){guess}"
    )


def config_of(where: Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """Fields of config.json; a card's facts under the same names; nothing for a hub id.

    Raises:
        ModelError: the file cannot be read.
    """
    if where is None:
        return {}
    if isinstance(where, Mapping):
        fields = ("mask_token_id", "eos_token_id", "vocab_size", "max_sequence_length")
        known = {name: where[name] for name in fields if where[name] is not None}
        stated = where.get("config") or {}
        known |= {name: stated[name] for name in ("block_size", "attention") if name in stated}
        return known | {"model_type": where["family"]}
    if (where / CONFIG).is_file():
        return _json(where / CONFIG)
    base = _json(where / ADAPTER).get("base_model_name_or_path")
    if not base:
        return {}
    return config_of(locate(str(where / base if (where / base).is_dir() else base)))


def vocabulary_of(spec: str) -> Vocabulary | None:
    """What the tokenizer of `spec` says; None where its files are not at hand.

    Raises:
        ModelError: there is no such place, or a file cannot be read.
    """
    if spec.startswith(CHARACTERS):
        characters = spec.removeprefix(CHARACTERS)
        return _of_characters(characters)
    folder = Path(os.path.expanduser(spec))
    where = folder if (folder / TOKENIZER).is_file() else locate(spec)
    if isinstance(where, Mapping):
        return Vocabulary(where["mask_token_id"])
    if where is None or not (where / TOKENIZER).is_file():
        return None
    stated = _json(where / TOKENIZER)
    ids = _ids(where)
    mask, eos, pad = (
        ids.get(_spelled(stated, f"{name}_token") or "") for name in ("mask", "eos", "pad")
    )
    chat = "chat_template" in stated or (where / "chat_template.jinja").is_file()
    if (characters := stated.get("characters")) is not None:
        return _of_characters(characters)
    size = max(ids.values()) + 1 if ids else None
    return Vocabulary(mask, size, None, chat, eos, pad)


def _of_characters(characters: str) -> Vocabulary:
    size = len(characters) + SPECIAL
    return Vocabulary(size - 1, size, characters, chat=False, eos_id=size - 2, pad_id=size - 3)


def _spelled(stated: Mapping[str, Any], name: str) -> str | None:
    """A special token of tokenizer_config.json as text."""
    token = stated.get(name)
    return token.get("content") if isinstance(token, dict) else token


def _ids(folder: Path) -> dict[str, int]:
    """Token -> id, as far as tokenizer.json and tokenizer_config.json list them."""
    found: dict[str, int] = {}
    if (folder / "tokenizer.json").is_file():
        content = _json(folder / "tokenizer.json")
        vocabulary = content.get("model", {}).get("vocab", {})
        if isinstance(vocabulary, dict):
            found |= vocabulary
        found |= {each["content"]: each["id"] for each in content.get("added_tokens", [])}
    decoder = _json(folder / "tokenizer_config.json").get("added_tokens_decoder", {})
    return found | {each["content"]: int(number) for number, each in decoder.items()}


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path} does not hold a JSON object")
    return content
