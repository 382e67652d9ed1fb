"""What a law is, where it applies, and how a component is held to it or exempted from it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from dllmzoo.errors import DllmzooError
from dllmzoo.laws.case import Case
from dllmzoo.laws.settings import drawn, name_of

Test = Callable[[Any, Case], None]
Scope = Callable[[Any], str | None]
Maker = Callable[[type, Case], Any]
F = TypeVar("F", bound=Test)


class LawError(DllmzooError, AssertionError):
    """A component breaks a law of its kind; says which, how, and on which input."""


@dataclass(frozen=True)
class Law:
    """One sentence about every component of a kind, and its test.

    Args:
        kind: of component.
        name: what `exempt` calls it.
        statement: the sentence.
        test: raises where the component breaks the law on a case.
        scope: why the law says nothing about a component; None = it does.
    """

    kind: str
    name: str
    statement: str
    test: Test
    scope: Scope


@dataclass(frozen=True)
class Report:
    """What a check found: each law of the kind is held, silent or, with some setting, exempt.

    Args:
        held: laws that held on every case.
        exempt: what the component says it does not obey, each refuted by a case; the reasons.
        silent: laws that say nothing about the component; the reasons.
    """

    held: tuple[str, ...]
    exempt: Mapping[str, str]
    silent: Mapping[str, str]


LAWS: dict[str, dict[str, Law]] = {}
"""Kind -> name -> law. The names are what a component's `exempt` may list."""

MAKERS: dict[str, Maker] = {}
"""Kind -> how a component of a class is made for a case; default: `default_or_drawn`."""


def always(component: Any) -> str | None:
    """The scope of a law about every component."""
    return None


def law(kind: str, scope: Scope = always) -> Callable[[F], F]:
    """Decorator that makes a test a law named like the function, stated by its docstring."""

    def decorate(test: F) -> F:
        statement = (inspect.getdoc(test) or "").partition("\n")[0]
        name = test.__name__
        LAWS.setdefault(kind, {})[name] = Law(kind, name, statement, test, scope)
        return test

    return decorate


def require(truth: object, message: str) -> None:
    """Refute the law unless `truth`."""
    if not truth:
        raise LawError(message)


def same(found: Tensor, expected: Tensor, what: str, tolerance: float = 0.0) -> None:
    """Refute the law unless two tensors agree to `tolerance`, absolute and relative."""
    require(
        found.shape == expected.shape,
        f"{what}: shape {tuple(found.shape)}, expected {tuple(expected.shape)}",
    )
    found, expected = found.detach().double(), expected.detach().double()
    equal = torch.isclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=False)
    if not equal.all():
        where = tuple(int(i) for i in (~equal).nonzero()[0])
        raise LawError(
            f"{what}: {found[where].item():.9g} at {list(where)}, "
            f"expected {expected[where].item():.9g}"
        )


@contextmanager
def untouched_global_generator() -> Iterator[None]:
    """Refute the law if the block draws from torch's global generator."""
    before = torch.random.get_rng_state()
    yield
    require(
        torch.equal(before, torch.random.get_rng_state()),
        "it drew from the global generator; draw from the key it is given",
    )


@dataclass(frozen=True)
class Exemption:
    """One entry of a component's `exempt`.

    The key is the name of a law, or `law if field=value` where the law is broken with that
    setting only: the law is then held on every other setting.
    """

    law: str
    field: str | None
    value: str | None
    reason: str

    def covers(self, component: Any) -> bool:
        """Whether the component has the setting that breaks the law."""
        if self.field is None:
            return True
        return str(getattr(component, self.field, None)).lower() == str(self.value).lower()


def exemptions(part: Any) -> list[Exemption]:
    """The laws a component (or its class) says it does not obey, with its reasons.

    Raises:
        LawError: a key is not of the form `law` or `law if field=value`.
    """
    found = []
    for key, reason in dict(getattr(part, "exempt", {})).items():
        name, _, condition = key.partition(" if ")
        field, equals, value = condition.partition("=")
        known = {f.name for f in fields(part)} if is_dataclass(part) else set()
        if (condition and not equals) or (condition and field not in known) or not reason:
            raise LawError(
                f"{name_of(part)!r} has the exemption {key!r}: {reason!r}; write "
                f"`law: reason` or `law if field=value: reason`, the field being one of its own"
            )
        found.append(Exemption(name, field if condition else None, value, reason))
    return found


def excuse(component: Any, law: Law) -> Exemption | None:
    """The exemption that covers a component with its settings, if it has one."""
    named = (e for e in exemptions(component) if e.law == law.name)
    return next((e for e in named if e.covers(component)), None)


def refuted(component: Any, law: Law, case: Case) -> bool:
    """Whether the case shows that the component does not obey the law."""
    if law.scope(component) is not None:
        return False
    try:
        law.test(component, case)
    except LawError:
        return True
    return False


def check(kind: str, part: Any, *, cases: int, seed: int) -> Report:
    """Hold a component, or the default and drawn settings of a class, to the laws of its kind.

    Args:
        kind: of component.
        part: an instance, or a class; of a class half of the cases use its defaults.
        cases: inputs of each law.
        seed: of the first one.

    Raises:
        LawError: a law is broken; an exemption names no law, or the law holds after all.
    """
    exempt = known_exemptions(kind, part)
    for exemption in exempt:
        is_real(kind, part, exemption, cases=cases, seed=seed)
    held, silent = [], {}
    for each in LAWS[kind].values():
        reasons = [hold(part, each, case) for case in _cases(cases, seed)]
        if None in reasons:
            held.append(each.name)
        elif each.name not in {exemption.law for exemption in exempt}:
            silent[each.name] = str(reasons[0])
    return Report(tuple(held), dict(getattr(part, "exempt", {})), silent)


def hold(part: Any, law: Law, case: Case) -> str | None:
    """Hold a component, or one of a class, to one law on one case.

    Returns:
        None if the law was tested; else why not: an exemption, or the law's scope.

    Raises:
        LawError: with the law, the component, the finding and the smallest size that shows it.
    """
    component = one(part, law.kind, case)
    exemption = excuse(component, law)
    silence = exemption.reason if exemption else law.scope(component)
    if silence is None:
        _test(component, law, case)
    return silence


def known_exemptions(kind: str, part: Any) -> list[Exemption]:
    """The exemptions of a component.

    Raises:
        LawError: one names no law of its kind.
    """
    found = exemptions(part)
    unknown = sorted({exemption.law for exemption in found} - set(LAWS[kind]))
    if unknown:
        raise LawError(
            f"{kind} {name_of(part)!r} is exempt from {', '.join(map(repr, unknown))}, "
            f"but the laws of a {kind} are: {', '.join(LAWS[kind])}"
        )
    return found


def is_real(kind: str, part: Any, exemption: Exemption, *, cases: int, seed: int) -> None:
    """Raise unless some case shows that the component really does not obey the law."""
    cls = part if isinstance(part, type) else type(part)
    for case in _cases(max(cases, 200), seed):
        for component in (one(part, kind, case), one(cls, kind, case)):
            broken = exemption.covers(component) and refuted(
                component, LAWS[kind][exemption.law], case
            )
            if broken:
                return
    where = f" with {exemption.field}={exemption.value}" if exemption.field else ""
    raise LawError(
        f"{kind} {name_of(part)!r} is exempt from the law {exemption.law!r}{where}, but obeys it "
        f"on every case; remove the exemption: {LAWS[kind][exemption.law].statement}"
    )


def one(part: Any, kind: str, case: Case) -> Any:
    """The component of a case: an instance itself; of a class, half of the time its default."""
    if not isinstance(part, type):
        return part
    return MAKERS.get(kind, default_or_drawn)(part, case)


def default_or_drawn(cls: type, case: Case) -> Any:
    """The default construction of a class, or settings drawn from its annotations."""
    return cls() if case.truth("default") else drawn(cls, case)


def _cases(count: int, seed: int) -> list[Case]:
    return [Case(seed + i, size=i % 7) for i in range(count)]


def _test(component: Any, law: Law, case: Case) -> None:
    try:
        law.test(component, case)
    except Exception as error:
        smallest, finding = _smallest(component, law, case, error)
        kind = "" if isinstance(finding, LawError) else f"{type(finding).__name__}: "
        raise LawError(
            f"{law.kind} {name_of(component)!r} breaks the law {law.name!r}: {law.statement}\n"
            f"    found: {kind}{finding}\n    component: {component}\n    input: {smallest}"
        ) from finding


def _smallest(component: Any, law: Law, case: Case, error: Exception) -> tuple[Case, Exception]:
    """The same seed at the smallest size that fails too, and what it raises."""
    for size in range(case.size):
        smaller = Case(case.seed, size)
        try:
            law.test(component, smaller)
        except Exception as smaller_error:
            return smaller, smaller_error
    return case, error
