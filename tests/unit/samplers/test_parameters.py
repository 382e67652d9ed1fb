import inspect

import pytest

from dllmzoo.samplers._parameters import with_inherited
from dllmzoo.zoo import SAMPLERS

PARENT = """Base.

Args:
    steps: T.
    size: of it,
        on two lines.
"""


def test_own_parameters_come_behind_those_of_the_base():
    found = with_inherited(
        "Child.\n\nMore.\n\nArgs:\n    own: mine.\n\nReferences:\n    X.", PARENT
    )
    assert found == (
        "Child.\n\nMore.\n\nArgs:\n    steps: T.\n    size: of it,\n        on two lines.\n"
        "    own: mine.\n\nReferences:\n    X."
    )
    assert with_inherited(found, PARENT) == found


def test_what_a_child_says_of_a_parameter_wins():
    found = with_inherited("Child.\n\nArgs:\n    steps: always 3.", PARENT)
    assert found == (
        "Child.\n\nArgs:\n    steps: always 3.\n    size: of it,\n        on two lines."
    )


def test_without_parameters_nothing_is_added():
    assert with_inherited("Child.", "Base.") == "Child."
    assert with_inherited("", PARENT) == ""


@pytest.mark.parametrize("name", SAMPLERS.names())
def test_every_option_of_every_sampler_is_explained(name):
    info = SAMPLERS.describe(name)
    assert [each.name for each in info.parameters if not each.meaning] == []
    doc = inspect.getdoc(SAMPLERS.get(name)) or ""
    assert doc.count("\nArgs:") == 1 and "\n\n\n" not in doc
