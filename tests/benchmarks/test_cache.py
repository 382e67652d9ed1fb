"""Rollouts of LLaDA with an approximate cache, beside the exact ones.

A group is one length; the ratio to the fastest stands in parentheses. `extra_info`
(`--benchmark-json`) says how far recorded log-probs are from exact ones, in nats a token, and how
many FLOPs were counted by formula. Random weights show the time that a cache saves, and not what it
costs with trained ones. More: `DLLMZOO_BENCHMARK_LENGTHS=256,512`.
"""

import os
from functools import cache

import pytest
import torch

from dllmzoo.flops import flops_forward
from dllmzoo.models._load import build_model, load_tokenizer
from dllmzoo.records import Key, Prompts
from dllmzoo.training.reads import of_rollout
from dllmzoo.training.sampling_gap import sampling_gap
from dllmzoo.zoo import SAMPLERS

LENGTHS = [int(n) for n in os.environ.get("DLLMZOO_BENCHMARK_LENGTHS", "128,256").split(",")]
CONFIG = {
    "d_model": 256, "n_layers": 4, "n_heads": 4, "mlp_hidden_size": 512,
    "max_sequence_length": 4096,
}  # fmt: skip
ROWS, BLOCK = 4, 16
KEY = Key(0, 0, "sample")
CACHES = {
    "exact": None,
    "prefix": {"kind": "prefix"},
    "dual": {"kind": "dual"},
    "dual, every 4": {"kind": "dual", "refresh": 4},
}


@cache
def network():
    return build_model("llada", CONFIG, load_tokenizer("characters:01234="), 0).eval()


def prompts(length):
    """Half of each row is prompt, of unlike length."""
    words_BL = torch.randint(0, 5, (ROWS, length // 2), generator=torch.Generator().manual_seed(0))
    attend_BL = torch.arange(length // 2) >= torch.arange(ROWS).unsqueeze(1)
    row_B = torch.arange(ROWS)
    return Prompts(words_BL, attend_BL, row_B, row_B, [{}] * ROWS)


def flops(rollout):
    """Of all forwards."""
    if not rollout.reads:  # whole rows, the head at half a block on average
        reads = [(r.rows, r.length, r.logits, r.keys) for r in of_rollout(rollout, rollout.sampler)]
    else:
        reads = [(rows, q, s, None if k == q else k) for rows, q, k, s in rollout.reads]
    config = network().config
    return sum(flops_forward(config, rows, q, s, keys=keys) for rows, q, s, keys in reads)


@pytest.mark.parametrize("way", CACHES)
@pytest.mark.parametrize("length", LENGTHS, ids="L={}".format)
def test_cache(benchmark, length, way):
    sampler = SAMPLERS.get("low_confidence")(
        answer_length=length // 2, block_length=BLOCK, steps=length // 4, cache=CACHES[way]
    )
    benchmark.group = f"{length // 2} tokens behind {length // 2}, blocks of {BLOCK}, 2 a step"
    rollout = benchmark.pedantic(
        sampler, args=(network(), prompts(length), KEY), rounds=3, warmup_rounds=1
    )
    nats = torch.cat(
        [sampling_gap(network(), rollout, Key(seed, 0, "gap"), ROWS).nats_S for seed in range(8)]
    )
    benchmark.extra_info |= {
        "length": length, "cache": way, "sampling_gap": float(nats.mean()),
        "flops": flops(rollout),
    }  # fmt: skip
    assert (nats.mean() > 1e-4) == sampler.approximate
