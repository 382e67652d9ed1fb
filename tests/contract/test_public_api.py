"""What a user can reach is documented, and named as the conventions say."""

import ast
import importlib
import inspect
import re
from dataclasses import is_dataclass
from pathlib import Path

import pytest

import dllmzoo
from dllmzoo import ZOO

ROOT = Path(dllmzoo.__file__).parent
PUBLIC = sorted(
    path
    for path in ROOT.rglob("*.py")
    if not any(part.startswith("_") and part != "__init__.py" for part in path.parts[-3:])
)
COMPONENTS = [(kind, name) for kind, registry in ZOO.items() for name in registry.names()]


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def camel_case(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def undocumented(node: ast.AST, prefix: str = "") -> list[str]:
    """Public classes, functions and methods without a docstring."""
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if child.name.startswith("_"):
                continue
            overload = any("overload" in ast.unparse(d) for d in child.decorator_list)
            if not ast.get_docstring(child) and not overload:
                found.append(prefix + child.name)
            if isinstance(child, ast.ClassDef):
                found += undocumented(child, f"{prefix}{child.name}.")
    return found


@pytest.mark.parametrize("name", dllmzoo.__all__)
def test_every_exported_name_exists(name):
    assert getattr(dllmzoo, name) is not None


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        _ = dllmzoo.trian


@pytest.mark.parametrize("path", PUBLIC, ids=place)
def test_everything_public_has_a_docstring(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "the module has no docstring"
    assert not undocumented(tree)


@pytest.mark.parametrize("kind", ZOO)
def test_the_kind_is_the_singular_word_of_its_package(kind):
    assert ZOO[kind].package is not None
    assert ZOO[kind].package.rpartition(".")[2] in {f"{kind}s", f"{kind}es"}


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_a_component_says_what_it_is_in_one_line(kind, name):
    summary = ZOO[kind].describe(name).summary
    assert summary.endswith("."), summary
    assert len(summary) <= 88, f"{len(summary)} characters"
    assert ZOO[kind].summaries()[name] == summary


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_every_parameter_is_explained(kind, name):
    info = ZOO[kind].describe(name)
    assert not [p.name for p in info.parameters if not p.meaning]


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_every_documented_parameter_exists(kind, name):
    info = ZOO[kind].describe(name)
    args = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)*)", info.doc, re.MULTILINE)
    if args and info.parameters:
        heads = re.findall(r"^ {4}(\w[\w, ]*?):", args[1], re.MULTILINE)
        named = {word for head in heads for word in re.split(r",\s*|\s+and\s+", head)}
        assert named <= {p.name for p in info.parameters}


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_every_number_has_a_default_in_its_range(kind, name):
    if kind != "model":
        assert ZOO[kind].get(name)() is not None


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_a_class_is_named_for_its_file(kind, name):
    cls = ZOO[kind].get(name)
    if kind == "model":
        pytest.importorskip("transformers")
        assert cls.__name__.lower().startswith(name.replace("_", ""))
    else:
        assert cls.__name__ == camel_case(name)


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_a_component_is_a_frozen_dataclass(kind, name):
    cls = ZOO[kind].get(name)
    if kind != "model":
        assert is_dataclass(cls)
        assert cls.__dataclass_params__.frozen


@pytest.mark.parametrize(("kind", "name"), COMPONENTS)
def test_no_knob_is_a_list(kind, name):
    """Frozen means frozen: a sequence is a tuple."""
    assert not [p.name for p in ZOO[kind].describe(name).parameters if p.default.startswith("list")]
    cls = ZOO[kind].get(name)
    if is_dataclass(cls):
        texts = {key: str(hint) for key, hint in inspect.get_annotations(cls).items()}
        assert not [key for key, text in texts.items() if text.startswith("list")]


def test_nothing_heavy_is_imported_by_the_package():
    module = importlib.import_module("dllmzoo")
    assert set(module._LAZY) <= set(module.__all__)
