"""The notebooks run from the first cell to the last, and hold nothing of one machine."""

import json
import re
import sys

import nbformat
import pytest

from tests.docs.blocks import PROJECT

sys.path.insert(0, str(PROJECT / "docs"))
import notebook_pages
import run_notebooks

sys.path.pop(0)

NOTEBOOKS = sorted((PROJECT / "docs" / "notebooks").glob("*.ipynb"))
names = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def outputs(notebook) -> list:
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def kinds(notebook) -> list[list[str]]:
    """What each cell leaves behind: texts and pictures."""
    return [[output.output_type for output in cell.get("outputs", ())] for cell in notebook.cells]


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["custom_component", "estimator_lab"]


@pytest.mark.slow  # a kernel is a process that imports torch and transformers
@names
def test_it_runs_and_its_kept_outputs_are_those_of_its_cells(path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    kept, fresh = nbformat.read(path, as_version=4), run_notebooks.executed(path)
    assert [cell.source for cell in fresh.cells] == [cell.source for cell in kept.cells]
    assert kinds(fresh) == kinds(kept), "make them anew: python docs/run_notebooks.py"
    assert any(output.output_type == "display_data" for output in outputs(fresh))


@names
def test_it_checks_what_it_claims(path):
    source = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)
    assert source.count("\nassert ") + source.startswith("assert ") >= 3


@names
def test_it_is_small_valid_and_of_no_machine(path):
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert len(text) < 200_000
    words = "\n".join(
        [cell.source for cell in notebook.cells]
        + [output.get("text", "") for output in outputs(notebook)]
    )
    assert not re.search(
        r"(?<![\w.~:/}])/(work|root|home|mnt|opt|tmp|Users)/\w|site-packages", words
    )
    assert {output.output_type for output in outputs(notebook)} <= {"stream", "display_data"}
    assert notebook.metadata.keys() <= {"kernelspec", "language_info"}


@names
def test_its_page_shows_every_cell_and_every_output(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text, pictures = notebook_pages.page(path.stem, cells)
    assert text.startswith("# ") and f"({path.name})" in text
    assert all("".join(cell["source"]) in text for cell in cells if cell["cell_type"] == "code")
    assert pictures and all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    assert all(f"({name})" in text for name in pictures)
    printed = [o["text"] for c in cells for o in c.get("outputs", ()) if "text" in o]
    assert printed and all("".join(lines).rstrip() in text for lines in printed)
