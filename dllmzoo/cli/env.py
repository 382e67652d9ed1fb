"""`dllmzoo env`: what a bug report needs to know about this machine."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from dllmzoo.cli import _output as out
from dllmzoo.cli._app import app

PACKAGES = (
    "torch", "transformers", "accelerate", "peft", "datasets", "tokenizers", "safetensors",
    "pydantic", "pyyaml", "typer", "rich", "einops", "numpy", "math-verify",
)  # fmt: skip


@app.command("env")
def show_environment(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print versions, devices and threads: paste it into a bug report."""
    facts = environment()
    if as_json:
        out.say_json(facts)
    else:
        width = max(map(len, facts))
        for name, value in facts.items():
            out.say(f"{name.ljust(width)}  {value}")


def environment() -> dict[str, str]:
    """The facts, each as text; nothing that names the user or a folder."""
    import torch

    import dllmzoo

    facts = {"dllmzoo": dllmzoo.__version__, "commit": commit() or "not a checkout"}
    facts["python"] = platform.python_version()
    facts |= {name: installed(name) for name in PACKAGES}
    facts["system"] = f"{platform.system()} {platform.release()} {platform.machine()}"
    facts["devices"] = ", ".join(devices())
    facts["cuda"] = torch.version.cuda or "not in this build of torch"
    facts["cpu cores"] = str(os.cpu_count())
    facts["torch threads"] = str(torch.get_num_threads())
    facts["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "not set")
    return facts


def devices() -> list[str]:
    """What torch can compute on: each accelerator with its memory, or `cpu`."""
    import torch

    if torch.cuda.is_available():
        return [
            f"cuda:{i} {torch.cuda.get_device_name(i)} "
            f"({torch.cuda.get_device_properties(i).total_memory / 2**30:.0f} GiB)"
            for i in range(torch.cuda.device_count())
        ]
    return ["mps"] if torch.backends.mps.is_available() else ["cpu"]


def installed(package: str) -> str:
    """The version of a package, which need not be importable."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def commit() -> str | None:
    """The commit of the checkout that dllmzoo runs from, `-dirty` where files were changed."""
    import dllmzoo

    root = Path(dllmzoo.__file__).parents[1]
    if not (root / ".git").exists():
        return None
    words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
