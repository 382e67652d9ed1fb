"""Every component has all that its protocol says, and `dllmzoo check` asks exactly for that."""

import pytest

from dllmzoo import ZOO
from dllmzoo.checks._protocol import FIELDS, KINDS, lacks


def test_the_parts_of_a_recipe_are_the_kinds_of_the_zoo():
    assert set(KINDS) == set(ZOO) - {"model", "schedule"}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_component_has_what_its_protocol_says(kind):
    for name in ZOO[kind].names():
        part = ZOO[kind].get(name)()
        assert lacks(part, KINDS[kind]) == [], name
        assert all(hasattr(part, each) for each in FIELDS.get(kind, ())), name


def test_what_is_missing_is_named_in_the_order_of_the_protocol():
    class Half:
        linear = True

        def plan(self):
            """Not called."""

    assert lacks(Half(), KINDS["likelihood"]) == [
        "uses_steps", "random", "unit", "shares_masks", "num_forwards", "pool",
    ]  # fmt: skip
    assert lacks(Half(), KINDS["selector"]) == ["__call__"]
