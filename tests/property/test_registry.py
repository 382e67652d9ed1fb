"""Laws of the registries, over the zoo's own names and over made-up ones."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dllmzoo.errors import DuplicateNameError, UnknownNameError
from dllmzoo.registry import Registry
from dllmzoo.zoo import ZOO

KNOWN = [
    (kind, name)
    for kind, registry in ZOO.items()
    for name in sorted({*registry.names(), *registry.aliases()})
]
names = st.lists(
    st.from_regex(r"[a-z][a-z_]{2,11}", fullmatch=True), min_size=1, max_size=8, unique=True
)
few = settings(max_examples=40)
LETTERS = "abcdefghijklmnopqrstuvwxyz_"


@st.composite
def typos(draw, name: str) -> str:
    """The name with one letter lost, doubled, exchanged or swapped with its neighbour."""
    at = draw(st.integers(0, len(name) - 1))
    how = draw(st.sampled_from(["lose", "add", "change", "swap"]))
    letter = draw(st.sampled_from(LETTERS))
    if how == "lose":
        return name[:at] + name[at + 1 :]
    if how == "add":
        return name[:at] + letter + name[at:]
    if how == "change":
        return name[:at] + letter + name[at + 1 :]
    at = min(at, len(name) - 2)
    return name[:at] + name[at + 1] + name[at] + name[at + 2 :]


@pytest.mark.parametrize(("kind", "name"), KNOWN)
@few
@given(data=st.data())
def test_any_single_typo_of_a_name_is_answered_with_the_name(kind, name, data):
    if len(name) < 3:
        return
    typo = data.draw(typos(name))
    registry = ZOO[kind]
    if typo in registry:
        return
    assert name in registry.suggestions(typo)
    with pytest.raises(UnknownNameError, match=f"no {kind} named") as caught:
        registry.get(typo)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(("kind", "name"), KNOWN)
def test_a_name_or_alias_finds_one_class_which_says_its_name(kind, name):
    registry = ZOO[kind]
    cls = registry.get(name)
    assert registry.get(registry.canonical(name)) is cls
    assert registry.describe(name).name == registry.canonical(name)
    assert registry.canonical(name) in registry.names()


@few
@given(chosen=names)
def test_what_is_registered_is_what_is_found_and_names_are_sorted(chosen):
    registry = Registry("thing")
    classes = {}
    for name in chosen:
        classes[name] = registry.register(name)(type(name.title(), (), {"__doc__": f"A {name}."}))
    assert registry.names() == tuple(sorted(chosen)) == tuple(registry)
    for name, cls in classes.items():
        assert registry.get(name) is cls
        assert name in registry
    assert registry.summaries() == {name: f"A {name}." for name in chosen}


@few
@given(chosen=names, data=st.data())
def test_a_second_claimant_of_a_name_or_alias_is_refused(chosen, data):
    registry = Registry("thing")
    first, *aliases = chosen
    registry.register(first, aliases=aliases)(type("First", (), {}))
    taken = data.draw(st.sampled_from(chosen))
    with pytest.raises(DuplicateNameError, match=r"First.*Second"):
        registry.register(taken)(type("Second", (), {}))
    with pytest.raises(DuplicateNameError):
        registry.register("other", aliases=(taken,))(type("Second", (), {}))
    assert registry.get(taken).__name__ == "First"


@few
@given(chosen=names, data=st.data())
def test_a_temporary_registration_leaves_no_trace(chosen, data):
    registry = Registry("thing")
    for name in chosen:
        registry.register(name, aliases=(f"{name}_alias",))(type(name, (), {}))
    before = {name: registry.get(name) for name in chosen}, registry.aliases()
    replaced = data.draw(st.sampled_from([*chosen, "new_one"]))
    with registry.temporarily(replaced, type("Passing", (), {})):
        assert registry.get(replaced).__name__ == "Passing"
    assert ({name: registry.get(name) for name in chosen}, registry.aliases()) == before
    assert "new_one" not in registry


def test_listing_and_summaries_import_no_component():
    code = (
        "import sys; from dllmzoo.zoo import ZOO\n"
        "for registry in ZOO.values():\n"
        "    assert all(line.endswith('.') for line in registry.summaries().values())\n"
        "    loaded = [m for m in sys.modules if m.startswith(registry.package + '.')]\n"
        "    assert not loaded, loaded\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
