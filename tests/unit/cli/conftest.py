"""The command line called in this process: `cli("list", "loss")` gives code, output and errors."""

from dataclasses import dataclass

import pytest

from dllmzoo.cli._app import run


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    """Runs a command; returns how it ended."""

    def call(*words: object) -> Ended:
        capsys.readouterr()
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return call
