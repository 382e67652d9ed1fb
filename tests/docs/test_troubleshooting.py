"""The messages of docs/troubleshooting.md are messages of the code."""

import ast
import re
from pathlib import Path

import pytest

import dllmzoo

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
MESSAGES = re.findall(r"^\*\*`([^`]+)`\*\*$", PAGE.read_text(encoding="utf-8"), re.M)


@pytest.fixture(scope="module")
def texts() -> str:
    """Every text of the package, one a line."""
    found = []
    for path in Path(dllmzoo.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def test_there_are_messages():
    assert len(MESSAGES) > 15


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_in_the_code(message, texts):
    fixed = [part.strip() for part in re.split(r"\b[A-Z]{2,}\b", message)]
    assert any(len(part) > 4 for part in fixed), "only words in capitals"
    missing = [part for part in fixed if part and part not in texts]
    assert not missing
