"""On an accelerator a step must not wait for numbers: nothing in it may depend on values.

Under `FakeTensorMode` tensors have shapes and no values, so an operation whose result is a Python
number, or whose shape depends on values, raises an error.
"""

import pytest
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from dllmzoo.models._load import build_model, load_tokenizer
from dllmzoo.samplers._canvas import Canvas
from dllmzoo.samplers._semi_autoregressive import Walk
from dllmzoo.samplers.entropy import Entropy
from dllmzoo.samplers.low_confidence import LowConfidence
from dllmzoo.samplers.margin import Margin
from dllmzoo.samplers.random_order import RandomOrder


class Numbers:
    """Random numbers without a key, since a key draws from real ones."""

    def token(self, logits_SV, temperature, at):
        return (logits_SV + torch.rand_like(logits_SV)).argmax(-1)

    def priority(self, at):
        return torch.rand(at.slot_S.shape)


def walk(sampler, family, config):
    policy = build_model(family, config, load_tokenizer("characters:0123456789"), 0)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        canvas = Canvas(
            tokens_BL=torch.full((2, 11), policy.mask_id), attend_BL=torch.ones(2, 11).bool(),
            blank_BN=torch.ones(2, 8).bool(), hidden_BN=torch.ones(2, 8).bool(),
            reveal_BN=torch.full((2, 8), -1), logprob_BN=torch.zeros(2, 8),
            entropy_BN=torch.zeros(2, 8), confidence_BN=torch.zeros(2, 8),
            block_entropy_BT=torch.zeros(2, sampler.num_steps), running_B=torch.ones(2).bool(),
            mask_id=policy.mask_id, full=True,
        )  # fmt: skip
        going = Walk(policy, canvas, Numbers(), sampler._law(policy))
        sampler._take_steps(going, torch.arange(2), range(sampler.num_steps))


LLADA = ("llada", {"d_model": 8, "n_layers": 2, "n_heads": 2, "mlp_hidden_size": 16})
DREAM = ("dream", {
    "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "intermediate_size": 16,
})  # fmt: skip


@pytest.mark.parametrize("family", [LLADA, DREAM], ids=["llada", "dream"])
@pytest.mark.parametrize("kind", [LowConfidence, RandomOrder, Entropy, Margin])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_steps_of_a_plan_ask_the_device_for_no_number(kind, family, temperature):
    walk(kind(answer_length=8, block_length=4, steps=4, temperature=temperature), *family)


def test_a_threshold_has_to_ask():
    # what a step commits then depends on confidences: this test shows that asking is noticed
    with pytest.raises((DataDependentOutputException, DynamicOutputShapeException)):
        walk(LowConfidence(answer_length=8, block_length=4, threshold=0.9), *LLADA)
