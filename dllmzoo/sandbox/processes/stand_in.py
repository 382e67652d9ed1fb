"""The part of pytest that tests of data sets use, for tests that run without pytest."""

from __future__ import annotations

import itertools
import math
import numbers
import re
import types
from collections.abc import Callable
from fractions import Fraction
from typing import Any


class Raises:
    """What `pytest.raises` gives: a block that must raise."""

    def __init__(self, expected: Any, match: str | None) -> None:
        """Classes, and a pattern that the message must hold."""
        self.expected = expected if isinstance(expected, tuple) else (expected,)
        self.pattern = match
        self.value: BaseException | None = None
        self.type: type | None = None

    def __enter__(self) -> Raises:
        """Begin."""
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        """Fail where nothing was raised; let other exceptions pass."""
        if error is None:
            raise AssertionError(f"nothing of {self.expected} was raised")
        if not any(isinstance(error, each) for each in self.expected):
            return False
        self.value, self.type = error, kind
        if self.pattern is not None:
            self.match(self.pattern)
        return True

    def match(self, pattern: str) -> bool:
        """Fail where the message does not hold a pattern."""
        if not re.search(pattern, str(self.value)):
            raise AssertionError(f"{str(self.value)!r} does not match {pattern!r}")
        return True


def raises(expected_exception: Any, *call: Any, match: str | None = None, **options: Any) -> Any:
    """A block that must raise; or call a function that must."""
    block = Raises(expected_exception, match)
    if call:
        with block:
            call[0](*call[1:], **options)
    return block


class Approx:
    """Equal to numbers that are near, and to lists, tuples and dictionaries of such."""

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None
    """Arrays leave the comparison to this class."""

    def __init__(self, value: Any, rel: Any = None, abs: Any = None, nan_ok: bool = False) -> None:
        """The value and how far others may be from it."""
        self.value, self.nan_ok = value, nan_ok
        self.rel = 1e-6 if rel is None and abs is None else rel or 0.0
        self.abs = 1e-12 if abs is None else abs

    def __eq__(self, other: Any) -> bool:
        """Whether plain data is near."""
        return self._near(self.value, other)

    def _near(self, mine: Any, other: Any) -> bool:
        mine, other = (each.tolist() if hasattr(each, "tolist") else each for each in (mine, other))
        if isinstance(mine, dict):
            same = isinstance(other, dict) and mine.keys() == other.keys()
            return same and all(self._near(mine[key], other[key]) for key in mine)
        if isinstance(mine, list | tuple):
            same = isinstance(other, list | tuple) and len(mine) == len(other)
            return same and all(map(self._near, mine, other))
        if not all(isinstance(each, numbers.Number) for each in (mine, other)):
            return bool(mine == other)
        if mine != mine or other != other:
            return self.nan_ok and mine != mine and other != other
        try:
            far, most = abs(mine - other), max(self.rel * abs(mine), self.abs)
        except TypeError:  # a Decimal and a float
            mine, other = Fraction(mine), Fraction(other)
            far, most = abs(mine - other), max(Fraction(self.rel) * abs(mine), Fraction(self.abs))
        return bool(mine == other or (abs(mine) != math.inf and far <= most))


def parametrize(names: Any, values: Any, **options: Any) -> Callable[[Any], Any]:
    """A decorator after which one call of the test goes through all values."""
    keys = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)

    def decorate(test: Any) -> Any:
        test.cases = [(keys, list(values)), *getattr(test, "cases", [])]
        return test

    return decorate


def run(test: Callable[..., Any], *first: Any) -> None:
    """Call a test with all combinations of its parameters."""
    cases = getattr(test, "cases", [])
    for row in itertools.product(*(values for _, values in cases)):
        arguments: dict[str, Any] = {}
        for (keys, _), value in zip(cases, row, strict=True):
            alone = len(keys) == 1 and not isinstance(value, Parameters)
            arguments.update({keys[0]: value} if alone else dict(zip(keys, value, strict=True)))
        test(*first, **arguments)


def run_method(kind: Any, name: str) -> None:
    """Run one method of a class of tests, on an object of its own."""
    made = kind()
    method = getattr(made, name)
    for prepare in ("setup_class", "setUpClass", "setup_method", "setUp"):
        if hasattr(made, prepare):
            _hook(getattr(made, prepare), method)
    try:
        run(method)
    finally:
        for end in ("teardown_method", "tearDown"):
            if hasattr(made, end):
                _hook(getattr(made, end), method)


def _hook(hook: Callable[..., Any], method: Any) -> None:
    """Call what comes before or after a test; some take the test as an argument."""
    hook(*([method] if hook.__code__.co_argcount > 1 else []))


class Parameters(tuple[Any, ...]):
    """What `pytest.param` gives."""


class Marks:
    """`pytest.mark`: `parametrize` works, everything else leaves the test as it is."""

    parametrize = staticmethod(parametrize)

    def __getattr__(self, name: str) -> Any:
        """A decorator, with or without arguments."""

        def mark(*given: Any, **options: Any) -> Any:
            alone = len(given) == 1 and not options and callable(given[0])
            return given[0] if alone else (lambda test: test)

        return mark


def fail(reason: str = "", pytrace: bool = True) -> None:
    """Fail the test."""
    raise AssertionError(reason)


def fixture(*given: Any, **options: Any) -> Any:
    """Leave a function as it is; tests that take fixtures are left out when data are read."""
    return given[0] if given and callable(given[0]) else (lambda made: made)


def module() -> types.ModuleType:
    """A module to be found as `pytest`."""
    made = types.ModuleType("pytest")
    made.__dict__.update(raises=raises, approx=Approx, mark=Marks(), fail=fail, run=run)
    made.__dict__["fixture"] = fixture
    made.__dict__["run_method"] = run_method
    made.__dict__["param"] = lambda *values, **options: Parameters(values)
    return made
