"""The recipes that ship with the library, and where its data are."""

from __future__ import annotations

from pathlib import Path

from dllmzoo.errors import UnknownNameError

PACKAGE = Path(__file__).parents[1]


def data_folder(name: str) -> Path:
    """`recipes` or `registry`: package data of an installed wheel, else of the checkout."""
    installed = PACKAGE / "_data" / name
    return installed if installed.is_dir() else PACKAGE.parent / name


def recipes() -> dict[str, Path]:
    """Every shipped recipe: `egspo_sa_sudoku`, `llada_8b/egspo_sa_sudoku`, sorted by name.

    Folders with a leading underscore hold other things, such as launcher configs.
    """
    folder = data_folder("recipes")
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in sorted(folder.rglob("*.yaml"))
        if not any(part.startswith("_") for part in path.relative_to(folder).parts)
    }


def recipe_path(name: str) -> Path:
    """The file of a shipped recipe.

    Raises:
        UnknownNameError: there is none of that name; suggests the nearest ones.
    """
    import difflib

    known = recipes()
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name.removesuffix(".yaml"), known, n=3, cutoff=0.4)
    guess = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    raise UnknownNameError(
        f"no packaged recipe named {name!r}; {guess}All are listed by: dllmzoo list recipes"
    )
