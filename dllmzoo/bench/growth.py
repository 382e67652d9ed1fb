"""How time and memory grow: with states, with sequences, with the length of an answer."""

from __future__ import annotations

import subprocess
import sys

from dllmzoo.bench import blocks, scores, states
from dllmzoo.bench.cases import OURS
from dllmzoo.bench.place import Place
from dllmzoo.bench.work import Unit, Work

ROWS_OF_STATES = 2
"""Sequences, where the number of states grows."""


def make(case: str, way: str, place: Place) -> Work:
    """The work of an arm of one of the growth cases."""
    if case == "startup":
        return startup(way, place)
    number = int(way.partition("=")[2])
    if case == "growth_length":
        return of_length(place, number)
    by_batch = case == "growth_batch"
    return of_views(place, *((number, 1) if by_batch else (ROWS_OF_STATES, number)))


def of_views(place: Place, rows: int, number: int) -> Work:
    """The two phases of an update on `number` states of `rows` sequences."""
    network = place.trained("llada").train()
    made = states.rollout(place, network, rows)
    views = states.views(made, number)[1]
    return scores.work(OURS, place, network, made, views, first=True)


def of_length(place: Place, factor: int) -> Work:
    """A rollout with the cache, of `factor` times the shortest answer."""
    answer = place.size.shortest * factor
    network = place.network("sdar")
    return blocks.rollout(place, network, answer, cache=True)


def startup(way: str, place: Place) -> Work:
    """A command of the command line in a new process."""
    command = [sys.executable, "-m", "dllmzoo", "--help" if way == "help" else way]

    def call() -> None:
        subprocess.run(command, check=True, capture_output=True)

    def run() -> dict[str, float]:
        return {"start": place.seconds(call)}

    return Work([Unit(run, 1.0, "start")])
