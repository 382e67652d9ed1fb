"""A base in 4-bit NormalFloat through bitsandbytes: all of it, or an error."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from dllmzoo.errors import ModelError, UsageError
from dllmzoo.models._sharded import blocks


def four_bits(dtype: torch.dtype) -> Any:
    """What transformers is told: NF4 with twice quantised scales, as in QLoRA (arXiv:2305.14314).

    Products are computed in `dtype`; head and embedding stay in it.

    Raises:
        UsageError: bitsandbytes is not installed.
    """
    if find_spec("bitsandbytes") is None:
        raise UsageError(
            "model.quantize is 4bit, which needs bitsandbytes: pip install 'dllmzoo[quantize]', "
            "or leave quantize out to hold the base in model.dtype"
        )
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )  # fmt: skip


def only_four_bits(network: Any) -> None:
    """Make sure that every linear layer of a block is in 4 bits, and stays differentiable.

    On some processors bitsandbytes repacks weights at the first evaluation for a product without a
    gradient, and uses it in training too: adapters below would silently learn nothing.

    Raises:
        ModelError: names the first layer that was left in full precision.
    """
    for number, block in enumerate(blocks(network)):
        for name, module in block.named_modules():
            if isinstance(module, nn.Linear) and type(module.weight).__name__ != "Params4bit":
                raise ModelError(
                    f"{name} of block {number} is not in 4 bits; the installed bitsandbytes and "
                    f"transformers do not quantise this network"
                )
            if hasattr(module, "support_avx512bf16_for_cpu"):
                module.support_avx512bf16_for_cpu = False  # type: ignore[assignment]
