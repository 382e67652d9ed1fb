"""Golden cases of family C: log-probs, entropies and guesses of a tiny model under fixed masks."""

from dataclasses import replace

import pytest
import torch

from dllmzoo import load_model
from dllmzoo.scoring import score, score_and_guess
from dllmzoo.zoo import LIKELIHOODS, SELECTORS
from tests.golden.case import Case, handles
from tests.golden.tables import KEY, reveal_of, rollout_of


@handles("C.token_logps_all_masked")
def check_token_logps(case: Case) -> None:
    """The plan is that of `mean_field`; the case says which prompt slots are hidden."""
    if case.params["cfg_scale"] > 0:
        pytest.skip("guided log-probs come with a later release")
    policy = load_model(case.checkpoint, dtype="float32").eval()
    N = case.params["completion_length"]
    rollout = rollout_of(case["in.input_ids"], canvas=N)
    views = LIKELIHOODS.get("mean_field")(prompt_noise=0.15).plan(rollout, None, KEY, 1)
    for hide_BL, expected_BN in zip(case["in.masks"], case["out.token_logps"], strict=True):
        assert (hide_BL | ~rollout.answer_BL).all(), "an answer slot is not hidden"
        fixed = replace(views, hide_BKL=hide_BL.unsqueeze(1))
        logprob_BKL = score(policy, rollout, fixed, micro_batch=2).logprob_BKL
        case.close(logprob_BKL[:, 0, -N:], expected_BN, what="log-probs")


@handles("C.egspo")
def check_egspo(case: Case) -> None:
    policy = load_model(case.checkpoint, dtype="float32").eval()
    trajectory_BTL, N = case["in.trajectory"], case.params["completion_length"]
    T = trajectory_BTL.shape[1] - 1
    rollout = rollout_of(
        trajectory_BTL[:, -1], canvas=N, reveal_BN=reveal_of(trajectory_BTL, N), num_steps=T
    )
    steps = SELECTORS.get("all")()(rollout, KEY)
    likelihood = LIKELIHOODS.get("denoising_steps")(temperature=1.0)
    views = likelihood.plan(rollout, steps, KEY, 1)
    mask_id = case.params["mask_token_id"]
    states_BTL = rollout.tokens_BL.unsqueeze(1).masked_fill(views.hide_BKL, mask_id)
    assert torch.equal(states_BTL, trajectory_BTL[:, :-1]), "the states are not rebuilt"

    scores = score_and_guess(policy, rollout, views, steps, micro_batch=3, guesses=1, key=KEY)
    c = case.params["tokens_per_step"]
    token_BTC = scores.logprob_BKL[views.score_BKL].view(-1, T, c)
    case.close(token_BTC, case["out.token_logps"], what="log-probs")
    advantage_BU = torch.zeros_like(views.size_BU)
    total_BT = likelihood.pool(scores.logprob_BKL, views, rollout, advantage_BU).score_BU
    case.close(total_BT, case["out.step_logp_sum"], what="step sums")
    case.close(total_BT / views.size_BU, case["out.step_logp_mean"], what="step means")
    assert torch.equal(scores.guess_BKL[..., -N:], case["out.greedy_previews"][:, :T])
    assert torch.equal(rollout.tokens_BL[:, -N:], case["out.greedy_previews"][:, T])
    check_top_steps(case, policy, rollout, views)


def check_top_steps(case: Case, policy, rollout, views) -> None:
    """Entropies of the committed slots, computed from the model's logits of every state."""
    entropy_BL = torch.zeros(rollout.tokens_BL.shape)
    for k in range(views.hide_BKL.shape[1]):
        state_BL = case["in.trajectory"][:, k]
        with torch.no_grad():
            prob_BLV = policy(input_ids=state_BL).logits.float().softmax(-1)
        entropy_BL += torch.special.entr(prob_BLV).sum(-1) * views.score_BKL[:, k]
    measured = replace(rollout, entropy_BL=entropy_BL)
    expected_BTC = case["out.token_entropies"]
    slots_BTL = views.score_BKL
    found_BTC = entropy_BL.unsqueeze(1).expand(slots_BTL.shape)[slots_BTL].view_as(expected_BTC)
    case.close(found_BTC, expected_BTC, what="token entropies")
    case.close(found_BTC.mean(2), case["out.step_entropy_mean"], what="step entropies")
    steps = SELECTORS.get("entropy")(steps=case.params["K"])(measured, KEY)
    assert torch.equal(steps.start_BK, case["out.top_steps"])
