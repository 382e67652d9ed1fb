"""A page of the site for every notebook: its texts, its code, and the outputs kept in the file."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

SECTION = "Notebooks"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    for entry in config.nav or []:
        if isinstance(entry, dict) and SECTION in entry:
            pages = [f"notebooks/{path.stem}.md" for path in notebooks(config)]
            entry[SECTION] = [*entry[SECTION], *pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in notebooks(config):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text, pictures = page(path.stem, cells)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def notebooks(config: MkDocsConfig) -> list[Path]:
    """The notebooks of the documentation, by name."""
    return sorted(Path(config.docs_dir, "notebooks").glob("*.ipynb"))


def page(name: str, cells: list[dict[str, Any]]) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for kind, content in _outputs(cell):
            if kind == "image/png":
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(content)
                parts.append(f"![Drawn by the cell above]({file})")
            else:
                parts.append(f"```text\n{content.rstrip()}\n```")
    heading, _, rest = "\n\n".join(parts).partition("\n\n")
    download = f"A notebook: [download {name}.ipynb]({name}.ipynb)."
    return f"{heading}\n\n{download}\n\n{rest}\n", pictures


def _outputs(cell: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Kind and content of each output that is kept."""
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            yield "text/plain", "".join(output["text"])
        else:
            for kind, content in output["data"].items():
                yield kind, "".join(content)
