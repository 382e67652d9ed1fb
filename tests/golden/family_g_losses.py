"""Golden cases of family G for methods whose news is the weight of an answer: wd1."""

from dataclasses import replace

from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES
from tests.golden.case import Case
from tests.golden.family_g import CHECKS, check_update
from tests.golden.tables import KEY, rewards_of, rollout_of


def check_wd1(case: Case) -> None:
    N = case.params["completion_length"]
    rollout = rollout_of(case["in.input_ids"], canvas=N, valid_BN=case["in.completion_mask"])
    likelihood = LIKELIHOODS.get("mean_field")(unit="sequence")
    views = likelihood.plan(rollout, None, KEY, 1)
    views = replace(views, hide_BKL=case["in.masks"].unsqueeze(1))
    centred = ADVANTAGES.get("group_relative")()
    rewards = rewards_of(case["in.rewards"])
    centred_BA = centred(rewards, None, None, rollout, 0)
    case.close(centred_BA.squeeze(1), case["in.advantages"], what="advantages")
    weight_BA = ADVANTAGES.get("wd1")()(rewards, None, None, rollout, 0)
    loss = LOSSES.get("policy_gradient")(normaliser="group")
    check_update(case, rollout, views, likelihood, loss, weight_BA, lambda whose: None)


CHECKS["wd1"] = check_wd1
