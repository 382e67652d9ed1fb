"""Golden cases of family C about masks: ESPO, coupled-GRPO, LLaDA's Monte-Carlo likelihood.

The given masks are never put into a plan: the plan draws them, from numbers that are written down.
"""

import json
import math

import pytest
import torch
from torch import Tensor

from dllmzoo import load_model
from dllmzoo.records import Estimate, Rollout
from dllmzoo.scoring import score
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES, MODELS
from tests.golden.case import Case, handles
from tests.golden.family_g import CHECKS, check_update
from tests.golden.tables import rewards_of, rollout_of
from tests.scripted import Scripted, hiding, ranking, script


def model_of(case: Case):
    """The case's network; a family that is not built yet skips the case."""
    family = json.loads((case.checkpoint / "config.json").read_text())["model_type"].lower()
    if family not in MODELS.names():
        pytest.skip(f"models of family {family} come with a later release")
    return load_model(case.checkpoint, dtype="float32").eval()


def on_canvas(mask_BN: Tensor, rollout: Rollout) -> Tensor:
    """A mask of answer slots, behind the prompt."""
    prompt = rollout.tokens_BL.shape[1] - mask_BN.shape[1]
    return torch.nn.functional.pad(mask_BN, (prompt, 0))


def pooled(case: Case, likelihood, rollout: Rollout, key: Scripted, policy) -> Tensor:
    """score_BU of the plan that the key leads to."""
    views = likelihood.plan(rollout, None, key, 1)
    logprob_BKL = score(policy, rollout, views, micro_batch=5).logprob_BKL
    return likelihood.pool(logprob_BKL, views, rollout, torch.ones_like(views.size_BU)).score_BU


def coupled_key(masks_DBN: Tensor, rollout: Rollout) -> Scripted:
    """Leads `coupled` to the given masks: their sizes and which slots they take."""
    numbers = {}
    for d, mask_BN in enumerate(masks_DBN):
        numbers[f"draw{d}"] = ranking(on_canvas(mask_BN, rollout))
        numbers[f"draw{d}__place"] = mask_BN.sum(1).double() / (mask_BN.shape[1] + 1)
    return script(**numbers)


@handles("C.espo_elbo")
def check_espo_elbo(case: Case) -> None:
    policy, N = model_of(case), case.params["completion_length"]
    rollout = rollout_of(case["in.input_ids"], canvas=N)
    masks_DBN = case["in.masks"]
    settings = {"form": "elbo", "over": "canvas", "stratified": False}
    coupled = LIKELIHOODS.get("coupled")
    whole = coupled(draws=case.params["draws"], **settings)
    key = coupled_key(masks_DBN, rollout)
    planned = whole.plan(rollout, None, key, 1).hide_BKL[:, ::2, -N:]
    assert torch.equal(planned.transpose(0, 1), masks_DBN), "the masks are not those of the case"
    found_B = pooled(case, whole, rollout, key, policy).squeeze(1)
    case.close(found_B, case["out.elbo"], what="mean over draws")
    for d, mask_BN in enumerate(masks_DBN):
        key = coupled_key(mask_BN.unsqueeze(0), rollout)
        found_B = pooled(case, coupled(**settings), rollout, key, policy).squeeze(1)
        case.close(found_B, case["out.elbo_per_draw"][d], what=f"draw {d}")
        single = LIKELIHOODS.get("elbo")(views=1, weight="plus_one")
        place_B = (mask_BN.sum(1) + 0.5) / (N + 1)
        key = script(size=place_B, view0=ranking(on_canvas(mask_BN, rollout)))
        found_B = pooled(case, single, rollout, key, policy).squeeze(1)
        case.close(found_B, case["out.elbo_per_draw_not_coupled"][d], what=f"draw {d}, no twin")


@handles("C.espo_counts")
def check_espo_counts(case: Case) -> None:
    """A draw that is a whole number of slots is rounded as released, ties to the even count."""
    for batch, N, first, expected in case.data["rows"]:
        rollout = rollout_of(torch.zeros(batch, N + 1), canvas=N)
        likelihood = LIKELIHOODS.get("espo")(form="elbo", over="canvas", strata=batch)
        order_BL = torch.arange(N + 1.0).expand(batch, -1) / (N + 1)
        place_B = torch.full((batch,), place_of(first, N + 1), dtype=torch.float64)
        key = script(draw0=order_BL, draw0__place=place_B)
        views = likelihood.plan(rollout, None, key, 1)
        assert views.score_BKL[:, 0].sum(1).tolist() == expected, (batch, N, first)
        assert views.score_BKL[:, 1].sum(1).tolist() == [N - count for count in expected]


def place_of(number: int, circle: int) -> float:
    """A place in [0, 1) that is exactly `number` on a circle of the given length."""
    near = number / circle
    places = (near, math.nextafter(near, 1.0), math.nextafter(near, 0.0))
    return next(place for place in places if place * circle == number)


@handles("C.coupled_token_value")
def check_coupled_token_value(case: Case) -> None:
    policy, N, t = model_of(case), case.params["completion_length"], float(case["in.mask_ratio"])
    rollout = rollout_of(case["in.input_ids"], canvas=N)
    likelihood = LIKELIHOODS.get("coupled_grpo")(low=t, high=t, over="canvas")
    mask_BL = on_canvas(case["in.mask"], rollout)
    key = script(draw0=hiding(mask_BL), draw0__place=torch.zeros(len(mask_BL)))
    views = likelihood.plan(rollout, None, key, 1)
    assert torch.equal(views.hide_BKL[:, 1], mask_BL), "the mask is not that of the case"
    weight_K = 2 * views.weight_BKL.amax((0, 2))
    case.close(weight_K, torch.tensor(case.params["weights"]), what="weights")
    logprob_BKL = score(policy, rollout, views, micro_batch=4).logprob_BKL
    scored_KBN = views.score_BKL[..., -N:].transpose(0, 1)
    found_KBN = logprob_BKL[..., -N:].transpose(0, 1)
    case.close(found_KBN[scored_KBN], case["mid.view_logps"][scored_KBN], what="log-probs")
    value_BL = pooled(case, likelihood, rollout, key, policy)
    case.close(value_BL[:, -N:], case["out.token_value"], what="token values")


@handles("C.llada_loglik")
def check_llada_loglik(case: Case) -> None:
    if case.params["cfg_scale"] > 0:
        pytest.skip("guided log-probs come with a later release")
    policy, N, masks_KN = model_of(case), case.params["answer_length"], case["in.masks"]
    rollout = rollout_of(case["in.input_ids"][:1], canvas=N)
    likelihood = LIKELIHOODS.get("elbo")(views=len(masks_KN))
    numbers = {
        f"view{k}": ranking(on_canvas(mask_N.unsqueeze(0), rollout))
        for k, mask_N in enumerate(masks_KN)
    }
    key = script(size=((masks_KN.sum(1) - 0.5) / N).unsqueeze(0), **numbers)
    planned_BKL = likelihood.plan(rollout, None, key, 1).hide_BKL
    assert torch.equal(planned_BKL[0, :, -N:], masks_KN), "the masks are not those of the case"
    found = pooled(case, likelihood, rollout, key, policy).squeeze()
    case.close(found, case["out.log_likelihood"], what="log-likelihood")


def check_espo(case: Case) -> None:
    """End to end: pairs of masks, ratio per canvas slot, k2 to the reference."""
    params, N = case.params, case.params["completion_length"]
    loss = LOSSES.get("clipped_surrogate")(
        clip_low=params["epsilon_low"],
        clip_high=params["epsilon_high"],
        kl=params["kl"],
        kl_coef=params["beta"],
        normaliser="sequence",
        length_norm="canvas",
        kl_normaliser="fixed",
        kl_length_norm="none",
    )
    rollout = rollout_of(case["in.input_ids"], canvas=N)
    likelihood = LIKELIHOODS.get("coupled")(
        form="elbo", draws=params["draws"], over="canvas", stratified=False
    )
    views = likelihood.plan(rollout, None, coupled_key(case["in.masks"], rollout), 1)
    advantage = ADVANTAGES.get("group_relative")()
    advantage_BA = advantage(rewards_of(case["in.rewards"]), None, None, rollout, 0)
    case.close(advantage_BA.squeeze(1), case["in.advantages"], what="advantages")

    def anchor(whose: str) -> Estimate:
        total_BU = case[f"in.{whose}_elbo"].unsqueeze(1)
        return Estimate(total_BU, total_BU)

    new = check_update(case, rollout, views, likelihood, loss, advantage_BA, anchor)
    case.close(new.score_BU.squeeze(1).detach(), case["mid.elbo"], what="ELBO")


CHECKS["ESPO"] = check_espo
