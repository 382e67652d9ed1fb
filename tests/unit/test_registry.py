"""Unit test of finding components by name."""

import textwrap
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, EntryPoints
from typing import Annotated, ClassVar

import pytest
from pydantic import Field, ValidationError

from dllmzoo import registry as module
from dllmzoo.errors import DuplicateNameError, PluginError, UnknownNameError
from dllmzoo.registry import Registry, location
from dllmzoo.zoo import LOSSES, ZOO


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An importable package of parts whose registry is `made_up_parts.THINGS`."""
    folder = tmp_path / "made_up_parts"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from dllmzoo.registry import Registry\nTHINGS = Registry('thing', 'made_up_parts')\n"
    )

    def part(name: str, text: str) -> None:
        (folder / f"{name}.py").write_text(
            "from made_up_parts import THINGS\n" + textwrap.dedent(text)
        )

    part("first", "@THINGS.register('first', aliases=('erste',))\nclass First:\n    'One.'\n")
    part("second", "@THINGS.register('second')\nclass Second:\n    'Two.'\n")
    part("_helper", "raise RuntimeError('a helper is no component')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield part
    import sys

    for name in [name for name in sys.modules if name.startswith("made_up_parts")]:
        del sys.modules[name]


def things() -> Registry:
    import made_up_parts  # type: ignore[import-not-found]

    return made_up_parts.THINGS


def test_files_are_components_and_underscores_are_not(package):
    assert things().names() == ("first", "second")


def test_looking_up_imports_one_file(package):
    import sys

    assert things().get("second").__name__ == "Second"
    assert "made_up_parts.second" in sys.modules and "made_up_parts.first" not in sys.modules


def test_an_alias_is_found_before_its_file_was_imported(package):
    assert things().get("erste").__name__ == "First"
    assert things().canonical("erste") == "first"
    assert things().aliases() == {"erste": "first"}


def test_summaries_import_nothing(package):
    import sys

    package("broken", '@THINGS.register("broken")\nclass Broken:\n    "Three."\n1 / 0\n')
    assert things().summaries() == {"broken": "Three.", "first": "One.", "second": "Two."}
    assert not [name for name in sys.modules if name.startswith("made_up_parts.")]


def test_a_file_that_does_not_register_its_own_name_is_reported(package):
    package("third", "@THINGS.register('drittes')\nclass Third: pass\n")
    with pytest.raises(UnknownNameError, match=r"made_up_parts\.third registers no thing named"):
        things().get("third")


def test_a_users_class_cannot_take_the_name_of_a_file_that_was_not_imported(package):
    with pytest.raises(DuplicateNameError, match=r"taken by .*first\.py; choose another name for"):
        things().register("first")(type("Mine", (), {}))


def test_an_unknown_name_is_answered_with_the_nearest_and_with_all(package):
    with pytest.raises(UnknownNameError) as caught:
        things().get("secnod")
    text = str(caught.value)
    assert "no thing named 'secnod'. Did you mean 'second'" in text
    assert "There are: first, second." in text and "plugins:" in text


def test_a_name_like_no_other_gets_no_guess(package):
    with pytest.raises(UnknownNameError, match=r"no thing named 'xyzzy'\. There are"):
        things().get("xyzzy")


def test_two_claimants_are_both_named_with_file_and_line():
    registry = Registry("thing")

    @registry.register("one")
    class First:
        pass

    with pytest.raises(DuplicateNameError) as caught:

        @registry.register("one")
        class Second:
            pass

    assert str(caught.value).count("test_registry.py:") == 2
    assert "rename one of them" in str(caught.value)
    assert registry.get("one") is First


def test_an_alias_is_a_claim_too():
    registry = Registry("thing")
    registry.register("one", aliases=("uno",))(type("First", (), {}))
    for name, aliases in (("uno", ()), ("two", ("one",)), ("two", ("uno",))):
        with pytest.raises(DuplicateNameError, match="registered twice"):
            registry.register(name, aliases=aliases)(type("Second", (), {}))
    assert registry.names() == ("one",)


def test_the_same_class_may_register_again():
    registry = Registry("thing")

    def declare():
        @registry.register("one", aliases=("uno",))
        class One:
            pass

        return One

    declare()
    again = declare()
    assert registry.get("uno") is again and registry.names() == ("one",)


@dataclass(frozen=True)
class Knobs:
    """Knobs."""

    share: Annotated[float, Field(ge=0, lt=1)] = 0.5
    steps: int = 1
    needs_old: ClassVar[bool] = True


def test_a_dataclass_is_checked_when_it_is_made_and_stays_a_frozen_dataclass():
    made = Registry("thing").register("knobs")(Knobs)
    assert made(share=0) == made(share=0.0) and hash(made()) == hash(made())
    assert replace(made(), steps=3).steps == 3 and made.needs_old
    for wrong in ({"share": 1.0}, {"share": "0.5"}, {"steps": True}, {"stepz": 2}):
        with pytest.raises(ValidationError):
            made(**wrong)
    with pytest.raises(AttributeError):
        made().steps = 2


def test_location_of_a_registered_dataclass_is_where_it_was_written():
    made = Registry("thing").register("knobs")(Knobs)
    assert location(made) == location(Knobs)
    assert "test_registry.py:" in location(made)
    assert location(type("Nowhere", (), {"__module__": "gone"})) == "gone.Nowhere"


def test_temporarily_replaces_and_restores():
    registry = Registry("thing")
    registry.register("one", aliases=("uno",))(type("First", (), {}))
    with registry.temporarily("one", type("Second", (), {})):
        assert registry.get("uno").__name__ == "Second"
        registry.register("two")(type("Third", (), {}))
    assert registry.get("one").__name__ == "First" and "two" not in registry


def test_temporarily_restores_after_an_error_and_can_only_forget():
    registry = Registry("thing")
    with pytest.raises(KeyError), registry.temporarily("unused"):
        registry.register("one")(type("First", (), {}))
        assert "one" in registry and "unused" not in registry
        raise KeyError
    assert registry.names() == ()


def test_a_file_imported_inside_a_temporary_block_is_found_afterwards(package):
    with things().temporarily("other", type("Other", (), {})):
        assert things().get("second").__name__ == "Second"
        assert things().get("erste").__name__ == "First"
    assert things().get("second").__name__ == "Second"
    assert things().get("erste").__name__ == "First"
    assert "other" not in things()


@pytest.fixture
def points(monkeypatch):
    """Entry points of the group dllmzoo.thing, as installed packages declare them."""

    def declare(**values: str) -> Registry:
        found = [EntryPoint(name, value, "dllmzoo.thing") for name, value in values.items()]
        monkeypatch.setattr(module, "_installed", lambda: EntryPoints(found))
        return Registry("thing")

    return declare


def test_an_entry_point_is_listed_and_loaded_when_asked_for(points):
    registry = points(counter="collections:Counter", gone="no_such_module:Thing")
    assert registry.names() == ("counter", "gone")
    assert registry.summaries()["gone"] == "plug-in no_such_module:Thing"
    assert registry.get("counter").__name__ == "Counter"


def test_a_broken_entry_point_is_reported_by_its_own_name(points):
    registry = points(gone="no_such_module:Thing")
    with pytest.raises(PluginError) as caught:
        registry.get("gone")
    text = str(caught.value)
    assert "plug-in 'no_such_module:Thing' (entry point 'gone' of dllmzoo.thing)" in text
    assert "ModuleNotFoundError" in text


def test_a_broken_entry_point_does_not_hide_other_names(points):
    registry = points(gone="no_such_module:Thing", counter="collections:Counter")
    assert registry.get("counter").__name__ == "Counter"
    with pytest.raises(UnknownNameError, match="Did you mean 'counter'"):
        registry.get("countre")


def test_kinds_are_singular_words_and_packages_their_plurals():
    plural = {"loss": "losses"}
    for kind, registry in ZOO.items():
        assert registry.kind == kind
        assert registry.package == f"dllmzoo.{plural.get(kind, kind + 's')}"
    assert list(ZOO) == [
        "model", "schedule", "sampler", "selector", "likelihood", "advantage", "loss", "task",
    ]  # fmt: skip


def test_a_registry_prints_its_names():
    registry = Registry("thing")
    registry.register("one")(type("One", (), {}))
    assert repr(registry) == "Registry('thing': one)"
    assert "clipped_surrogate" in LOSSES and "no_such_loss" not in LOSSES
