"""Options that losses share: one place for their defaults, ranges and explanations."""

import dataclasses
import inspect
from dataclasses import dataclass

import pytest
from pydantic import ValidationError

from dllmzoo.losses._kl import KlPenalty
from dllmzoo.losses._options import explain_options
from dllmzoo.zoo import LOSSES

KL = ("kl", "kl_coef", "kl_anchor", "kl_gradient", "kl_normaliser", "kl_length_norm")
WITH_KL = ("cispo", "clipped_surrogate", "policy_gradient", "sapo", "vespo")


def names(cls):
    return [field.name for field in dataclasses.fields(cls)]


@pytest.mark.parametrize("name", WITH_KL)
def test_the_kl_options_follow_those_of_the_loss(name):
    cls = LOSSES.get(name)
    assert issubclass(cls, KlPenalty)
    assert tuple(names(cls)[-6:]) == KL


def test_the_fields_of_the_surrogate_keep_their_order():
    assert names(LOSSES.get("clipped_surrogate"))[:7] == [
        "clip_low", "clip_high", "ratio_cap", "log_ratio_clamp", "ratio_level", "length_norm",
        "normaliser",
    ]  # fmt: skip
    assert names(LOSSES.get("policy_gradient"))[:2] == ["length_norm", "normaliser"]


def test_a_loss_may_have_a_default_of_its_own():
    assert LOSSES.get("clipped_surrogate")().kl == "k3"
    assert LOSSES.get("policy_gradient")().kl == "none"
    assert LOSSES.get("sibling_imitation")().kl_coef == 0.01


@pytest.mark.parametrize("name", [*WITH_KL, "sibling_imitation"])
def test_shared_options_are_checked_and_explained_everywhere(name):
    cls = LOSSES.get(name)
    with pytest.raises(ValidationError):
        cls(kl_coef=-1.0)
    with pytest.raises(ValidationError, match="kl_anchor: reference"):
        cls(kl="exact", kl_anchor="old")
    found = {p.name: p.meaning for p in LOSSES.describe(name).parameters}
    surrogate = {p.name: p.meaning for p in LOSSES.describe("clipped_surrogate").parameters}
    assert all(found[each] == surrogate[each] for each in KL)


def test_entries_come_in_the_order_of_the_fields():
    class Base:
        """The base.

        Args:
            shared: told once,
                on two lines.
            other: of somebody else.
        """

    @dataclass
    class Child(Base):
        """A child.

        Args:
            own: told here.

        References:
            Somebody, 2020.
        """

        own: int = 1
        shared: int = 2

    explain_options(Child)
    assert inspect.getdoc(Child) == (
        "A child.\n\nArgs:\n    own: told here.\n    shared: told once,\n        on two lines.\n\n"
        "References:\n    Somebody, 2020."
    )


def test_a_child_without_parameters_of_its_own_gets_the_list_before_its_references():
    class Base:
        """The base.

        Args:
            shared: told once.
        """

    @dataclass
    class Child(Base):
        """A child.

        References:
            Somebody, 2020.
        """

        shared: int = 2

    explain_options(Child)
    assert inspect.getdoc(Child) == (
        "A child.\n\nArgs:\n    shared: told once.\n\nReferences:\n    Somebody, 2020."
    )
