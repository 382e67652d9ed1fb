"""One optimiser update: the exact gradient, the same on one process as on four."""

import math
from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import HealthError
from dllmzoo.records import Key, Normaliser, Units
from dllmzoo.training.loop import collect, train
from dllmzoo.training.meter import Meter
from dllmzoo.training.update import step, update
from tests.unit.training.small import Ranks, budget, flat, learner, method, network

ELBO = {"likelihood": ("elbo", {"views": 2}), "selector": None, "advantage": "leave_one_out"}
METHODS = {
    "egspo_sa": {},
    "slots": {"likelihood": ("denoising_steps", {"unit": "slot"})},
    "kl k3": {"loss": ("clipped_surrogate", {"kl": "k3", "kl_coef": 0.5, "normaliser": "token"})},
    "kl exact": {"loss": ("clipped_surrogate", {"kl": "exact", "kl_coef": 0.5})},
    "mean_field": {"likelihood": "mean_field", "selector": None, "advantage": "group_relative"},
    "elbo": ELBO | {"loss": ("clipped_surrogate", {"kl": "none", "normaliser": "sequence"})},
    "stable_drl": ELBO | {"loss": "stable_drl"},
    "stable_drl, own masks": ELBO
    | {"likelihood": ("elbo", {"views": 2, "shares_masks": False}), "loss": "stable_drl"},
    "policy_gradient": {"loss": ("policy_gradient", {"normaliser": "group"})},
    "nonzero": {"loss": ("clipped_surrogate", {"kl": "none", "normaliser": "nonzero"})},
    "row": {"loss": ("clipped_surrogate", {"kl": "none", "normaliser": "row"})},
}  # fmt: skip

KEY = Key(3, 1, "loss/0")


def trained(name, world=1, rounds=1, **changes):
    """Weights after some rounds, and the rows of metrics, of the main process."""

    def work(accelerator):
        made = learner(accelerator=accelerator, lr=0.05)
        rows = [
            meter.row()
            for _, meter, _ in train(
                method(**METHODS[name]), budget(**changes), made, seed=3, rounds=range(rounds)
            )
        ]
        return flat(made.policy), rows

    results = Ranks(world).run(work)
    for weights, _ in results:
        assert torch.equal(weights, results[0][0])
    return results[0]


def same_rows(one, other):
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            if "time" not in key:
                assert b[key] == pytest.approx(a[key], rel=1e-6, abs=1e-7), key


@pytest.mark.parametrize(
    ("name", "world"), [*((name, 4) for name in METHODS), ("egspo_sa", 2), ("stable_drl", 2)]
)
def test_processes_compute_the_weights_and_metrics_of_one(name, world):
    changes = {"passes": 2, "minibatches": 2}
    weights, rows = trained(name, **changes)
    spread, spread_rows = trained(name, world, **changes)
    torch.testing.assert_close(spread, weights, rtol=0, atol=1e-10)
    same_rows(rows, spread_rows)


@pytest.mark.parametrize("name", METHODS)
def test_the_micro_batch_changes_no_weight(name):
    weights, _ = trained(name, micro_batch=64)
    for micro_batch in (1, 5):
        again, _ = trained(name, micro_batch=micro_batch)
        torch.testing.assert_close(again, weights, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", METHODS)
def test_the_first_ratio_of_a_round_is_1(name):
    shared = "own masks" not in name
    _, rows = trained(name, rounds=1)
    if "ratio" in rows[0]:
        exact = 1e-15 if "kl exact" in name else 0.0  # there the first pass is a forward of its own
        ones = [abs(rows[0][key] - 1.0) <= exact for key in ("ratio", "ratio_max")]
        assert all(ones) == shared
    assert rows[0].get("clip_fraction", 0.0) == 0.0 or not shared
    _, rows = trained(name, rounds=1, passes=2)
    assert rows[0].get("ratio_max", 2.0) != 1.0, "the second pass has moved"


def differentiated(made, parts, seen):
    """Gradient of the loss by plain autograd through whole sequences."""
    views, rollout = seen.views[0], seen.rollout
    B, K, L = views.score_BKL.shape
    tokens_BKL = rollout.tokens_BL.unsqueeze(1).expand(B, K, L)
    noised = tokens_BKL.masked_fill(views.hide_BKL, made.policy.mask_id).reshape(B * K, L)
    attend = rollout.attend_BL.repeat_interleave(K, 0)
    logits = made.policy(noised, attend).logits.view(B, K, L, -1).log_softmax(-1)
    logprob_BKL = logits.gather(3, tokens_BKL.unsqueeze(3)).squeeze(3)
    logprob_BKL = torch.where(views.score_BKL, logprob_BKL, 0)
    advantage_BU = views.credit(seen.advantage_BA)

    def pool(values):
        return parts.likelihood.pool(values, views, rollout, advantage_BU)

    new = pool(logprob_BKL)
    if parts.loss.needs_exact_kl:
        with torch.no_grad():
            anchor = made.reference(noised, attend).logits.view(B, K, L, -1).log_softmax(-1)
        kl_BKL = torch.where(views.score_BKL, (logits.exp() * (logits - anchor)).sum(-1), 0)
        new = replace(new, exact_kl_BU=views.total(kl_BKL))
    reference = pool(seen.reference[0]) if seen.reference else None
    old = pool(seen.old[0])
    totals = Units.totals_of(views, rollout, advantage_BU)
    units = Units.of(views, rollout, totals)
    value, _ = parts.loss(new, old, reference, advantage_BU, units)
    value.backward()
    found = torch.cat([p.grad.flatten() for p in made.policy.parameters()])
    made.policy.zero_grad()
    return found, value.item()


@pytest.mark.parametrize("name", [name for name in METHODS if "own masks" not in name])
def test_the_step_is_the_gradient_of_the_loss_by_direct_differentiation(name):
    parts, made = method(**METHODS[name]), learner(lr=1.0)
    meter = Meter(made.accelerator)
    seen = collect(parts, budget(), made, meter, 3, 1)
    expected, value = differentiated(made, parts, seen)
    before = flat(made.policy)
    sizes = budget(max_grad_norm=None)
    update(parts, sizes, made, meter, seen, KEY, torch.arange(16), fresh=True)
    torch.testing.assert_close(before - flat(made.policy), expected, rtol=0, atol=1e-10)
    row = meter.row()
    assert row["loss"] == pytest.approx(value, abs=1e-7)
    assert row["grad_norm"] == pytest.approx(expected.norm().item(), rel=1e-6)


@pytest.mark.parametrize("name", ["egspo_sa", "kl k3", "kl exact", "stable_drl"])
def test_the_old_scores_as_leaf_give_the_step_of_a_fresh_scoring(name):
    found = []
    for fresh in (True, False):
        parts, made = method(**METHODS[name]), learner(lr=1.0)
        meter = Meter(made.accelerator)
        seen = collect(parts, budget(), made, meter, 3, 1)
        update(parts, budget(), made, meter, seen, KEY, torch.arange(16), fresh=fresh)
        found.append(flat(made.policy))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-10)


def test_only_the_policy_has_a_gradient_and_the_experience_none():
    parts, made = method(**METHODS["kl exact"]), learner()
    before = flat(made.reference)
    meter = Meter(made.accelerator)
    seen = collect(parts, budget(), made, meter, 3, 1)
    update(parts, budget(), made, meter, seen, KEY, torch.arange(16), fresh=True)
    assert torch.equal(flat(made.reference), before)
    assert not seen.advantage_BA.requires_grad and not seen.old[0].requires_grad
    assert all(parameter.grad is None for parameter in made.reference.parameters())


def test_every_process_runs_as_many_forwards_though_its_rows_differ():
    # two minibatches of two groups: a process may hold two groups of one, or none
    def work(accelerator):
        made = learner(accelerator=accelerator)
        list(train(method(), budget(minibatches=2, passes=2), made, seed=3, rounds=range(2)))
        return accelerator.forwards

    forwards = Ranks(4).run(work)
    assert len(set(forwards)) == 1 and forwards[0] > 0


def one_gradient(made, size):
    for parameter in made.policy.parameters():
        parameter.grad = torch.zeros_like(parameter)
    next(made.policy.parameters()).grad.view(-1)[0] = size


def test_the_norm_is_that_before_clipping_and_the_step_that_after():
    made = learner(lr=1.0)
    before = flat(made.policy)
    one_gradient(made, 8.0)
    assert step(made, 0.5, 0.0) == pytest.approx(8.0)
    assert (before - flat(made.policy)).abs().max().item() == pytest.approx(0.5, rel=1e-5)
    assert all(p.grad is None or not p.grad.any() for p in made.policy.parameters())


def test_no_limit_clips_nothing():
    made = learner(lr=1.0)
    before = flat(made.policy)
    one_gradient(made, 8.0)
    assert step(made, None, 0.0) == pytest.approx(8.0)
    assert (before - flat(made.policy)).abs().max().item() == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("gradient", "loss"), [(math.nan, 0.0), (math.inf, 0.0), (1.0, math.nan), (1.0, -math.inf)]
)
def test_what_is_not_finite_is_not_applied(gradient, loss):
    made = learner(lr=1.0)
    before, counted = flat(made.policy), made.scheduler.last_epoch
    one_gradient(made, gradient)
    with pytest.raises(HealthError, match=r"was not applied.*optimizer\.lr"):
        step(made, 1.0, loss)
    assert torch.equal(flat(made.policy), before) and made.scheduler.last_epoch == counted
    assert all(p.grad is None or not p.grad.any() for p in made.policy.parameters())


def test_an_update_trains_with_checkpointing_on_and_every_dropout_at_zero():
    policy = network()
    policy.activation_checkpointing_enable()
    made, plain = learner(policy, lr=0.05), learner(lr=0.05)
    for each in (made, plain):
        list(train(method(), budget(), each, seed=3, rounds=range(1)))
        assert each.policy.training
    torch.testing.assert_close(flat(made.policy), flat(plain.policy), rtol=0, atol=1e-12)


def test_every_pass_is_compared_with_the_old_scores_of_its_own_views():
    # lr 0: the policy stays as it is, so every ratio of every pass is 1, whatever was masked
    noisy = method(
        selector=None, likelihood=("mean_field", {"prompt_noise": 0.5}),
        advantage="group_relative", loss=("clipped_surrogate", {"kl": "none"}),
    )  # fmt: skip
    still = learner(lr=0.0)
    _, meter, seen = next(train(noisy, budget(passes=3), still, seed=1, rounds=range(1, 2)))
    assert not torch.equal(seen.old[0], seen.old[2])
    assert meter.row()["ratio_max"] == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("normaliser", Normaliser.__args__)
def test_an_abstained_sample_is_as_good_as_not_there(normaliser):
    options = {"kl": "k3", "kl_coef": 0.5, "normaliser": normaliser}
    parts = method(advantage="group_relative", loss=("clipped_surrogate", options))
    made = learner()
    seen = collect(parts, budget(), made, Meter(made.accelerator), 3, 1)
    counted_B = torch.ones(16, dtype=torch.bool)
    counted_B[[0, 1, 2, 3, 5]] = False  # a whole group and one sample of another
    seen = replace(
        seen, rewards=replace(seen.rewards, counted_X=counted_B),
        advantage_BA=seen.advantage_BA * counted_B.unsqueeze(1),
    )  # fmt: skip

    def moved(rows):
        made = learner(lr=1.0)
        before = flat(made.policy)
        sizes = budget(max_grad_norm=None)
        update(parts, sizes, made, Meter(made.accelerator), seen, KEY, rows, fresh=True)
        return before - flat(made.policy)

    without = moved(counted_B.nonzero()[:, 0])
    assert without.any()
    torch.testing.assert_close(moved(torch.arange(16)), without, rtol=0, atol=1e-10)
