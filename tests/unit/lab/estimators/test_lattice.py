import math

import pytest
import torch

from dllmzoo.lab.estimators.lattice import Lattice, all_orders, revealed
from dllmzoo.lab.estimators.options import Options
from dllmzoo.lab.estimators.paths import Paths
from dllmzoo.lab.estimators.table_world import table_world
from dllmzoo.laws import toy
from dllmzoo.records import Key
from tests.unit.lab.estimators.small import OPEN_L, TOKENS_XL, two_slots


def test_two_slots_by_hand():
    # first then second: .5 * .8 = .4; second then first: .25 * .6 = .15
    # p = (.4 + .15) / 2 = .275; ELBO = (ln .4 + ln .15) / 2
    lattice = Lattice.of(two_slots(), TOKENS_XL, OPEN_L)
    assert lattice.loglikelihood_X.item() == pytest.approx(math.log(0.275))
    assert lattice.elbo_X.item() == pytest.approx((math.log(0.4) + math.log(0.15)) / 2)
    assert lattice.errors == (0.0, 0.0)


def test_orders_of_two_slots_follow_their_probability():
    # given the answer, first-then-second has probability .4 / (.4 + .15) = .7273
    lattice = Lattice.of(two_slots(), TOKENS_XL, OPEN_L)
    uniform_BN = torch.tensor([[0.5, u] for u in (0.0, 0.2726, 0.2728, 0.99)])
    # the last slot revealed is drawn first: slot 0 last has probability .15 / .55 = .2727
    reveal_BN = lattice.orders(torch.zeros(4, dtype=torch.long), uniform_BN)
    assert reveal_BN.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


def test_a_trajectory_knows_its_log_probs_and_entropies():
    lattice = Lattice.of(two_slots(), TOKENS_XL, OPEN_L)
    path = lattice.along(torch.tensor([0]), torch.tensor([[0, 1]]))
    torch.testing.assert_close(path.logprob_BN.exp(), torch.tensor([[0.5, 0.8]]).double())

    def entropy(p):
        return -(p * math.log(p) + (1 - p) * math.log(1 - p))

    assert path.entropy_BN[0].tolist() == pytest.approx([entropy(0.5), entropy(0.8)])
    first = (entropy(0.5) + entropy(0.25)) / 2  # both slots are masked before step 0
    assert path.entropy_BT[0].tolist() == pytest.approx([first, entropy(0.8)])


@pytest.mark.parametrize("slots", [2, 3, 4])
def test_truths_of_a_random_table_are_those_of_enumeration(slots):
    world = table_world(Options(slots=slots, seed=slots))
    every = toy.trajectories([1] * slots)
    prob_B = toy.probability(world.old, every, [1] * slots).detach()
    index_B = toy.index_of(every.tokens_BL[:, -slots:])
    sums_X = torch.zeros(2**slots).double().index_add(0, index_B, prob_B)
    torch.testing.assert_close(world.old_truth.loglikelihood_X.exp(), sums_X)
    elbos = torch.stack([toy.elbo(world.old, row[1:]) for row in world.tokens_XL]).detach()
    torch.testing.assert_close(world.old_truth.elbo_X, elbos)
    torch.testing.assert_close(world.prob_X.sum(), torch.tensor(1.0).double())


def test_rows_of_a_world_are_trajectories_of_its_policy():
    world = table_world(Options(slots=3, seed=1))
    path = world.draw(4000, Key(0, 0, "rows"))
    rollout = world.rollout(path)
    torch.testing.assert_close(
        path.logprob_BN.sum(1), toy.chain_logprob(world.old, rollout).detach()
    )
    share_X = torch.bincount(path.index_B, minlength=8) / 4000
    assert (share_X - world.prob_X).abs().max() < 1 / 4000 + 1e-9  # drawn at even distances
    every = toy.trajectories((1, 1, 1))
    prob_B = toy.probability(world.old, every, (1, 1, 1)).detach()
    code = torch.tensor([16, 4, 1])
    found = torch.bincount(path.index_B * 64 + (path.reveal_BN * code).sum(1), minlength=512)
    index_B = toy.index_of(every.tokens_BL[:, -3:])
    place_B = index_B * 64 + (every.reveal_BL[:, -3:] * code).sum(1)
    assert (found[place_B] / 4000 - prob_B).abs().max() < 5 * (0.05 / 4000) ** 0.5


def test_paths_along_all_orders_are_exact():
    # a sample that holds every order once has no error but its formula's
    world = table_world(Options(slots=3, seed=2))
    order_RN = all_orders(3)
    reveal_XRN = order_RN.expand(8, 6, 3)
    paths = Paths.of(world.old, world.tokens_XL, world.open_L, reveal_XRN)
    torch.testing.assert_close(paths.loglikelihood_X, world.old_truth.loglikelihood_X)
    torch.testing.assert_close(paths.elbo_X, world.old_truth.elbo_X)
    assert min(paths.errors) > 0
    path = paths.trajectories(torch.arange(8), torch.full((8, 3), 0.5))
    along = world.old_truth.along(path.index_B, path.reveal_BN)
    torch.testing.assert_close(path.logprob_BN, along.logprob_BN)
    torch.testing.assert_close(path.entropy_BN, along.entropy_BN)
    torch.testing.assert_close(path.entropy_BT, along.entropy_BT)


def test_the_two_policies_are_as_far_apart_as_asked():
    world = table_world(Options(slots=3, shift=0.7))
    gap_X = world.new_truth.loglikelihood_X - world.old_truth.loglikelihood_X
    assert float((world.prob_X * gap_X**2).sum().sqrt()) == pytest.approx(0.7, rel=0.02)


def test_states_count_in_binary():
    assert revealed(2).tolist() == [[False, False], [True, False], [False, True], [True, True]]
