"""Problems of the small recipe after some changes, and the small files of a checkpoint."""

import json
from pathlib import Path
from typing import Any

from dllmzoo.checks import check
from dllmzoo.errors import Problem
from dllmzoo.recipe import load
from tests.unit.models.tiny import small_public
from tests.unit.recipe.small_parts import recipe


def found(**changes: Any) -> list[Problem]:
    return check(load(recipe(**changes)))


def one(**changes: Any) -> Problem:
    (problem,) = found(**changes)
    return problem


def write(folder: Path, name: str, **content: Any) -> None:
    """Change fields of a JSON file; None removes one."""
    path = folder / name
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({k: v for k, v in {**old, **content}.items() if v is not None}))


def checkpoint(folder: Path) -> Path:
    """A checkpoint's small files: a network of 20 tokens whose mask is 19."""
    shape = small_public(
        vocab_size=20, embedding_size=20, mask_token_id=19, eos_token_id=18, max_sequence_length=12
    )
    write(folder, "config.json", **shape)
    write(folder, "tokenizer_config.json", mask_token="[M]", chat_template="x")
    write(
        folder, "tokenizer.json", model={"vocab": {"a": 0, "b": 1}},
        added_tokens=[{"content": "[M]", "id": 19}],
    )  # fmt: skip
    return folder
