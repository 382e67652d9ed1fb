"""A browser for the tests that need one; without Chromium they skip and say what to install."""

from pathlib import Path

import pytest

from tests.browser import MISSING, Browser, executable
from tests.unit.report.shown import refuse_trouble, write


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One Chromium for all tests."""
    program = executable()
    if program is None:
        pytest.skip(MISSING)
    started = Browser(program, tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Write the page of some runs and open it from the disk; at the end nothing went wrong."""
    tabs = []

    def call(*folders: Path, labs=(), **view):
        file = write(tmp_path / "report.html", folders, labs)
        tabs.append(browser.open(file.as_uri(), **view))
        return tabs[-1]

    yield call
    for tab in tabs:
        refuse_trouble(tab)
