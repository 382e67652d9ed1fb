"""From a recipe to what is trained."""

from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator

import dllmzoo
from dllmzoo.errors import UsageError
from dllmzoo.models._lora import AdapterOff, FrozenCopy
from dllmzoo.recipe import load
from dllmzoo.recipe.sections import Optimizer, Train
from dllmzoo.training.setup import (
    budget_of,
    make_accelerator,
    make_learner,
    make_optimizer,
    make_scheduler,
    method_of,
    parameter_counts,
    updates,
)
from tests.runs import recipe
from tests.unit.training.small import flat, network


def rates(options, number=10, total=10):
    """Learning rate of each update."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=options.lr)
    scheduler = make_scheduler(optimizer, options, total)
    found = []
    for _ in range(number):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def test_schedules_by_hand():
    # warm-up of 2 updates: 0, 1/2, then the schedule
    constant = rates(Optimizer(lr=1.0, warmup=2))
    assert constant == pytest.approx([0, 0.5] + [1.0] * 8)
    # linear to 0 at update 10 over the 8 left
    linear = rates(Optimizer(lr=1.0, warmup=2, schedule="linear"))
    assert linear == pytest.approx([0, 0.5, *(1 - n / 8 for n in range(8))])
    # half a cosine: 1/2 half-way
    cosine = rates(Optimizer(lr=1.0, schedule="cosine"))
    assert cosine[0] == 1.0 and cosine[5] == pytest.approx(0.5)
    # the last fifth falls to 0
    decay = rates(Optimizer(lr=1.0, schedule="constant_with_decay"))
    assert decay[:9] == pytest.approx([1.0] * 9) and 0 < decay[9] < 1


def test_a_schedule_shorter_than_its_warm_up_is_all_warm_up():
    for schedule in ("constant", "linear", "cosine", "constant_with_decay"):
        short = rates(Optimizer(lr=1.0, warmup=8, schedule=schedule), number=2, total=2)
        assert short == pytest.approx([0.0, 1 / 8])


def test_weight_decay_is_for_matrices_of_what_is_trained():
    policy = network()
    frozen = next(policy.parameters())
    frozen.requires_grad_(False)
    optimizer = make_optimizer(policy, Optimizer(weight_decay=0.1, betas=(0.8, 0.95), eps=1e-6))
    matrices, vectors = optimizer.param_groups
    assert all(p.ndim > 1 and p is not frozen for p in matrices["params"])
    assert all(p.ndim <= 1 for p in vectors["params"])
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.1, 0.0)
    assert (matrices["betas"], matrices["eps"]) == ((0.8, 0.95), 1e-6)
    trained, total = parameter_counts(policy.parameters())
    assert trained == total - frozen.numel()
    assert trained == sum(p.numel() for g in optimizer.param_groups for p in g["params"])


def test_updates_of_a_run(tmp_path):
    train = {"rounds": 5, "prompts": 4, "group_size": 2, "passes": 3, "minibatches": 2}
    assert updates(load(recipe(tmp_path, train=train))) == 30
    assert updates(load(recipe(tmp_path, stage="sft", train=train))) == 5


def test_the_loop_gets_the_recipes_parts_and_counts(tmp_path):
    made = load(recipe(tmp_path))
    method, budget = method_of(made), budget_of(made)
    assert method.loss is made.loss and method.task is made.task
    assert (budget.prompts, budget.group_size, budget.micro_batch, budget.rollout_batch) == (
        4, 4, 8, 8,
    )  # fmt: skip
    assert budget.max_grad_norm == 1.0
    unlimited = replace(made, optimizer=replace(made.optimizer, max_grad_norm=None))
    assert budget_of(unlimited).max_grad_norm is None


KL = {"name": "clipped_surrogate", "kl_coef": 0.1}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, type(None)),  # k3 of coefficient .04 is the default of the loss, so name none
        ({"loss": KL}, FrozenCopy),
        ({"loss": KL | {"kl": "exact"}}, FrozenCopy),
        ({"loss": KL | {"kl_coef": 0.0}}, type(None)),
        ({"loss": KL | {"kl_anchor": "old"}}, type(None)),
        ({"stage": "sft"}, type(None)),
    ],
)
def test_a_reference_is_made_only_if_the_loss_reads_one(tmp_path, changes, kind):
    base = {"loss": {"name": "clipped_surrogate", "kl": "none"}}
    made = load(recipe(tmp_path, **(base | changes)))
    found = make_learner(made, Accelerator(cpu=True))
    assert isinstance(found.reference, kind)
    if kind is FrozenCopy:
        assert torch.equal(flat(found.reference.model), flat(found.policy))
        assert not any(p.requires_grad for p in found.reference.model.parameters())


@pytest.mark.parametrize(
    ("reference", "kind"), [("auto", AdapterOff), ("adapter", AdapterOff), ("copy", FrozenCopy)]
)
def test_with_lora_only_adapters_train_and_the_reference_is_the_base(tmp_path, reference, kind):
    model = recipe(tmp_path)["model"] | {"lora": {"rank": 2}, "reference": reference}
    found = make_learner(load(recipe(tmp_path, model=model, loss=KL)), Accelerator(cpu=True))
    assert isinstance(found.reference, kind)
    trained = [name for name, p in found.policy.named_parameters() if p.requires_grad]
    assert trained and all("lora_" in name for name in trained)
    ids = torch.tensor([[1, 2, 3, found.policy.mask_id]])
    before = found.reference(ids).logits
    assert torch.equal(before, found.policy.eval()(ids).logits), "fresh adapters change nothing"
    with torch.no_grad():
        for name, parameter in found.policy.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.5)
    assert torch.equal(found.reference(ids).logits, before)
    assert not torch.equal(found.policy(ids).logits, before)
    assert [n for n, p in found.policy.named_parameters() if p.requires_grad] == trained


def test_prompts_that_processes_cannot_share_are_refused_with_the_nearest_that_fit(monkeypatch):
    monkeypatch.setattr(Accelerator, "num_processes", 3)
    with pytest.raises(UsageError, match=r"prompts is 4, which 3 processes.*are 3 and 6"):
        make_accelerator(Train(prompts=4))
    with pytest.raises(UsageError, match=r"prompts is 2.*are 3 and 3"):
        make_accelerator(Train(prompts=2))
    make_accelerator(Train(prompts=6))


def test_a_tracker_that_is_not_installed_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr("dllmzoo.training.setup.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"names trackio, which is not installed: pip install"):
        list(dllmzoo.train(recipe(tmp_path, train={"trackers": ["trackio"], "prompts": 2})))
