"""Numbers of a whole round, where every process holds an equal share of its rows."""

import torch
from torch import Tensor, distributed


def every_process(value_BA: Tensor) -> Tensor:
    """The rows of all processes in the order of the round; of one process, its own rows.

    What compares prompts needs it: a round is the same however many processes share its
    prompts. All processes must call it, with as many rows and columns.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return value_BA
    parts = [torch.empty_like(value_BA) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, value_BA.contiguous())
    return torch.cat(parts)
