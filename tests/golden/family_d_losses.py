"""Golden cases of family D: variants of the token loss, wd1, SPG, ESPO, coupled-GRPO."""

import torch

from dllmzoo.records import Estimate
from dllmzoo.zoo import ADVANTAGES, LOSSES
from tests.golden.case import Case, handles
from tests.golden.family_d import check_token_loss, sequence_units
from tests.golden.tables import rewards_of, rollout_of

NORMALISERS = {
    "grpo": "sequence", "bnpo": "token", "dapo": "token", "cispo": "token", "dr_grpo": "fixed",
    "luspo": "fixed",
}  # fmt: skip
"""Name of a loss of this family -> what its sum is divided by."""


@handles("D.policy_loss_variants")
def check_policy_loss_variants(case: Case) -> None:
    kind, params = case.params["loss_type"], case.params
    whole = params["importance_sampling_level"] == "sequence"
    common = {
        "normaliser": NORMALISERS[kind],
        "ratio_level": "sequence" if whole else "unit",
        "length_norm": "token",
        "kl": "k3",
        "kl_coef": params["beta"],
    }
    if kind == "cispo":
        loss = LOSSES.get("cispo")(cap=params["epsilon_high"], **common)
    else:
        loss = LOSSES.get("clipped_surrogate")(
            clip_low=params["epsilon_low"], clip_high=params["epsilon_high"], **common
        )
    canvas = params["max_completion_length"]
    totals = {"scored": params["num_items_in_batch"]} if kind in ("dapo", "cispo") else {}
    if kind == "luspo":  # ours is divided by N

        def times_canvas(*given):
            value, metrics = loss(*given)
            return canvas * value, metrics

        check_token_loss(case, times_canvas, canvas=canvas)
    else:
        check_token_loss(case, loss, canvas=canvas, totals=totals)


@handles("D.coupled_grpo")
def check_coupled_grpo(case: Case) -> None:
    """The token values stand for log-probs."""
    params = case.params
    loss = LOSSES.get("grpo")(
        clip_low=params["epsilon_low"],
        clip_high=params["epsilon_high"],
        kl="k3",
        kl_coef=params["beta"],
        normaliser="token",
    )
    canvas = case["in.token_value"].shape[1]
    check_token_loss(case, loss, canvas=canvas, name="token_value")


@handles("D.wd1")
def check_wd1(case: Case) -> None:
    leaf, valid_BN = case["in.logps"].clone().requires_grad_(), case["in.completion_mask"].bool()
    B, N = leaf.shape
    rollout = rollout_of(torch.zeros(B, N), canvas=N, group_size=case.params["group_size"])
    # a constant does not matter to a softmax, so the given advantages do as rewards
    given = rewards_of(case["in.advantages"])
    for positive_only, weight in (
        (False, case["out.weight_pos"] - case["out.weight_neg"]),
        (True, case["out.weight_pos"]),
    ):
        advantage = ADVANTAGES.get("wd1")(positive_only=positive_only)
        advantage_BA = advantage(given, None, None, rollout, 0)
        case.close(advantage_BA.squeeze(1), weight, what="weights")
    advantage_BA = ADVANTAGES.get("wd1")()(given, None, None, rollout, 0)

    total_B1 = torch.where(valid_BN, leaf, 0).sum(1, keepdim=True)
    units = sequence_units(valid_BN.sum(1), case.params["group_size"])
    loss = LOSSES.get("policy_gradient")(normaliser="group")
    value, _ = loss(Estimate(total_B1, total_B1), None, None, advantage_BA, units)
    value.backward()
    case.close(value.detach(), case["out.loss"], what="loss")
    case.close(leaf.grad, case["out.grad_logps"], what="gradient")


@handles("D.spg")
def check_spg(case: Case) -> None:
    size_B = case["in.completion_mask"].sum(1)
    bound = case["in.bound"].clone().requires_grad_()
    total_B1 = (bound * size_B).unsqueeze(1)
    loss = LOSSES.get("policy_gradient")(normaliser="token")
    value, _ = loss(
        Estimate(total_B1, total_B1), None, None, case["in.advantages"].unsqueeze(1),
        sequence_units(size_B),
    )  # fmt: skip
    value.backward()
    case.close(value.detach(), case["out.loss"], what="loss")
    case.close(bound.grad, case["out.grad_bound"], what="gradient")


@handles("D.espo")
def check_espo(case: Case) -> None:
    params, N = case.params, case.params["completion_length"]
    loss = LOSSES.get("clipped_surrogate")(
        clip_low=params["epsilon_low"],
        clip_high=params["epsilon_high"],
        length_norm="canvas",
        normaliser="sequence",
        kl=params["kl"],
        kl_coef=params["beta"],
        kl_gradient="score" if params["kl"] == "k1" else "value",
        kl_length_norm="none",
        kl_normaliser="fixed",
    )
    leaf = case["in.elbo"].clone().requires_grad_()
    new_B1, old_B1, ref_B1 = (
        value_B.unsqueeze(1) for value_B in (leaf, case["in.old_elbo"], case["in.ref_elbo"])
    )
    value, metrics = loss(
        Estimate(new_B1, new_B1),
        Estimate(old_B1, old_B1),
        Estimate(ref_B1, ref_B1),
        case["in.advantages"].unsqueeze(1),
        sequence_units(torch.full((len(leaf),), N)),
    )
    value.backward()
    case.close(value.detach(), case["out.loss"], what="loss")
    case.close(leaf.grad, case["out.grad_elbo"], what="gradient")
    if "kl" in params.get("metrics", {}):
        case.close(metrics["kl"].mean() / N, torch.tensor(params["metrics"]["kl"]), what="KL")
