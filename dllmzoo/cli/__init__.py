"""The command line: one module a command; torch is imported by the commands that need it."""

from __future__ import annotations

import os

# Threads that wait by spinning steal the cores from each other on a busy machine; read by torch's
# thread pool when it is loaded, so it is set before any command imports torch.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from dllmzoo.cli._app import main

__all__ = ["main"]
