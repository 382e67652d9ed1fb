"""`dllmzoo new`: a working component of your own, with its test, to start from."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from dllmzoo.cli import _complete as complete
from dllmzoo.cli import _kinds as kinds
from dllmzoo.cli import _output as out
from dllmzoo.cli._app import app
from dllmzoo.errors import UsageError
from dllmzoo.zoo import ZOO

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@app.command("new")
def new_component(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            autocompletion=complete.component_kinds,
            help=f"One of: {', '.join(kinds.COMPONENTS)}.",
        ),
    ],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the component, in snake_case: `last_steps`.")
    ],
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Where a plug-in goes. Default: this folder, or the package itself inside a "
            "checkout of dllmzoo.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Write a component that works, and its test, for you to change."""
    kind = kinds.find_component(kind)
    check_name(kind, name)
    checkout = find_checkout(Path.cwd() if folder is None else folder, search=folder is None)
    if checkout is None:
        component, test = write_plugin(kind, name, Path("." if folder is None else folder))
    else:
        component, test = write_built_in(kind, name, checkout)
    if as_json:
        built_in, files = checkout is not None, [component, test]
        out.say_json({"kind": kind, "name": name, "built_in": built_in, "files": files})
    else:
        (_say_plugin if checkout is None else _say_built_in)(kind, name, component, test)


def check_name(kind: str, name: str) -> None:
    """Raise if a component cannot be called so.

    Raises:
        UsageError: not snake_case, or taken by a component or an alias.
    """
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} cannot be the name of a component: write lower-case words joined by "
            f"underscores, such as {_snake(name)!r}"
        )
    if name in ZOO[kind]:
        info = ZOO[kind].describe(name)
        alias = "" if info.name == name else f" (an alias of {info.name!r})"
        raise UsageError(
            f"the {kind} {name!r}{alias} exists already, at {info.location}; choose another name"
        )


def find_checkout(folder: Path, *, search: bool) -> Path | None:
    """The root of the checkout of dllmzoo that `folder` is (with `search`: lies in), or None."""
    folder = folder.resolve()
    for each in [folder, *folder.parents] if search else [folder]:
        project = each / "pyproject.toml"
        if project.is_file() and (each / "dllmzoo" / "zoo.py").is_file():
            named = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
            return each if named.get("name") == "dllmzoo" else None
    return None


def write_plugin(kind: str, name: str, folder: Path) -> tuple[Path, Path]:
    """Write `NAME.py` and `test_NAME.py` into a folder; returns the two paths.

    Raises:
        UsageError: a file is there already, or `import NAME` would mean something else.
    """
    component, test = folder / f"{name}.py", folder / f"test_{name}.py"
    _refuse_existing(component, test)
    if importlib.util.find_spec(name) is not None:
        raise UsageError(
            f"a file {name}.py would hide the Python module {name!r} from programs that start "
            f"in its folder; choose another name"
        )
    names = {
        "import": f"from dllmzoo import {_registry_name(kind)}",
        "laws": f"from dllmzoo.laws import check_{kind}",
        "loader": "from dllmzoo.plugins import load_plugin",
    }
    class_ = _class_name(kind, name)
    setup = (
        f'load_plugin("{name}.py", Path(__file__).parent)\n'
        f'{class_} = {_registry_name(kind)}.get("{name}")\n\n\n'
        f"def test_it_obeys_the_laws():\n    check_{kind}({class_})"
    )
    _write(component, _component(kind, name))
    _write(test, _test(kind, name, list(names.values()), setup, path=True))
    return component, test


def write_built_in(kind: str, name: str, root: Path) -> tuple[Path, Path]:
    """Write a component and its unit test into a checkout; returns the two paths.

    Raises:
        UsageError: a file is there already.
    """
    package = str(ZOO[kind].package).rpartition(".")[2]
    component = root / "dllmzoo" / package / f"{name}.py"
    test = root / "tests" / "unit" / package / f"test_{name}.py"
    _refuse_existing(component, test)
    imports = [f"from dllmzoo.{package}.{name} import {_class_name(kind, name)}"]
    _write(component, _component(kind, name))
    _write(test, _test(kind, name, imports, "", path=False))
    return component, test


def _component(kind: str, name: str) -> str:
    return _fill(_template(f"{kind}.py.txt"), name)


def _test(kind: str, name: str, imports: list[str], setup: str, *, path: bool) -> str:
    """The unit test: its own imports and those given, sorted, then `setup`, then the cases."""
    doc, _, rest = _template(f"{kind}_test.py.txt").partition("\n\n")
    head, _, cases = rest.partition("{{setup}}")
    lines = [line for line in head.splitlines() if line]
    ours = sorted([line for line in lines if "dllmzoo" in line] + imports, key=_module)
    standard = [line for line in lines if _module(line) in sys.stdlib_module_names]
    others = [line for line in lines if line not in [*standard, *ours]]
    blocks = [standard + (["from pathlib import Path"] if path else []), others, ours]
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    text = f"{doc}\n\n{text}\n" + (f"\n{setup}\n" if setup else "")
    return _fill(text + "\n\n" + cases.lstrip("\n"), name)


def _fill(text: str, name: str) -> str:
    words = {"name": name, "Class": _camel(name), "title": name.replace("_", " ").capitalize()}
    for word, value in words.items():
        text = text.replace(f"{{{{{word}}}}}", value)
    return text


def _template(name: str) -> str:
    return (files("dllmzoo.cli") / "templates" / name).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _refuse_existing(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            raise UsageError(f"{path} is there already; nothing was written")


def _class_name(kind: str, name: str) -> str:
    """Of the class that is registered; a model's ends as transformers' classes do."""
    return _camel(name) + ("ModelLM" if kind == "model" else "")


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _registry_name(kind: str) -> str:
    return kinds.plural(kind).upper()


def _module(line: str) -> str:
    return line.split()[1]


def _snake(name: str) -> str:
    """The name a user may have meant by `MyLoss` or `my-loss`."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    snake = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_").lstrip("0123456789_")
    return snake if NAME.fullmatch(snake) and not keyword.iskeyword(snake) else "my_component"


def _say_plugin(kind: str, name: str, component: Path, test: Path) -> None:
    out.say(f"wrote {component}\nwrote {test}\n")
    out.say("Next: change the component, keep its laws, use it from a recipe beside it:")
    out.say(f"  pytest {test}")
    out.say(f"  plugins: [./{component.name}]")
    use = f"{{name: {name}}}"  # a schedule is an option of other parts
    out.say(f"  sampler: {{..., commits: {use}}}" if kind == "schedule" else f"  {kind}: {use}")


def _say_built_in(kind: str, name: str, component: Path, test: Path) -> None:
    out.say(f"wrote {component}\nwrote {test}\n")
    out.say("Next: change the component; the laws in tests/property run on it by themselves:")
    out.say(f"  pytest {test} tests/property -k {name}")
    out.say(f"  dllmzoo show {kind} {name}")
    out.say("Then use it in a recipe, cite its paper in registry/methods, add a changelog line.")
