"""Golden cases of SPG and StableDRL: bounds under fixed masks, their pooling, and whole updates."""

import torch
from torch import Tensor

from dllmzoo import load_model
from dllmzoo.likelihoods._bounds import bound_views
from dllmzoo.records import Estimate, Rollout, Views
from dllmzoo.scoring import score
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES
from tests.golden.case import Case, handles
from tests.golden.family_g import CHECKS, check_update
from tests.golden.tables import KEY, rewards_of, rollout_of


def masked(case: Case, canvas: int) -> tuple[Rollout, Views]:
    """The case's answers and its masks as views; what is hidden and valid is scored."""
    rollout = rollout_of(case["in.input_ids"], canvas=canvas, valid_BN=case["in.completion_mask"])
    hide_BKL = case["in.masks"]
    score_BKL = hide_BKL & rollout.valid_BL.unsqueeze(1)
    return rollout, bound_views(hide_BKL, score_BKL, rollout, 1.0)


def per_token(part, logprob_BKL: Tensor, views: Views, rollout: Rollout, sign: float) -> Tensor:
    """Score of each answer for an advantage of that sign, divided by its valid tokens, (B,)."""
    advantage_BU = torch.full_like(views.size_BU, sign)
    score_BU = part.pool(logprob_BKL, views, rollout, advantage_BU).score_BU
    return (score_BU / views.size_BU).squeeze(1)


def sandwich(**options):
    return LIKELIHOODS.get("spg")(**options)


def check_bounds(case: Case, logprob_BKL: Tensor, views: Views, rollout: Rollout) -> None:
    """Every bound the case names; `exact_` values where it has them."""
    for key in case.tensors:
        kind, _, rest = key.removeprefix("out.").removeprefix("exact_").partition("_beta")
        better = "out.exact_" + key.removeprefix("out.")
        if not key.startswith("out.") or better in case.tensors:
            continue
        exponent, _, weight = rest.partition("_w")
        if kind == "elbo":
            parts = (sandwich(), 1.0), (sandwich(negative="lower"), -1.0)
        elif kind == "eubo":
            b = float(exponent)
            upper = LIKELIHOODS.get("eubo")(exponent=b)
            parts = (sandwich(negative="upper", exponent=b), -1.0), (upper, 1.0), (upper, -1.0)
        else:
            omega = float(weight or case.params.get("mix_weight", 0.5))
            parts = ((sandwich(exponent=float(exponent), omega=omega), -1.0),)
        expected = case[key]
        upper = case.tensors.get(f"out.exact_eubo_beta{exponent}")
        if kind == "mix" and upper is not None:  # the released mixture has the released bound
            expected = omega * upper + (1 - omega) * case["out.exact_elbo"]
        for part, sign in parts:
            found = per_token(part, logprob_BKL, views, rollout, sign)
            case.close(found, expected, what=f"{key} of {part}")


@handles("C.sandwich")
def check_sandwich(case: Case) -> None:
    params = case.params
    N = params["completion_length"]
    rollout, views = masked(case, N)
    policy = load_model(case.checkpoint, dtype="float32").eval()
    logprob_BKL = score(policy, rollout, views, micro_batch=4).logprob_BKL
    scored_BKN = views.score_BKL[..., -N:]
    case.close(
        logprob_BKL[..., -N:][scored_BKN], case["mid.token_logps"][scored_BKN], what="log-probs"
    )
    check_bounds(case, logprob_BKL, views, rollout)
    check_law(case, rollout, views)


def check_law(case: Case, rollout: Rollout, views: Views) -> None:
    """The case's masks and ours hide what every law hides, and score by one rule."""
    params = case.params
    part = sandwich(
        masks=params["forward_type"], views=params["num_views"],
        block_length=params["block_length"], block_choice="permutation_mod",
        prefix_noise=0.15 if params["mask_prompt"] else 0.0,
    )  # fmt: skip
    ours = part.plan(rollout, None, KEY, 1)
    assert ours.hide_BKL.shape == views.hide_BKL.shape
    after_BKL = (rollout.answer_BL & ~rollout.valid_BL).unsqueeze(1)
    for each in (ours, views):
        assert not (after_BKL & ~each.hide_BKL).any(), "a slot behind the end is in sight"
        assert torch.equal(each.score_BKL, each.hide_BKL & rollout.valid_BL.unsqueeze(1))


@handles("C.sandwich_pool")
def check_sandwich_pool(case: Case) -> None:
    """Pooling alone: log-probs are given, some views score nothing."""
    valid_BN = case["in.completion_mask"].bool()
    N = valid_BN.shape[1]
    rollout = rollout_of(torch.zeros(valid_BN.shape), canvas=N, valid_BN=valid_BN)
    hide_BKL = case["in.masks"]
    views = bound_views(hide_BKL, hide_BKL & valid_BN.unsqueeze(1), rollout, 1.0)
    logprob_BKL = torch.where(views.score_BKL, case["in.token_logps"], 0).double()
    check_bounds(case, logprob_BKL, views, rollout)
    check_bounds(case, logprob_BKL.float(), views, rollout)


def check_spg(case: Case) -> None:
    loss = LOSSES.get("policy_gradient")(normaliser="token")
    check_whole_update(case, loss)


def check_stable_drl(case: Case) -> None:
    loss = LOSSES.get("stable_drl")(clip_low=None, clip_high=case.params["cap"] - 1)
    check_whole_update(case, loss)


def check_whole_update(case: Case, loss) -> None:
    params, N = case.params, case.params["completion_length"]
    rollout, views = masked(case, N)
    likelihood = sandwich(
        views=params["views"], exponent=params["eubo_beta"], omega=params["mix_weight"]
    )
    rewards = rewards_of(case["in.rewards"])
    advantage_BA = ADVANTAGES.get("group_relative")()(rewards, None, None, rollout, 0)
    case.close(advantage_BA.squeeze(1), case["in.advantages"], what="advantages")

    def anchor(whose: str) -> Estimate | None:
        if whose != "old":
            return None
        total_BU = case["in.old_elbo"].unsqueeze(1) * views.size_BU
        return Estimate(total_BU, total_BU)

    new = check_update(case, rollout, views, likelihood, loss, advantage_BA, anchor)
    elbo_B = (new.ratio_BU.detach() / views.size_BU).squeeze(1)
    case.close(elbo_B, case["mid.elbo"], what="lower bound")


CHECKS["spg"] = check_spg
CHECKS["stabledrl"] = check_stable_drl
