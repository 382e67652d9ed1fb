"""Expected updates of a policy small enough to enumerate, through the real components."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws import inputs, toy
from dllmzoo.records import Rollout, Units
from dllmzoo.zoo import LIKELIHOODS, LOSSES

KEY = inputs.Case(0).key("select")


def rewards_of(seed: int, slots: int = 3) -> Tensor:
    """A reward for each answer, in quarters so that float32 means of two are exact."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 9, (2**slots,), generator=generator).double() / 4


def with_entropies(policy: toy.TableDenoiser, rollout: Rollout) -> Rollout:
    """The rollout with the policy's own entropies: of each step's commits, and of each state."""
    T, n = rollout.num_steps, policy.slots
    entropy_BL = torch.zeros(rollout.entropy_BL.shape)
    block_entropy_BT = torch.zeros(len(entropy_BL), T)
    for step in range(T):
        step_B1 = torch.full((len(entropy_BL), 1), step)
        hidden_BL = rollout.hidden_before(step_B1)[:, 0]
        state_BL = rollout.tokens_BL.masked_fill(hidden_BL, policy.mask_id)
        prob_BLV = policy(state_BL).logits.detach().softmax(-1)
        found_BL = torch.special.entr(prob_BLV).sum(-1).float()
        entropy_BL = torch.where(rollout.reveal_BL == step, found_BL, entropy_BL)
        block_entropy_BT[:, step] = (found_BL * hidden_BL).sum(1) / hidden_BL.sum(1).clamp(min=1)
    assert entropy_BL[:, :-n].abs().sum() == 0
    return replace(rollout, entropy_BL=entropy_BL, block_entropy_BT=block_entropy_BT)


def expected_update(
    policy: toy.TableDenoiser, reward_X: Tensor, selector: Any, advantage: Any,
    counts: Sequence[int] = (1, 1, 1), group_size: int = 2, loss: Any = None,
) -> Tensor:  # fmt: skip
    """Expected ascent direction in the table, over every group of `group_size` trajectories.

    The loss is asked for one group at a time: its gradient at the log-probs, weighed with the
    group's probability, is played back. `group` sums over the samples of a group; / G is the mean.
    """
    loss = LOSSES.get("policy_gradient")(normaliser="group") if loss is None else loss
    rollout = with_entropies(policy, toy.trajectories(counts, repeat=group_size))
    steps = selector(rollout, KEY)
    likelihood = LIKELIHOODS.get("denoising_steps")()
    views = likelihood.plan(rollout, steps, KEY, 1)
    final_B = reward_X[toy.index_of(rollout.tokens_BL[:, -policy.slots :])]
    previews = None
    if advantage.needs_previews:
        guess_BT = reward_X[toy.index_of(toy.guesses(policy, rollout))]
        guess_BK = guess_BT.gather(1, steps.start_BK.clamp(max=rollout.num_steps - 1))
        previews = inputs.rewards(guess_BK.flatten())
    advantage_BA = advantage(inputs.rewards(final_B), previews, steps, rollout, 0)
    advantage_BU = views.credit(advantage_BA)

    logprob_BKL = toy.logprobs(policy, rollout, views)
    leaf_BKL = logprob_BKL.detach().requires_grad_()
    new = likelihood.pool(leaf_BKL, views, rollout, advantage_BU)
    old = likelihood.pool(leaf_BKL.detach(), views, rollout, advantage_BU)
    facts = Units.of(views, rollout, advantage_BU=advantage_BU)
    scalar, _ = loss(new, old, None, advantage_BU, facts)
    (grad_BKL,) = torch.autograd.grad(scalar, leaf_BKL)

    prob_B = toy.probability(policy, rollout, counts).detach()
    group_prob_P = prob_B.view(-1, group_size).prod(1)
    worth_B = group_prob_P.repeat_interleave(group_size) * facts.totals["groups"] / group_size
    total = (worth_B.view(-1, 1, 1) * grad_BKL * logprob_BKL).sum()
    return -torch.autograd.grad(total, policy.table)[0]
