"""Kinds of GPU by their published numbers: what they compute, hold and move."""

from __future__ import annotations

from dataclasses import dataclass

from dllmzoo.errors import UsageError


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU; peaks are of dense products, as its maker states them.

    Args:
        title: the maker's name.
        bfloat16: FLOP/s of matrix products.
        float32: FLOP/s of matrix products without TF32, which torch leaves off.
        memory: bytes.
        bandwidth: bytes/s of that memory.
        link: bytes/s that it sends to the others of its machine, one direction.
    """

    title: str
    bfloat16: float
    float32: float
    memory: float
    bandwidth: float
    link: float


GPUS: dict[str, Gpu] = {
    "a100": Gpu("NVIDIA A100 SXM 80 GB", 312e12, 19.5e12, 80e9, 2.039e12, 300e9),
    "a100-40": Gpu("NVIDIA A100 SXM 40 GB", 312e12, 19.5e12, 40e9, 1.555e12, 300e9),
    "h100": Gpu("NVIDIA H100 SXM 80 GB", 989e12, 67e12, 80e9, 3.35e12, 450e9),
    "h200": Gpu("NVIDIA H200 SXM 141 GB", 989e12, 67e12, 141e9, 4.8e12, 450e9),
    "b200": Gpu("NVIDIA B200 SXM 180 GB", 2250e12, 75e12, 180e9, 7.7e12, 900e9),
    "l40s": Gpu("NVIDIA L40S 48 GB", 362e12, 91.6e12, 48e9, 0.864e12, 32e9),
    "l4": Gpu("NVIDIA L4 24 GB", 121e12, 30.3e12, 24e9, 0.3e12, 32e9),
    "a6000": Gpu("NVIDIA RTX A6000 48 GB", 155e12, 38.7e12, 48e9, 0.768e12, 32e9),
    "rtx4090": Gpu("NVIDIA GeForce RTX 4090 24 GB", 165e12, 82.6e12, 24e9, 1.008e12, 32e9),
    "mi300x": Gpu("AMD Instinct MI300X 192 GB", 1307e12, 163e12, 192e9, 5.3e12, 448e9),
}
"""Short name -> numbers of the makers' data sheets."""


def gpu(name: str) -> Gpu:
    """A kind of GPU by its short name, any case.

    Raises:
        UsageError: names those there are.
    """
    if (found := GPUS.get(name.lower())) is None:
        raise UsageError(f"no GPU kind {name!r}; there are {', '.join(GPUS)}")
    return found
