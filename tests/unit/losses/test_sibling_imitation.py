"""Sibling imitation: its gradient against the explicit KL, shared edges, annealing, refusals."""

import math
from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.losses.sibling_imitation import imitation
from dllmzoo.records import Key
from dllmzoo.zoo import LOSSES
from tests.strategies import estimate, units

Sibling = LOSSES.get("sibling_imitation")
Clipped = LOSSES.get("clipped_surrogate")
SURROGATE = {
    "clip_low": 0.4, "clip_high": 0.4, "normaliser": "row", "kl": "none",
}  # fmt: skip


def tree(rows, count, parent, **facts):
    """Slot units, with the state that each starts from."""
    made = units(rows, count, **facts)
    parent_BU = torch.tensor(parent)
    parents = float(parent_BU[made.live_BU].unique().numel())
    return replace(made, parent_BU=parent_BU, totals={**made.totals, "parents": parents})


def pull(new, advantage, facts, temperature=1.0):
    """The mean over parents, and its gradient at the log-probs."""
    leaf = new.clone().requires_grad_()
    part_BU, _ = imitation(leaf, torch.tensor(advantage), facts, temperature)
    value = part_BU.sum() / facts.totals["parents"]
    value.backward()
    return value.item(), leaf.grad


def test_better_children_are_imitated_by_the_softmax_of_their_advantage():
    # one parent, one slot; A = 1, 1 + ln 3, -2 at tau 1: weights 1/4 and 3/4 of the good two
    new = torch.tensor([[-1.0], [-2.0], [-5.0]])
    advantage = [[1.0], [1 + math.log(3)], [-2.0]]
    value, grad = pull(new, advantage, tree(3, 1, [[0], [0], [0]]))
    assert value == pytest.approx(0.25 * 1 + 0.75 * 2)
    assert grad.flatten().tolist() == pytest.approx([-0.25, -0.75, 0.0])


def test_each_slot_counts_its_own_children_and_parents_are_averaged():
    # parent 0: slot 0 has both children (weights 1/2), slot 1 only the first; mean over 2 slots
    # parent 1: no good child, yet it counts: halves
    new = torch.tensor([[-1.0, -2.0], [-3.0, -9.0], [-4.0, -4.0]])
    live = torch.tensor([[True, True], [True, False], [True, True]])
    facts = tree(3, 2, [[0, 0], [0, 0], [1, 1]], live_BU=live)
    value, grad = pull(new, [[1.0, 1.0], [1.0, 1.0], [-1.0, 0.0]], facts)
    # ((1 + 3) / 2 + 2) / 2 slots / 2 parents
    assert value == pytest.approx(1.0)
    assert grad.tolist() == [[-0.125, -0.25], [-0.125, 0.0], [0.0, 0.0]]


def test_a_slot_that_no_good_child_wrote_is_not_divided_by():
    # slot 1 was written by the bad child only
    new = torch.tensor([[-1.0, -2.0], [-3.0, -6.0]])
    live = torch.tensor([[True, False], [True, True]])
    value, _ = pull(new, [[1.0, 1.0], [-1.0, -1.0]], tree(2, 2, [[0, 0]] * 2, live_BU=live))
    assert value == pytest.approx(1.0)


def test_samples_that_share_an_edge_are_one_child():
    # the same edge twice at weight 1/2 each, against a child of equal advantage: 1/2 and 1/2
    new = torch.tensor([[-1.0], [-1.0], [-3.0]])
    weight = torch.tensor([[0.5], [0.5], [1.0]])
    facts = tree(3, 1, [[7], [7], [7]], weight_BU=weight)
    value, grad = pull(new, [[2.0], [2.0], [2.0]], facts)
    assert value == pytest.approx(2.0)
    assert grad.flatten().tolist() == pytest.approx([-0.25, -0.25, -0.5])


@pytest.mark.parametrize("temperature", [0.3, 2.0, 1e-6])
def test_the_gradient_is_that_of_the_explicit_kl(temperature):
    # 4 children of one state, 3 slots, 5 tokens; KL(q, p) summed over tokens by hand
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(3, 5, generator=generator, dtype=torch.float64).requires_grad_()
    token_BU = torch.randint(5, (4, 3), generator=generator)
    advantage_B = torch.tensor([0.8, -0.4, 0.1, 0.5], dtype=torch.float64)
    logprob = logits.log_softmax(-1)

    chosen_BU = logprob[torch.arange(3), token_BU]
    facts = tree(4, 3, [[0] * 3] * 4)
    part_BU, _ = imitation(chosen_BU, advantage_B.unsqueeze(1).expand(4, 3), facts, temperature)
    (found,) = torch.autograd.grad(part_BU.sum(), logits, retain_graph=True)

    good = [0, 2, 3]
    weight = (advantage_B[good] / temperature).softmax(0)
    q = torch.zeros(3, 5, dtype=torch.float64)
    for child, w in zip(good, weight, strict=True):
        q[torch.arange(3), token_BU[child]] += w
    kl = (torch.xlogy(q, q) - q * logprob).sum(-1).mean()
    (expected,) = torch.autograd.grad(kl, logits)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def both(loss, facts, advantage):
    leaf = torch.tensor([[-1.0, -2.0], [-3.0, -1.0]]).requires_grad_()
    old = estimate(leaf.detach() + 0.2)
    value, metrics = loss(estimate(leaf), old, old, torch.tensor(advantage), facts)
    value.backward()
    return value.item(), leaf.grad, metrics


def test_the_loss_is_the_surrogate_plus_the_weighted_term():
    facts, advantage = tree(2, 2, [[0, 1]] * 2), [[1.0, 1.0], [-1.0, -1.0]]
    value, grad, metrics = both(Sibling(coef=0.5, **{"kl": "none"}), facts, advantage)
    plain, plain_grad, _ = both(Clipped(**SURROGATE), facts, advantage)
    # parents 0 and 1, one slot each, one good child each: (1 + 2) / 2
    assert value == pytest.approx(plain + 0.5 * 1.5)
    extra = grad - plain_grad
    torch.testing.assert_close(extra, torch.tensor([[-0.25, -0.25], [0.0, 0.0]]))
    assert metrics["imitation"].tolist() == [[1.0, 2.0], [1.0, 2.0]]


def test_no_weight_is_the_surrogate_bit_for_bit_and_needs_no_tree():
    facts, advantage = units(2, 2), [[1.0, 0.5], [-1.0, -1.0]]
    found, expected = (
        both(Sibling(coef=0.0, kl="none"), facts, advantage),
        both(Clipped(**SURROGATE), facts, advantage),
    )
    assert found[0] == expected[0] and torch.equal(found[1], expected[1])
    assert found[2].keys() == expected[2].keys()


def test_constants_without_annealing():
    assert Sibling(coef=0.1, temperature=0.7)._annealed(units(1)) == (0.1, 0.7)


def test_the_weight_rises_and_the_temperature_falls_with_the_rounds():
    loss = Sibling(coef=3e-3, temperature=2.0, anneal_rounds=10)

    def at(round):
        return loss._annealed(replace(units(1), key=Key(0, round, "loss/0")))

    assert at(0) == (0.0, 2.0)
    # p = 0.5: (e - 1) / (e^2 - 1) = 1 / (e + 1) = 0.268941; 2 * 0.5^0.7 = 1.231144
    assert at(5) == pytest.approx((3e-3 * 0.268941, 1.231144), rel=1e-5)
    assert at(10) == at(25) == (3e-3, 1e-6)


def test_annealing_outside_a_run_is_refused():
    with pytest.raises(UsageError, match="anneal_rounds"):
        both(Sibling(anneal_rounds=5), tree(2, 2, [[0, 0]] * 2), [[1.0, 1.0], [-1.0, -1.0]])


def test_states_that_nobody_shares_are_refused():
    with pytest.raises(UsageError, match=r"sampler: \{name: tree"):
        both(Sibling(), units(2, 2), [[1.0, 1.0], [-1.0, -1.0]])


def test_works_per_slot_on_trees_only():
    loss = Sibling()
    assert loss.units == {"slot"} and loss.needs_branches
    assert loss.bounded_weight is None
    assert (loss.clip_low, loss.normaliser, loss.kl, loss.kl_coef) == (0.4, "row", "k3", 0.01)
