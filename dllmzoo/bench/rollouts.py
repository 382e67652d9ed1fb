"""Rollouts of LLaDA: ours and plain take the same denoising steps from the same states."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from dllmzoo.bench import plain
from dllmzoo.bench.cases import OURS
from dllmzoo.bench.place import SEED, Place, built
from dllmzoo.bench.stopping import between_forwards
from dllmzoo.bench.work import Unit, Work
from dllmzoo.flops import flops_forward
from dllmzoo.records import Key
from dllmzoo.zoo import SAMPLERS


def make(case: str, way: str, place: Place) -> Work:
    """The work of an arm of one of the rollout cases."""
    network = place.network("llada")
    if case == "forward":
        return forward(way, place, network)
    temperature = 0.0 if case == "rollout_greedy" else place.size.temperature
    store = case == "rollout_stored"
    facts: dict[str, Any] = {}
    units = steps(way, place, network, temperature, facts, store=store)
    size = place.size
    return Work(units, step_flops(way, place, network), size.rows * size.answer, facts)


def steps(
    way: str,
    place: Place,
    network: Any,
    temperature: float,
    facts: dict[str, Any] | None = None,
    *,
    store: bool = False,
) -> list[Unit]:
    """Units of one denoising step each, which stand for a whole rollout.

    A step starts from a state of which the first slots are filled. `facts` gets a digest of the
    tokens after each of the steps.

    Args:
        way: `ours` or `plain`.
        place: size and device.
        network: the policy.
        temperature: 0 = greedy.
        facts: to be written into.
        store: the plain way stores full-vocabulary log-probs, of all steps that were measured.
    """
    measured = place.size.measured(place.size.steps)
    one = our_step if way == OURS else partial(plain_step, store=store, record=[])
    found: dict[int, str] = {}

    def unit(step: int) -> Unit:
        def run() -> dict[str, float]:
            seconds, tokens_BL = one(place, network, step, temperature)
            found[step] = _digest(tokens_BL)
            if facts is not None and temperature == 0:
                facts["digests"] = [found[step] for step in sorted(found)]
            return {"rollout": seconds}

        return Unit(run, place.size.steps / len(measured), "rollout")

    return [unit(step) for step in measured]


def our_step(place: Place, network: Any, step: int, temperature: float) -> tuple[float, Tensor]:
    """Seconds of one step of the sampler `low_confidence`, and the tokens after it.

    What is filled is given as prompt, and the first block is what is left of the active one: the
    forward, the slots and the commits are those of that step of a whole rollout.
    """
    size = place.size
    done, left = size.state(step)
    words_BL = place.tokens(size.rows, size.prompt + done, network.config.vocab_size)
    answer = size.answer - done
    blocks = -(-answer // left)
    sampler = built(
        SAMPLERS, "low_confidence", answer_length=answer, block_length=left,
        steps=blocks * (left // size.commits), temperature=temperature,
    )  # fmt: skip
    prompts = place.prompts(words_BL)

    def run() -> Any:
        return sampler(network, prompts, Key(SEED, 0, "sample"))

    return between_forwards(place, network, 0, 1, run)


def plain_step(
    place: Place,
    network: Any,
    step: int,
    temperature: float,
    *,
    record: list[Any],
    store: bool = False,
) -> tuple[float, Tensor]:
    """Seconds of the same step in the plain way, and the tokens after it."""
    size = place.size
    done, left = size.state(step)
    words_BL = place.tokens(size.rows, size.prompt + done, network.config.vocab_size)
    tokens_BL = pad(words_BL, (0, size.answer - done), value=network.mask_id)
    stop = size.prompt + done + left
    start = place.now()
    after_BL = plain.denoise(
        network, tokens_BL, stop, size.commits, temperature, record, store=store
    )
    return place.now() - start, after_BL


def step_flops(way: str, place: Place, network: Any) -> int:
    """Of a whole rollout, as far as the measured steps stand for it."""
    size = place.size
    measured = size.measured(size.steps)
    total = sum(
        flops_forward(
            network.config, size.rows, size.length,
            size.rows * size.state(step)[1] if way == OURS else None,
        )
        for step in measured
    )  # fmt: skip
    return round(total * size.steps / len(measured))


def forward(way: str, place: Place, network: Any) -> Work:
    """One forward: logits of half a block of each row, or of every position."""
    size = place.size
    tokens_BL = place.tokens(size.rows, size.length, network.config.vocab_size)
    at_BL = torch.zeros_like(tokens_BL, dtype=torch.bool)
    at_BL[:, size.prompt : size.prompt + size.block // 2] = True
    wanted = at_BL if way == OURS else None

    @torch.no_grad()
    def run() -> None:
        network(tokens_BL, logits_at=wanted)

    flops = flops_forward(
        network.config, size.rows, size.length, None if wanted is None else int(at_BL.sum())
    )
    return Work([_timed("forward", place, run)], flops, tokens_BL.numel())


def _timed(part: str, place: Place, run: Callable[[], Any]) -> Unit:
    return Unit(lambda: {part: place.seconds(run)}, 1.0, part)


def _digest(tokens_BL: Tensor) -> str:
    return hashlib.sha256(tokens_BL.cpu().numpy().tobytes()).hexdigest()[:16]
