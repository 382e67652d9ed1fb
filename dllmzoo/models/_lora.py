"""Low-rank adapters through peft, and the reference policies that a KL is measured to."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn

from dllmzoo.errors import ModelError
from dllmzoo.models._offload import blocks_in_main_memory
from dllmzoo.reading import reads_slots
from dllmzoo.recipe.sections import Lora
from dllmzoo.records import Key


class LoraRow(NamedTuple):
    """Adapters of one kind of layer: how many layers, and parameters of all of them together."""

    kind: str
    layers: int
    parameters: int


def add_lora(model: Any, lora: Lora, seed: int) -> PeftModel:
    """Freeze the network and put adapters beside linear layers of its blocks, never the head.

    Args:
        model: a network of ours, not adapted yet.
        lora: preset or names, rank, alpha.
        seed: of the recipe; the fresh adapters depend on it alone, and change nothing at first.

    Raises:
        ModelError: a name matches no linear layer, or the family has no such preset.
    """
    check_targets(model, lora)
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]
        lora_dropout=lora.dropout,
        target_modules=lora_pattern(model, lora),
        bias="none",
    )
    with around_peft():
        torch.manual_seed(Key(seed, 0, "lora").generator().initial_seed())
        return get_peft_model(model, config)  # type: ignore[return-value]


@contextmanager
def around_peft() -> Iterator[None]:
    """No global randomness, and no warning about the older name that peft calls."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")
        yield


def lora_pattern(family: Any, lora: Lora) -> str:
    """The expression that full names of adapted modules match; written to adapter_config.json.

    A name without a dot (`q_proj`) means that layer in every block; one with dots is the end of
    a full name, `*` standing for one part of it (`blocks.*.ff_out`).

    Args:
        family: a model or its class, for the presets.
        lora: preset or names.

    Raises:
        ModelError: the family has no such preset.
    """
    if lora.targets is not None:
        return "|".join(map(_pattern, lora.targets))
    if lora.preset not in family.lora_targets:
        raise ModelError(
            f"{family.family} has no LoRA preset {lora.preset!r}; it has "
            f"{', '.join(family.lora_targets)}"
        )
    return family.lora_targets[lora.preset]


def check_targets(model: Any, lora: Lora) -> None:
    """Refuse names of `targets` that match no linear layer of a block.

    Raises:
        ModelError: lists them, and the names there are.
    """
    if lora.targets is None:
        return
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    layers = [name for name in names if re.search(r"\.\d+\.", name)]
    missing = [
        target
        for target in lora.targets
        if not any(re.fullmatch(_pattern(target), name) for name in layers)
    ]
    if missing or not lora.targets:
        kinds = dict.fromkeys(re.sub(r".*\.\d+\.", "", name) for name in layers)
        raise ModelError(
            f"model.lora.targets: no linear layer is called "
            f"{', '.join(map(repr, missing)) or 'nothing'}; in the blocks of {model.family} there "
            f"are {', '.join(kinds)} (adapters on the head are not offered)"
        )


def lora_table(model: PeftModel) -> list[LoraRow]:
    """What `add_lora` adapted, for printing: one row for each kind of layer, then their total."""
    counts: dict[str, list[int]] = {}
    for name, parameter in model.named_parameters():
        if (found := re.search(r"\.\d+\.(.+)\.lora_([AB])\.", name)) is not None:
            row = counts.setdefault(found[1], [0, 0])
            row[0] += found[2] == "A"
            row[1] += parameter.numel()
    rows = [LoraRow(kind, *row) for kind, row in counts.items()]
    total = LoraRow("total", sum(row.layers for row in rows), sum(row.parameters for row in rows))
    return [*rows, total]


class _Reference:
    """A policy that is only read: no gradient, attributes of the model it stands on."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def mask_id(self) -> int:
        """Id of the mask token."""
        return self.model.mask_id

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end an answer."""
        return self.model.stop_ids

    @property
    def block_size(self) -> int | None:
        """Block size of a block model."""
        return self.model.block_size

    @property
    def reads_slots(self) -> bool:
        """Whether the model takes `per_slot` and `columns_at`."""
        return reads_slots(self.model)


class AdapterOff(_Reference):
    """The policy without its adapters: the base bit for bit, at no memory.

    Args:
        model: a `PeftModel`, not wrapped for several processes.
    """

    def __init__(self, model: PeftModel) -> None:
        super().__init__(model)

    @torch.no_grad()
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output with every adapter switched off."""
        with self.model.disable_adapter():
            return self.model(*args, **kwargs)


class FrozenCopy(_Reference):
    """The policy as it is now: a copy of all its weights that no update reaches.

    Args:
        model: what is copied.
        device: where it computes; its blocks live in main memory and visit one at a time. None =
            where the model is, as a whole.
    """

    def __init__(self, model: Any, device: torch.device | None = None) -> None:
        if device is None:
            super().__init__(copy.deepcopy(model).eval().requires_grad_(False))
            return
        where = next(model.parameters()).device
        super().__init__(copy.deepcopy(model.cpu()).eval().requires_grad_(False))
        model.to(where)
        blocks_in_main_memory(self.model, device)

    @torch.no_grad()
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The copy's output."""
        return self.model(*args, **kwargs)


def reference_policy(
    model: Any,
    how: Literal["auto", "adapter", "copy", "none"] = "auto",
    device: torch.device | None = None,
) -> AdapterOff | FrozenCopy | None:
    """The policy that a KL is measured to, as `model.reference` says.

    Args:
        model: the policy at the start of the run, not wrapped.
        how: `auto` is `adapter` for an adapted model, else `copy`.
        device: for a copy in main memory: where it computes; None = the copy stays on the device.

    Raises:
        ModelError: `adapter` without adapters.
    """
    if how == "none":
        return None
    adapted = isinstance(model, PeftModel)
    if how == "adapter" and not adapted:
        raise ModelError(
            "model.reference is `adapter`, but the model has no LoRA adapters to switch off; "
            "add `model.lora` or use `copy`"
        )
    return FrozenCopy(model, device) if how == "copy" or not adapted else AdapterOff(model)


def _pattern(target: str) -> str:
    """Expression over full module names for one name of `targets`: only inside blocks."""
    name = re.escape(target).replace(r"\*", r"[^.]+")
    return rf"(?:.*\.)?{name}" if "." in target else rf".*\.\d+\.(?:.*\.)?{name}"
