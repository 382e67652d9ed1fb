"""How far the law that answers were sampled from is from that of the policy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dllmzoo.models._sharded import in_step
from dllmzoo.protocols import Policy
from dllmzoo.records import Key, Prompts, Rollout, take
from dllmzoo.samplers._again import law_of, logprob_under
from dllmzoo.samplers._canvas import Canvas
from dllmzoo.training.meter import Meter
from dllmzoo.training.reads import Read

ROWS = 16
"""Rows of each process that are looked at."""


@dataclass(frozen=True)
class Gap:
    """Differences of log-probs, recorded minus exact, without sign.

    Args:
        nats_S: float32, of each token of the steps that were looked at; S = 0 where nothing was
            sampled step by step.
        reads: the forwards that it took.
    """

    nats_S: Tensor
    reads: tuple[Read, ...] = ()

    def into(self, meter: Meter) -> None:
        """Count the mean as `sampling_gap`, and the forwards."""
        meter.add_tensor("sampling_gap", self.nats_S)
        meter.forwards += self.reads


@torch.no_grad()
def sampling_gap(policy: Policy, rollout: Rollout, key: Key, micro_batch: int) -> Gap:
    """Score one denoising step of up to 16 rows again, by whole rows and with the policy itself.

    Like is compared with like: the same state, and the law that the sampler draws from (guidance,
    filters, temperature or, if greedy, 1, no mask token). So what is left is what sampling changed:
    an approximate cache, or another precision. Exact sampling gives rounding errors.

    Args:
        policy: the network that is trained, in evaluation mode.
        rollout: answers that it, or a copy of it, sampled.
        key: which rows, and which step of each: that of a random token of it.
        micro_batch: rows of one forward.
    """
    made_B = (rollout.reveal_BL >= 0).any(1).nonzero()[:, 0]
    if len(made_B):
        place_B = key.sub("rows").uniform(rollout.sample_B[made_B]).argsort()[:ROWS]
        rollout = take(rollout, made_B[place_B.to(made_B.device).sort().values])
    gaps, reads = [], []
    with in_step(policy) as network:
        for rows in torch.arange(min(len(made_B), ROWS)).split(micro_batch):
            if len(rows) == 0:  # nothing was sampled
                continue
            gaps.append(_gap(network, take(rollout, rows), key.sub("step")))
            reads.append(Read(len(rows), rollout.tokens_BL.shape[1], len(gaps[-1])))
    return Gap(torch.cat(gaps) if gaps else torch.zeros(0), tuple(reads))


def _gap(policy: Policy, rollout: Rollout, key: Key) -> Tensor:
    """nats_S of one step of each row."""
    chance_BL = rollout.slot_uniform(key).masked_fill(rollout.reveal_BL < 0, -1)
    step_B1 = rollout.reveal_BL.gather(1, chance_BL.argmax(1, keepdim=True))
    canvas, at_BN = _state(policy, rollout, step_B1)
    sampler, token_S = rollout.sampler, rollout.tokens_BL[:, -rollout.canvas :][at_BN]
    law = law_of(sampler, policy)

    def logprob(logits_SV: Tensor, part: slice) -> tuple[Tensor, ...]:
        return (logprob_under(law, logits_SV, token_S[part]),)

    rows = torch.arange(len(at_BN), device=at_BN.device)
    scale = getattr(sampler, "cfg_scale", 0.0)
    (logprob_S,) = canvas.read(policy, rows, at_BN, logprob, cfg_scale=scale)
    return (rollout.logprob_BL[:, -rollout.canvas :][at_BN] - logprob_S).abs()


def _state(policy: Policy, rollout: Rollout, step_B1: Tensor) -> tuple[Canvas, Tensor]:
    """The canvas before a step of each row, and the answer slots that the step committed."""
    N, L = rollout.canvas, rollout.tokens_BL.shape[1]
    shown_B1L = rollout.draft_before(step_B1)
    shown_BL = rollout.tokens_BL if shown_B1L is None else shown_B1L[:, 0]
    state_BL = shown_BL.masked_fill(rollout.hidden_before(step_B1)[:, 0], policy.mask_id)
    prompts = Prompts(
        rollout.tokens_BL[:, : L - N], rollout.attend_BL[:, : L - N], rollout.group_B,
        rollout.sample_B, rollout.examples,
    )  # fmt: skip
    canvas = Canvas.given(prompts, state_BL[:, L - N :], 0, policy.mask_id, state_BL.device)
    return canvas, (rollout.reveal_BL == step_B1)[:, L - N :]
