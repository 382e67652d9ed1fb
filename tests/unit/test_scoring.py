"""The scorer: hand-computed log-probs, exact gradients whatever the chunks, one-shot guesses."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dllmzoo.laws import inputs
from dllmzoo.laws.network import ToyDenoiser, ToyOutput
from dllmzoo.laws.toy import TableDenoiser, logprobs
from dllmzoo.records import Key, Rollout, Steps, Views, take
from dllmzoo.scoring import replay, score, score_and_guess, states_before
from dllmzoo.zoo import LIKELIHOODS
from tests.strategies import chosen, played


class Table(TableDenoiser):
    """The table policy, scored in its own precision."""

    dtype = torch.float64


class Counted(torch.nn.Module):
    """A policy that remembers what it was asked."""

    dtype = torch.float32

    def __init__(self, policy) -> None:
        super().__init__()
        self.policy, self.calls = policy, []
        self.mask_id, self.stop_ids = policy.mask_id, policy.stop_ids

    def forward(self, input_ids, attention_mask=None, **options):
        self.calls.append((input_ids, attention_mask, options))
        return self.policy(input_ids, attention_mask, **options)


class Same(torch.nn.Module):
    """A policy with the same logits everywhere."""

    mask_id, stop_ids, block_size = 2, (), None

    def __init__(self, *logits: float, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.logits_V = torch.tensor(logits, dtype=dtype)

    def forward(self, input_ids, attention_mask=None, *, logits_at=None, **options):
        logits_BLV = self.logits_V.expand(*input_ids.shape, -1)
        return ToyOutput(logits_BLV if logits_at is None else logits_BLV[logits_at])


def whole(rollout: Rollout, temperature: float = 1.0) -> Views:
    """One view that hides and scores the whole answer."""
    hide_BKL = rollout.answer_BL.unsqueeze(1)
    first = states_before(rollout, chosen([[0]] * len(hide_BKL)))
    return replace(first, hide_BKL=hide_BKL, score_BKL=hide_BKL, temperature=temperature)


def random_views(rollout: Rollout, K: int, seed: int = 0) -> Views:
    """Views with random masks, some of which score nothing; every slot a unit."""
    generator = torch.Generator().manual_seed(seed)
    B, L = rollout.tokens_BL.shape
    hide_BKL = (torch.rand(B, K, L, generator=generator) < 0.6) & rollout.answer_BL.unsqueeze(1)
    score_BKL = hide_BKL & (torch.rand(B, K, L, generator=generator) < 0.8)
    score_BKL[0, 0] = False
    zero_BKL = torch.zeros(B, K, L, dtype=torch.long)
    ones_B1 = torch.ones(B, 1)
    return Views(
        hide_BKL, score_BKL, torch.rand(B, K, L, generator=generator), zero_BKL, ones_B1, ones_B1,
        torch.zeros(B, 1, dtype=torch.long),
    )  # fmt: skip


def rollout_of_two() -> Rollout:
    """Six answers of three slots over two tokens."""
    tokens = [[0, 1, 1], [1, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0], [0, 1, 0]]
    return played(tokens, [[0, 1, 2], [2, 1, 0], [0, 0, 1], [1, 2, 0], [0, 2, 1], [1, 0, 2]])


def test_log_probs_by_hand():
    # logits (ln 3, 0, mask -inf-ish): p = 3/4, 1/4
    rollout = played([[0, 1]], [[0, 1]])
    found = score(Same(math.log(3), 0.0, -1e4), rollout, whole(rollout), micro_batch=4)
    expected = [math.log(0.75), math.log(0.25)]
    assert found.logprob_BKL[0, 0, -2:].tolist() == pytest.approx(expected, abs=1e-6)
    assert found.logprob_BKL[0, 0, 0] == 0.0  # the prompt is not scored
    assert found.guess_BKL is None and found.kl_BKL is None


def test_the_temperature_divides_the_logits():
    # (ln 9, 0) / 2 = (ln 3, 0)
    rollout = played([[0]], [[0]])
    found = score(Same(math.log(9), 0.0, -1e4), rollout, whole(rollout, 2.0), micro_batch=4)
    assert found.logprob_BKL[0, 0, -1].item() == pytest.approx(math.log(0.75), abs=1e-6)


def test_the_mask_column_is_part_of_the_softmax():
    # logits 0, 0, 0: each of three tokens 1/3, the mask token included, as in every release
    rollout = played([[0]], [[0]])
    found = score(Same(0.0, 0.0, 0.0), rollout, whole(rollout), micro_batch=4)
    assert found.logprob_BKL[0, 0, -1].item() == pytest.approx(-math.log(3), abs=1e-6)


def test_the_exact_kl_by_hand():
    # KL((3/4, 1/4) || (1/2, 1/2)) = .75 ln 1.5 + .25 ln .5 = .13081
    rollout = played([[0]], [[0]])
    found = score(
        Same(math.log(3), 0.0, -1e4), rollout, whole(rollout), micro_batch=4,
        reference=Same(0.0, 0.0, -1e4),
    )  # fmt: skip
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert found.kl_BKL[0, 0, -1].item() == pytest.approx(expected, abs=1e-6)
    assert found.kl_BKL[0, 0, 0] == 0.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_log_probs_are_float32_whatever_the_logits(dtype):
    rollout = played([[0]], [[0]])
    found = score(Same(math.log(3), 0.0, -1e4, dtype=dtype), rollout, whole(rollout), micro_batch=4)
    assert found.logprob_BKL.dtype == torch.float32
    assert found.logprob_BKL[0, 0, -1].item() == pytest.approx(math.log(0.75), abs=2e-3)


def test_the_input_hides_what_the_view_hides_and_keeps_the_padding_mask():
    policy = Counted(Same(0.0, 0.0, 0.0))
    rollout = played([[0, 1], [1, 0]], [[0, 1], [1, 0]])
    rollout = replace(rollout, attend_BL=torch.tensor([[False, True, True], [True, True, True]]))
    hide_BKL = torch.tensor([[[False, True, False]], [[False, False, True]]])
    views = replace(whole(rollout), hide_BKL=hide_BKL, score_BKL=hide_BKL)
    score(policy, rollout, views, micro_batch=8)
    ids, attend, options = policy.calls[0]
    assert ids.tolist() == [[0, 2, 1], [0, 1, 2]]
    assert attend.tolist() == rollout.attend_BL.tolist()
    assert options["logits_at"].tolist() == hide_BKL[:, 0].tolist()


def test_views_that_score_nothing_cost_no_forward_and_the_head_reads_scored_slots_only():
    policy = Counted(Table())
    rollout = rollout_of_two()
    views = random_views(rollout, K=2)
    found = score(policy, rollout, views, micro_batch=5)
    rows = sum(len(ids) for ids, _, _ in policy.calls)
    slots = sum(int(options["logits_at"].sum()) for _, _, options in policy.calls)
    assert rows == int(views.score_BKL.any(2).sum()) < 12
    assert slots == int(views.score_BKL.sum())
    assert all(len(ids) <= 5 for ids, _, _ in policy.calls)
    assert not found.logprob_BKL[~views.score_BKL].any()


def test_nothing_scored_at_all_is_all_zero_and_runs_nothing():
    policy, rollout = Counted(Table()), rollout_of_two()
    views = random_views(rollout, K=1)
    views = replace(views, score_BKL=torch.zeros_like(views.score_BKL))
    assert not score(policy, rollout, views, micro_batch=4).logprob_BKL.any()
    replay(policy, rollout, views, torch.zeros(6, 1, 4), micro_batch=4)
    assert policy.calls == []


@pytest.mark.parametrize("micro_batch", range(1, 19))
def test_the_micro_batch_changes_no_log_prob_and_no_gradient(micro_batch):
    rollout, policy = rollout_of_two(), Table(seed=3)
    views = random_views(rollout, K=3)
    grad_BKL = torch.randn(views.score_BKL.shape, generator=torch.Generator().manual_seed(1))
    expected_BKL = logprobs(policy, rollout, views)
    (expected_BKL * grad_BKL).sum().backward()
    expected = policy.table.grad.clone()
    policy.table.grad = None
    found_BKL = score(policy, rollout, views, micro_batch=micro_batch).logprob_BKL
    torch.testing.assert_close(found_BKL, expected_BKL.detach(), rtol=0, atol=1e-12)
    again_BKL = replay(policy, rollout, views, grad_BKL, micro_batch=micro_batch)
    torch.testing.assert_close(again_BKL, found_BKL, rtol=0, atol=1e-12)
    torch.testing.assert_close(policy.table.grad, expected, rtol=0, atol=1e-10)


def direct_kl(policy: Table, reference: Table, rollout: Rollout, views: Views) -> Tensor:
    """kl_BKL by plain autograd over whole sequences."""
    B, K, L = views.score_BKL.shape
    tokens_BKL = rollout.tokens_BL.unsqueeze(1).expand(B, K, L)
    noised = tokens_BKL.masked_fill(views.hide_BKL, policy.mask_id).reshape(B * K, L)
    new, ref = (p(noised).logits.view(B, K, L, 3).log_softmax(-1) for p in (policy, reference))
    return torch.where(views.score_BKL, (new.exp() * (new - ref.detach())).sum(-1), 0)


LOSSES = {
    "sum": lambda logprob, kl: (logprob * 0.7).sum() + 0.1 * kl.sum(),
    "exponential of a sum over views": lambda logprob, kl: (logprob.sum(1).exp() * (1 + kl.sum(1)))
    .sum(),
    "softmax over the group": lambda logprob, kl: -(
        logprob.sum((1, 2)).detach().softmax(0) * logprob.sum((1, 2))
    ).sum() + kl.square().sum(),
    "log of a mean of powers": lambda logprob, kl: (1.5 * logprob).exp().mean(1).log().sum()
    + kl.sum().sqrt(),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("micro_batch", [1, 4, 64])
def test_two_phases_give_the_gradient_of_direct_differentiation(name, micro_batch):
    rollout, policy, reference = rollout_of_two(), Table(seed=3), Table(seed=4)
    views, loss = random_views(rollout, K=2), LOSSES[name]
    loss(logprobs(policy, rollout, views), direct_kl(policy, reference, rollout, views)).backward()
    expected = policy.table.grad.clone()
    policy.table.grad = None

    scores = score(policy, rollout, views, micro_batch=micro_batch, reference=reference)
    leaf_BKL, kl_BKL = scores.logprob_BKL.requires_grad_(), scores.kl_BKL.requires_grad_()
    loss(leaf_BKL, kl_BKL).backward()
    replay(
        policy, rollout, views, leaf_BKL.grad, micro_batch=micro_batch, kl_grad_BKL=kl_BKL.grad,
        reference=reference,
    )  # fmt: skip
    torch.testing.assert_close(policy.table.grad, expected, rtol=0, atol=1e-10)
    assert reference.table.grad is None


def test_replay_adds_to_the_gradient_that_is_there():
    rollout, policy = rollout_of_two(), Table(seed=3)
    views = random_views(rollout, K=1)
    replay(policy, rollout, views, torch.ones(6, 1, 4), micro_batch=4)
    once = policy.table.grad.clone()
    replay(policy, rollout, views, torch.ones(6, 1, 4), micro_batch=4)
    torch.testing.assert_close(policy.table.grad, 2 * once)


def test_more_padding_moves_no_log_prob_and_no_guess():
    prompts = inputs.Prompts(
        torch.tensor([[5, 1, 2], [3, 4, 1]]), torch.tensor([[0, 1, 1], [1, 1, 1]]).bool(),
        torch.tensor([0, 1]), torch.tensor([7, 9]), [{}, {}],
    )  # fmt: skip
    tokens_BN = torch.tensor([[0, 3, 2], [4, 4, 1]])
    rollout = inputs.played(tokens_BN, torch.tensor([[0, 1, 2], [2, 0, 1]]), start=prompts)
    pad = torch.nn.functional.pad
    wide = {
        name: pad(getattr(rollout, name), (4, 0), value=fill)
        for name, fill in (
            ("tokens_BL", 5), ("attend_BL", 0), ("answer_BL", 0), ("valid_BL", 0),
            ("reveal_BL", -1),
        )
    }  # fmt: skip
    wider = replace(rollout, **wide)
    policy, steps = ToyDenoiser(3), chosen([[0, 1], [1, 0]])
    found = [
        score(
            policy, each, states_before(each, steps), micro_batch=3, guesses=3,
            key=Key(0, 0, "guesses"),
        )
        for each in (rollout, wider)
    ]  # fmt: skip
    torch.testing.assert_close(found[1].logprob_BKL[..., 4:], found[0].logprob_BKL)
    assert torch.equal(found[1].guess_BKL[..., 4:], found[0].guess_BKL)


def test_the_second_stream_and_its_context_reach_the_policy():
    policy = Counted(Same(0.0, 0.0, 0.0))
    rollout = played([[0, 1]], [[0, 1]])
    views = replace(whole(rollout), layout="dual_stream", context="token_causal")
    score(policy, rollout, views, micro_batch=2)
    clean, _, options = policy.calls[0]
    assert clean.tolist() == [[0, 0, 1]] and options["target_ids"].tolist() == [[0, 2, 2]]
    assert options["context"] == "token_causal"


def test_greedy_guesses_fill_hidden_slots_keep_seen_ones_and_never_write_the_mask():
    policy = Same(0.0, 1.0, 50.0)  # the mask token has the largest logit
    rollout = played([[0, 0, 0]], [[0, 1, 2]])
    states = states_before(rollout, chosen([[1, 0]]))
    found = score(policy, rollout, states, micro_batch=4, guesses=1)
    assert found.guess_BKL[0, :, 1:].tolist() == [[0, 1, 1], [1, 1, 1]]
    assert found.guess_BKL[0, :, 0].tolist() == [0, 0]  # the prompt


def test_a_state_with_nothing_hidden_is_guessed_by_the_final_answer():
    rollout = played([[0, 1, 0]], [[0, 1, 1]], num_steps=4)
    steps = chosen([[3, 1]], [[0.0, 1.0]])  # step 3 committed nothing: unused
    states = states_before(rollout, steps)
    for guesses in (1, 2):
        found = score(
            Same(0.0, 9.0, 0.0), rollout, states, micro_batch=4, guesses=guesses,
            key=Key(0, 0, "guesses"),
        )  # fmt: skip
        assert found.guess_BKL[0, :guesses, 1:].tolist() == [[0, 1, 0]] * guesses
        assert found.guess_BKL[0, guesses:, 1].tolist() == [0] * guesses


def test_slots_that_were_never_committed_are_guessed_too():
    rollout = played([[0, 0, 0]], [[0, -1, -1]])
    states = states_before(rollout, chosen([[0]]))
    found = score(Same(0.0, 1.0, 0.0), rollout, states, micro_batch=4, guesses=1)
    assert found.guess_BKL[0, 0, 1:].tolist() == [1, 1, 1]


@pytest.mark.parametrize("scored_at", [1.0, 3.0])
def test_sampled_guesses_follow_the_law_at_the_rollouts_temperature(scored_at):
    # logits (ln 4, 0) at temperature 2: (ln 2, 0), so 1/3 of the guesses are token 1;
    # of 6000 numbers the share has a standard deviation of .0061
    rollout = played([[0, 0]] * 1000, [[0, 0]] * 1000, temperature=2.0)
    views = replace(states_before(rollout, chosen([[0]] * 1000)), temperature=scored_at)
    found = score(
        Same(math.log(4), 0.0, 9.0), rollout, views, micro_batch=512, guesses=3,
        key=Key(1, 0, "guesses"),
    )  # fmt: skip
    guessed = found.guess_BKL[..., 1:]
    assert guessed.shape == (1000, 3, 2)
    assert guessed.float().mean().item() == pytest.approx(1 / 3, abs=0.025)
    assert guessed.float().mean((0, 2)).tolist() == pytest.approx([1 / 3] * 3, abs=0.04)
    assert not torch.equal(guessed[:, 0], guessed[:, 1])


def test_sampled_guesses_are_ordered_by_state_then_by_number():
    # state 0 sees the first slot (a 0), state 1 sees nothing; token 1 is certain
    rollout = played([[0, 0]], [[0, 1]])
    states = states_before(rollout, chosen([[1, 0]]))
    found = score(
        Same(-99.0, 0.0, 0.0), rollout, states, micro_batch=4, guesses=2, key=Key(0, 0, "guesses")
    )
    assert found.guess_BKL[0, :, 1:].tolist() == [[0, 1], [0, 1], [1, 1], [1, 1]]


@pytest.mark.parametrize("guesses", [1, 3])
def test_guesses_depend_on_their_own_row_alone(guesses):
    rollout = inputs.rollout(inputs.Case(4, 6), min_steps=3)
    steps = chosen([[0, 2, 1]] * len(rollout.tokens_BL))
    policy, key = ToyDenoiser(3), Key(0, 4, "guesses")
    views = states_before(rollout, steps)
    every = score(policy, rollout, views, micro_batch=50, guesses=guesses, key=key).guess_BKL
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(0))
    some = score(
        policy, take(rollout, order), take(views, order), micro_batch=2, guesses=guesses, key=key
    ).guess_BKL
    assert torch.equal(some, every[order])


def guessed(policy, rollout: Rollout, views: Views, steps: Steps):
    return score_and_guess(
        policy, rollout, views, steps, micro_batch=64, guesses=1, key=Key(0, 0, "guesses")
    )


def test_scoring_the_chosen_states_gives_their_guesses_in_the_same_pass():
    rollout, policy = rollout_of_two(), Counted(Table(seed=2))
    steps = chosen([[0, 2]] * 6)
    views = LIKELIHOODS.get("denoising_steps")().plan(rollout, steps, Key(0, 0, "views"), 1)
    found = guessed(policy, rollout, views, steps)
    assert sum(len(ids) for ids, _, _ in policy.calls) == int(views.score_BKL.any(2).sum())
    plain = score(policy, rollout, views, micro_batch=64)
    torch.testing.assert_close(found.logprob_BKL, plain.logprob_BKL)
    states = states_before(rollout, steps)
    alone = score(policy, rollout, states, micro_batch=64, guesses=1)
    assert torch.equal(found.guess_BKL, alone.guess_BKL)


def test_views_of_other_states_cost_a_second_pass():
    rollout, policy = rollout_of_two(), Counted(Table(seed=2))
    steps = chosen([[0, 2]] * 6)
    views = LIKELIHOODS.get("mean_field")(prompt_noise=0.0).plan(rollout, None, Key(0, 0, "v"), 1)
    found = guessed(policy, rollout, views, steps)
    assert len(policy.calls) == 2 and found.logprob_BKL.shape[1] == 1
    alone = score(policy, rollout, states_before(rollout, steps), micro_batch=64, guesses=1)
    assert torch.equal(found.guess_BKL, alone.guess_BKL)


def test_a_step_chosen_twice_is_guessed_twice_though_it_is_scored_once():
    rollout, policy = rollout_of_two(), Table(seed=2)
    steps = chosen([[1, 1]] * 6)
    views = LIKELIHOODS.get("denoising_steps")(unit="slot").plan(rollout, steps, Key(0, 0, "v"), 1)
    assert not views.score_BKL[:, 1].any()
    found = guessed(policy, rollout, views, steps)
    assert torch.equal(found.guess_BKL[:, 0], found.guess_BKL[:, 1])
    alone = score(policy, rollout, states_before(rollout, steps), micro_batch=64, guesses=1)
    assert torch.equal(found.guess_BKL, alone.guess_BKL)
