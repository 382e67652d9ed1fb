"""The ELBO of a block model in one pass over two streams, beside a pass for each block.

The three ways (`dllmzoo.bench.blocks`) hide the same slots and give the same number. `cached` reads
each noised block against the keys and values of the blocks before it, and then the clean block to
store its own; `uncached` reads the blocks before it anew. A group is one size; the table shows the
ratios, and the peak of memory on top of the weights stands in the name of the group and in
`extra_info` (`--benchmark-json`). The last test of a size wants the one pass to be faster by what
is stated.

`DLLMZOO_BENCHMARK=60m` measures the size of a small model instead (d 512, 8 layers, batch 8, prompt
128, answer 512, blocks of 4), in some minutes and on all cores: what a sequence of small calls
loses most by is that it cannot use them.
"""

import os
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import pytest
import torch

from dllmzoo.bench.blocks import ELBO_WAYS, ElboInputs
from dllmzoo.bench.place import Place
from dllmzoo.bench.sizes import SIZES as NAMED
from tests.benchmarks.peaks import peak


class Size(NamedTuple):
    """A network, a canvas, and how many times faster one pass must be."""

    width: int
    layers: int
    vocabulary: int
    rows: int
    prompt: int
    answer: int
    block: int
    cached: float
    uncached: float

    def __str__(self):
        return f"L={self.prompt + self.answer} B={self.block}"


SMALL = [
    Size(128, 3, 512, 4, 32, answer, block, cached, uncached)
    for answer, block, cached, uncached in (
        (96, 4, 2, 4), (224, 4, 2, 8), (96, 16, 1, 1.5), (224, 16, 1, 2.5),
    )
]  # fmt: skip
FULL = [Size(512, 8, 24576, 8, 128, 512, 4, 2, 20)]
SIZES = FULL if os.environ.get("DLLMZOO_BENCHMARK") == "60m" else SMALL
SECONDS = {}


@pytest.fixture(autouse=True)
def all_cores():
    """Tests run on one thread; the large size runs on every core."""
    before = torch.get_num_threads()
    if SIZES is FULL:
        torch.set_num_threads(os.cpu_count() or 1)
    yield
    torch.set_num_threads(before)


@cache
def inputs(size):
    network = {
        "hidden_size": size.width, "intermediate_size": 4 * size.width,
        "num_hidden_layers": size.layers, "num_attention_heads": size.width // 64,
        "num_key_value_heads": size.width // 64, "head_dim": 64, "vocab_size": size.vocabulary,
        "mask_token_id": size.vocabulary - 1, "block_size": size.block,
    }  # fmt: skip
    place = Place(
        replace(
            NAMED["tiny"], sdar=network, rows=size.rows, prompt=size.prompt, sdar_answer=size.answer
        )
    )
    return ElboInputs.draw(place, place.network("sdar"))


@cache
def expected(size):
    return ELBO_WAYS["one_pass"](inputs(size))


@cache
def peak_of(size, name):
    return peak(partial(ELBO_WAYS[name], inputs(size)))


@pytest.mark.parametrize("name", ELBO_WAYS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_elbo(benchmark, size, name):
    benchmark.group, benchmark.extra_info["size"] = str(size), size._asdict()
    if SIZES is SMALL:  # the profiler's record of a large one is larger still
        peaks = ",".join(f" {peak_of(size, each):.0f}" for each in ELBO_WAYS)
        benchmark.group += f" peak{peaks} MiB"
        benchmark.extra_info["peak_mib"] = peak_of(size, name)
    run, wanted_B = partial(ELBO_WAYS[name], inputs(size)), expected(size)
    rounds = 1 if SIZES is FULL and name == "uncached" else 5
    found_B = benchmark.pedantic(run, rounds=rounds, warmup_rounds=int(name != "uncached"))
    SECONDS[size, name] = benchmark.stats.stats.median
    torch.testing.assert_close(found_B, wanted_B, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_one_pass_is_faster(benchmark, size):
    benchmark.group = "one pass is faster"
    benchmark.pedantic(lambda: None)
    for name, factor in (("cached", size.cached), ("uncached", size.uncached)):
        ratio = SECONDS[size, name] / SECONDS[size, "one_pass"]
        benchmark.extra_info[name] = ratio
        assert ratio >= factor, f"{name} takes {ratio:.1f} times as long, not {factor}"
