"""Networks with blocks, answers of theirs, and values of likelihoods."""

import functools
from dataclasses import replace

import torch
from torch import Tensor

from dllmzoo.laws import inputs
from dllmzoo.laws.case import Case
from dllmzoo.laws.models import tiny
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.records import Prompts, Rollout
from dllmzoo.scoring import score
from dllmzoo.zoo import MODELS, SAMPLERS

NETWORKS = ("toy", "sdar")
KEY = Case(0).key("views")
EXACT = {"rtol": 0, "atol": 1e-10}


@functools.cache
def sdar() -> torch.nn.Module:
    return tiny(MODELS.get("sdar"), Case(5)).double()


def network(name: str, block_size: int) -> torch.nn.Module:
    """A random float64 network whose blocks have the given size."""
    if name == "toy":
        return ToyDenoiser(5, block_size, dtype=torch.float64)
    sdar().config.block_size = block_size
    return sdar()


def answered(
    prompt: int, answer: int, block_size: int, rows: int = 1, pad: int = 0, seed: int = 0
) -> Rollout:
    """One answer without an end token, `rows` times, behind padding and a prompt."""
    case = Case(seed)
    words_BL = case.integers("prompt", 0, 4, 1, pad + prompt).expand(rows, -1)
    attend_BL = (torch.arange(pad + prompt) >= pad).expand(rows, -1)
    start = Prompts(
        words_BL, attend_BL, torch.zeros(rows, dtype=torch.long), torch.arange(rows), [{}] * rows
    )
    tokens_BN = case.integers("answer", 0, 4, 1, answer).expand(rows, -1)
    reveal_BN = torch.arange(answer).expand(rows, -1)
    return replace(inputs.played(tokens_BN, reveal_BN, start=start), block_size=block_size)


def value(likelihood, policy, rollout, key=KEY, steps=None, micro_batch=64) -> Tensor:
    views = likelihood.plan(rollout, steps, key, 1)
    logprob_BKL = score(policy, rollout, views, micro_batch=micro_batch).logprob_BKL
    return likelihood.pool(logprob_BKL, views, rollout, torch.ones_like(views.size_BU)).score_BU


def sampled(policy, case: Case, **options) -> Rollout:
    """Answers of the sampler of blocks; at most a whole block a step."""
    length = case.integer("answer length", 2, 8)
    settings = {"answer_length": length, "stop_at_end": case.truth("stop"), **options}
    return SAMPLERS.get("block_diffusion")(**settings)(
        policy, inputs.prompts(case), case.key("sample")
    )
