"""The examples in docstrings are true."""

import doctest
import importlib
from pathlib import Path

import pytest

import dllmzoo

ROOT = Path(dllmzoo.__file__).parent
WITH_EXAMPLES = sorted(
    path for path in ROOT.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_of_docstrings(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.attempted > 0, "no example was found"
    assert result.failed == 0
