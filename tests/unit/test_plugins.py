"""Unit test of importing a user's files and modules."""

import sys

import pytest

from dllmzoo.errors import PluginError
from dllmzoo.plugins import load_plugin, load_plugins
from dllmzoo.zoo import SELECTORS

PART = """
from dataclasses import dataclass
from dllmzoo.zoo import SELECTORS

@SELECTORS.register("mine_alone")
@dataclass(frozen=True)
class MineAlone:
    '''My own selector.'''
    steps: int = 1
"""


@pytest.fixture(autouse=True)
def forget():
    """Leave neither modules nor registrations behind."""
    before = set(sys.modules)
    with SELECTORS.temporarily("unused"):
        yield
    for name in set(sys.modules) - before:
        if name.startswith("dllmzoo_plugin_"):
            del sys.modules[name]


def test_a_file_beside_the_recipe_registers_its_parts(tmp_path):
    (tmp_path / "parts.py").write_text(PART)
    (module,) = load_plugins(["./parts.py"], tmp_path)
    assert SELECTORS.get("mine_alone") is module.MineAlone
    assert SELECTORS.summaries()["mine_alone"] == "My own selector."
    assert str(tmp_path / "parts.py") in SELECTORS.describe("mine_alone").location


def test_a_file_is_imported_once(tmp_path):
    (tmp_path / "parts.py").write_text(PART)
    first, second = load_plugins(["parts.py", "./parts.py"], tmp_path)
    assert first is second


def test_files_of_one_name_in_two_folders_are_two_plugins(tmp_path):
    modules = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "parts.py").write_text(f"NAME = {folder!r}")
        modules.append(load_plugin("parts.py", tmp_path / folder))
    assert [module.NAME for module in modules] == ["a", "b"]


def test_a_module_is_imported_by_its_name():
    assert load_plugin("json", None).dumps([]) == "[]"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PluginError, match=r"parts\.py is not there; paths are relative"):
        load_plugin("./parts.py", tmp_path)


def test_a_missing_module_is_named(tmp_path):
    with pytest.raises(PluginError, match="the plug-in 'no_such_module' cannot be imported"):
        load_plugin("no_such_module", tmp_path)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError"),
        ("import no_such_module", "ModuleNotFoundError"),
    ],
)
def test_a_broken_file_is_reported_by_its_own_name_and_not_half_kept(tmp_path, text, finding):
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(PluginError, match=rf"the plug-in '\./broken\.py' cannot .*{finding}"):
        load_plugin("./broken.py", tmp_path)
    (tmp_path / "broken.py").write_text("MENDED = True")
    assert load_plugin("./broken.py", tmp_path).MENDED


def test_a_plugin_that_exits_is_reported_by_its_name_and_ends_nothing(tmp_path):
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(PluginError, match=r"'\./leaves\.py' cannot be imported: SystemExit"):
        load_plugins(["./leaves.py"], tmp_path)
