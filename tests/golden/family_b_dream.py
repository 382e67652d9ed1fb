"""Golden cases of family B, Dream: its orders under its commit rule, without blocks."""

import torch

import dllmzoo
from dllmzoo.zoo import SAMPLERS
from tests.golden.case import Case, handles
from tests.golden.family_b import KEY, check_answers, prompts_of


@handles("B.dream.maskgit_plus", "B.dream.topk_margin", "B.dream.entropy")
def decoding(case: Case) -> None:
    """Greedy: tokens, and the step of each commit; a row of a batch is as it is alone."""
    given, policy = case.params, dllmzoo.load_model(case.checkpoint)
    assert policy.mask_id == given["mask_token_id"]
    sampler = SAMPLERS.get(given["alg"])(
        answer_length=given["gen_length"],
        steps=given["steps"],
        temperature=given["temperature"],
        commits={"name": "dream", "eps": given["eps"]},
    )
    prompt_BL = case["in.prompt"]
    check_answers(case, sampler(policy, prompts_of(prompt_BL), KEY))
    twice = sampler(policy, prompts_of(prompt_BL.repeat(2, 1)), KEY)
    assert torch.equal(twice.tokens_BL[len(prompt_BL) :], case["out.sequence"])
