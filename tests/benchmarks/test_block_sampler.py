"""Block-by-block decoding with the cache, beside the same with whole rows at every step.

A group is one length and block size; the ratio of the two ways stands in parentheses. The peak of
memory on top of the weights is in `extra_info` (`--benchmark-json`), and in the name of the group.
More: `DLLMZOO_BENCHMARK_LENGTHS=512,1024 DLLMZOO_BENCHMARK_BLOCKS=4,32`.
"""

import os
from functools import cache

import pytest
import torch

from dllmzoo.models._load import build_model, load_tokenizer
from dllmzoo.records import Key, Prompts
from dllmzoo.zoo import SAMPLERS
from tests.benchmarks.peaks import peak

LENGTHS = [int(n) for n in os.environ.get("DLLMZOO_BENCHMARK_LENGTHS", "128,256").split(",")]
BLOCKS = [int(n) for n in os.environ.get("DLLMZOO_BENCHMARK_BLOCKS", "4,16").split(",")]
CONFIG = {
    "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 32, "intermediate_size": 256, "max_position_embeddings": 4096,
}  # fmt: skip
ROWS = 2
KEY = Key(0, 0, "sample")


@cache
def network(block):
    tokenizer = load_tokenizer("characters:01234=")
    return build_model("sdar", CONFIG | {"block_size": block}, tokenizer, 0).eval()


def prompts(length):
    """Half of each row is prompt, of unlike length."""
    words_BL = torch.randint(0, 5, (ROWS, length // 2), generator=torch.Generator().manual_seed(0))
    attend_BL = torch.arange(length // 2) >= torch.arange(ROWS).unsqueeze(1)
    row_B = torch.arange(ROWS)
    return Prompts(words_BL, attend_BL, row_B, row_B, [{}] * ROWS)


def sampler(length, way):
    return SAMPLERS.get("block_diffusion")(
        answer_length=length // 2, stop_at_end=False, cache=way == "cached"
    )


@cache
def peak_of(length, block, way):
    return peak(lambda: sampler(length, way)(network(block), prompts(length), KEY))


@pytest.mark.parametrize("way", ["cached", "whole rows"])
@pytest.mark.parametrize("block", BLOCKS, ids="B={}".format)
@pytest.mark.parametrize("length", LENGTHS, ids="L={}".format)
def test_block_sampler(benchmark, length, block, way):
    short, whole = (peak_of(length, block, each) for each in ("cached", "whole rows"))
    benchmark.group = (
        f"{length // 2} tokens behind {length // 2}, blocks of {block}: "
        f"peak {short:.1f} and {whole:.1f} MiB ({short / whole:.2f})"
    )
    benchmark.extra_info |= {
        "length": length, "block_size": block, "peak_mib": short if way == "cached" else whole,
    }  # fmt: skip
    policy, batch = network(block), prompts(length)
    run = sampler(length, way)
    rollout = benchmark.pedantic(run, args=(policy, batch, KEY), rounds=3, warmup_rounds=1)
    plain = sampler(length, "whole rows" if way == "cached" else "cached")(policy, batch, KEY)
    assert torch.equal(rollout.tokens_BL, plain.tokens_BL)
    assert torch.equal(rollout.reveal_BL, plain.reveal_BL)
