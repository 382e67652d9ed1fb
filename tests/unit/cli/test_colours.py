"""Colours are for terminals: none in pipes, none with NO_COLOR, everywhere with FORCE_COLOR."""

import io
import re
import sys

import pytest

from dllmzoo.cli import _output as out
from dllmzoo.cli._app import run
from tests.unit.cli.commands import commands
from tests.unit.report import made

ESCAPE = "\x1b["
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;5;\d+|4[0-7])(?:;\d+)*m")
COLOURED = [
    ("list", "loss"), ("show", "loss", "stable_drl"), ("show", "recipe", "egspo_sudoku"),
    ("show", "run", "made"), ("plan", "egspo_sudoku"), ("check", "egspo_sudoku"),
    ("sweep", "egspo_sudoku", "--dry-run"), ("train", "egspo_sudoku", "--dry-run"),
    ("lab", "stability", "--quick", "--seeds", "1", "--dry-run"), ("generate", "RUN", "--trace"),
    ("eval", "RUN", "--examples", "2", "-o", "x.jsonl", "--overwrite"),
    ("report", "made"), ("env",),
]  # fmt: skip


class Terminal(io.StringIO):
    """Takes what is printed, and says that somebody looks."""

    def isatty(self):
        return True


@pytest.fixture
def printed(tmp_path, tiny_run, monkeypatch):
    """What a command prints to a file or a terminal under an environment."""
    made.run(tmp_path / "made", 3, keys=["reward"], rollouts={})
    monkeypatch.chdir(tmp_path)

    def call(words, screen, **environ):
        for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "GITHUB_ACTIONS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TERM", "xterm-256color")
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        out.console.cache_clear()
        monkeypatch.setattr(sys, "stdout", screen)
        assert run([str(tiny_run) if word == "RUN" else word for word in words]) == 0
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        out.console.cache_clear()
        return screen.getvalue()

    return call


@pytest.mark.parametrize("words", COLOURED, ids=" ".join)
def test_no_command_colours_a_pipe(printed, words):
    assert ESCAPE not in printed(words, io.StringIO())


@pytest.mark.parametrize("words", COLOURED, ids=" ".join)
def test_no_color_takes_the_colours_from_a_terminal(printed, words):
    assert ESCAPE not in printed(words, Terminal(), NO_COLOR="1")


@pytest.mark.parametrize("name", commands())
def test_the_help_of_no_command_colours_a_pipe_or_a_terminal_with_no_color(printed, name):
    words = (*name.split(), "--help")
    assert ESCAPE not in printed(words, io.StringIO())
    assert not COLOUR.search(printed(words, Terminal(), NO_COLOR="1"))


@pytest.mark.parametrize("words", [("list", "loss"), ("show", "loss", "stable_drl")], ids=" ".join)
def test_a_terminal_gets_colours_and_so_does_a_pipe_that_asks(printed, words):
    assert COLOUR.search(printed(words, Terminal()))
    assert COLOUR.search(printed(words, io.StringIO(), FORCE_COLOR="1"))
    assert ESCAPE not in printed(words, io.StringIO(), FORCE_COLOR="1", NO_COLOR="1")
    assert ESCAPE not in printed(words, Terminal(), TERM="dumb")


def test_a_warning_of_a_run_is_yellow_in_a_terminal_only(printed, tmp_path):
    keys = ["reward", "reward_zero_std_share"]
    made.run(tmp_path / "dead", 3, keys=keys, rollouts={}, level=0.4)
    words = ("show", "run", "dead")
    assert "warning: dead groups" in printed(words, io.StringIO())
    assert "\x1b[33mwarning: dead groups" in printed(words, Terminal())
