"""The command line: one module a command; torch is imported by the commands that need it."""

from __future__ import annotations

from dllmzoo.cli._app import main

__all__ = ["main"]
