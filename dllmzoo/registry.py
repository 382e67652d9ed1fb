"""Find a component by name; importing this imports neither torch nor any component."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dllmzoo.describe import Info, describe, source_summary
from dllmzoo.errors import DuplicateNameError, PluginError, UnknownNameError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
C = TypeVar("C", bound=type)


class Registry(Generic[T]):
    """Names of one kind of component.

    A name is found in this order: registered already; a module of `package` with that file name;
    an entry point of the group `dllmzoo.<kind>`; an alias declared anywhere.

    Args:
        kind: one singular word, `loss`.
        package: the package whose modules are the built-in components, one a file, the file name
            being the component's name; a leading underscore marks a helper.
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        """An empty registry."""
        self.kind = kind
        self.package = package
        self._objects: dict[str, Any] = {}
        self._aliases: dict[str, str] = {}
        self._replacing = False
        self._loaded_all = False

    def register(self, name: str, *, aliases: Sequence[str] = ()) -> Callable[[C], C]:
        """Decorator that makes a class known as `name`.

        A frozen dataclass is turned into a pydantic one, so that a recipe and a Python call are
        checked alike: unknown and missing fields, types and ranges.

        Raises:
            DuplicateNameError: another class holds the name or an alias; names both places.
        """

        def decorate(cls: C) -> C:
            made: Any = _checked(cls) if is_dataclass(cls) else cls
            for key in (name, *aliases):
                self._claim(key, made)
            self._objects[name] = made
            self._aliases.update(dict.fromkeys(aliases, name))
            return made

        return decorate

    def get(self, name: str) -> type[T]:
        """The class called `name` (or that has it as an alias).

        Raises:
            UnknownNameError: no such component; suggests the nearest names.
            PluginError: the entry point of that name cannot be imported.
        """
        found = self._lookup(name)
        if found is None and name in self._modules:
            importlib.import_module(f"{self.package}.{name}")
            found = self._lookup(name)
            if found is None:
                raise UnknownNameError(
                    f"{self.package}.{name} registers no {self.kind} named {name!r}; "
                    f"the file name must be the component's name"
                )
        if found is None and name in self._entry_points:
            found = self._load_entry_point(name)
        if found is None and not self._loaded_all:
            self._load_built_in()
            found = self._lookup(name)
        if found is None:
            raise UnknownNameError(self._unknown(name))
        return found

    def names(self) -> tuple[str, ...]:
        """Every name, sorted, without importing any component."""
        return tuple(sorted({*self._objects, *self._modules, *self._entry_points}))

    def aliases(self) -> dict[str, str]:
        """Alias -> name of everything imported so far and of all built-in components."""
        self._load_built_in()
        return dict(self._aliases)

    def canonical(self, name: str) -> str:
        """The registered name that `name` (a name or an alias) stands for."""
        self.get(name)
        return self._aliases.get(name, name)

    def summaries(self) -> dict[str, str]:
        """First docstring line of every component, read from source: nothing is imported."""
        lines = {}
        for name in self.names():
            if name in self._objects:
                lines[name] = (inspect.getdoc(self._objects[name]) or "").partition("\n")[0]
            elif name in self._modules:
                lines[name] = source_summary(self._modules[name])
            else:
                lines[name] = f"plug-in {self._entry_points[name].value}"
        return lines

    def describe(self, name: str) -> Info:
        """Summary, parameters with ranges and defaults, paper, place and exemptions."""
        cls = self.get(name)
        canonical = self._aliases.get(name, name)
        aliases = tuple(a for a, target in self._aliases.items() if target == canonical)
        return describe(self.kind, canonical, aliases, cls, location(cls))

    @contextmanager
    def temporarily(self, name: str, cls: type | None = None) -> Iterator[None]:
        """Register inside the block only, replacing a holder of the name; for tests.

        Args:
            name: to register `cls` under.
            cls: None registers nothing, but forgets whatever the block registers.
        """
        self._load_built_in()  # or the block would forget those that it is the first to look up
        before = dict(self._objects), dict(self._aliases), self._replacing
        self._replacing = True
        try:
            if cls is not None:
                self.register(name)(cls)
            yield
        finally:
            self._objects, self._aliases, self._replacing = before

    def suggestions(self, name: str, count: int = 3) -> list[str]:
        """Known names and aliases most like `name`: all that one letter makes, then the nearest."""
        known = sorted({*self.names(), *self.aliases()})
        slips = [each for each in known if _is_one_slip(name, each)]
        close = difflib.get_close_matches(name, known, n=count, cutoff=0.5)
        return slips + [each for each in close if each not in slips][: max(count - len(slips), 0)]

    def __contains__(self, name: object) -> bool:
        """Whether `name` is a name or an alias."""
        try:
            self.get(str(name))
        except UnknownNameError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        """The names, sorted."""
        return iter(self.names())

    def __repr__(self) -> str:
        return f"Registry({self.kind!r}: {', '.join(self.names())})"

    @cached_property
    def _modules(self) -> dict[str, Path]:
        if self.package is None:
            return {}
        folders = importlib.import_module(self.package).__path__
        return {
            module.name: Path(str(module.module_finder.path)) / f"{module.name}.py"  # type: ignore[union-attr]
            for module in pkgutil.iter_modules(folders)
            if not module.name.startswith("_")
        }

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in _installed().select(group=f"dllmzoo.{self.kind}")}

    def _lookup(self, name: str) -> Any:
        return self._objects.get(self._aliases.get(name, name))

    def _claim(self, key: str, cls: type) -> None:
        if self._replacing:
            return
        home = f"{self.package}.{key}"
        if key in self._modules and cls.__module__ != home:
            raise DuplicateNameError(
                f"{self.kind} {key!r} is taken by {self._modules[key]}; "
                f"choose another name for {location(cls)}"
            )
        holder = self._lookup(key)
        if holder is not None and location(holder) != location(cls):
            raise DuplicateNameError(
                f"{self.kind} {key!r} is registered twice: at {location(holder)} "
                f"and at {location(cls)}; rename one of them"
            )

    def _load_built_in(self) -> None:
        if not self._loaded_all:
            self._loaded_all = True
            for module in self._modules:
                importlib.import_module(f"{self.package}.{module}")

    def _load_entry_point(self, name: str) -> Any:
        point = self._entry_points[name]
        try:
            loaded = point.load()
        except Exception as error:
            raise PluginError(
                f"the plug-in {point.value!r} (entry point {name!r} of dllmzoo.{self.kind}) "
                f"cannot be imported: {type(error).__name__}: {error}"
            ) from error
        return self._lookup(name) or self.register(name)(loaded)

    def _unknown(self, name: str) -> str:
        close = self.suggestions(name)
        guess = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        return (
            f"no {self.kind} named {name!r}.{guess} There are: {', '.join(self.names())}. "
            f"One of your own must be imported first: list its file under `plugins:`."
        )


@cache
def _installed() -> Any:
    """Entry points of every installed package; reading them takes longer than all else here."""
    from importlib.metadata import entry_points

    return entry_points()


def location(cls: Any) -> str:
    """`file:line` of a class, or its qualified name where it has no source."""
    target = inspect.unwrap(getattr(cls, "__registered_from__", cls))
    try:
        return f"{inspect.getsourcefile(target)}:{inspect.getsourcelines(target)[1]}"
    except (OSError, TypeError):
        return f"{getattr(target, '__module__', '?')}.{getattr(target, '__qualname__', target)}"


def _checked(cls: C) -> C:
    from pydantic import ConfigDict
    from pydantic.dataclasses import dataclass

    config = ConfigDict(
        extra="forbid", strict=True, validate_default=True, arbitrary_types_allowed=True
    )
    if hasattr(cls, "__pydantic_validator__"):  # a subclass of a component: wrap, as pydantic does
        names = ("__doc__", "__module__", "__qualname__")
        wrapped = type(cls.__name__, (cls,), {name: getattr(cls, name) for name in names})
    else:
        wrapped = cls
    made: Any = dataclass(wrapped, frozen=True, config=config)
    made.__registered_from__ = cls
    return made


def _is_one_slip(typed: str, meant: str) -> bool:
    """Whether one letter lost, added, changed or swapped with the next makes one of the other."""
    if len(typed) > len(meant):
        typed, meant = meant, typed
    at = next((i for i, pair in enumerate(zip(typed, meant, strict=False)) if len({*pair}) > 1), 0)
    if len(typed) < len(meant):
        at = at if typed[at:] != meant[at : len(typed)] else len(typed)
        return typed[at:] == meant[at + 1 :]
    swapped = typed[at : at + 2] == meant[at : at + 2][::-1] and typed[at + 2 :] == meant[at + 2 :]
    return swapped or typed[at + 1 :] == meant[at + 1 :]
