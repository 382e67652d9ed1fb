"""One golden case, and the table of which function checks which family of cases."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

HANDLERS: dict[str, Callable[["Case"], None]] = {}
"""Family name (`A.llada.logits`) -> the function that asserts one case of it."""


def handles(*families: str):
    """Decorator: this function checks the cases of these families."""

    def decorate(check):
        for family in families:
            assert family not in HANDLERS, f"two handlers for {family}"
            HANDLERS[family] = check
        return check

    return decorate


@dataclass(frozen=True)
class Case:
    """A manifest with its tensors; `root` is the folder with index.json."""

    root: Path
    entry: dict[str, Any]

    @property
    def name(self) -> str:
        return self.entry["name"]

    @property
    def family(self) -> str:
        return self.entry["family"]

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.root / self.entry["manifest"]).read_text())

    @property
    def params(self) -> dict[str, Any]:
        return self.manifest["params"]

    @property
    def data(self) -> dict[str, Any]:
        return self.manifest["data"]

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        return load_file(self.root / self.entry["tensors"]) if self.entry.get("tensors") else {}

    def __getitem__(self, key: str) -> Tensor:
        """`case["in.logps"]`."""
        return self.tensors[key]

    @property
    def checkpoint(self) -> Path:
        """Folder of the tiny checkpoint the case was computed with."""
        return self.root / "checkpoints" / self.entry["checkpoint"]

    def close(
        self, actual: Tensor, expected: Tensor, *, what: str = "", **tolerance: float
    ) -> None:
        """|actual - expected| <= atol + rtol * |expected| with the case's own tolerance."""
        bound = {k: v for k, v in self.manifest["tolerance"].items() if k in ("atol", "rtol")}
        bound = {"atol": 0.0, "rtol": 0.0, **bound, **tolerance}
        torch.testing.assert_close(
            actual.to(expected.dtype),
            expected,
            **bound,
            msg=lambda text: f"{self.name} {what}: {text}",
        )


def read_cases(root: Path) -> list[Case]:
    """Every case listed in `root/index.json`."""
    return [Case(root, entry) for entry in json.loads((root / "index.json").read_text())["cases"]]
