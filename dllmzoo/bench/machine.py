"""What the operating system says of this machine. Imports no torch."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CPUINFO, MEMINFO = Path("/proc/cpuinfo"), Path("/proc/meminfo")
BUSY = 0.25
"""Load for each core above which a machine is not idle."""


def machine() -> dict[str, object]:
    """Processor, cores, memory, system, versions; nothing that names the user or a folder."""
    return {
        "cpu": processor(),
        "cores": cores(),
        "memory_gib": memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": installed("torch"),
        "dllmzoo": installed("dllmzoo"),
    }


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """The model's name, as far as the system tells."""
    name = _entry(CPUINFO, "model name")
    return name or platform.processor() or platform.machine() or "unknown"


def memory() -> float | None:
    """GiB of main memory; None where the system does not tell."""
    text = _entry(MEMINFO, "MemTotal")
    return None if text is None else round(int(text.split()[0]) / 2**20, 1)


def installed(package: str) -> str | None:
    """Its version."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def load() -> float | None:
    """Processes that want to run, a mean of the last minute; None where nobody counts them."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def idle_warning(now: float | None, cores: int) -> str | None:
    """What to say if others use the machine."""
    if now is None or now <= BUSY * cores:
        return None
    return (
        f"the load of this machine is {now:.1f} on {cores} cores: others use it, and times will "
        f"scatter; wait until it is idle"
    )


def _entry(path: Path, name: str) -> str | None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        head, _, value = line.partition(":")
        if head.strip() == name and value.strip():
            return value.strip()
    return None
