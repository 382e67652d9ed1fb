"""Every command of the program, read off the program itself."""

from typing import Any

import typer

from dllmzoo.cli import _app


def commands() -> dict[str, Any]:
    """`list`, `lab compare`, ... and the command behind each."""
    _app._register_commands()
    found: dict[str, Any] = {}

    def walk(group: Any, words: tuple[str, ...]) -> None:
        for name, command in group.commands.items():
            path = (*words, name)
            if hasattr(command, "commands"):
                walk(command, path)
            else:
                found[" ".join(path)] = command

    walk(typer.main.get_command(_app.app), ())
    return found
