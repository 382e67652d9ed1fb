"""One arm in a process of its own: `python -m dllmzoo.bench.worker` prints one line of JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence

from dllmzoo.bench.cases import chosen
from dllmzoo.bench.sizes import DEVICES, DTYPES, size_of
from dllmzoo.errors import DllmzooError, UsageError


def main(words: Sequence[str] | None = None) -> int:
    """Measure what the arguments say; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m dllmzoo.bench.worker", description=__doc__)
    parser.add_argument("case")
    parser.add_argument("way")
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--device", default="cpu", choices=DEVICES)
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    parser.add_argument("--threads", type=int)
    asked = parser.parse_args(words)
    try:
        found = measure(asked.case, asked.way, asked.size, asked.device, asked.dtype, asked.threads)
    except DllmzooError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"{json.dumps(found)}\n")
    return 0


def measure(
    name: str, way: str, size: str, device: str, dtype: str, threads: int | None
) -> dict[str, object]:
    """Load, warm up, run once.

    Args:
        name: of a case.
        way: one of its ways.
        size: name of a size.
        device: `cpu` or `cuda`.
        dtype: of the weights, if the case does not say otherwise.
        threads: of torch; None = its default.

    Returns:
        Seconds of each part, FLOPs, tokens, peak bytes, the peak of matrix products, versions.

    Raises:
        UsageError: there is no such arm, or no such device.
    """
    (case,) = chosen([name])
    if way not in case.ways:
        raise UsageError(f"{name} is done {' or '.join(case.ways)}, not {way!r}")
    shape = size_of(size, device)
    import torch

    from dllmzoo.bench.memory import Peak, matmul_peak
    from dllmzoo.bench.place import Place

    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch sees no GPU here")
    if threads is not None:
        torch.set_num_threads(threads)
    place = Place(shape, torch.device(device), getattr(torch, case.dtype(way, dtype)))
    maker = importlib.import_module(f"dllmzoo.bench.{case.module}").make
    work = maker(case.name, way, place)
    before = matmul_peak(place) if work.flops else 0.0
    peak = Peak(place)
    work.warm_up()
    parts = work.measure()
    held = peak.bytes()
    gpu = torch.cuda.get_device_name(place.device) if place.on_gpu else None
    return {
        "case": name, "way": way, "dtype": str(place.dtype).removeprefix("torch."),
        "seconds": sum(parts.values()), "parts": parts, "flops": work.flops,
        "tokens": work.tokens, "peak_bytes": held if case.memory else None,
        "matmul_peak": max(before, matmul_peak(place)) if work.flops else None, "facts": work.facts,
        "threads": torch.get_num_threads(), "torch": torch.__version__, "gpu": gpu,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
