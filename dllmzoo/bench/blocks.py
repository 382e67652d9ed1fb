"""Networks with blocks: rollouts with the exact cache, and the ELBO in one pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dllmzoo.bench.place import SEED, Place, built
from dllmzoo.bench.stopping import between_forwards
from dllmzoo.bench.work import Unit, Work
from dllmzoo.flops import flops_forward
from dllmzoo.records import Key
from dllmzoo.zoo import SAMPLERS


def make(case: str, way: str, place: Place) -> Work:
    """The work of an arm of `sdar_rollout` or `elbo_one_pass`."""
    network = place.network("sdar")
    if case == "sdar_rollout":
        return rollout(place, network, place.size.sdar_answer, cache=way == "cached")
    given = ElboInputs.draw(place, network)
    run = ELBO_WAYS[way]
    unit = Unit(lambda: {"elbo": place.seconds(lambda: run(given))}, 1.0, "elbo")
    size = place.size
    flops = 0
    if way == "one_pass":
        flops = flops_forward(
            network.config, size.rows, size.prompt + size.sdar_answer, int(given.hide_BL.sum()),
            target=size.sdar_answer,
        )  # fmt: skip
    return Work([unit], flops, size.rows * size.sdar_answer)


def rollout(place: Place, network: Any, answer: int, *, cache: bool) -> Work:
    """Units of one block each: a step a token, and the forward that stores the finished block."""
    size = place.size
    number = answer // size.sdar_block
    measured = size.measured(number)

    def unit(block: int) -> Unit:
        return Unit(
            lambda: {"rollout": one_block(place, network, answer, block, cache=cache)},
            number / len(measured), "block",
        )  # fmt: skip

    units = [unit(block) for block in measured]
    flops = sum(_block_flops(place, network, answer, block, cache=cache) for block in measured)
    return Work(units, round(flops * number / len(measured)), size.rows * answer)


def one_block(place: Place, network: Any, answer: int, block: int, *, cache: bool) -> float:
    """Seconds of one block in the middle of an answer; what stands before it is given as prompt.

    With the cache the clock starts when the prompt is stored, and stops at the next block.
    """
    size, width = place.size, place.size.sdar_block
    done = block * width
    words_BL = place.tokens(size.rows, size.prompt + done, network.config.vocab_size)
    sampler = built(
        SAMPLERS, "block_diffusion", answer_length=answer - done, temperature=size.temperature,
        stop_at_end=False, cache=cache,
    )  # fmt: skip
    prompts = place.prompts(words_BL)
    last = done + width == answer  # nothing is stored behind the last block
    start = int(cache)
    stop = start + width + int(cache and not last)

    def run() -> Any:
        return sampler(network, prompts, Key(SEED, 0, "sample"))

    return between_forwards(place, network, start, stop, run)[0]


def _block_flops(place: Place, network: Any, answer: int, block: int, *, cache: bool) -> int:
    size, width = place.size, place.size.sdar_block
    config, rows = network.config, size.rows
    masked = range(width, 0, -1)
    if not cache:
        length = size.prompt + answer
        return sum(flops_forward(config, rows, length, rows * m) for m in masked)
    keys = size.prompt + (block + 1) * width
    total = sum(flops_forward(config, rows, width, rows * m, keys=keys) for m in masked)
    if (block + 1) * width < answer:
        total += flops_forward(config, rows, width, 0, keys=keys)
    return total


@dataclass(frozen=True)
class ElboInputs:
    """Rows whose answers are partly hidden, block by block.

    Args:
        network: with blocks.
        tokens_BL: clean.
        noised_BL: with mask tokens where something is hidden.
        hide_BL: what is.
        weight_BL: of each hidden slot's log-prob.
        prompt: columns before the answer.
    """

    network: Any
    tokens_BL: Tensor
    noised_BL: Tensor
    hide_BL: Tensor
    weight_BL: Tensor
    prompt: int

    @classmethod
    def draw(cls, place: Place, network: Any) -> ElboInputs:
        """In each block k of its m slots are hidden, k uniform in 1..m, with weight m / k."""
        size, m = place.size, place.size.sdar_block
        L = size.prompt + size.sdar_answer
        tokens_BL = place.tokens(size.rows, L, network.config.vocab_size)
        row_B, blocks = torch.arange(size.rows), size.sdar_answer // m
        order = Key(SEED, 0, "hidden").uniform(row_B, blocks, m).argsort(-1).argsort(-1)
        count = (Key(SEED, 0, "count").uniform(row_B, blocks, 1) * m).long() + 1
        hide_BL = torch.zeros(size.rows, L, dtype=torch.bool)
        hide_BL[:, size.prompt :] = (order < count).flatten(1)
        weight_BL = torch.zeros(size.rows, L)
        weight_BL[:, size.prompt :] = (m / count).expand(-1, -1, m).flatten(1)
        hide_BL, weight_BL = hide_BL.to(place.device), weight_BL.to(place.device)
        noised_BL = tokens_BL.masked_fill(hide_BL, network.mask_id)
        return cls(network, tokens_BL, noised_BL, hide_BL, weight_BL, size.prompt)

    @property
    def blocks(self) -> list[slice]:
        """Columns of the blocks of the answer."""
        width, L = self.network.block_size, self.tokens_BL.shape[1]
        starts = range(self.prompt // width * width, L, width)
        return [slice(start, min(start + width, L)) for start in starts]

    def terms(self, logits_SV: Tensor, columns: slice) -> Tensor:
        """Weighted log-probs of the hidden slots of some columns, summed over each row."""
        hide_BL = self.hide_BL[:, columns]
        token_S1 = self.tokens_BL[:, columns][hide_BL].unsqueeze(1)
        logprob_S = logits_SV.float().log_softmax(-1).gather(1, token_S1)
        each_BL = torch.zeros(hide_BL.shape, device=hide_BL.device)
        return (self.weight_BL[:, columns] * each_BL.masked_scatter(hide_BL, logprob_S)).sum(1)


@torch.no_grad()
def one_pass(given: ElboInputs) -> Tensor:
    """The ELBO of each row from one forward over two streams."""
    logits_SV = given.network(
        given.tokens_BL, target_ids=given.noised_BL, logits_at=given.hide_BL
    ).logits
    return given.terms(logits_SV, slice(None))


@torch.no_grad()
def cached(given: ElboInputs) -> Tensor:
    """The same block by block; a finished block is read once more to be stored."""
    tokens_BL, network = given.tokens_BL, given.network
    place_BL = torch.arange(tokens_BL.shape[1], device=tokens_BL.device).expand_as(tokens_BL)
    store = network.new_cache(tokens_BL.shape[1])
    total_B = torch.zeros(len(tokens_BL), device=tokens_BL.device)
    first = given.blocks[0].start
    if first:
        nothing_BL = torch.zeros_like(tokens_BL[:, :first], dtype=torch.bool)
        network(tokens_BL[:, :first], logits_at=nothing_BL, cache=store, store=True)
    for block in given.blocks:
        options = {"position_ids": place_BL[:, block], "cache": store}
        hide_BL = given.hide_BL[:, block]
        logits_SV = network(given.noised_BL[:, block], logits_at=hide_BL, **options).logits
        total_B += given.terms(logits_SV, block)
        if block != given.blocks[-1]:
            nothing_BL = torch.zeros_like(hide_BL)
            network(tokens_BL[:, block], logits_at=nothing_BL, store=True, **options)
    return total_B


@torch.no_grad()
def uncached(given: ElboInputs) -> Tensor:
    """The same with a forward of everything up to each of the blocks."""
    total_B = torch.zeros(len(given.tokens_BL), device=given.tokens_BL.device)
    for block in given.blocks:
        before_BL = given.tokens_BL[:, : block.start]
        row_BL = torch.cat([before_BL, given.noised_BL[:, block]], 1)
        nothing_BL = torch.zeros_like(before_BL, dtype=torch.bool)
        hide_BL = torch.cat([nothing_BL, given.hide_BL[:, block]], 1)
        total_B += given.terms(given.network(row_BL, logits_at=hide_BL).logits, block)
    return total_B


ELBO_WAYS: dict[str, Callable[[ElboInputs], Tensor]] = {
    "one_pass": one_pass, "cached": cached, "uncached": uncached,
}  # fmt: skip
