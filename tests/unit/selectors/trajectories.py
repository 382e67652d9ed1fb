"""Rollouts written down by hand, for the tests of selectors."""

import torch

from dllmzoo.records import Key, Rollout, Steps

KEY = Key(seed=5, round=0, purpose="select")


def rollout(
    reveal: list[list[int]],
    entropy: list[list[float]],
    num_steps: int,
    *,
    valid: list[list[bool]] | None = None,
    block_entropy: list[list[float]] | None = None,
) -> Rollout:
    """One prompt token (reveal -1) and then the given slots."""
    B, N = len(reveal), len(reveal[0])
    pad = torch.nn.functional.pad
    answer_BL = pad(torch.ones(B, N, dtype=torch.bool), (1, 0))
    zero_BL = torch.zeros(B, N + 1)
    return Rollout(
        tokens_BL=torch.ones(B, N + 1, dtype=torch.int64),
        attend_BL=torch.ones(B, N + 1, dtype=torch.bool),
        answer_BL=answer_BL,
        valid_BL=answer_BL if valid is None else pad(torch.tensor(valid), (1, 0)),
        reveal_BL=pad(torch.tensor(reveal), (1, 0), value=-1),
        logprob_BL=zero_BL,
        entropy_BL=pad(torch.tensor(entropy), (1, 0), value=100.0),
        confidence_BL=zero_BL,
        block_entropy_BT=torch.tensor(block_entropy or [[0.0] * num_steps] * B),
        group_B=torch.zeros(B, dtype=torch.int64),
        sample_B=torch.arange(B),
        examples=[{}] * B,
        num_steps=num_steps,
        sampler=None,
    )


def used(steps: Steps) -> list[list[int]]:
    """The chosen steps of each row, in the order of columns, without unused entries."""
    assert torch.equal(steps.stop_BK, steps.start_BK + 1) or (steps.weight_BK == 0).any()
    return [
        start_K[weight_K > 0].tolist()
        for start_K, weight_K in zip(steps.start_BK, steps.weight_BK, strict=True)
    ]
