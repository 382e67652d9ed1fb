"""Unit test of what a component says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import Field

from dllmzoo.describe import describe, range_text, source_summary, str_default, type_text
from dllmzoo.registry import Registry
from dllmzoo.zoo import ZOO

Positive = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Part:
    """A part with every sort of knob.

    More about it.

    Args:
        share: in [0, 1); of what,
            over two lines.
        low, high: bounds, nats.
        steps: how many.

    Raises:
        ValueError: never.

    References:
        Someone et al., 2026
        (arXiv:2603.00000).
    """

    steps: Positive
    share: Annotated[float, Field(ge=0, lt=1)] = 0.5
    low: float | None = None
    high: Annotated[float, Field(gt=0)] | None = 2.0
    names: tuple[str, ...] = field(default_factory=lambda: ("a", "b"))
    switch: bool = True

    exempt: ClassVar[dict[str, str]] = {"shift": "why"}


@pytest.fixture(params=["plain", "registered"])
def info(request):
    cls = Part if request.param == "plain" else Registry("thing").register("part")(Part)
    return describe("thing", "part", ("alias",), cls, "here.py:3")


def test_the_summary_is_the_first_line_and_the_references_are_one_line(info):
    assert info.summary == "A part with every sort of knob."
    assert info.references == "Someone et al., 2026 (arXiv:2603.00000)."
    assert info.doc.startswith(info.summary) and "More about it." in info.doc
    assert (info.kind, info.name, info.aliases, info.location) == (
        "thing", "part", ("alias",), "here.py:3",
    )  # fmt: skip
    assert info.exempt == {"shift": "why"}


def test_parameters_have_type_range_default_and_meaning(info):
    rows = {p.name: (p.type, p.range, p.default, p.meaning) for p in info.parameters}
    assert rows == {
        "steps": ("int", "[1, inf)", "required", "how many."),
        "share": ("float", "[0, 1)", "0.5", "in [0, 1); of what, over two lines."),
        "low": ("float | null", "", "null", "bounds, nats."),
        "high": ("float | null", "(0, inf)", "2.0", "bounds, nats."),
        "names": ("list of str", "", "['a', 'b']", ""),
        "switch": ("bool", "", "true", ""),
    }


def test_a_class_without_docstring_has_empty_words():
    class Bare:
        pass

    info = describe("thing", "bare", (), Bare, "")
    assert (info.summary, info.references, info.parameters, info.exempt) == ("", "", (), {})


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "int"),
        (float | None, "float | null"),
        (Literal["a", "b"], "a | b"),
        (Literal["a", None, True], "a | null | true"),
        (tuple[int, int], "list of int"),
        (tuple[int, str], "[int, str]"),
        (tuple[str, ...], "list of str"),
        (dict[str, float], "mapping of str to float"),
        (Mapping[str, int], "mapping of str to int"),
        (Annotated[Any, "x"], "part"),
        (Positive | None, "int | null"),
    ],
)
def test_types_read_as_in_a_recipe(hint, text):
    assert type_text(hint) == text


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, ""),
        (Positive, "[1, inf)"),
        (Annotated[float, Field(gt=0, le=1)], "(0, 1]"),
        (Annotated[float, Field(lt=2)], "(-inf, 2)"),
        (Annotated[float, Field(ge=0)] | None, "[0, inf)"),
        (tuple[Positive, Positive], "[1, inf)"),
    ],
)
def test_ranges_read_as_intervals(hint, text):
    assert range_text(hint) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "null"), (True, "true"), (0.5, "0.5"), ("a", "a"), ((1, 2), "[1, 2]"), ((), "[]")],
)
def test_defaults_read_as_in_a_recipe(value, text):
    assert str_default(value) == text


def test_a_summary_is_read_from_source_that_cannot_run(tmp_path):
    path = tmp_path / "part.py"
    path.write_text(
        '"""Of the module."""\nimport no_such_module\n\nclass _Helper:\n    """Not this."""\n\n'
        '@THINGS.register("part", aliases=("p",))\n@dataclass(frozen=True)\nclass Part:\n'
        '    """This line.\n\n    Not that.\n    """\n'
    )
    assert source_summary(path) == "This line."


def test_a_file_that_registers_no_class_is_summed_up_by_its_module(tmp_path):
    path = tmp_path / "part.py"
    path.write_text('"""Of the module."""\nPart = make()\n')
    assert source_summary(path) == "Of the module."


@pytest.mark.parametrize("kind", sorted(ZOO))
def test_every_component_describes_itself_wholly(kind):
    registry = ZOO[kind]
    summaries = registry.summaries()
    for name in registry.names():
        found = registry.describe(name)
        assert found.summary == summaries[name]
        assert 0 < len(found.summary) <= 88 and found.summary.endswith("."), name
        for parameter in found.parameters:
            assert parameter.meaning, f"{kind} {name}: {parameter.name} is not explained"
        assert f"{name}.py:" in found.location
