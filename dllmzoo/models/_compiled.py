"""Networks whose blocks are compiled."""

from __future__ import annotations

from typing import Any

import torch._dynamo

from dllmzoo.models._sharded import blocks

RECOMPILED = 64
"""Kinds of input that a block is compiled for, before others run as they are."""


def compile_blocks(network: Any, backend: str = "inductor") -> Any:
    """Compile each transformer block in place; the blocks share what is compiled.

    What follows the blocks, choice of slots and head, differs in shape from step to step and stays
    as it is. Names of weights do not change.

    Args:
        network: one of ours, or a `PeftModel` around one.
        backend: of `torch.compile`.

    Returns:
        The network itself.
    """
    config = torch._dynamo.config  # a rollout, a score and a replay alone are more than its 8
    config.recompile_limit = max(config.recompile_limit, RECOMPILED)
    for block in blocks(network):
        block.compile(backend=backend)
    return network
