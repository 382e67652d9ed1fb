"""Golden cases of family C on block models: log-probs of masked slots in one pass."""

from dataclasses import replace

import torch

from dllmzoo import load_model
from dllmzoo.scoring import score
from dllmzoo.zoo import LIKELIHOODS
from tests.golden.case import Case, handles
from tests.golden.tables import KEY, rollout_of


@handles("C.sdar_block_logps")
def check_block_logps(case: Case) -> None:
    """The views are those of `block_elbo`; the case says which slots are hidden, and 1 / p."""
    policy = load_model(case.checkpoint, name="sdar")
    policy.config.block_size = size = case.params["block_size"]
    N = case.params["response_length"]
    rollout = replace(rollout_of(case["in.input_ids"], canvas=N), block_size=size)
    views = LIKELIHOODS.get("block_elbo")().plan(rollout, None, KEY, 1)
    hide_BKL = case["in.mask"].unsqueeze(1)
    weight_BKL = torch.full(hide_BKL.shape, 1 / case.params["p_mask"])
    fixed = replace(views, hide_BKL=hide_BKL, score_BKL=hide_BKL, weight_BKL=weight_BKL)
    assert fixed.layout == "dual_stream" and fixed.context == "block_causal"
    logprob_BKL = score(policy, rollout, fixed, micro_batch=1).logprob_BKL
    case.close(logprob_BKL[:, 0], case["out.token_logps"], what="log-probs")
    loss = -(weight_BKL * logprob_BKL).sum() / rollout.answer_BL.sum()
    case.close(loss, case["out.sft_loss"], what="loss of supervised training")
