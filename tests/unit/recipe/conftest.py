"""Every test of recipes may use the small components."""

import pytest

from tests.unit.recipe.small_parts import small_zoo


@pytest.fixture(autouse=True, scope="module")
def _small_zoo():
    with small_zoo():
        yield
