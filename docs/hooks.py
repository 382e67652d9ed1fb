"""What the site reads from the code: component pages, catalogue, recipe keys, command line.

A comment on a line of its own is replaced by a table: `<!-- registry:selector -->`,
`<!-- catalogue:methods -->`, `<!-- results:NAME -->`, `<!-- section:train -->`,
`<!-- commands -->`, ... Every registered component gets a page of its own, a plug-in's too: list
its file under `extra: {plugins: [...]}` in mkdocs.yml.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import dllmzoo
from dllmzoo import ZOO
from dllmzoo.catalogue import PublishedCard, ResultCard, cards
from dllmzoo.catalogue import path as card_path
from dllmzoo.describe import Info, Parameter, describe
from dllmzoo.plugins import load_plugins
from dllmzoo.recipe import sections

PACKAGE = Path(dllmzoo.__file__).parent
MARKER = re.compile(r"^<!-- (\w+)(?::([\w-]+))? -->$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    load_plugins(config.extra.get("plugins", []), _folder(config))
    for entry in config.nav or []:
        if isinstance(entry, dict) and "Components" in entry:
            index = [page for page in entry["Components"] if not isinstance(page, dict)]
            entry["Components"] = [
                *index,
                *({_plural(kind): [_uri(kind, n) for n in ZOO[kind].names()]} for kind in ZOO),
            ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    used = recipes_by_part(_folder(config) / "recipes")
    for kind, registry in ZOO.items():
        for name in registry.names():
            info = registry.describe(name)
            content = component_page(info, _place(info, config), used.get((kind, name), []))
            files.append(File.generated(config, _uri(kind, name), content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] not in TABLES:
            return match[0]
        return TABLES[match[1]](match[2], page, config)

    return MARKER.sub(replace, markdown)


def component_page(info: Info, place: str, recipes: Iterable[str]) -> str:
    """A component as a page: its docstring, its knobs, its laws, the recipes that name it."""
    body, parts = split_docstring(info.doc)
    also = f" Also called {_codes(info.aliases)}." if info.aliases else ""
    article = "An" if info.kind[0] in "aeiou" else "A"
    page = [f"# {info.name}", f"{article} {info.kind}, in `{place}`.{also}", body]
    page += ["## In a recipe", f"```yaml\n{recipe_node(info)}\n```"]
    if info.parameters:
        page += ["## Parameters", parameter_table(info.parameters)]
    if "Raises" in parts:
        page += ["## Errors", parts["Raises"]]
    for title in ("Example", "Examples"):
        if title in parts:
            page += ["## Example", f"```pycon\n{parts[title]}\n```"]
    if info.exempt:
        rows = ((f"`{law}`", why) for law, why in info.exempt.items())
        page += ["## Laws it does not obey", table(("law", "why"), rows)]
    if info.references:
        page += ["## Sources", parts.get("References", info.references)]
    page += ["## Recipes that use it", _codes(recipes) or "None of the shipped ones."]
    return "\n\n".join(page) + "\n"


def split_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """A Google-style docstring as its prose and its titled sections."""
    parts: dict[str, str] = {}

    def take(match: re.Match[str]) -> str:
        lines = match[2].splitlines()
        indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
        parts[match[1]] = "\n".join(line[indent:] for line in lines).strip()
        return ""

    prose = re.sub(r"^([A-Z]\w+):\n((?:[ \t]+\S.*\n?|\n)+)", take, doc, flags=re.MULTILINE)
    return prose.strip(), parts


def recipe_node(info: Info) -> str:
    """The component as a recipe would write it, with every default."""
    options = "".join(f"\n  {p.name}: {p.default}" for p in info.parameters)
    return f"{info.kind}:\n  name: {info.name}{options}" if options else f"{info.kind}: {info.name}"


def parameter_table(parameters: Iterable[Parameter]) -> str:
    rows = (
        (
            f"`{p.name}`",
            f"`{p.type}`",
            f"`{p.range}`" if p.range else "",
            f"`{p.default}`",
            p.meaning,
        )
        for p in parameters
    )
    return table(("parameter", "type", "range", "default", "meaning"), rows)


def first_source(references: str) -> str:
    """The first paper of a list of references, up to its arXiv number or its full stop."""
    found = re.match(
        r".*?\(arXiv:[\w.]+\)|.*?(?<!\beq)(?<!\bal)(?<!\bsec)\.(?= [A-Z]|$)", references
    )
    return found[0] if found else references


def registry_table(kind: str, page: Page, config: MkDocsConfig) -> str:
    """Every component of a kind, with a link to its page."""
    rows = []
    for name in ZOO[kind].names():
        info = ZOO[kind].describe(name)
        knobs = ", ".join(
            f"`{p.name}`" + (f" {p.range}" if p.range else "") + f" = `{p.default}`"
            for p in info.parameters
        )
        link = f"[`{name}`]({_relative(_uri(kind, name), page)})"
        exempt = _codes(info.exempt)
        rows.append((link, info.summary, knobs, first_source(info.references), exempt))
    return table(("name", "what it does", "parameters", "paper", "exempt from"), rows)


def section_table(name: str, page: Page, config: MkDocsConfig) -> str:
    """The keys of one section of a recipe, read from its dataclass."""
    cls = getattr(sections, name.capitalize())
    return parameter_table(describe("section", name, (), cls, "").parameters)


def catalogue_cards(folder: str, page: Page, config: MkDocsConfig) -> str:
    """The cards of a folder of `registry/`: a heading each, facts as a table, remarks as lists."""
    if folder == "results":
        return results_table(None, page, config)
    if folder == "published":
        return "\n\n".join(published_block(card) for card in cards("published"))
    parts = []
    for card in cards(folder):
        facts, lists = [], []
        for key, value in dataclasses.asdict(card).items():
            label = key.replace("_", " ")
            if key in ("name", "title") or value in (None, (), {}):
                continue
            if key == "parts":
                links = [_link(kind, name, page) for kind, names in value.items() for name in names]
                facts.append((label, ", ".join(links)))
            elif key == "parameters":
                facts.append((label, f"{value:,}"))
            elif key in ("family", "hub_id", "mask_token"):
                facts.append((label, f"`{value}`"))
            elif isinstance(value, tuple) and all(" " in str(item) for item in value):
                lists.append(
                    f"{label.capitalize()}:\n\n" + "\n".join(f"- {item}" for item in value)
                )
            else:
                facts.append((label, _cell(value)))
        parts += [f"### {card.name}", f"{card.title}.", table(("fact", "value"), facts), *lists]
    return "\n\n".join(parts) or "None yet."


def published_block(card: PublishedCard) -> str:
    """A table of numbers that others report, with how they were measured and where it stands."""
    rows = ([_cell(cell) for cell in row] for row in card.rows)
    notes = "\n".join(f"- {note}" for note in card.notes)
    source = f"{card.setting} Percent." + (f" Source: {card.paper}." if card.paper else "")
    parts = [f"### {card.title}", source, table(card.columns, rows), notes]
    return "\n\n".join(filter(None, parts))


def published_table(_: str | None, page: Page, config: MkDocsConfig) -> str:
    """The authors' numbers of every method's card, side by side."""
    found = [card for card in cards("methods") if any(card.published.values())]
    tasks = list(dict.fromkeys(task for card in found for task in card.published))
    rows = [
        (card.name, card.published_model, *(_cell(card.published.get(t)) for t in tasks),
         card.published_source)
        for card in found
    ]  # fmt: skip
    return table(("method", "model", *tasks, "read in"), rows)


def results_table(name: str | None, page: Page, config: MkDocsConfig) -> str:
    """A table that we measured, by the name of its card; without one, every table."""
    found = {card.name: card for card in cards("results")}
    if name is not None:
        return result_block(found[card_path("results", name).stem], page)
    blocks = [f"### {each}\n\n{result_block(card, page)}" for each, card in found.items()]
    return "\n\n".join(blocks) or "None yet."


def result_block(card: ResultCard, page: Page) -> str:
    """Title, what the numbers say, the table, the figure, and how it was made."""
    parts = [f"**{card.title}.**"]
    parts += ["\n".join(f"- {sentence}" for sentence in card.verdicts)]
    parts += [table(card.columns, ([_cell(cell) for cell in row] for row in card.rows))]
    if card.figure:
        parts.append(f"![{card.title}]({_relative(f'assets/results/{card.figure}', page)})")
    facts = [
        f"Made by `{card.command}`",
        f"{card.minutes:g} minutes" if card.minutes is not None else "",
        f"on {card.machine}" if card.machine else "",
        f"seeds {_cell(card.seeds)}" if card.seeds else "",
        f"dllmzoo {card.version}" if card.version else "",
    ]
    parts += [", ".join(filter(None, facts)) + "."]
    parts += ["\n".join(f"- {note}" for note in card.notes)]
    return "\n\n".join(filter(None, parts))


def command_table(_: str | None, page: Page, config: MkDocsConfig) -> str:
    """Every command with its arguments and options, read from the command line itself."""
    import typer

    from dllmzoo.cli._app import _register_commands, app

    _register_commands()
    return "\n\n".join(_commands(typer.main.get_command(app), ""))


def _commands(group: Any, above: str) -> Iterable[str]:
    """Heading, help and table of every command, those of a group after it."""
    for name, command in sorted(group.commands.items()):
        yield f"### {above}{name}\n\n{command.help or ''}"
        rows = []
        for param in command.params:
            if param.name == "help":
                continue
            spelling = (
                param.opts + param.secondary_opts if param.param_type_name == "option" else []
            )
            rows.append((_codes(spelling) or f"`{param.name.upper()}`", param.help or ""))
        if rows:
            yield table(("argument", "meaning"), rows)
        if hasattr(command, "commands"):
            yield from _commands(command, f"{above}{name} ")


TABLES: dict[str, Callable[..., str]] = {
    "registry": registry_table,
    "catalogue": catalogue_cards,
    "published": published_table,
    "results": results_table,
    "section": section_table,
    "commands": command_table,
}


def table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table without its empty columns; bars are escaped, but in code."""
    filled = [[_escape(" ".join(str(cell).split())) for cell in row] for row in rows]
    kept = [i for i, head in enumerate(heads) if any(row[i] for row in filled)]
    lines = [[heads[i] for i in kept], ["---"] * len(kept)]
    lines += [[row[i] for i in kept] for row in filled]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@functools.cache
def recipes_by_part(folder: Path) -> dict[tuple[str, str], list[str]]:
    """(kind, name) -> the recipes that name the component."""
    used: dict[tuple[str, str], list[str]] = {}
    for path in sorted(folder.rglob("*.yaml")):
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        for kind in ZOO:
            node = document.get(kind)
            name = node.get("name") if isinstance(node, dict) else node
            if name and name in ZOO[kind]:
                key = (kind, ZOO[kind].canonical(name))
                used.setdefault(key, []).append(path.relative_to(folder).with_suffix("").as_posix())
    return used


def _escape(cell: str) -> str:
    return re.sub(r"`[^`]*`|\|", lambda match: "\\|" if match[0] == "|" else match[0], cell)


def _link(kind: str, name: str, page: Page) -> str:
    return f"{kind} [`{name}`]({_relative(_uri(kind, name), page)})"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith("https://"):
        return f"<{value}>"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_cell, value))
    if isinstance(value, dict):
        return "; ".join(f"{key} {_cell(v)}" for key, v in value.items())
    return str(value)


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _folder(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).parent.resolve()


def _plural(kind: str) -> str:
    return str(ZOO[kind].package).rpartition(".")[2].capitalize()


def _uri(kind: str, name: str) -> str:
    return f"components/{kind}/{name}.md"


def _relative(uri: str, page: Page) -> str:
    return "../" * page.file.src_uri.count("/") + uri


def _place(info: Info, config: MkDocsConfig) -> str:
    """The file of a component, without the folders above the project."""
    path = Path(info.location.rpartition(":")[0])
    for base in (PACKAGE.parent, _folder(config)):
        if path.is_relative_to(base):
            return path.relative_to(base).as_posix()
    return path.name
