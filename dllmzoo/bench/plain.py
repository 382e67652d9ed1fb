"""The plain ways: how scripts of the field sample and score, whole rows in all dimensions.

Logits of every position at every step, float64 noise and softmax over all of them, a loop over rows
to commit, one state per forward, log-softmax of full length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


def gumbel(logits_BLV: Tensor, temperature: float) -> Tensor:
    """Float64 scores whose argmax is a draw at that temperature; the logits at 0."""
    if temperature == 0:
        return logits_BLV
    logits_BLV = logits_BLV.to(torch.float64)
    noise_BLV = torch.rand_like(logits_BLV)
    return logits_BLV.exp() / (-torch.log(noise_BLV)) ** temperature


@torch.no_grad()
def denoise(
    policy: Any,
    tokens_BL: Tensor,
    stop: int,
    count: int,
    temperature: float,
    record: list[Any] | None = None,
    *,
    store: bool = False,
) -> Tensor:
    """One denoising step: `count` of the masked slots before column `stop` in each row.

    Args:
        policy: the network.
        tokens_BL: with mask tokens; not changed.
        stop: end of the active block.
        count: tokens to commit.
        temperature: 0 = greedy.
        record: takes the committed slots with their log-probs.
        store: and the log-probs of the whole vocabulary at every position.

    Returns:
        The tokens after the step.
    """
    masked_BL = tokens_BL == policy.mask_id
    logits_BLV = policy(tokens_BL).logits
    kept_BLV = logits_BLV.float().log_softmax(-1) if store else None
    prob_BLV = torch.softmax(logits_BLV.to(torch.float64), -1)
    logits_BLV[..., policy.mask_id] = -torch.inf  # ours never writes the mask token
    drawn_BL = gumbel(logits_BLV, temperature).argmax(-1)
    sure_BL = prob_BLV.gather(-1, drawn_BL.unsqueeze(-1)).squeeze(-1)
    sure_BL[:, stop:] = -torch.inf
    sure_BL = torch.where(masked_BL, sure_BL, -torch.inf)
    drawn_BL = torch.where(masked_BL, drawn_BL, tokens_BL)
    commit_BL = torch.zeros_like(masked_BL)
    for row in range(len(tokens_BL)):
        commit_BL[row, sure_BL[row].topk(count).indices] = True
    if record is not None:
        record.append((commit_BL, sure_BL.log(), kept_BLV))
    return torch.where(commit_BL, drawn_BL, tokens_BL)


def rollout(
    policy: Any, prompt_BL: Tensor, answer: int, block: int, steps: int, temperature: float
) -> tuple[Tensor, Tensor]:
    """Tokens and the step of each slot (-1 in the prompt); blocks and steps divide evenly."""
    tokens_BL = torch.nn.functional.pad(prompt_BL, (0, answer), value=policy.mask_id)
    reveal_BL = torch.full_like(tokens_BL, -1)
    each = steps // (answer // block)
    for step in range(steps):
        stop = prompt_BL.shape[1] + (step // each + 1) * block
        after_BL = denoise(policy, tokens_BL, stop, block // each, temperature)
        reveal_BL[(tokens_BL == policy.mask_id) & (after_BL != policy.mask_id)] = step
        tokens_BL = after_BL
    return tokens_BL, reveal_BL


def logprobs(policy: Any, tokens_BL: Tensor, hide_BL: Tensor, temperature: float) -> Tensor:
    """logprob_BL, float32, of all tokens with some of them hidden."""
    logits_BLV = policy(tokens_BL.masked_fill(hide_BL, policy.mask_id)).logits.float()
    logprob_BLV = torch.log_softmax(logits_BLV / temperature, -1)
    return logprob_BLV.gather(-1, tokens_BL.unsqueeze(-1)).squeeze(-1)


@torch.no_grad()
def guess(policy: Any, tokens_BL: Tensor, hide_BL: Tensor) -> Tensor:
    """The canvas with every hidden slot filled with its likeliest token."""
    logits_BLV = policy(tokens_BL.masked_fill(hide_BL, policy.mask_id)).logits
    logits_BLV[..., policy.mask_id] = -torch.inf
    return torch.where(hide_BL, logits_BLV.argmax(-1), tokens_BL)


def scored(
    policy: Any, tokens_BL: Tensor, hide_BKL: Tensor, temperature: float
) -> Iterator[tuple[int, Tensor]]:
    """(k, logprob_BL) of one state after the other, each from a forward of its own."""
    for k, hide_BL in enumerate(hide_BKL.unbind(1)):
        yield k, logprobs(policy, tokens_BL, hide_BL, temperature)


def accumulate(
    policy: Any, tokens_BL: Tensor, hide_BKL: Tensor, grad_BKL: Tensor, temperature: float
) -> None:
    """Adds the gradient of sum(grad * logprob) to the parameters, state by state."""
    for k, logprob_BL in scored(policy, tokens_BL, hide_BKL, temperature):
        (logprob_BL * grad_BKL[:, k]).sum().backward()
