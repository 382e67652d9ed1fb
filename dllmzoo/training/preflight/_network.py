"""Logits that belong to their own position, and rows that do not depend on their neighbours."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dllmzoo.training.preflight._verdict import Canvas, Subject, Verdict

STRIDE = 4
"""One answer slot in this many is hidden, so that its neighbours are visible."""
SLOTS = 64
"""Answer slots of an example that are looked at."""
KNOWS = 0.75
"""A reading knows the texts if its loss is below this share of the tokens' own entropy."""
CLEAR = 0.2
"""Share of that entropy by which one reading must beat another."""
TOLERANCE = {
    torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2,
}  # fmt: skip
"""Difference of logits that is rounding, as a share of the largest logit (of 1 if that is less)."""


class Losses(NamedTuple):
    """Nats per hidden token when position i - 1, i or i + 1 is read for token i."""

    before: float
    aligned: float
    after: float
    entropy: float


@torch.no_grad()
def logit_alignment(subject: Subject) -> Verdict:
    """Position i predicts token i: hidden tokens are guessed best from their own position.

    A policy that knows nothing about the texts of the task, such as one with random weights, shows
    nothing either way.
    """
    name = "logit alignment"
    losses = alignment_losses(subject)
    before, aligned, after, entropy = losses
    numbers = (
        f"{aligned:.2f} nats a hidden token at its own position, {before:.2f} read from the one "
        f"before, {after:.2f} from the one behind"
    )
    best = min(before, aligned, after)
    if entropy < 0.5 or best > KNOWS * entropy:
        return Verdict(
            name, "undecided",
            f"the policy does not know texts of this task yet: {numbers}, and {entropy:.2f} for "
            f"guessing by frequency",
        )  # fmt: skip
    if aligned == best:
        return Verdict(name, "ok", numbers)
    if aligned - best < CLEAR * entropy:
        return Verdict(name, "undecided", f"too close to tell: {numbers}")
    where = "before" if before == best else "behind"
    return Verdict(
        name, "failed", f"the logits stand one position off, {where} their token: {numbers}",
        "the family's adapter must hand out logits aligned with their tokens, "
        + ("shifted right by one" if where == "before" else "not shifted"),
    )  # fmt: skip


def alignment_losses(subject: Subject) -> Losses:
    """Losses of hidden answer tokens between visible ones."""
    policy, filler = subject.policy.eval(), subject.codec.filler
    target, loss = [], []
    for canvas in subject.canvases:
        answer = canvas.answer[:SLOTS]
        ids = [*canvas.prompt, *answer, filler]
        start, end = len(canvas.prompt), len(canvas.prompt) + len(answer)
        phases = [p for p in range(STRIDE if subject.full else 2) if start + p < end]
        if not phases:
            continue
        words_RL = torch.tensor([ids] * len(phases), device=subject.device)
        hide_RL = torch.zeros_like(words_RL, dtype=torch.bool)
        for row, phase in enumerate(phases):
            hide_RL[row, start + phase : end : STRIDE] = True
        noised_RL = words_RL.masked_fill(hide_RL, policy.mask_id)
        near_RL = hide_RL | hide_RL.roll(1, 1) | hide_RL.roll(-1, 1)
        logits_SV = policy(noised_RL, torch.ones_like(hide_RL), logits_at=near_RL).logits.float()
        logits_SV[:, policy.mask_id] = -torch.inf
        logprob_SV = logits_SV.log_softmax(-1)
        place_RL = near_RL.flatten().long().cumsum(0).view_as(words_RL) - 1
        row, slot = hide_RL.nonzero(as_tuple=True)
        token = words_RL[row, slot]
        read = [logprob_SV[place_RL[row, slot + shift], token] for shift in (-1, 0, 1)]
        target.append(token)
        loss.append(-torch.stack(read, 1))
    if not target:
        return Losses(0.0, 0.0, 0.0, 0.0)
    share = torch.cat(target).unique(return_counts=True)[1].float()
    share = share / share.sum()
    before, aligned, after = torch.cat(loss).mean(0).tolist()
    return Losses(before, aligned, after, float(-(share * share.log()).sum()))


@torch.no_grad()
def batch_invariance(subject: Subject) -> Verdict:
    """A row has the same logits alone, padded, and beside a longer row."""
    name, policy = "batch invariance", subject.policy.eval()
    short, long = _two_rows(subject)
    hide = torch.zeros(len(short), dtype=torch.bool)
    hide[-max(len(short) // 3, 1) :] = True
    words = torch.tensor(short).masked_fill(hide, policy.mask_id)
    alone_SV = _logits(subject, [words], [hide], 0, left=True)
    wide = len(long) - len(short)
    other = (torch.tensor(long), torch.zeros(len(long), dtype=torch.bool))
    cases = {
        "padded on the left": _logits(subject, [words], [hide], 3, left=True),
        "behind a longer row": _logits(subject, [other[0], words], [other[1], hide], 0, left=True),
        "before a longer row": _logits(subject, [words, other[0]], [hide, other[1]], 0, left=True),
    }
    if subject.full:
        cases["padded on the right"] = _logits(subject, [words], [hide], wide, left=False)
    limit = TOLERANCE[subject.dtype] * max(1.0, float(alone_SV.abs().max()))
    top_S2 = alone_SV.topk(2).values
    sure_S = top_S2[:, 0] - top_S2[:, 1] > 2 * limit
    worst = 0.0
    for how, found_SV in cases.items():
        gap = float((found_SV - alone_SV).abs().max())
        moved = bool((found_SV.argmax(-1) != alone_SV.argmax(-1))[sure_S].any())
        if not gap <= limit or moved:
            return Verdict(
                name, "failed",
                f"a row's logits differ by {gap:.2g} when it is {how}"
                + (", and so do its likeliest tokens" if moved else "")
                + f"; rounding explains {limit:.2g}",
                "the network must read attention_mask as a mask of keys and count positions over "
                "real tokens",
            )  # fmt: skip
        worst = max(worst, gap)
    return Verdict(
        name, "ok", f"logits alone, padded and beside a longer row differ by {worst:.2g} at most"
    )


def _two_rows(subject: Subject) -> tuple[list[int], list[int]]:
    """A short row, and one that is longer by at least a token."""
    canvas: Canvas = min(subject.canvases, key=lambda each: len(each.prompt))
    room = subject.codec.max_length
    short = [*canvas.prompt, *(canvas.answer[:SLOTS] or [subject.codec.filler])]
    extra = 1 + len(canvas.prompt) // 2
    if room is not None:
        short = short[: max(room - 3, 1)]  # padding counts in the longest sequence
        extra = max(min(extra, room - len(short)), 1)
    return short, [*canvas.prompt[:extra], *short]


def _logits(
    subject: Subject, words: list[Tensor], hidden: list[Tensor], padding: int, *, left: bool
) -> Tensor:
    """Logits at the hidden slots of rows that are padded to one width, in order of the rows."""
    width = max(map(len, words)) + padding
    tokens_BL = torch.full((len(words), width), subject.codec.filler)
    attend_BL = torch.zeros(len(words), width, dtype=torch.bool)
    at_BL = torch.zeros_like(attend_BL)
    for row, (ids, hide) in enumerate(zip(words, hidden, strict=True)):
        span = slice(width - len(ids), width) if left else slice(0, len(ids))
        tokens_BL[row, span], at_BL[row, span] = ids, hide
        attend_BL[row, span] = True
    device = subject.device
    out = subject.policy(tokens_BL.to(device), attend_BL.to(device), logits_at=at_BL.to(device))
    return out.logits.to(torch.promote_types(out.logits.dtype, torch.float32)).cpu()
