"""EGSPO and EGSPO-SA on a policy whose exact gradient can be enumerated (arXiv:2603.12554)."""

import itertools
import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dllmzoo.laws import inputs, toy
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.records import Key, Steps, Units, take
from dllmzoo.scoring import score, score_and_guess
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES, SAMPLERS, SELECTORS
from tests.property.enumerated import KEY, expected_update, rewards_of
from tests.strategies import cases, credit, scored_groups, seeds, table_policies

DenoisingSteps = LIKELIHOODS.get("denoising_steps")
Stepwise = ADVANTAGES.get("stepwise_one_shot")
GroupRelative = ADVANTAGES.get("group_relative")
LeaveOneOut = ADVANTAGES.get("leave_one_out")
Clipped = LOSSES.get("clipped_surrogate")
PolicyGradient = LOSSES.get("policy_gradient")
All, Entropy, Uniform = (SELECTORS.get(name) for name in ("all", "entropy", "uniform"))
Gate, Sampled, Mass = (SELECTORS.get(f"entropy_{name}") for name in ("gate", "sampled", "mass"))

few = settings(max_examples=5)


@few
@given(policy=table_policies(), seed=seeds)
@pytest.mark.parametrize("weight", [0.0, 0.5, 1e9])
@pytest.mark.parametrize("counts", [(1, 1, 1), (2, 1)])
def test_1_all_steps_give_the_exact_gradient_whatever_the_stepwise_weight(
    weight, counts, policy, seed
):
    # weights 0, 1/2 and (nearly) infinity are w = 0, 1/3 and 1; own-sample mean: (G - 1) / G = 1/2
    reward_X = rewards_of(seed)
    exact = toy.exact_gradient(policy, reward_X, counts)
    found = expected_update(policy, reward_X, All(), Stepwise(weight=weight), counts)
    tolerance = 1e-12 if weight == 0 else 1e-6  # advantages are float32: a third is not exact
    torch.testing.assert_close(found, exact / 2, rtol=0, atol=tolerance)


@few
@given(policy=table_policies(), seed=seeds)
@pytest.mark.parametrize(("advantage", "share"), [(GroupRelative(), 0.5), (LeaveOneOut(), 1.0)])
@pytest.mark.parametrize("loss", [PolicyGradient, Clipped])
def test_2_the_group_mean_shrinks_the_gradient_and_leave_one_out_does_not(
    loss, advantage, share, policy, seed
):
    reward_X = rewards_of(seed)
    exact = toy.exact_gradient(policy, reward_X)
    loss = loss(kl="none", normaliser="group")
    found = expected_update(policy, reward_X, All(), advantage, loss=loss)
    torch.testing.assert_close(found, share * exact, rtol=0, atol=1e-12)


@settings(max_examples=40)
@given(case=scored_groups())
def test_3_weight_0_is_egspo_bit_for_bit(case):
    reward_B, reward_BK, G = case
    stepwise_BK = credit(Stepwise(weight=0.0), reward_B, reward_BK, G)
    plain_B1 = credit(GroupRelative(), reward_B, None, G)
    assert torch.equal(stepwise_BK, plain_B1.expand_as(stepwise_BK))


@settings(max_examples=60)
@given(case=scored_groups(), weight=st.sampled_from([0.0, 0.5, 1.0, 10.0]), normalise=st.booleans())
def test_4_the_advantage_is_two_centred_terms(case, weight, normalise):
    reward_B, reward_BK, G = case
    found_BK = credit(Stepwise(weight=weight, normalise=normalise), reward_B, reward_BK, G)

    def centred(value_BK):
        value_PGK = value_BK.double().view(-1, G, value_BK.shape[1])
        return (value_PGK - value_PGK.mean(1, keepdim=True)).view_as(value_BK)

    share = weight / (1 + weight)
    expected_BK = centred(reward_B.unsqueeze(1)) - share * centred(reward_BK)
    scale = 1.0 if normalise else 1 + weight
    torch.testing.assert_close(found_BK.double(), scale * expected_BK, rtol=1e-6, atol=1e-6)


def test_5_looking_at_later_states_makes_the_baseline_count():
    policy, reward_X = toy.TableDenoiser(seed=3), rewards_of(3)
    selector = Entropy(steps=1)
    without = expected_update(policy, reward_X, selector, Stepwise(weight=0.0))
    wholly = expected_update(policy, reward_X, selector, Stepwise(weight=1e9))
    assert (without - wholly).abs().max() > 1e-4


@few
@given(policy=table_policies(), seed=seeds, steps=st.integers(1, 2))
def test_5_choosing_steps_blindly_leaves_the_baseline_without_effect(policy, seed, steps):
    reward_X, selector = rewards_of(seed), Uniform(steps=steps)
    without = expected_update(policy, reward_X, selector, Stepwise(weight=0.0))
    wholly = expected_update(policy, reward_X, selector, Stepwise(weight=1e9))
    torch.testing.assert_close(without, wholly, rtol=0, atol=1e-6)


@few
@given(policy=table_policies(), seed=seeds)
@pytest.mark.parametrize("threshold", [0.0, 0.6])
def test_5_a_gate_on_the_state_leaves_the_baseline_without_effect(threshold, policy, seed):
    # lambda 0 and 1 are w = 0 and 1/2; quarters, their means of two and halves are exact
    reward_X, selector = rewards_of(seed), Gate(threshold=threshold)
    without = expected_update(policy, reward_X, selector, Stepwise(weight=0.0))
    halved = expected_update(policy, reward_X, selector, Stepwise(weight=1.0))
    torch.testing.assert_close(without, halved, rtol=0, atol=1e-12)


def test_5_a_gate_leaves_some_steps_out_and_chooses_by_the_state_alone():
    policy, reward_X = toy.TableDenoiser(seed=3), rewards_of(3)
    found = expected_update(policy, reward_X, Gate(threshold=0.6), GroupRelative())
    exact = toy.exact_gradient(policy, reward_X)
    assert found.any() and (found - exact / 2).abs().max() > 1e-4


@dataclass(frozen=True)
class Drawn:
    """`entropy_sampled` where every row draws the wanted steps, weighed by their probability.

    Each trajectory has all its entropy in one step, which depends on its tokens. Three steps and
    a floor of 3/4 make q = 1/2, 1/4, 1/4, which float32 weights hold exactly.
    """

    wanted: tuple[int, ...]

    def __call__(self, rollout, key):
        step_B1 = (rollout.tokens_BL.sum(1) % 3).unsqueeze(1)
        rollout = replace(rollout, entropy_BL=(rollout.reveal_BL == step_B1).float())
        selector = Sampled(steps=len(self.wanted), floor=0.75)
        prob_BT = selector.probabilities(rollout)
        chosen_BK = torch.tensor(self.wanted).expand(len(prob_BT), -1)
        middle_BK = (prob_BT.cumsum(1) - prob_BT / 2).gather(1, chosen_BK)

        class Middle(Key):
            def uniform(self, sample_B, *shape):
                return middle_BK

        steps = selector(rollout, Middle(0, 0, "select"))
        assert torch.equal(steps.start_BK, chosen_BK)
        prob_B1 = prob_BT.gather(1, chosen_BK).prod(1, keepdim=True)
        return replace(steps, weight_BK=steps.weight_BK * prob_B1)


def over_all_draws(policy, reward_X, draws, loss=None):
    """Expected update over every sequence of draws."""
    tuples = itertools.product(range(3), repeat=draws)
    return sum(
        expected_update(policy, reward_X, Drawn(wanted), GroupRelative(), loss=loss)
        for wanted in tuples
    )


@pytest.mark.parametrize("draws", [1, 2])
def test_6_draws_by_entropy_have_the_full_gradient_as_mean(draws):
    policy, reward_X = toy.TableDenoiser(seed=6), rewards_of(6)
    exact = toy.exact_gradient(policy, reward_X)
    found = over_all_draws(policy, reward_X, draws)
    torch.testing.assert_close(found, exact / 2, rtol=0, atol=1e-12)


@pytest.mark.parametrize("normaliser", ["unit", "sequence", "row", "step"])
def test_6_a_mean_over_the_draws_leaves_one_over_their_number(normaliser):
    # `all` is divided by T = 3 steps, the draws by K = 2
    policy, reward_X, loss = toy.TableDenoiser(seed=7), rewards_of(7), PolicyGradient
    loss = loss(normaliser=normaliser)
    every = expected_update(policy, reward_X, All(), GroupRelative(), loss=loss)
    found = over_all_draws(policy, reward_X, 2, loss)
    torch.testing.assert_close(2 * found, 3 * every, rtol=0, atol=1e-9)


def confidence_order(policy: toy.TableDenoiser, reward_X: Tensor) -> tuple[Tensor, Tensor]:
    """Exact gradient and token-factorised surrogate when the surest candidate is committed."""
    n = policy.slots

    def visit(state: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Expected reward from a state, and a scalar whose gradient is the surrogate's."""
        hidden = [i for i in range(n) if state[i] == policy.mask_id]
        if not hidden:
            reward = reward_X[toy.index_of(torch.tensor(state))]
            return reward, torch.zeros((), dtype=torch.float64)
        logprob_NV = policy(torch.tensor([state])).logits[0].log_softmax(-1)
        value = surrogate = torch.zeros((), dtype=torch.float64)
        for drawn in itertools.product((0, 1), repeat=len(hidden)):
            each = torch.stack([logprob_NV[i, v] for i, v in zip(hidden, drawn, strict=True)])
            best = int(each.argmax())
            after = list(state)
            after[hidden[best]] = drawn[best]
            prob = each.sum().exp()
            reward, rest = visit(tuple(after))
            value = value + prob * reward
            surrogate = surrogate + prob.detach() * (reward.detach() * each[best] + rest)
        return value, surrogate

    value, surrogate = visit((policy.mask_id,) * n)
    sums = (value, surrogate)
    return tuple(torch.autograd.grad(s, policy.table, retain_graph=True)[0] for s in sums)


def test_7_in_confidence_order_the_step_logprob_is_a_surrogate():
    exact, surrogate = confidence_order(toy.TableDenoiser(seed=1), rewards_of(1))
    assert (surrogate - exact).norm() / exact.norm() > 1e-2


@few
@given(policy=table_policies(), seed=seeds)
def test_8_keeping_every_step_by_entropy_is_keeping_all(policy, seed):
    reward_X = rewards_of(seed)
    for advantage in (GroupRelative(), LeaveOneOut()):
        all_ = expected_update(policy, reward_X, All(), advantage)
        ranked = expected_update(policy, reward_X, Entropy(steps=3), advantage)
        torch.testing.assert_close(ranked, all_, rtol=0, atol=1e-10)


@settings(max_examples=40)
@given(case=cases())
def test_8_the_order_of_chosen_steps_does_not_change_the_gradient(case):
    policy, rollout = toy.TableDenoiser(seed=case.seed), toy.trajectories((1, 1, 1))
    steps, order = inputs.every_step(rollout), case.order("steps", 3)
    shuffled = Steps(steps.start_BK[:, order], steps.stop_BK[:, order], steps.weight_BK[:, order])
    advantage_BU = case.normal("advantage", len(rollout.tokens_BL), 1).expand(-1, 3)
    found = []
    for each in (steps, shuffled):
        views = DenoisingSteps().plan(rollout, each, KEY, 1)
        new = DenoisingSteps().pool(
            toy.logprobs(policy, rollout, views), views, rollout, advantage_BU
        )
        loss = Clipped(kl="none", normaliser="step")
        old = inputs.estimate(new.score_BU.detach())
        scalar, _ = loss(new, old, None, advantage_BU, Units.of(views, rollout))
        found.append(torch.autograd.grad(scalar, policy.table)[0])
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-10)


@given(case=cases())
@pytest.mark.parametrize(
    "selector", [All(), Entropy(steps=4), Uniform(steps=3), Gate(), Sampled(steps=2), Mass()],
    ids=repr,
)  # fmt: skip
def test_9_a_choice_does_not_depend_on_the_batch(selector, case):
    rollout = inputs.rollout(case, min_steps=4)
    order = case.order("rows", len(rollout.tokens_BL))
    whole = selector(rollout, KEY)
    for rows in (order, order[:1]):
        part = selector(take(rollout, rows), KEY)
        assert torch.equal(part.start_BK, whole.start_BK[rows])
        assert torch.equal(part.weight_BK, whole.weight_BK[rows])


def test_10_entropies_of_a_flat_and_of_a_certain_policy():
    # a flat law over the 7 tokens of the toy vocabulary has ln 7 nats, a certain one 0
    sampler = SAMPLERS.get("random_order")(answer_length=4, steps=2)
    prompts = inputs.prompts(inputs.Case(0))
    flat = sampler(ToyDenoiser(scale=0.0), prompts, inputs.Case(0).key("sample"))
    committed = flat.reveal_BL >= 0
    assert flat.entropy_BL[committed].tolist() == pytest.approx(
        [math.log(7)] * int(committed.sum())
    )
    sure = sampler(ToyDenoiser(scale=20.0), prompts, inputs.Case(0).key("sample"))
    assert sure.entropy_BL[committed].max() < 1e-3


@settings(max_examples=20)
@given(case=cases(), greedy=st.booleans())
@pytest.mark.parametrize("name", ["low_confidence", "random_order"])
def test_11_the_guess_before_the_last_step_differs_in_what_that_step_commits(name, case, greedy):
    temperature = 0.0 if greedy else 1.0
    sampler = SAMPLERS.get(name)(answer_length=6, block_length=3, steps=4, temperature=temperature)
    policy = ToyDenoiser(case.seed)
    rollout = sampler(policy, inputs.prompts(case), case.key("sample"))
    steps = All()(rollout, KEY)
    views = DenoisingSteps().plan(rollout, steps, KEY, 1)
    scores = score_and_guess(
        policy, rollout, views, steps, micro_batch=7, guesses=1, key=case.key("guesses")
    )
    assert scores.guess_BKL is not None
    different_BL = scores.guess_BKL[:, 3] != rollout.tokens_BL
    assert not different_BL[rollout.reveal_BL != 3].any()
    if greedy:
        assert not different_BL.any()


@given(case=cases())
def test_12_states_follow_from_the_steps_at_which_slots_were_committed(case):
    rollout = inputs.rollout(case)
    B, T = len(rollout.tokens_BL), rollout.num_steps
    state_BL = torch.where(rollout.answer_BL, inputs.MASK_ID, rollout.tokens_BL)
    hide_BKL = rollout.hidden_before(torch.arange(T + 1).expand(B, T + 1))
    for step in range(T + 1):
        rebuilt_BL = rollout.tokens_BL.masked_fill(hide_BKL[:, step], inputs.MASK_ID)
        assert torch.equal(rebuilt_BL, state_BL)
        state_BL = torch.where(rollout.reveal_BL == step, rollout.tokens_BL, state_BL)


@settings(max_examples=20)
@given(case=cases())
def test_13_the_first_gradient_is_that_of_reinforce(case):
    policy, rollout = toy.TableDenoiser(seed=case.seed), toy.trajectories((1, 2))
    views = DenoisingSteps().plan(rollout, All()(rollout, KEY), KEY, 1)
    logprob_BKL = toy.logprobs(policy, rollout, views).detach()
    advantage_BU = case.normal("advantage", len(rollout.tokens_BL), 2)
    old = DenoisingSteps().pool(logprob_BKL, views, rollout, advantage_BU)
    found = []
    for loss in (Clipped(kl="none", normaliser="step"), PolicyGradient(normaliser="step")):
        leaf_BKL = logprob_BKL.clone().requires_grad_()
        new = DenoisingSteps().pool(leaf_BKL, views, rollout, advantage_BU)
        scalar, metrics = loss(new, old, None, advantage_BU, Units.of(views, rollout))
        found.append(torch.autograd.grad(scalar, leaf_BKL)[0])
        if "ratio" in metrics:
            assert (metrics["ratio"] == 1).all()
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-6)


@settings(max_examples=40)
@given(case=scored_groups())
def test_14_advantages_sum_to_0_over_a_group_at_every_rank(case):
    reward_B, reward_BK, G = case
    sum_PK = credit(Stepwise(), reward_B, reward_BK, G).view(-1, G, reward_BK.shape[1]).sum(1)
    torch.testing.assert_close(sum_PK, torch.zeros_like(sum_PK), rtol=0, atol=1e-5)


@few
@given(seed=seeds)
@pytest.mark.parametrize("selector", [All(), Entropy(steps=3), Uniform(steps=3)], ids=repr)
def test_15_steps_that_commit_nothing_contribute_nothing(selector, seed):
    # 0, 3 and 1 slots at the three steps
    policy, reward_X, counts = toy.TableDenoiser(4, seed), rewards_of(seed, 4), (0, 3, 1)
    exact = toy.exact_gradient(policy, reward_X, counts)
    found = expected_update(policy, reward_X, selector, GroupRelative(), counts)
    torch.testing.assert_close(found, exact / 2, rtol=0, atol=1e-12)


@given(case=cases())
def test_15_no_number_is_lost_when_steps_are_uneven(case):
    rollout = inputs.rollout(case, complete=False)
    steps = Entropy(steps=4)(rollout, KEY)
    views = DenoisingSteps().plan(rollout, steps, KEY, 1)
    leaf_BKL = (-case.uniform("logprob", *views.score_BKL.shape) * views.score_BKL).requires_grad_()
    advantage_BU = views.credit(case.normal("advantage", len(steps.start_BK), 4))
    new = DenoisingSteps().pool(leaf_BKL, views, rollout, advantage_BU)
    old = inputs.estimate(new.ratio_BU.detach() + 0.1)
    for how in ("step", "token", "unit", "sequence"):
        loss = Clipped(kl="k3", kl_coef=0.1, normaliser=how)
        scalar, _ = loss(new, old, old, advantage_BU, Units.of(views, rollout))
        (grad_BKL,) = torch.autograd.grad(scalar, leaf_BKL, retain_graph=True)
        assert scalar.isfinite() and grad_BKL.isfinite().all()
        assert not grad_BKL[~views.score_BKL].any()


@few
@given(policy=table_policies(), other=table_policies())
def test_16_the_exact_kl_is_the_mean_of_k1_and_no_estimate_of_k3_is_negative(policy, other):
    rollout = toy.trajectories((1, 1, 1))
    views = DenoisingSteps().plan(rollout, All()(rollout, KEY), KEY, 1)
    scores = score(policy, rollout, views, micro_batch=200, reference=other)
    same_scores = score(policy, rollout, views, micro_batch=200, reference=policy)
    assert scores.kl_BKL is not None and same_scores.kl_BKL is not None
    assert scores.kl_BKL.min() >= 0 and same_scores.kl_BKL.abs().max() == 0

    new_BKL, anchor_BKL = (toy.logprobs(each, rollout, views).detach() for each in (policy, other))
    zero_BU = torch.zeros(len(new_BKL), 3)
    new, anchor = (
        DenoisingSteps().pool(each, views, rollout, zero_BU) for each in (new_BKL, anchor_BKL)
    )
    chance_BU, facts = new.score_BU.exp(), Units.of(views, rollout)
    for kind in ("k1", "k3"):
        loss = Clipped(kl=kind, kl_coef=1.0, normaliser="unit")
        _, metrics = loss(new, new, anchor, zero_BU, facts)
        assert kind == "k1" or metrics["kl"].min() >= 0
        # the rows hold every token of every state: weighed by its chance, the mean is exact
        found, exact = chance_BU * metrics["kl"], chance_BU * views.total(scores.kl_BKL)
        torch.testing.assert_close(found.sum(), exact.sum(), rtol=1e-5, atol=1e-5)


@given(case=cases())
def test_17_the_whole_mass_is_every_step_and_more_mass_is_more_steps(case):
    rollout = inputs.rollout(case, complete=case.truth("complete"))
    shares = sorted({1.0, *case.uniform("shares", 4, low=0.01).tolist()})
    found = [Mass(share=share)(rollout, KEY).weight_BK > 0 for share in shares]
    for less, more in itertools.pairwise(found):
        assert not (less & ~more).any()  # columns are ranks: what is kept stays kept
    busy_B = (All()(rollout, KEY).weight_BK > 0).sum(1)
    assert torch.equal(found[-1].sum(1), busy_B)
