"""Golden cases of family B, SDAR: block after block, every rule, with the cache and without."""

from dataclasses import replace

import torch
from torch import Tensor

import dllmzoo
from dllmzoo.records import Key, Rollout
from dllmzoo.zoo import SAMPLERS
from tests.golden.case import Case, handles
from tests.golden.family_b import answers, prompts_of

KEY = Key(seed=0, round=0, purpose="sample")


def generate(case: Case, width: int, **options) -> list[Rollout]:
    """With the cache, and with whole rows at every step; greedy.

    The released script follows the schedule of a full block in the boundary block too, and fills
    the answer up to a whole block, so its number of tokens is read off what it returned.
    """
    given = case.params
    sampler = SAMPLERS.get("block_diffusion")(
        answer_length=width - case["in.prompt"].shape[1],
        steps_per_block=given["denoising_steps"],
        remask=given["strategy"],
        threshold=given["threshold"] if given["strategy"] == "dynamic" else None,
        temperature=0.0,
        commits_of="block",
        **options,
    )
    policy = dllmzoo.load_model(case.checkpoint)
    policy.config.block_size = given["block_length"]
    policy.config.eos_token_id = given.get("stop_token_ids", policy.config.eos_token_id)
    assert policy.mask_id == given["mask_token_id"]
    prompts = prompts_of(case["in.prompt"])
    return [replace(sampler, cache=cache)(policy, prompts, KEY) for cache in (True, False)]


def step_in_block(pass_BN: Tensor, prompt: int, size: int) -> Tensor:
    """The pass of each slot, counted from the first pass of its block."""
    block_N = (prompt + torch.arange(pass_BN.shape[1])) // size
    first_BN = torch.stack([pass_BN[:, block_N == b].amin(1) for b in block_N], 1)
    return pass_BN - first_BN


@handles("B.sdar.static", "B.sdar.dynamic", "B.sdar.sequential")
def block_decoding(case: Case) -> None:
    """Tokens, the pass of each commit and its confidence."""
    for rollout in generate(case, case["out.sequence"].shape[1], stop_at_end=False):
        assert torch.equal(rollout.tokens_BL, case["out.sequence"])
        pass_BN = answers(rollout.reveal_BL, rollout)
        assert torch.equal(pass_BN, case["out.commit_pass"])
        prompt, size = case["in.prompt"].shape[1], case.params["block_length"]
        inner_BN = step_in_block(pass_BN, prompt, size)
        assert torch.equal(inner_BN, case["out.commit_step_in_block"])
        tolerance = case.manifest["tolerance"]["commit_confidence"]
        confidence_BN = answers(rollout.confidence_BL, rollout)
        case.close(confidence_BN, case["out.commit_confidence"], what="confidence", **tolerance)
        passes = sum(logits > 0 for *_, logits in rollout.reads)
        assert passes == case.params["denoising_passes"]


@handles("B.sdar.stop")
def stop(case: Case) -> None:
    """The block with the stop id is the last; the released script leaves masks behind it."""
    full, stopped = case["out.sequence_no_stop"], case["out.sequence"]
    for rollout in generate(case, full.shape[1], stop_at_end=False):
        assert torch.equal(rollout.tokens_BL, full)
    for rollout in generate(case, full.shape[1]):
        left_BL = stopped == case.params["mask_token_id"]
        expected_BL = stopped.masked_fill(left_BL, case.params["stop_token_ids"][0])
        assert torch.equal(rollout.tokens_BL, expected_BL)
        assert torch.equal(rollout.reveal_BL < 0, left_BL | ~rollout.answer_BL)
