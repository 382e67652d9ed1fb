"""Runs the notebooks of docs/notebooks and keeps in them what they print and draw.

    python docs/run_notebooks.py [NAME ...]

Without names all of them. The site shows the outputs that are kept; see notebook_pages.py.
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).with_name("notebooks")
LIMIT = 300
"""Seconds that a cell may take."""


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with fresh outputs, run from its first cell to its last in an empty folder.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder, "kernel"))  # of sockets in the folder: no port is opened
        kernel = KernelManager(kernel_name="python3", transport="ipc", ip=address)
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, km=kernel, timeout=LIMIT, resources=resources)
        client.owns_km = True  # so that it ends the kernel and closes its sockets
        client.execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.outputs = [_plain(output) for output in cell.outputs if _wanted(output)]
    return notebook


def _wanted(output: nbformat.NotebookNode) -> bool:
    """Standard error holds warnings, which name files of the machine."""
    return output.output_type != "stream" or output.name == "stdout"


def _plain(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A text stays a text, a figure becomes its picture alone."""
    if output.output_type == "stream":
        return output
    kind = "image/png" if "image/png" in output.data else "text/plain"
    data = {kind: output.data[kind]}
    return nbformat.v4.new_output("display_data", data=data)


def main(names: list[str]) -> int:
    paths = [FOLDER / f"{name}.ipynb" for name in names] or sorted(FOLDER.glob("*.ipynb"))
    for path in paths:
        nbformat.write(executed(path), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
