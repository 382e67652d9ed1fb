"""The sizes that benchmarks run at: networks, canvases, and what stands for the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from dllmzoo.errors import UsageError

DEVICES, DTYPES = ("cpu", "cuda"), ("float32", "bfloat16")


@dataclass(frozen=True)
class Size:
    """Two networks of one size and the work that they are given.

    Args:
        name: `tiny`, `60m` or `8b`.
        title: what it is, in a table.
        llada: fields of the config of the LLaDA network; full attention.
        sdar: fields of the config of the SDAR network; attention in blocks.
        rows: B, sequences of a batch.
        prompt: tokens of a prompt.
        answer: N, tokens of an answer of LLaDA.
        block: tokens of a block of the LLaDA sampler.
        steps: T, denoising steps of an answer; divides into blocks evenly.
        sdar_answer: N of SDAR.
        temperature: of rollouts and log-probs.
        states: K, chosen denoising steps.
        micro_batch: rows (sample, view) of one forward of ours in scoring.
        shortest: answer of SDAR that growth with its length starts from; 8 times it fits.
        parts: steps, or blocks of SDAR, that are measured and stand for all of a rollout.
        plain_states: states that are measured and stand for K in the plain round.
        lora: rank of adapters on attention, for updates; 0 = all weights are trained.
        dtype: of the weights, if none is asked for.
        cuda_only: too large for a CPU.
    """

    name: str
    title: str
    llada: Mapping[str, Any]
    sdar: Mapping[str, Any]
    rows: int
    prompt: int
    answer: int
    block: int
    steps: int
    sdar_answer: int
    temperature: float
    states: int
    micro_batch: int
    shortest: int
    parts: int = 8
    plain_states: int = 2
    lora: int = 0
    dtype: str = "float32"
    cuda_only: bool = False

    @property
    def length(self) -> int:
        """L, prompt and answer of LLaDA."""
        return self.prompt + self.answer

    @property
    def sdar_block(self) -> int:
        """Tokens of a block of SDAR's attention."""
        return self.sdar["block_size"]

    @property
    def steps_per_block(self) -> int:
        """Denoising steps of a block of the LLaDA sampler."""
        return self.steps // ceil(self.answer / self.block)

    @property
    def commits(self) -> int:
        """Tokens that a denoising step commits in a row."""
        return self.block // self.steps_per_block

    def state(self, step: int) -> tuple[int, int]:
        """Before a step: answer slots of a row that are filled, and those left in its block."""
        block, inner = divmod(step, self.steps_per_block)
        done = inner * self.commits
        return block * self.block + done, self.block - done

    def measured(self, total: int) -> list[int]:
        """Numbers of the steps or blocks that stand for `total` of them, spread evenly."""
        return evenly(total, self.parts)


def evenly(total: int, number: int) -> list[int]:
    """At most `number` of the numbers from 0 to total - 1, the first and the last among them."""
    if number >= total:
        return list(range(total))
    return [round(i * (total - 1) / (number - 1)) for i in range(number)]


_TINY = Size(
    name="tiny",
    title="tiny: d 96, 3 layers, vocabulary 12",
    llada={
        "d_model": 96, "n_layers": 3, "n_heads": 4, "mlp_hidden_size": 192, "vocab_size": 12,
        "max_sequence_length": 256, "mask_token_id": 11, "eos_token_id": 10,
    },
    sdar={
        "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 24, "intermediate_size": 192, "vocab_size": 12,
        "max_position_embeddings": 256, "block_size": 4, "mask_token_id": 11, "eos_token_id": 10,
    },
    rows=8, prompt=16, answer=64, block=16, steps=32, sdar_answer=48, temperature=0.9, states=4,
    micro_batch=8, shortest=16,
)  # fmt: skip

_SMALL = replace(
    _TINY,
    name="60m",
    title="60m: d 512, 8 layers, vocabulary 32,000",
    llada={
        "d_model": 512, "n_layers": 8, "n_heads": 8, "mlp_hidden_size": 1536, "vocab_size": 32000,
        "max_sequence_length": 2048, "mask_token_id": 31999, "eos_token_id": 31998,
    },
    sdar={
        "hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 1536, "vocab_size": 32000,
        "max_position_embeddings": 2048, "block_size": 4, "mask_token_id": 31999,
        "eos_token_id": 31998,
    },
    prompt=128, answer=256, block=32, steps=128, sdar_answer=512, states=8, micro_batch=4,
    shortest=128,
)  # fmt: skip

_LARGE = replace(
    _SMALL,
    name="8b",
    title="8b: the shapes of LLaDA-8B and SDAR-8B, random weights",
    llada={
        "d_model": 4096, "n_layers": 32, "n_heads": 32, "mlp_hidden_size": 12288,
        "vocab_size": 126464, "max_sequence_length": 4096, "mask_token_id": 126336,
        "eos_token_id": 126081,
    },
    sdar={
        "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
        "vocab_size": 151936, "max_position_embeddings": 4096, "block_size": 4,
        "mask_token_id": 151669, "eos_token_id": 151645,
    },
    micro_batch=8, lora=128, dtype="bfloat16", cuda_only=True,
)  # fmt: skip

SIZES: Mapping[str, Size] = {size.name: size for size in (_TINY, _SMALL, _LARGE)}


def size_of(name: str, device: str) -> Size:
    """The size of that name.

    Raises:
        UsageError: there is none, or the device is not there for it.
    """
    if device not in DEVICES:
        raise UsageError(f"--device {device}: there are {', '.join(DEVICES)}")
    if name not in SIZES:
        raise UsageError(f"--size {name}: there are {', '.join(SIZES)}")
    if SIZES[name].cuda_only and device != "cuda":
        raise UsageError(
            f"--size {name} has networks of 8 billion parameters, which run on a GPU only; add "
            f"--device cuda, or use --size 60m"
        )
    return SIZES[name]
