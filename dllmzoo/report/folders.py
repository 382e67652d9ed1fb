"""What tells the folder of a run, and what its manifest says; imports next to nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def is_run(folder: Path) -> bool:
    """Whether a folder is one of a run that has begun."""
    return (folder / "recipe.resolved.yaml").is_file() or (folder / "metrics.jsonl").is_file()


def read_manifest(folder: Path) -> dict[str, Any]:
    """manifest.json, or nothing."""
    try:
        found = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def primary_of(rows: Sequence[dict[str, Any]]) -> str | None:
    """The key of the evaluation's main metric: the one that has an interval."""
    for row in rows:
        for key in row:
            if key.startswith("eval/") and key.count("/") == 1 and f"{key}_low" in row:
                return key
    return None
