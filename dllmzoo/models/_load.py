"""Models and tokenizers by folder, card or hub id; what does not fit together is not loaded."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from dllmzoo.errors import DllmzooError, ModelError, UsageError
from dllmzoo.models._four_bits import four_bits, only_four_bits
from dllmzoo.models._lora import around_peft
from dllmzoo.models._source import (
    ADAPTER,
    CONFIG,
    local,
    read_config,
    read_json,
    resolve,
    unreachable,
)
from dllmzoo.models._tokenizer import character_tokenizer
from dllmzoo.records import Key
from dllmzoo.zoo import MODELS

CHARACTERS, TOKENIZER = "characters:", "tokenizer_config.json"
DTYPES = ("float32", "bfloat16", "float16", "float64")


def load_model(
    path_or_card: str | Path,
    *,
    dtype: str | torch.dtype = "float32",
    device_map: Any = None,
    name: str | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    quantize: str | None = None,
) -> Any:
    """The network of a checkpoint, in evaluation mode.

    Family, ids and config are checked before a weight is read; then every tensor must be used
    exactly once.

    Args:
        path_or_card: a folder (a checkpoint, a LoRA adapter, or a run), a card, or a hub id.
        dtype: of the weights in memory, `float32` or `bfloat16`, whatever the file holds.
        device_map: as in transformers: `auto`, `cuda`, or a mapping of modules to devices.
        name: the family the caller expects; None = whatever config.json says.
        tokenizer: checked against the config; None checks the one beside the weights, if any.
        quantize: `4bit` holds the linear layers of the blocks in 4-bit NormalFloat.

    Returns:
        A `PreTrainedModel` of ours, or a `PeftModel` around one for an adapter folder.

    Raises:
        ModelError: nothing there, another family, an id that does not fit, tensors that differ.
        UsageError: `quantize` without the package it needs; never full precision instead.
    """
    dtype = _dtype(dtype)
    bits = None if quantize is None else four_bits(dtype)
    where = resolve(path_or_card)
    if isinstance(where, Path) and (where / ADAPTER).is_file() and not (where / CONFIG).is_file():
        if bits is not None:
            raise UsageError(f"{where} is an adapter; quantize its base, or merge it first")
        return _load_adapter(where, dtype, device_map, name)
    fields = read_config(where)
    cls = family_class(fields, name, str(path_or_card))
    config = cls.config_class.from_dict(dict(fields))
    if tokenizer is None:
        tokenizer = _tokenizer_beside(where, fields)
    check_config(config, tokenizer, str(path_or_card))
    with quiet():
        try:
            model = cls.from_pretrained(
                str(local(where, "weights")), config=config, dtype=dtype, device_map=device_map,
                quantization_config=bits,
            )  # fmt: skip
        except DllmzooError:
            raise
        except Exception as error:
            raise unreachable(where, error) from error
    model.name_or_path = str(path_or_card)
    if bits is not None:
        only_four_bits(model)
    return model.eval()


def build_model(
    name: str,
    config: Mapping[str, Any] | None,
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
    *,
    dtype: str | torch.dtype = "float32",
) -> Any:
    """A network from nothing, in evaluation mode; its weights depend on `seed` alone.

    Args:
        name: family, a registered model.
        config: fields of the family's config; vocabulary size and ids come from the tokenizer.
        tokenizer: must have a mask token.
        seed: of the recipe; the global generator is not touched.
        dtype: of the weights.

    Raises:
        ModelError: an unknown field, an impossible shape, or ids that are not the tokenizer's.
    """
    cls: Any = MODELS.get(name)
    fields = dict(config or {})
    known = _config_fields(cls.config_class)
    problems = [_unknown_field(each, known) for each in fields if each not in known]
    if problems:
        raise ModelError(f"model.config of {name}: " + "; ".join(problems))
    made = cls.config_class(**(fields_of_tokenizer(tokenizer) | fields))
    check_config(made, tokenizer, f"model.config of {name}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Key(seed, 0, "init").generator().initial_seed())
        model = cls(made)
    return model.to(_dtype(dtype)).eval()


def fields_of_tokenizer(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Fields that the config of a network from nothing takes from its tokenizer."""
    return {
        "vocab_size": len(tokenizer),
        "mask_token_id": tokenizer.mask_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def load_tokenizer(spec: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder, a card or a hub id, or a fresh one for `characters:01234=`.

    A checkpoint whose mask token is an ordinary token gets it registered by its id; the
    vocabulary is never enlarged.

    Raises:
        ModelError: there is none, or it lacks the mask token.
    """
    if isinstance(spec, str) and spec.startswith(CHARACTERS):
        return character_tokenizer(spec.removeprefix(CHARACTERS))
    folder = Path(spec).expanduser()
    if str(spec) and (folder / TOKENIZER).is_file() and not (folder / CONFIG).is_file():
        return _read_tokenizer(folder, None)
    where = resolve(spec)
    if isinstance(where, Path) and not (where / CONFIG).is_file():
        has_own = (where / TOKENIZER).is_file()
        return _read_tokenizer(where, None) if has_own else load_tokenizer(_base_of(where))
    return _read_tokenizer(where, read_config(where))


def family_class(fields: Mapping[str, Any], name: str | None, where: str) -> Any:
    """The model class that reads a config.json, checked against the family a recipe names.

    Raises:
        ModelError: no such family here, or not the expected one; names both.
    """
    model_type = fields.get("model_type")
    if name is not None:
        named: Any = MODELS.get(name)
        expected = named.config_class.model_type
        if str(model_type).lower() != expected.lower():
            raise ModelError(
                f"{where} holds weights of the family {model_type!r}, but the recipe says "
                f"`model.name: {name}` (model_type {expected!r}); change one of them"
            )
        return named
    for each in MODELS.names():
        cls: Any = MODELS.get(each)
        if cls.config_class.model_type.lower() == str(model_type).lower():
            return cls
    raise ModelError(
        f"{where} holds weights of the family {model_type!r}, which is not among those built "
        f"here: {', '.join(MODELS.names())}"
    )


def check_config(config: Any, tokenizer: PreTrainedTokenizerBase | None, where: str) -> None:
    """Refuse ids that do not belong together: of the config, the family and the tokenizer.

    Raises:
        ModelError: lists every id with what it is and what it should be.
    """
    problems = []
    if config.mask_token_id is None:
        problems.append("the config has no mask_token_id, without which nothing can be masked")
    for name, value in getattr(config, "known_ids", {}).items():
        if (found := getattr(config, name)) != value:
            problems.append(
                f"{name} is {found}, but the public vocabulary of {config.vocab_size} tokens has "
                f"it at {value}"
            )
    if tokenizer is not None:
        if tokenizer.mask_token_id is None:
            problems.append(
                f"the tokenizer has no mask token; the config expects id {config.mask_token_id}"
            )
        elif tokenizer.mask_token_id != config.mask_token_id:
            problems.append(
                f"the tokenizer's mask token has id {tokenizer.mask_token_id}, the config's "
                f"mask_token_id is {config.mask_token_id}"
            )
        highest = max(tokenizer.get_vocab().values(), default=0)
        if highest >= config.num_embeddings:
            problems.append(
                f"the tokenizer has ids up to {highest}, the network only "
                f"{config.num_embeddings} embeddings"
            )
    if problems:
        raise ModelError(
            f"{where}: ids that do not belong together (another family's tokenizer?):\n  "
            + "\n  ".join(problems)
        )


def _load_adapter(folder: Path, dtype: torch.dtype, device_map: Any, name: str | None) -> Any:
    """Base and adapter of a peft folder."""
    model = load_model(_base_of(folder), dtype=dtype, device_map=device_map, name=name)
    try:
        with quiet(), around_peft():
            return PeftModel.from_pretrained(model, str(folder)).eval()
    except Exception as error:
        raise unreachable(folder, error) from error


def _base_of(folder: Path) -> str | Path:
    """What an adapter was trained on top of; a relative folder may start at the adapter's."""
    base = read_json(folder / ADAPTER).get("base_model_name_or_path")
    if not base:
        raise ModelError(
            f"{folder / ADAPTER} names no base; write the folder, card or hub id of the base "
            f"model as base_model_name_or_path"
        )
    beside = folder / base
    return beside if beside.is_dir() else base


def _read_tokenizer(where: Path | str, fields: Mapping[str, Any] | None) -> Any:
    folder = str(local(where, "tokenizer"))
    if fields is not None:
        _register_family(fields)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception as error:
        raise unreachable(where, error) from error
    if (characters := tokenizer.init_kwargs.get("characters")) is not None:
        return character_tokenizer(characters)
    mask_id = None if fields is None else fields.get("mask_token_id")
    if tokenizer.mask_token is None and mask_id is not None:
        token = tokenizer.convert_ids_to_tokens(mask_id) if mask_id < len(tokenizer) else None
        if token is not None:
            tokenizer.mask_token = token
    if tokenizer.mask_token_id is None:
        raise ModelError(
            f"the tokenizer of {where} has no mask token"
            + (f" and nothing at the id {mask_id} that its config names" if mask_id else "")
            + "; use the tokenizer that was published with these weights"
        )
    return tokenizer


def _register_family(fields: Mapping[str, Any]) -> None:
    """Importing a family's module tells transformers its model_type."""
    name = str(fields.get("model_type", "")).lower()
    if name in MODELS.names():
        MODELS.get(name)


def _tokenizer_beside(where: Path | str, fields: Mapping[str, Any]) -> Any:
    """The tokenizer in a checkpoint's folder; None where it has none."""
    if isinstance(where, Path) and not (where / TOKENIZER).is_file():
        return None
    return _read_tokenizer(where, fields)


def _config_fields(config_class: Any) -> set[str]:
    """Names that a family's config gives a meaning."""
    parameters = inspect.signature(config_class.__init__).parameters.values()
    named = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD} - {"self"}
    return named | set(getattr(config_class, "fixed_fields", ()))


def _unknown_field(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    guess = f", did you mean {close[0]!r}?" if close else f"; fields: {', '.join(sorted(known))}"
    return f"there is no field {name!r}{guess}"


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        return dtype
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise UsageError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    return getattr(torch, name)


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars of transformers inside the block."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()
