"""The rules of docs/architecture.md and docs/conventions.md that a program can check."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
ROOT = PROJECT / "dllmzoo"
KINDS = {
    "models",
    "schedules",
    "samplers",
    "selectors",
    "likelihoods",
    "advantages",
    "losses",
    "tasks",
}
FLOORS = [
    {"errors", "shapes", "records", "branches", "units", "protocols", "hub", "reading"},
    {"describe", "registry", "plugins", "sandbox"},
    {"zoo"},
    {"recipe"} | KINDS,
    {"scoring", "flops", "catalogue", "checks", "laws"},
    {"training", "report"},
    {"lab", "bench"},
    {"cli", "lm_eval"},
]
FLOOR = {name: i for i, names in enumerate(FLOORS) for name in names}
EXCEPTIONS = {
    ("models/_source.py", "catalogue"): "a model may be named by its card",
    ("tasks/_questions.py", "catalogue"): "a data set is named by its card",
}

MODULES = sorted(ROOT.rglob("*.py"))
SOURCES = sorted([*MODULES, *PROJECT.glob("tests/**/*.py"), *PROJECT.glob("docs/**/*.py")])
WITHOUT_TORCH = ["dllmzoo", "dllmzoo.zoo", "dllmzoo.recipe", "dllmzoo.catalogue", "dllmzoo.cli"]
SUFFIX = re.compile(r"_([A-Z0-9]+)$")


def place(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> set[str]:
    """Full names of our modules that a file imports anywhere."""
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("dllmzoo.")}


def below(path: Path) -> tuple[str, set[str]]:
    """The part of the package a file lives in, and the other parts that it imports."""
    inside = path.relative_to(ROOT)
    home = inside.parts[0].removesuffix(".py")
    names = {name.split(".")[1] for name in imported(path)} & set(FLOOR)
    return home, {n for n in names - {home} if (inside.as_posix(), n) not in EXCEPTIONS}


def test_every_module_stands_on_a_floor():
    homes = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES}
    assert homes - {"__init__", "__main__"} <= set(FLOOR)


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_imports_point_down(path):
    home, others = below(path)
    if home in FLOOR:
        upward = {name: FLOOR[name] for name in others if FLOOR[name] > FLOOR[home]}
        assert not upward, f"floor {FLOOR[home]} imports from above: {upward}"


def test_recipes_find_components_by_name_only():
    for path in sorted((ROOT / "recipe").rglob("*.py")):
        _, others = below(path)
        assert not others & KINDS, place(path)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_components_know_of_recipes_only_parts_and_sections(kind):
    for path in sorted((ROOT / kind).rglob("*.py")):
        of_recipes = {name for name in imported(path) if name.startswith("dllmzoo.recipe")}
        assert all(name.split(".")[2] in {"part", "sections"} for name in of_recipes), place(path)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_component_imports_another_kind(kind):
    for path in sorted((ROOT / kind).rglob("*.py")):
        _, others = below(path)
        assert not others & (KINDS - {kind}), place(path)


def test_the_loop_imports_no_component():
    for path in sorted((ROOT / "training").glob("loop.py")):
        _, others = below(path)
        assert not others & KINDS


def test_an_exception_is_still_needed():
    for inside, name in EXCEPTIONS:
        names = imported(ROOT / inside)
        assert any(n.split(".")[1] == name for n in names), f"{inside} no longer imports {name}"


@pytest.mark.parametrize("path", SOURCES, ids=place)
def test_no_file_is_longer_than_400_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_a_file_is_named_for_its_idea(path):
    assert path.stem.strip("_") not in {"utils", "util", "common", "helpers", "misc"}


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_listing_imports_no_torch(module):
    code = f"import sys, {module}; sys.exit(' '.join({{'torch', 'numpy'}} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_summaries_import_no_torch():
    code = (
        "import sys; from dllmzoo import ZOO; "
        "[registry.summaries() for registry in ZOO.values()]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def names(path: Path) -> set[str]:
    """Every name a file binds: variables, arguments, fields, keyword arguments."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, (ast.arg, ast.keyword)) and node.arg:
            found.add(node.arg)
    return found


def legend() -> list[str]:
    """The letters that the docstring of records.py explains."""
    text = ast.get_docstring(tree(ROOT / "records.py")) or ""
    return re.findall(r"(?<![\w*])([A-Z]) (?==|[a-z])", text.partition("`steps` always")[0])


def test_the_legend_explains_each_letter_once():
    letters = legend()
    assert set("PGBTKUAXCSNLVDHE") <= set(letters)
    assert len(letters) == len(set(letters))


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_shape_suffixes_use_letters_of_the_legend(path):
    wrong = []
    for name in sorted(names(path)):
        suffix = SUFFIX.search(name)
        if suffix and not name.isupper() and not name.strip("_").isupper():
            letters = {letter for letter in suffix[1] if not letter.isdigit()}
            wrong += [name] if letters - set(legend()) else []
    assert not wrong, f"letters outside the legend of dllmzoo/records.py: {wrong}"


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_library_code_does_not_print(path):
    calls = [
        node.lineno
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not calls, f"print at lines {calls}"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_components_do_not_postpone_annotations(kind):
    """Pydantic reads the annotations of a component when it is registered."""
    for path in sorted((ROOT / kind).glob("[!_]*.py")):
        if kind != "models":
            imported = {n.module for n in ast.walk(tree(path)) if isinstance(n, ast.ImportFrom)}
            assert "__future__" not in imported, place(path)


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_the_global_generator_is_never_seeded(path):
    seeds = [
        ast.unparse(node)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"torch.manual_seed", "torch.seed", "random.seed"}
    ]
    assert not seeds or "fork_rng" in path.read_text(encoding="utf-8"), seeds
