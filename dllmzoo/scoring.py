"""The generic scorer: the only place that runs a policy for log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dllmzoo.models._sharded import everywhere, is_sharded, most, put_back
from dllmzoo.reading import PerSlot, read_slots
from dllmzoo.records import Key, Rollout, Steps, Views
from dllmzoo.samplers._noise import inverse_cdf, tempered

if TYPE_CHECKING:
    from accelerate import Accelerator

    from dllmzoo.protocols import Policy

KEPT = 2**28
"""Bytes that a forward on a CPU may store for its backward pass, about, if it has several rows."""


@dataclass(frozen=True)
class Scores:
    """What one pass over views leaves; no gradient.

    Args:
        logprob_BKL: float32 nats of the final tokens; 0 where nothing is scored.
        guess_BKL: int64, (B, K*n, L) ordered (k n), the canvas with hidden slots guessed.
        kl_BKL: float32 nats, full-vocabulary KL(policy, reference) at scored slots; else 0.
    """

    logprob_BKL: Tensor
    guess_BKL: Tensor | None = None
    kl_BKL: Tensor | None = None


@torch.no_grad()
def score(
    policy: Policy,
    rollout: Rollout,
    views: Views,
    *,
    micro_batch: int,
    reference: Policy | None = None,
    guesses: int = 0,
    key: Key | None = None,
) -> Scores:
    """Log-probs of the rollout's tokens in every view, without gradient.

    The head runs at scored slots only, log-softmax in float32; a view that scores nothing costs
    no forward. With sharded parameters every process runs the same number of forwards.

    Args:
        policy: the network, as it is.
        rollout: tokens and padding.
        views: what is hidden and scored.
        micro_batch: rows (sample, view) of one forward; changes no number beyond rounding.
        reference: asks for the exact KL to this policy too; one more forward.
        guesses: 0 none; 1 fills every hidden slot of a view with its likeliest token; n > 1
            fills it n times with samples at the rollout's temperature. From the same forward.
        key: of sampled guesses.
    """
    logprob_BKL = torch.zeros_like(views.score_BKL, dtype=_precision(policy))
    kl_BKL = torch.zeros_like(logprob_BKL) if reference is not None else None
    filler = _Filler(rollout, views, guesses, key) if guesses else None
    number = math.ceil(int(views.score_BKL.any(2).sum()) / micro_batch)
    idle = most(number, policy) - number
    for chunk in _chunks(rollout, views, micro_batch, policy, wide=guesses > 0):
        anchor_SV = None if reference is None else chunk.logits(reference)
        found = _Reading(chunk, anchor_SV, filler, policy.mask_id)
        logprob_BKL[chunk.slots], *kl_S = chunk.read(policy, found)
        if kl_BKL is not None:
            (kl_BKL[chunk.slots],) = kl_S
    for _ in range(idle):
        for network in (policy, reference):
            if network is not None:
                _dummy(rollout, views, network).logits(network)
    put_back(policy)
    put_back(reference)
    scored_BKL = views.score_BKL
    return Scores(
        torch.where(scored_BKL, logprob_BKL, 0),
        None if filler is None else filler.guess_BKL,
        None if kl_BKL is None else torch.where(scored_BKL, kl_BKL, 0),
    )


def replay(
    policy: Policy,
    rollout: Rollout,
    views: Views,
    grad_BKL: Tensor,
    *,
    micro_batch: int,
    kl_grad_BKL: Tensor | None = None,
    reference: Policy | None = None,
    accelerator: Accelerator | None = None,
) -> Tensor:
    """Second phase of a backward: adds the gradient of sum(grad * logprob) to the parameters.

    Exact for any differentiable pool and loss whose gradient at the log-probs is `grad_BKL`;
    memory does not grow with the number of views. Every process runs the same number of
    forwards, since sharded parameters are gathered in each; the parameters' gradient is
    synchronised in the last one, that of sharded parameters in each: no process holds all of it.

    Args:
        policy: the wrapped model, in training mode with every dropout at 0.
        rollout: tokens and padding.
        views: what is hidden and scored.
        grad_BKL: gradient of the loss at logprob_BKL.
        micro_batch: rows (sample, view) of one forward at most; on a CPU only as many as keep what
            is stored for the backward pass below 256 MiB.
        kl_grad_BKL: gradient of the loss at kl_BKL; needs `reference`.
        reference: the policy of the exact KL.
        accelerator: of the run; None = one process.

    Returns:
        logprob_BKL of this pass, detached.
    """
    logprob_BKL = torch.zeros_like(grad_BKL, dtype=_precision(policy))
    chunks = list(_chunks(rollout, views, _rows(policy, views, micro_batch), policy))
    forwards = len(chunks)
    if accelerator is not None and accelerator.num_processes > 1:
        count = torch.tensor([len(chunks)], device=accelerator.device)
        forwards = int(torch.as_tensor(accelerator.gather(count)).max())
    for i in range(forwards):
        chunk = chunks[i] if i < len(chunks) else _dummy(rollout, views, policy)
        last = i == forwards - 1
        waits = accelerator is not None and not last and not is_sharded(policy)
        with accelerator.no_sync(policy) if waits else nullcontext():  # type: ignore[union-attr]
            anchor_SV = None
            if kl_grad_BKL is not None and reference is not None:
                with torch.no_grad():
                    anchor_SV = chunk.logits(reference)
            logprob_S, *kl_S = chunk.read(policy, _Reading(chunk, anchor_SV))
            total = (logprob_S * grad_BKL[chunk.slots]).sum()
            if kl_grad_BKL is not None and kl_S:
                total = total + (kl_S[0] * kl_grad_BKL[chunk.slots]).sum()
            if i >= len(chunks):
                total = total * 0.0
            if accelerator is not None:
                accelerator.backward(total)
            else:
                total.backward()
        if i < len(chunks):
            logprob_BKL[chunk.slots] = logprob_S.detach()
    return logprob_BKL


def states_before(rollout: Rollout, steps: Steps) -> Views:
    """Views of the states before the chosen steps, all hidden slots of used entries scored."""
    hide_BKL = rollout.hidden_before(steps.start_BK)
    used_BK1 = (steps.weight_BK > 0).unsqueeze(2)
    zero_BKL = torch.zeros_like(hide_BKL, dtype=torch.long)
    B = len(hide_BKL)
    one_B1 = torch.ones(B, 1, device=hide_BKL.device)
    return Views(
        hide_BKL, hide_BKL & used_BK1, torch.ones_like(zero_BKL, dtype=torch.float), zero_BKL,
        one_B1, one_B1, torch.zeros_like(one_B1, dtype=torch.long), rollout.temperature,
        shown_BKL=rollout.draft_before(steps.start_BK),
    )  # fmt: skip


def score_and_guess(
    policy: Policy,
    rollout: Rollout,
    views: Views,
    steps: Steps,
    *,
    micro_batch: int,
    guesses: int,
    key: Key,
) -> Scores:
    """Log-probs of `views` and one-shot guesses of the states before `steps`.

    One pass gives both when the views hide exactly what those states hide and none of them is
    idle (a step chosen twice may be scored once); else two.
    """
    states = states_before(rollout, steps)
    settings = {"micro_batch": micro_batch, "guesses": guesses, "key": key}
    same = views.layout == "full" and _same_inputs(views, states)
    idle_BK = states.score_BKL.any(2) & ~views.score_BKL.any(2)
    if everywhere(same and not bool(idle_BK.any()), policy):
        return score(policy, rollout, views, **settings)
    guessed = score(policy, rollout, states, **settings)
    return replace(
        score(policy, rollout, views, micro_batch=micro_batch), guess_BKL=guessed.guess_BKL
    )


def _same_inputs(views: Views, states: Views) -> bool:
    """Whether the network sees the same in both."""
    if not torch.equal(views.hide_BKL, states.hide_BKL):
        return False
    if views.shown_BKL is None or states.shown_BKL is None:
        return views.shown_BKL is states.shown_BKL
    return torch.equal(
        views.shown_BKL.masked_fill(views.hide_BKL, 0),
        states.shown_BKL.masked_fill(states.hide_BKL, 0),
    )


@dataclass(frozen=True)
class _Chunk:
    """Some (sample, view) rows as model inputs; `slots` indexes (B, K, L) tensors."""

    tokens_RL: Tensor
    target_S: Tensor
    noised_RL: Tensor
    attend_RL: Tensor
    at_RL: Tensor
    slots: tuple[Tensor, Tensor, Tensor]
    temperature: float
    layout: str
    context: str
    dtype: torch.dtype

    def read(self, policy: Policy, per_slot: PerSlot) -> tuple[Tensor, ...]:
        """What a function makes of the logits at the slots, as the network gives them."""
        if self.layout == "full":
            return read_slots(
                policy, per_slot, self.noised_RL, self.attend_RL, logits_at=self.at_RL
            )
        return read_slots(
            policy, per_slot, self.tokens_RL, self.attend_RL, target_ids=self.noised_RL,
            context=self.context, logits_at=self.at_RL,
        )  # fmt: skip

    def logits(self, policy: Policy) -> Tensor:
        """Logits at all slots, tempered, in the precision of log-probs."""
        return self.read(policy, lambda logits_SV, _: (self.tempered(logits_SV),))[0]

    def tempered(self, logits_SV: Tensor) -> Tensor:
        """At the temperature of the views, in the precision of log-probs."""
        logits_SV = logits_SV.to(self.dtype)
        return logits_SV if self.temperature == 1.0 else logits_SV / self.temperature


@dataclass(frozen=True)
class _Reading:
    """What is made of the logits of some slots of a chunk: log-probs, and perhaps exact KLs.

    Args:
        chunk: the rows.
        anchor_SV: tempered logits of a reference; asks for the KL to it.
        filler: takes one-shot guesses on the way; not with gradient.
        mask_id: never guessed.
    """

    chunk: _Chunk
    anchor_SV: Tensor | None = None
    filler: _Filler | None = None
    mask_id: int = -1

    def __call__(self, logits_SV: Tensor, part: slice) -> tuple[Tensor, ...]:
        logits_SV = self.chunk.tempered(logits_SV)
        target_S = self.chunk.target_S[part]
        if self.filler is not None:
            self.filler.fill(self.chunk, logits_SV, part, self.mask_id)
            if self.anchor_SV is None:  # most slots of a guess are not scored
                logprob_S = logits_SV.new_zeros(len(target_S))
                at_S = self.filler.score_BKL[tuple(each[part] for each in self.chunk.slots)]
                logprob_S[at_S] = -F.cross_entropy(
                    logits_SV[at_S], target_S[at_S], reduction="none"
                )
                return (logprob_S,)
        logprob_S = -F.cross_entropy(logits_SV, target_S, reduction="none")
        if self.anchor_SV is None:
            return (logprob_S,)
        anchor_SV = self.anchor_SV[part].log_softmax(-1)
        kl_S = F.kl_div(anchor_SV, logits_SV.log_softmax(-1), log_target=True, reduction="none")
        return logprob_S, kl_S.sum(-1)


def _precision(policy: Any) -> torch.dtype:
    """Of log-probs: float32 whatever the weights are, but not below a float64 policy."""
    network = getattr(policy, "module", policy)
    return torch.promote_types(getattr(network, "dtype", torch.float32), torch.float32)


def _chunks(
    rollout: Rollout, views: Views, micro_batch: int, policy: Any, *, wide: bool = False
) -> Iterator[_Chunk]:
    """Views that score something, at most `micro_batch` rows each; `wide` reads hidden slots too.

    Rows of like length share a forward, which leaves out the columns that are padding in all.
    """
    at_BKL = views.score_BKL
    if wide:
        at_BKL = at_BKL | (views.hide_BKL & at_BKL.any(2, keepdim=True))
    row_R, view_R = at_BKL.any(2).nonzero(as_tuple=True)
    if len(row_R) == 0:
        return
    padding_R = rollout.attend_BL.bool().long().argmax(1)[row_R]  # packed rows hold numbers
    if len(row_R) > micro_batch:
        order_R = padding_R.argsort(stable=True)
        row_R, view_R, padding_R = row_R[order_R], view_R[order_R], padding_R[order_R]
    columns = (row_R.split(micro_batch), view_R.split(micro_batch), padding_R.split(micro_batch))
    for row, view, padding in zip(*columns, strict=True):
        start = int(padding.min())
        yield _chunk(rollout, views, row, view, at_BKL[row, view], policy, start)


def _chunk(
    rollout: Rollout, views: Views, row: Tensor, view: Tensor, at_RL: Tensor, policy: Any,
    start: int = 0,
) -> _Chunk:  # fmt: skip
    mask_id = getattr(policy, "module", policy).mask_id
    final_RL = rollout.tokens_BL[row]
    shown_RL = final_RL if views.shown_BKL is None else views.shown_BKL[row, view]
    target_RL = final_RL if views.target_BKL is None else views.target_BKL[row, view]
    noised_RL = shown_RL.masked_fill(views.hide_BKL[row, view], mask_id)
    i, slot = at_RL.nonzero(as_tuple=True)
    return _Chunk(
        shown_RL[:, start:], target_RL[i, slot], noised_RL[:, start:],
        rollout.attend_BL[row, start:], at_RL[:, start:], (row[i], view[i], slot),
        views.temperature, views.layout, views.context, _precision(policy),
    )  # fmt: skip


def _rows(policy: Any, views: Views, micro_batch: int) -> int:
    """Rows of a forward with gradient: on a CPU, which gains nothing by many, what fits in KEPT."""
    network = getattr(policy, "module", policy)
    kept, device = getattr(network, "kept_per_token", 0), getattr(network, "device", None)
    if device is None or torch.device(device).type != "cpu" or not kept:
        return micro_batch
    length = views.hide_BKL.shape[2] * (1 if views.layout == "full" else 2)
    return max(1, min(micro_batch, KEPT // (kept * length)))


def _dummy(rollout: Rollout, views: Views, policy: Any) -> _Chunk:
    """One row whose gradient is thrown away, for a process that has fewer rows than another."""
    zero = torch.zeros(1, dtype=torch.long, device=rollout.tokens_BL.device)
    return _chunk(rollout, views, zero, zero, rollout.answer_BL[:1], policy)


class _Filler:
    """Writes one-shot guesses into copies of the canvas."""

    def __init__(self, rollout: Rollout, views: Views, guesses: int, key: Key | None) -> None:
        B, K, L = views.hide_BKL.shape
        self.count = guesses
        self.temperature = rollout.temperature / views.temperature
        shown_BKL = rollout.tokens_BL.unsqueeze(1) if views.shown_BKL is None else views.shown_BKL
        each_BKL = shown_BKL.expand(B, K, L)
        self.guess_BKL = each_BKL.repeat_interleave(guesses, dim=1)
        self.hide_BKL, self.score_BKL = views.hide_BKL, views.score_BKL
        self.uniform: Any = None  # (B, K, n, L)
        if guesses > 1:
            assert key is not None, "sampled guesses need a key"
            self.uniform = rollout.slot_uniform(key, K, guesses)

    def fill(self, chunk: _Chunk, logits_SV: Tensor, part: slice, mask_id: int) -> None:
        row, view, slot = (each[part] for each in chunk.slots)
        hidden_S = self.hide_BKL[row, view, slot]
        row, view, slot = row[hidden_S], view[hidden_S], slot[hidden_S]
        if self.count == 1:
            self.guess_BKL[row, view, slot] = _likeliest(logits_SV, mask_id)[hidden_S]
            return
        logits_SV = logits_SV[hidden_S]
        logits_SV[:, mask_id] = -torch.inf
        prob_SV = tempered(logits_SV, self.temperature).softmax(-1)
        for n in range(self.count):
            token_S = inverse_cdf(prob_SV, self.uniform[row, view, n, slot])
            self.guess_BKL[row, view * self.count + n, slot] = token_S


def _likeliest(logits_SV: Tensor, mask_id: int) -> Tensor:
    """token_S of the largest logit, the mask token left out; the logits stay as they are."""
    token_S = logits_SV.argmax(-1)
    again_R = (token_S == mask_id).nonzero()[:, 0]
    masked_RV = logits_SV[again_R]
    masked_RV[:, mask_id] = -torch.inf
    return token_S.index_copy(0, again_R, masked_RV.argmax(-1))
