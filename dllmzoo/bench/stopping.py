"""The time between two forwards of a sampler, which is stopped at the second one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from dllmzoo.bench.place import Place
from dllmzoo.errors import RunError
from dllmzoo.records import Rollout


class _EnoughError(Exception):
    """The last forward that is waited for has begun."""


def between_forwards(
    place: Place, policy: Any, start: int, stop: int, run: Callable[[], Rollout]
) -> tuple[float, Tensor]:
    """Seconds from forward number `start` to number `stop`, or to the end of `run` for the last.

    A forward begins where the tokens are looked up.

    Args:
        place: whose clock.
        policy: the network.
        start: counted from 0.
        stop: the run ends there.
        run: a sampler's call.

    Returns:
        Seconds, and the tokens that forward `stop` reads (or the finished ones).

    Raises:
        RunError: there were too few forwards.
    """
    times: list[float] = []
    read: list[Tensor] = []

    def look(module: Any, given: tuple[Tensor, ...]) -> None:
        times.append(place.now())
        if len(times) > stop:
            read.append(given[0])
            raise _EnoughError

    handle = policy.get_input_embeddings().register_forward_pre_hook(look)
    try:
        read.append(run().tokens_BL)
        times.append(place.now())
    except _EnoughError:
        pass
    finally:
        handle.remove()
    if len(times) <= stop:
        raise RunError(
            f"the sampler ran {len(times) - 1} forwards and {stop} were to be timed; forwards are "
            f"counted at the embedding of the network, which it must use"
        )
    return times[stop] - times[start], read[-1]
