"""Draws who attends to whom in a block model: `<!-- staircase:12-4-6 -->` for L, block, prompt."""

import re
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from dllmzoo.models._staircase import staircase

MARKER = re.compile(r"^<!-- staircase:(\d+)-(\d+)-(\d+)(?:-(token_causal))? -->$", re.MULTILINE)
CELL, EDGE = 16, 74
"""Width of a cell and of the labels' margin, in pixels."""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return MARKER.sub(lambda found: figure(*map(int, found.groups()[:3]), found[4]), markdown)


def figure(length: int, block_size: int, prompt: int, context: str | None = None) -> str:
    """The dual-stream mask as an SVG: a row is a query, a column a key, a full cell `attends`.

    Args:
        length: tokens of each stream.
        block_size: tokens of a block.
        prompt: tokens before the answer; only blocks that hold an answer slot are in the target.
        context: `token_causal`, or None for `block_causal`.
    """
    mask = staircase(length, block_size, context=context or "block_causal")  # type: ignore[arg-type]
    first = prompt // block_size * block_size  # of the first block with an answer slot
    kept = [*range(length), *range(length + first, 2 * length)]
    seen = mask[kept][:, kept].tolist()
    size = EDGE + CELL * len(kept)
    caption = (
        f"Queries are rows, keys are columns. {length} tokens in blocks of {block_size}, the first "
        f"{prompt} of them the prompt."
    )
    parts = [
        f'<svg class="staircase" viewBox="0 0 {size} {size}" width="{size}" role="img" '
        f'aria-label="{caption}">',
        *_cells(seen, length),
        *_labels(kept, length, prompt),
        *_lines(kept, length, block_size),
        "</svg>",
    ]
    return f"<figure markdown=0>{''.join(parts)}<figcaption>{caption}</figcaption></figure>"


def _cells(seen: list[list[bool]], length: int) -> Iterator[str]:
    """A square for each pair; its class says which streams meet."""
    for q, row in enumerate(seen):
        for k, attends in enumerate(row):
            kind = f"{'clean' if q < length else 'target'}-{'clean' if k < length else 'target'}"
            x, y = EDGE + k * CELL, EDGE + q * CELL
            style = kind if attends else "never"
            yield (
                f'<rect class="{style}" x="{x + 1}" y="{y + 1}" width="{CELL - 2}" '
                f'height="{CELL - 2}"/>'
            )


def _labels(kept: list[int], length: int, prompt: int) -> Iterator[str]:
    """The name of each token, as row and as column."""
    for i, token in enumerate(kept):
        place = token % length
        name = f"p{place}" if place < prompt else f"y{place - prompt}"
        name = name if token < length or place < prompt else f"[{name}]"
        middle = EDGE + i * CELL + CELL / 2
        yield f'<text x="{EDGE - 6}" y="{middle + 4}" text-anchor="end">{name}</text>'
        yield (
            f'<text transform="translate({middle + 4} {EDGE - 6}) rotate(-90)" '
            f'text-anchor="start">{name}</text>'
        )


def _lines(kept: list[int], length: int, block_size: int) -> Iterator[str]:
    """A line between blocks, a thick one between the streams."""
    end = EDGE + CELL * len(kept)
    for i in range(1, len(kept)):
        border = kept[i] % length % block_size == 0
        if border or kept[i] == length:
            at = EDGE + i * CELL
            style = "streams" if i == length else "blocks"
            yield f'<path class="{style}" d="M{at} {EDGE}V{end}M{EDGE} {at}H{end}"/>'
