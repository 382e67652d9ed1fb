"""A page for every method of the catalogue: equation, sockets, recipes, numbers."""

import importlib.util
import re
import textwrap
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from dllmzoo.catalogue import MethodCard, cards, recipe_path

_spec = importlib.util.spec_from_file_location(
    "dllmzoo_docs_hooks", Path(__file__).with_name("hooks.py")
)
assert _spec is not None and _spec.loader is not None
site = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(site)

MARKER = "<!-- methods -->"
PARTS = ("sampler", "selector", "likelihood", "advantage", "loss")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    for entry in config.nav or []:
        if isinstance(entry, dict) and "Methods" in entry:
            index = [page for page in entry["Methods"] if not isinstance(page, dict)]
            pages = [{card.title.partition(",")[0]: _uri(card)} for card in cards("methods")]
            entry["Methods"] = [*index, *pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for card in cards("methods"):
        files.append(File.generated(config, _uri(card), content=page(card)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return markdown.replace(MARKER, overview())


def overview() -> str:
    """Every method with its paper and its recipes."""
    rows = []
    for card in cards("methods"):
        name, _, about = card.title.partition(",")
        link = f"[{name}]({card.name}.md)"
        recipe = f"`{card.recipes[0]}`" if card.recipes else ""
        rows.append((link, about.strip(), paper(card), recipe))
    return site.table(("method", "what it is", "paper", "tiny recipe"), rows)


def page(card: MethodCard) -> str:
    """One method, from its card and its recipes."""
    repository = f", [code of the authors]({card.repository})" if card.repository else ""
    parts = [f"# {card.title}", f"{paper(card)}{repository}. {card.summary}"]
    if card.equation:
        parts += [f"$$ {card.equation} $$"]
    parts += ["## On the sockets", sockets(card)]
    parts += ["## Recipes", *recipes(card)]
    parts += ["## What is the same", bullets(card.same)]
    parts += ["## What differs", bullets(card.differs)]
    parts += ["## Published", published(card)]
    parts += ["## Measured here", *measured(card)]
    return "\n\n".join(parts) + "\n"


def paper(card: MethodCard) -> str:
    """The citation, linked to arXiv."""
    if not card.arxiv:
        return card.paper
    return card.paper.replace(
        f"arXiv:{card.arxiv}", f"[arXiv:{card.arxiv}](https://arxiv.org/abs/{card.arxiv})"
    )


def sockets(card: MethodCard) -> str:
    """Which component stands in which socket, and what it does there."""
    rows = []
    for kind in dict.fromkeys([*card.parts, *card.sockets]):
        links = [f"[`{name}`](../components/{kind}/{name}.md)" for name in card.parts.get(kind, ())]
        rows.append((kind, ", ".join(links), card.sockets.get(kind, "")))
    return site.table(("socket", "component", "how it is used"), rows)


def recipes(card: MethodCard) -> list[str]:
    """Command of every recipe, and the parts of the first."""
    if not card.recipes:
        return ["None is shipped."]
    commands = "\n".join(f"dllmzoo train {name}" for name in card.recipes)
    text = recipe_path(card.recipes[0]).read_text(encoding="utf-8")
    blocks = re.findall(rf"^(?:{'|'.join(PARTS)}):.*\n(?:[ ]+.*\n)*", text, re.MULTILINE)
    shown = textwrap.dedent("".join(blocks))
    return [
        f"```text\n{commands}\n```",
        f"What `{card.recipes[0]}` puts into the sockets:",
        f"```text\n{shown}```",
    ]


def bullets(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "Nothing is noted."


def published(card: MethodCard) -> str:
    """The authors' numbers with their origin."""
    known = {task: value for task, value in card.published.items() if value is not None}
    if not known:
        return "No numbers are known."
    rows = [(task, str(value)) for task, value in known.items()]
    source = f"{card.published_model}, percent; read in: {card.published_source}."
    return f"{site.table(('task', 'value'), rows)}\n\n{source}"


def measured(card: MethodCard) -> list[str]:
    """Rows of our own results that belong to the method's recipes."""
    found = []
    for result in cards("results"):
        rows = [row for row in result.rows if row and str(row[0]) in card.recipes]
        if rows:
            shown = [[site._cell(cell) for cell in row] for row in rows]
            found.append(f"{result.title}, made by `{result.command}`:")
            found.append(site.table(result.columns, shown))
    return found or ["Nothing yet."]


def _uri(card: MethodCard) -> str:
    return f"methods/{card.name}.md"
