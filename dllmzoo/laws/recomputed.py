"""What a policy says again about the states that a rollout recorded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.records import Rollout


def logits_when_committed(sampler: Any, rollout: Rollout, policy: ToyDenoiser) -> Tensor:
    """Logits of each slot in the state before its step, guided as the sampler is; (B, L, V)."""
    B, T = len(rollout.tokens_BL), rollout.num_steps
    step_BK = torch.arange(T).expand(B, T)
    shown_BKL = rollout.draft_before(step_BK)
    shown_BKL = rollout.tokens_BL.unsqueeze(1) if shown_BKL is None else shown_BKL
    tokens_BKL = shown_BKL.masked_fill(rollout.hidden_before(step_BK), policy.mask_id)
    attend_BL = rollout.attend_BL.repeat_interleave(T, 0)
    L = tokens_BKL.shape[2]

    def run(tokens: Tensor) -> Tensor:
        if policy.block_size is None:
            return policy(tokens, attend_BL).logits
        clean_BL = rollout.tokens_BL.repeat_interleave(T, 0)
        return policy(clean_BL, attend_BL, target_ids=tokens).logits

    with torch.no_grad():
        flat = tokens_BKL.flatten(0, 1)
        logits = run(flat)
        scale = getattr(sampler, "cfg_scale", 0)
        if scale > 0:
            prompt_BL = attend_BL.clone()
            prompt_BL[:, -sampler.answer_length :] = False
            blind = run(flat.masked_fill(prompt_BL, policy.mask_id))
            logits = blind + (scale + 1) * (logits - blind)
    step_B1LV = rollout.reveal_BL.clamp(min=0).view(B, 1, L, 1).expand(B, 1, L, logits.shape[-1])
    return logits.view(B, T, L, -1).gather(1, step_B1LV).squeeze(1)


def drawn_from(sampler: Any, logits_BLV: Tensor, policy: ToyDenoiser) -> Tensor:
    """Logits of the law that the sampler draws from: without the mask token, tempered, filtered."""
    drawn_BLV = logits_BLV.clone()
    drawn_BLV[..., policy.mask_id] = -torch.inf
    if getattr(sampler, "given", None) == "blanks":
        drawn_BLV[..., list(policy.stop_ids)] = -torch.inf  # the text goes on behind a blank
    temperature = getattr(sampler, "temperature", 0)
    drawn_BLV = drawn_BLV / (temperature or 1.0)
    if temperature == 0:  # filters have no meaning for the likeliest token
        return drawn_BLV
    larger_BLVV = drawn_BLV.unsqueeze(-2) > drawn_BLV.unsqueeze(-1)
    if top_k := getattr(sampler, "top_k", 0):
        drawn_BLV = drawn_BLV.masked_fill(larger_BLVV.sum(-1) >= top_k, -torch.inf)
    before_BLV = (larger_BLVV * drawn_BLV.softmax(-1).unsqueeze(-2)).sum(-1)
    return drawn_BLV.masked_fill(before_BLV >= getattr(sampler, "top_p", 1.0), -torch.inf)
