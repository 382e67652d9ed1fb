"""The program `dllmzoo`: its commands, and how a mistake ends it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer
from typer.core import TyperGroup

from dllmzoo import hub
from dllmzoo.cli import _output as out
from dllmzoo.cli._kinds import guess
from dllmzoo.errors import DllmzooError

COMMANDS = (
    "train", "plan", "evaluate", "generate", "report", "watch", "export", "sweep", "lab",
    "listing", "show", "check", "new", "pull", "bench", "env",
)  # fmt: skip
"""Modules that hold the commands, in the order of the help."""

ANYWHERE = ("--debug", "--offline")
"""Flags that may stand behind a command too."""

ENDS_TOGETHER = (0, 3, 130)
"""Exit codes that all processes of a run end with: none waits for another that has failed."""


class Commands(TyperGroup):
    """The commands; a misspelt one is answered with the nearest name."""

    def resolve_command(self, ctx, args):  # type: ignore[no-untyped-def]
        """Refuse an unknown command in our words."""
        name = args[0]
        unknown = not name.startswith("-") and self.get_command(ctx, name) is None
        if unknown and not ctx.resilient_parsing:  # a shell that completes wants no message
            known = ", ".join(self.commands)
            ctx.fail(
                f"there is no command {name!r}.{guess(name, self.commands)} There are: {known}."
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="dllmzoo",
    cls=Commands,
    help="Reinforcement learning of diffusion language models, part by part.",
    epilog=(
        "Exit codes: 0 done; 1 the run failed; 2 bad recipe, argument or flag; "
        "3 stopped by a health check; 130 interrupted after saving."
    ),
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def program(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show Python's traceback of an error (any position).")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Never use the network (any position).")
    ] = False,
) -> None:
    """Reinforcement learning of diffusion language models, part by part."""
    if version:
        import dllmzoo

        out.say(f"dllmzoo {dllmzoo.__version__}")
    elif ctx.invoked_subcommand is None:
        ctx.get_help()  # rich prints it


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the program on `args` (the process's own by default) and exit with its code."""
    code = run(sys.argv[1:] if args is None else args)
    if code in ENDS_TOGETHER:
        _leave_group()
    sys.exit(code)


def _leave_group() -> None:
    """Close the group of processes: its threads may not outlive it (exit -6 where they do)."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def run(args: Sequence[str]) -> int:
    """Run the program on `args`; returns the exit code. Errors become one message each."""
    head, tail = _split_at_dashes(args)
    debug = "--debug" in head
    if "--offline" in head:
        hub.go_offline()
    try:
        _register_commands()
        result = app(
            [word for word in head if word not in ANYWHERE] + tail, prog_name="dllmzoo",
            standalone_mode=False, obj=list(args),
        )  # fmt: skip
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except typer.TyperException as error:
        out.warn(_usage_message(error))
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except DllmzooError as error:
        if debug:
            raise
        if out.is_main_process() or error.exit_code != 2:
            out.warn(f"{_rank_prefix()}{error}")
        return error.exit_code
    except Exception as error:
        if debug:
            raise
        out.warn(f"{_rank_prefix()}unexpected {type(error).__name__}: {error}")
        out.warn("Run the command again with --debug for the traceback.")
        return 1


def _register_commands() -> None:
    """Import the command modules: each adds its function to `app`."""
    for module in COMMANDS:
        importlib.import_module(f"dllmzoo.cli.{module}")


def _split_at_dashes(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before `--`, and the rest with it."""
    words = list(args)
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end:]


def _usage_message(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    if context is None:
        return error.format_message()
    return f"{context.command_path}: {error.format_message()}\nTry: {context.command_path} --help"


def _rank_prefix() -> str:
    rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or "0"
    return "" if out.is_main_process() else f"[process {rank}] "
