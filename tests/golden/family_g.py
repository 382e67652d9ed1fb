"""Golden cases of family G: loss and gradient of every parameter of a tiny model, end to end."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dllmzoo import load_model
from dllmzoo.records import Estimate, Rollout, Steps, Units, Views
from dllmzoo.scoring import replay, score
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES
from tests.golden.case import Case, handles
from tests.golden.tables import KEY, reveal_of, rewards_of, rollout_of


@handles("G.end_to_end")
def check_end_to_end(case: Case) -> None:
    method = case.params["method"]
    if method not in CHECKS:
        pytest.skip(f"the parts of {method} come with a later release")
    CHECKS[method](case)


def check_diffu_grpo(case: Case) -> None:
    N, epsilon = case.params["completion_length"], case.params["epsilon"]
    loss = LOSSES.get("grpo")(
        clip_low=epsilon,
        clip_high=epsilon,
        kl="k3",
        kl_coef=case.params["beta"],
        normaliser="token",
    )
    rollout = rollout_of(case["in.input_ids"], canvas=N, valid_BN=case["in.completion_mask"])
    likelihood = LIKELIHOODS.get("diffu_grpo")()
    views = likelihood.plan(rollout, None, KEY, 1)
    views = replace(views, hide_BKL=case["in.masks"].unsqueeze(1))
    advantage = ADVANTAGES.get("group_relative")()
    advantage_BA = advantage(rewards_of(case["in.rewards"]), None, None, rollout, 0)
    case.close(advantage_BA.squeeze(1), case["in.advantages"], what="advantages")

    def anchor(whose: str) -> Estimate:
        before = torch.zeros(len(rollout.tokens_BL), rollout.tokens_BL.shape[1] - N)
        logprob_BL = torch.cat([before, case[f"in.{whose}_logps"]], dim=1)
        return likelihood.pool(logprob_BL.unsqueeze(1), views, rollout, advantage_BA)

    check_update(case, rollout, views, likelihood, loss, advantage_BA, anchor)


def check_egspo_sa(case: Case) -> None:
    params, N = case.params, case.params["completion_length"]
    loss = LOSSES.get("clipped_surrogate")(
        clip_low=params["epsilon_low"],
        clip_high=params["epsilon_high"],
        kl="k3",
        kl_coef=params["beta"],
        normaliser="step" if params["aggregation"] == "sum" else "unit",
        length_norm="none" if params["aggregation"] == "sum" else "token",
    )
    trajectory_BTL = case["in.trajectory"]
    rollout = rollout_of(
        trajectory_BTL[:, -1],
        canvas=N,
        reveal_BN=reveal_of(trajectory_BTL, N),
        num_steps=trajectory_BTL.shape[1] - 1,
    )
    start_BK = case["in.steps"]
    steps = Steps(start_BK, start_BK + 1, torch.ones(start_BK.shape))
    likelihood = LIKELIHOODS.get("denoising_steps")(temperature=1.0)
    views = likelihood.plan(rollout, steps, KEY, 1)
    advantage = ADVANTAGES.get("stepwise_one_shot")(
        weight=params["lambda"], normalise=params["normalize_returns"]
    )
    previews = rewards_of(case["in.step_rewards"])
    advantage_BA = advantage(rewards_of(case["in.rewards"]), previews, steps, rollout, 0)
    case.close(advantage_BA, case["out.advantages"], what="advantages")
    size_BU = views.size_BU if params["aggregation"] == "mean" else 1.0

    def anchor(whose: str) -> Estimate:
        total_BU = case[f"in.{whose}_step_logps"] * size_BU
        return Estimate(total_BU, total_BU)

    new = check_update(case, rollout, views, likelihood, loss, advantage_BA, anchor)
    case.close(new.score_BU.detach() / size_BU, case["mid.step_logps"], what="step log-probs")
    facts = Units.of(views, rollout)
    for k, expected in enumerate(case["out.loss_per_step_rank"]):
        live_BU = facts.live_BU & (torch.arange(start_BK.shape[1]) == k)
        column = replace(facts, live_BU=live_BU, totals={**facts.totals, "units": live_BU.sum()})
        value, _ = loss(new, anchor("old"), anchor("ref"), views.credit(advantage_BA), column)
        case.close(value.detach(), expected, what=f"loss of rank {k}")


CHECKS: dict[str, Callable[[Case], None]] = {
    "diffu-GRPO": check_diffu_grpo,
    "EGSPO-SA": check_egspo_sa,
}


def check_update(
    case: Case,
    rollout: Rollout,
    views: Views,
    likelihood,
    loss,
    advantage_BA: Tensor,
    anchor: Callable[[str], Estimate],
) -> Estimate:
    """One update without the optimiser: score, leaf, pool, loss, replay; returns the estimate."""
    policy = load_model(case.checkpoint, dtype="float32").train()
    leaf_BKL = score(policy, rollout, views, micro_batch=3).logprob_BKL.requires_grad_()
    advantage_BU = views.credit(advantage_BA)
    new = likelihood.pool(leaf_BKL, views, rollout, advantage_BU)
    value, _ = loss(new, anchor("old"), anchor("ref"), advantage_BU, Units.of(views, rollout))
    case.close(value.detach(), case["out.loss"], what="loss")
    (grad_BKL,) = torch.autograd.grad(value, leaf_BKL, retain_graph=True)
    replay(policy, rollout, views, grad_BKL, micro_batch=5)
    found = {name: parameter.grad for name, parameter in policy.named_parameters()}
    expected = case.data["grad_norms"]
    assert set(found) == set(expected), set(found) ^ set(expected)
    for name, norm in expected.items():
        case.close(found[name].norm(), torch.tensor(norm), what=f"gradient norm of {name}")
    return new
