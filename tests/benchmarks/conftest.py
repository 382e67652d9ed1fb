"""Benchmarks run when they are asked for: `pytest tests/benchmarks --benchmark-only`."""

from pathlib import Path

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config, items):
    if config.getoption("benchmark_only", False):
        return
    timed = [item for item in items if item.path.is_relative_to(HERE)]
    if timed:
        items[:] = [item for item in items if item not in timed]
        config.hook.pytest_deselected(items=timed)
