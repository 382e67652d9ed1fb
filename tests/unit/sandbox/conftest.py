"""A sandbox of each kind, shared by the tests of a file; without bubblewrap its tests skip."""

import pytest

from dllmzoo.sandbox import Limits, Sandbox, missing_bubblewrap


@pytest.fixture(scope="module", params=["bubblewrap", "subprocess"])
def sandbox(request):
    if request.param == "bubblewrap" and (missing := missing_bubblewrap()):
        pytest.skip(missing)
    made = Sandbox(request.param, Limits(seconds=8.0, memory_mb=512), workers=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def bubblewrap():
    if missing := missing_bubblewrap():
        pytest.skip(missing)
    made = Sandbox("bubblewrap", Limits(seconds=2.0, memory_mb=512), workers=1)
    yield made
    made.close()
