"""Golden cases of family B, LLaDA: greedy and sampled decoding, orders, end rules, thresholds."""

from dataclasses import dataclass

import torch
from torch import Tensor

import dllmzoo
from dllmzoo.records import Key, Prompts, Rollout
from dllmzoo.zoo import SAMPLERS, SCHEDULES
from tests.golden.case import Case, handles

KEY = Key(seed=0, round=0, purpose="sample")


@dataclass(frozen=True)
class GivenUniform:
    """The released Gumbel sampling with its uniform numbers supplied."""

    uniform_TBNV: Tensor

    def token(self, logits_SV, temperature, at):
        uniform_SV = self.uniform_TBNV[at.step, at.row_S, at.slot_S]
        return (logits_SV.double().exp() / (-uniform_SV.log()) ** temperature).argmax(-1)

    def priority(self, at):
        raise AssertionError("an order of confidence asks for no priorities")


@dataclass(frozen=True)
class GivenConfidence:
    """Random remasking with its random confidences supplied."""

    confidence_TBN: Tensor

    def token(self, logits_SV, temperature, at):
        raise AssertionError("greedy decoding draws no token")

    def priority(self, at):
        return self.confidence_TBN[at.step, at.row_S, at.slot_S]


def prompts_of(tokens_BL: Tensor, attend_BL: Tensor | None = None) -> Prompts:
    sample_B = torch.arange(len(tokens_BL))
    attend_BL = torch.ones_like(tokens_BL) if attend_BL is None else attend_BL
    return Prompts(tokens_BL, attend_BL.bool(), sample_B, sample_B, [{}] * len(sample_B))


def generate(
    case: Case, prompts: Prompts, order="low_confidence", noise=None, **options
) -> Rollout:
    given = case.params
    sampler = SAMPLERS.get(order)(
        answer_length=given["gen_length"],
        block_length=given["block_length"],
        steps=given.get("steps"),
        temperature=given["temperature"],
        cfg_scale=given.get("cfg_scale", 0.0),
        threshold=given.get("threshold"),
        **options,
    )
    policy = dllmzoo.load_model(case.checkpoint)
    assert policy.mask_id == given["mask_token_id"]
    if "eos_token_id" in given:
        policy.config.eos_token_id = [given["eos_token_id"], given["eot_token_id"]]
    return sampler(policy, prompts, KEY, noise)


def answers(value_BL: Tensor, rollout: Rollout) -> Tensor:
    return value_BL[rollout.answer_BL].view(len(value_BL), -1)


def check_answers(case: Case, rollout: Rollout) -> None:
    """Tokens, the step of each commit and, where given, its confidence."""
    assert torch.equal(rollout.tokens_BL, case["out.sequence"])
    assert torch.equal(answers(rollout.reveal_BL, rollout), case["out.commit_step"])
    if "out.commit_confidence" in case.tensors:
        confidence_BN = answers(rollout.confidence_BL, rollout)
        tolerance = case.manifest["tolerance"]["commit_confidence"]
        case.close(confidence_BN, case["out.commit_confidence"], what="confidence", **tolerance)


@handles("B.llada.greedy")
def greedy(case: Case) -> None:
    check_answers(case, generate(case, prompts_of(case["in.prompt"])))


@handles("B.llada.threshold")
def threshold(case: Case) -> None:
    rollout = generate(case, prompts_of(case["in.prompt"]))
    check_answers(case, rollout)
    assert rollout.forwards == case.params["forward_passes"] * len(case["in.prompt"])


@handles("B.llada.ragged")
def ragged(case: Case) -> None:
    """Left-padded together, then every row alone without its padding."""
    tokens_BL, attend_BL = case["in.prompt_left_padded"], case["in.attention_mask"].bool()
    batches = {tuple(range(len(tokens_BL))): prompts_of(tokens_BL, attend_BL)}
    for row, real_L in enumerate(attend_BL):
        batches[(row,)] = prompts_of(tokens_BL[row : row + 1, real_L])
    for rows, prompts in batches.items():
        rollout = generate(case, prompts)
        expected = case["out.completions"][list(rows)], case["out.commit_step"][list(rows)]
        assert torch.equal(answers(rollout.tokens_BL, rollout), expected[0]), rows
        assert torch.equal(answers(rollout.reveal_BL, rollout), expected[1]), rows


@handles("B.llada.random_order")
def random_order(case: Case) -> None:
    prompt_BL = case["in.prompt"]
    noise = GivenConfidence(case["in.random_confidence"][:, :, prompt_BL.shape[1] :])
    check_answers(case, generate(case, prompts_of(prompt_BL), "random_order", noise))


@handles("B.llada.gumbel")
def gumbel(case: Case) -> None:
    prompt_BL = case["in.prompt"]
    noise = GivenUniform(case["in.uniform"][:, :, prompt_BL.shape[1] :])
    check_answers(case, generate(case, prompts_of(prompt_BL), noise=noise))


@handles("B.llada.eos_options")
def eos_options(case: Case) -> None:
    for rule, key in (
        ("none", "out.plain"),
        ("logits_inf", "out.logits_eos_inf"),
        ("confidence_inf", "out.confidence_eos_eot_inf"),
    ):
        rollout = generate(case, prompts_of(case["in.prompt"]), end_rule=rule)
        assert torch.equal(rollout.tokens_BL, case[key]), rule


@handles("B.schedule")
def schedule(case: Case) -> None:
    linear = SCHEDULES.get("linear")()
    for num_masked, steps, counts in case.data["rows"]:
        assert linear.commits(num_masked, steps) == counts
