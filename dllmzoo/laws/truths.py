"""Laws of likelihoods that compare with exact numbers: of steps, of answers, of single blocks."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from dllmzoo.laws import inputs, toy, trajectories
from dllmzoo.laws.case import Case
from dllmzoo.laws.law import law, require, same
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.laws.planned import (
    Likelihood,
    Planned,
    at_temperature_one,
    mean_is,
    needs_blocks,
    plan,
    planned,
    some_rollout,
    suited,
    suited_plain,
)
from dllmzoo.records import Rollout
from dllmzoo.scoring import score


def _scores_a_trajectory(likelihood: Likelihood) -> str | None:
    return None if likelihood.uses_steps else "it does not follow the sampler's steps"


@law("likelihood", _scores_a_trajectory)
def each_slot_once(likelihood: Likelihood, case: Case) -> None:
    """If spans cover all steps, each valid committed slot is scored in one view, others in none."""
    rollout = some_rollout(likelihood, case)
    single = case.truth("single steps")
    steps = inputs.every_step(rollout) if single else trajectories.spans(rollout, case)
    done = plan(likelihood, rollout, steps, case)
    count_BL = done.views.score_BKL.sum(1)
    committed_BL = rollout.reveal_BL >= 0
    valid_BL = committed_BL & rollout.valid_BL
    require((count_BL[valid_BL] == 1).all(), f"times each slot is scored: {count_BL.tolist()}")
    require((count_BL <= committed_BL).all(), "a slot no step committed, or one twice, is scored")


@law("likelihood", _scores_a_trajectory)
def equals_enumeration(likelihood: Likelihood, case: Case) -> None:
    """Over all steps of a random order, the units add up to the trajectory's exact log-prob."""
    counts = case.among("counts", ((1, 1, 1), (2, 1), (1, 0, 2), (3,)))
    rollout = suited(likelihood, toy.trajectories(counts), case, remask=False, words=1)
    policy = _policy(likelihood, rollout, case)
    done = plan(at_temperature_one(likelihood), rollout, inputs.every_step(rollout), case)
    found = _pooled(likelihood, policy, done)
    total_B = torch.where(done.views.live_BU, found, 0).sum(1)
    same(total_B, toy.chain_logprob(policy, rollout), f"log-prob of steps {counts}", 1e-6)


@law("likelihood", _scores_a_trajectory)
def parents_share_a_state(likelihood: Likelihood, case: Case) -> None:
    """Units with one parent start from one state: the same is hidden, the same is shown."""
    rollout = trajectories.with_shared_steps(suited_plain(likelihood, case), case)
    rollout = suited(likelihood, rollout, case, remask=False)
    done = plan(likelihood, rollout, trajectories.spans(rollout, case), case)
    parent_BU, live_BU = done.views.parent_BU, done.views.live_BU
    if parent_BU is None:
        return
    b, u = live_BU.nonzero(as_tuple=True)
    states = torch.stack([_state_of(done, int(i), int(k)) for i, k in zip(b, u, strict=True)])
    states = torch.cat([rollout.group_B[b].unsqueeze(1), states], 1)
    for number in parent_BU[b, u].unique():
        found = states[parent_BU[b, u] == number].unique(dim=0)
        require(len(found) == 1, f"units of parent {int(number)} start from different states")


def _state_of(done: Planned, b: int, u: int) -> Tensor:
    """What a unit starts from, (L,): -1 where masked, 0 outside the answer.

    With two streams, that is its first block behind the clean ones, and nothing after it.
    """
    views, rollout = done.views, done.rollout
    fed_KL = views.score_BKL[b] & (views.unit_BKL[b] == u)
    slot = int(fed_KL.any(0).nonzero()[0])
    view = int(fed_KL[:, slot].nonzero()[0])
    shown_L = rollout.tokens_BL[b] if views.shown_BKL is None else views.shown_BKL[b, view]
    hide_L = views.hide_BKL[b, view]
    if views.layout == "dual_stream":
        block_L = rollout.block_BL[b]
        hide_L = (hide_L & (block_L == block_L[slot])) | (block_L > block_L[slot])
    return shown_L.masked_fill(hide_L, -1).masked_fill(~rollout.answer_BL[b], 0)


def _estimates_an_answer(likelihood: Likelihood) -> str | None:
    if likelihood.uses_steps:
        return "it scores the sampler's own steps, not the answer under random masks"
    return None


@law("likelihood", _estimates_an_answer)
def unbiased(likelihood: Likelihood, case: Case) -> None:
    """The mean over all masks is the exact ELBO of the answer, or that of its blocks in order."""
    tokens_N = case.integers("answer", 0, 1, 3)
    rollout = toy.answered(tokens_N, 200 + 100 * case.size)
    if needs_blocks(likelihood):
        rollout = replace(rollout, block_size=trajectories.some_block_size(case))
    policy = _policy(likelihood, rollout, case, scale=1.5)
    done = plan(at_temperature_one(likelihood), rollout, None, case)
    found = torch.where(done.views.live_BU, _pooled(likelihood, policy, done), 0)
    total_B = found.sum(1)
    if likelihood.unit == "view":
        total_B = total_B / found.shape[1]
    if isinstance(policy, toy.TableDenoiser):
        expected = toy.elbo(policy, tokens_N)
    else:
        own = done.views.context == "block_causal"
        context = None if own else done.views.context  # another clean stream than the network's
        expected = toy.chain_logprob(policy, toy.block_orders(rollout), context=context).mean()
    mean_is(total_B, expected.item(), f"log-prob of {tokens_N.tolist()}")


def _has_two_streams(likelihood: Likelihood) -> str | None:
    if not needs_blocks(likelihood):
        return "its views have one stream"
    if getattr(likelihood, "context", "block_causal") != "block_causal":
        return "its clean stream is not what the network makes of the answer alone"
    return None


@law("likelihood", _has_two_streams)
def one_pass_is_one_for_each_block(likelihood: Likelihood, case: Case) -> None:
    """A block's log-probs are those of a pass of its own, behind the finished blocks before it."""
    done = planned(likelihood, case)
    rollout, views = done.rollout, done.views
    policy = _policy(likelihood, rollout, case)
    found = score(policy, rollout, views, micro_batch=64).logprob_BKL
    shown_BKL = rollout.tokens_BL.unsqueeze(1).expand(views.hide_BKL.shape)
    shown_BKL = shown_BKL if views.shown_BKL is None else views.shown_BKL
    block_BKL = rollout.block_BL.unsqueeze(1)
    for block in range(int(block_BKL.max()) + 1):
        alone = replace(
            views, layout="full", hide_BKL=views.hide_BKL & (block_BKL == block),
            score_BKL=views.score_BKL & (block_BKL == block), shown_BKL=shown_BKL,
        )  # fmt: skip
        cut = replace(rollout, attend_BL=rollout.attend_BL & (rollout.block_BL <= block))
        expected = score(policy, cut, alone, micro_batch=64).logprob_BKL
        same(torch.where(alone.score_BKL, found, 0), expected, f"log-probs of block {block}", 1e-9)


def _policy(
    likelihood: Likelihood, rollout: Rollout, case: Case, scale: float = 1.0
) -> toy.TableDenoiser | ToyDenoiser:
    """A table of free logits, or a network with the rollout's blocks; float64."""
    if needs_blocks(likelihood):
        return ToyDenoiser(case.seed, rollout.block_size, dtype=torch.float64)
    return toy.TableDenoiser(seed=case.seed, scale=scale)


def _pooled(
    likelihood: Likelihood, policy: toy.TableDenoiser | ToyDenoiser, done: Planned
) -> Tensor:
    """Score of each unit, float64."""
    if isinstance(policy, toy.TableDenoiser):
        logprob_BKL = toy.logprobs(policy, done.rollout, done.views)
    else:
        logprob_BKL = score(policy, done.rollout, done.views, micro_batch=512).logprob_BKL
    return likelihood.pool(logprob_BKL, done.views, done.rollout, done.ones_BU()).score_BU.detach()
