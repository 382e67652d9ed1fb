"""Pages on the disk, and what no page may do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dllmzoo.report.collect import collect
from dllmzoo.report.page import page
from tests.browser import Tab


def write(file: Path, folders: Sequence[Path], labs: Sequence[dict[str, Any]] = ()) -> Path:
    """The report of some runs."""
    file.write_text(page(collect(folders) | {"labs": list(labs)}, title="runs"), encoding="utf-8")
    return file


def refuse_trouble(tab: Tab) -> None:
    """The console is empty, and nothing was asked of any network."""
    assert tab.errors == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
    tab.close()
