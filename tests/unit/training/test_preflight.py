"""What the preflight proves of a network: each property broken once, none denied for nothing."""

import copy
import dataclasses
import logging
from types import SimpleNamespace

import pytest
import torch

from dllmzoo.checks import load_checked
from dllmzoo.errors import ModelError
from dllmzoo.models._load import load_model
from dllmzoo.recipe.packaged import recipes
from dllmzoo.training import preflight as package
from dllmzoo.training.preflight import _weights, at_start
from dllmzoo.training.preflight._network import alignment_losses
from dllmzoo.training.preflight._verdict import Subject
from tests.runs import recipe
from tests.unit.training.ready import failed, ready, verdicts, with_policy

NAMES = ["mask id", "tokenizer", "chat template", "logit alignment", "batch invariance",
         "first ratio", "LoRA coverage", "memory"]  # fmt: skip
TRAINED = "egspo_sudoku"


def outcomes(found):
    return [found[name].outcome for name in NAMES]


class Wrapped(torch.nn.Module):
    """The trained network, seen through something that spoils it."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.config, self.block_size = network.config, network.block_size
        self.mask_id, self.stop_ids = network.mask_id, network.stop_ids

    @property
    def dtype(self):
        return self.network.dtype

    def whole(self, input_ids, attention_mask=None):
        return self.network(input_ids, attention_mask).logits

    def forward(self, input_ids, attention_mask=None, *, logits_at=None, **_):
        logits = self.whole(input_ids, attention_mask)
        return SimpleNamespace(logits=logits if logits_at is None else logits[logits_at])


class ReadsBefore(Wrapped):
    """Position i - 1 holds the logits of token i: a head of next tokens that nobody aligned."""

    def whole(self, input_ids, attention_mask=None):
        logits = super().whole(input_ids, attention_mask)
        return torch.cat([logits[:, 1:], logits[:, -1:]], 1)


class ReadsBehind(Wrapped):
    """Position i + 1 holds the logits of token i: aligned once too often."""

    def whole(self, input_ids, attention_mask=None):
        logits = super().whole(input_ids, attention_mask)
        return torch.cat([logits[:, :1], logits[:, :-1]], 1)


class SeesPadding(Wrapped):
    """The padding mask is dropped."""

    def whole(self, input_ids, attention_mask=None):
        return super().whole(input_ids, None)


class SeesNeighbours(Wrapped):
    """A row's logits hang on the mean of the batch."""

    def whole(self, input_ids, attention_mask=None):
        logits = super().whole(input_ids, attention_mask)
        return logits + 0.01 * input_ids.float().mean() * torch.arange(logits.shape[-1])


class DropsOut(Wrapped):
    """A dropout that training mode switches on."""

    def whole(self, input_ids, attention_mask=None):
        logits = super().whole(input_ids, attention_mask)
        return torch.nn.functional.dropout(logits, 0.1, self.training)


def test_a_trained_policy_passes_everything():
    for full in (False, True):
        found = verdicts(*ready(TRAINED), full=full)
        assert outcomes(found) == ["ok", "ok", "skipped", "ok", "ok", "ok", "skipped", "ok"]
    assert found["mask id"].message.startswith("8, '[MASK]'")
    assert "all 278,880 parameters" in found["LoRA coverage"].message


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [1.0, 4.0, 20.0])
def test_random_weights_raise_no_alarm(seed, scale):
    loaded, learner = ready(seed=seed)
    with torch.no_grad():
        for weight in learner.policy.parameters():
            weight.mul_(scale if weight.ndim > 1 else 1.0)
    found = verdicts(loaded, learner, full=True)
    assert found["logit alignment"].outcome == "undecided"
    assert "does not know texts of this task yet" in found["logit alignment"].message
    assert not [v for v in found.values() if v.outcome == "failed"]


@pytest.mark.parametrize("name", sorted(name for name in recipes() if "/" not in name))
def test_no_shipped_recipe_is_refused(name):
    loaded, learner = ready(name)
    before = copy.deepcopy(learner.policy.state_dict())
    state = torch.get_rng_state()
    assert failed(loaded, learner) == {}
    assert torch.equal(torch.get_rng_state(), state)
    after = learner.policy.state_dict()
    assert all(torch.equal(before[each], after[each]) for each in before)
    assert not any(p.grad is not None for p in learner.policy.parameters())


@pytest.mark.parametrize(
    ("spoilt", "name", "said"),
    [
        (ReadsBefore, "logit alignment", "one position off, before their token"),
        (ReadsBehind, "logit alignment", "one position off, behind their token"),
        (SeesPadding, "batch invariance", "when it is padded on the left"),
        (SeesNeighbours, "batch invariance", "a row's logits differ by"),
        (DropsOut, "first ratio", "between the old policy and the new one"),
    ],
)
def test_each_fault_of_a_network_is_found_and_no_other(spoilt, name, said):
    loaded, learner = ready(TRAINED)
    found = failed(loaded, with_policy(learner, spoilt(learner.policy)))
    assert list(found) == [name]
    assert said in found[name].message and found[name].hint


def test_a_network_that_was_fitted_to_a_text_has_no_loss_at_its_own_position_only():
    """Hidden tokens cost nothing at the position they belong to, wherever a fault moves it."""
    loaded, learner = ready(TRAINED)
    truth = alignment_losses(Subject(loaded, learner, True))
    moved = alignment_losses(
        Subject(loaded, with_policy(learner, ReadsBefore(learner.policy)), True)
    )
    assert truth.aligned < 0.5 < 2.0 < min(truth.before, truth.after)
    assert moved.before == pytest.approx(truth.aligned, rel=0.2) and moved.aligned > 2.0


def test_plans_must_depend_on_their_key_alone():
    loaded, learner = ready(likelihood={"name": "elbo", "views": 2}, selector=None,
                            advantage="group_relative")  # fmt: skip
    assert failed(loaded, learner) == {}
    counter = iter(range(9))

    class Restless(type(loaded.likelihood)):
        """Another plan at every call."""

        def plan(self, rollout, steps, key, num_passes):
            return super().plan(rollout, steps, key.sub(str(next(counter))), num_passes)

    restless = dataclasses.replace(loaded, likelihood=Restless(views=2))
    found = failed(restless, learner)
    assert list(found) == ["first ratio"] and "its key alone" in found["first ratio"].hint


def test_adapters_are_counted_layer_by_layer():
    model = recipe("x")["model"]
    loaded, learner = ready(model=model | {"lora": {"rank": 2, "preset": "attention"}})
    found = verdicts(loaded, learner)["LoRA coverage"]
    # four square layers of width 16 in two blocks: 2 * (16 * 2 + 2 * 16) = 128 parameters each
    assert found.outcome == "ok"
    assert found.message == (
        "q_proj x2, k_proj x2, v_proj x2, attn_out x2: 512 parameters in 8 layers"
    )
    head = dict(learner.policy.named_parameters())
    name = next(each for each in head if each.endswith("wte.weight"))
    head[name].requires_grad_(True)
    assert "wte.weight is trained" in failed(loaded, learner)["LoRA coverage"].message
    one = {"rank": 2, "targets": ["blocks.0.q_proj"]}
    found = failed(*ready(model=model | {"lora": one}))["LoRA coverage"]
    assert found.message == "q_proj has adapters in 1 of 2 blocks"


def test_adapters_that_were_asked_for_must_be_there():
    loaded, learner = ready()
    model = dataclasses.replace(loaded.model, lora=load_checked(
        recipe("x", model=recipe("x")["model"] | {"lora": {"rank": 2}})
    ).model.lora)  # fmt: skip
    wanted = dataclasses.replace(loaded, model=model)
    assert "the policy has none" in failed(wanted, learner)["LoRA coverage"].message
    next(learner.policy.parameters()).requires_grad_(False)
    assert "parameters are trained" in failed(loaded, learner)["LoRA coverage"].message


def test_memory_by_hand(monkeypatch):
    loaded, learner = ready()
    subject = Subject(loaded, learner, False)
    number = sum(p.numel() for p in learner.policy.parameters())
    # float32 weights, gradients, two moments, and a copy of the start, to which the KL is measured
    assert _weights.held(subject) == 5 * 4 * number
    # 8 rows of prompt and 16 slots, 2 layers; inputs and outputs of the linear layers are
    # 4 * (16 + 16) + 3 * (16 + 32) = 272 wide; logits of 8 * 16 slots over 9 tokens, three times
    prompt = max(len(each.prompt) for each in subject.canvases)
    assert _weights.forward(subject) == 8 * (prompt + 16) * 272 * 2 * 4 + 3 * 4 * 8 * 16 * 9
    monkeypatch.setattr(_weights, "capacity", lambda device: 20 * number - 1)
    assert "shard over more devices" in failed(loaded, learner)["memory"].hint
    monkeypatch.setattr(_weights, "capacity", lambda device: 20 * number)
    found = verdicts(loaded, learner)["memory"]
    assert found.outcome == "undecided" and "lower train.micro_batch" in found.message


def test_half_precision_has_a_looser_limit():
    name = "llada-tiny-sudoku"
    policy = load_model(name, dtype="bfloat16")
    loaded, learner = ready(TRAINED, policy=policy)
    found = verdicts(loaded, learner, full=True)
    assert outcomes(found)[3:6] == ["ok", "ok", "ok"]
    off = failed(loaded, with_policy(learner, SeesPadding(policy)))
    assert list(off) == ["batch invariance"]


def test_a_run_starts_with_one_line_or_not_at_all(caplog):
    loaded, learner = ready()
    with caplog.at_level(logging.INFO, "dllmzoo"):
        at_start(loaded, learner)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "preflight: mask id, tokenizer, batch invariance, first ratio, memory ok; "
        "undecided: logit alignment"
    )
    policy = SeesPadding(learner.policy)
    policy.mask_id = 2
    with pytest.raises(ModelError) as caught:
        at_start(loaded, with_policy(learner, policy))
    assert "mask id: failed" in str(caught.value)
    assert "batch invariance: failed" in str(caught.value)


def test_data_that_cannot_be_had_are_told_once():
    loaded, learner = ready()
    empty = dataclasses.replace(loaded.task)
    object.__setattr__(empty, "test", lambda num: [])
    found = verdicts(dataclasses.replace(loaded, task=empty), learner)
    assert found["tokenizer"].message == "the task has no held-out example"
    assert found["logit alignment"].message == "for the reason given above"
    assert package.Verdict("a", "failed", "b", "c").__str__() == "a: failed: b\n    c"


def test_a_task_without_demonstrations_can_be_trained(monkeypatch):
    loaded, learner = ready(TRAINED)

    def answer(*_):
        raise NotImplementedError

    monkeypatch.setattr(type(loaded.task), "answer", answer)
    found = verdicts(loaded, learner)
    assert found["logit alignment"].outcome == "undecided"
    assert not [v for v in found.values() if v.outcome == "failed"]
