"""Laws of every registered model family; a new one is tested the moment its file exists."""

import pytest

from dllmzoo.laws import LAWS, check_model
from dllmzoo.zoo import MODELS


@pytest.mark.parametrize("name", MODELS.names())
def test_every_family_obeys_the_laws(name):
    report = check_model(MODELS.get(name))
    assert {*report.held, *report.silent, *report.exempt} == set(LAWS["model"])
    assert {"batch_and_padding_invariant", "saving_and_loading_is_exact"} <= set(report.held)
