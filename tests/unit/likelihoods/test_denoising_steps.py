"""Denoising-step likelihood: views, units, weights and the exact law of a trajectory."""

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.errors import UsageError
from dllmzoo.laws import toy
from dllmzoo.records import Key, Steps, Units
from dllmzoo.scoring import replay, score
from dllmzoo.zoo import LIKELIHOODS, LOSSES, SELECTORS
from tests.strategies import chosen, played

DenoisingSteps = LIKELIHOODS.get("denoising_steps")
KEY = Key(0, 0, "views")
NO_CREDIT = torch.zeros(1, 1)


def plan(rollout, steps, **options):
    return DenoisingSteps(**options).plan(rollout, steps, KEY, 1)


def test_paper_name_is_an_alias():
    assert LIKELIHOODS.get("trajectory") is DenoisingSteps


def test_a_view_hides_what_was_masked_and_scores_what_was_committed():
    # one prompt word, then slots committed at steps 1, 0, 1, 2
    rollout = played([[1, 2, 3, 4]], [[1, 0, 1, 2]])
    views = plan(rollout, chosen([[1, 0]]))
    assert views.hide_BKL.int().tolist() == [[[0, 1, 0, 1, 1], [0, 1, 1, 1, 1]]]
    assert views.score_BKL.int().tolist() == [[[0, 1, 0, 1, 0], [0, 0, 1, 0, 0]]]
    assert views.size_BU.tolist() == [[2.0, 1.0]]
    assert views.column_BU.tolist() == [[0, 1]]
    logprob_BKL = torch.tensor([[[0, -1.0, 0, -2.0, 0], [0, 0, -4.0, 0, 0]]])
    pooled = DenoisingSteps().pool(logprob_BKL, views, rollout, NO_CREDIT)
    assert pooled.score_BU.tolist() == [[-3.0, -4.0]]
    assert pooled.ratio_BU is pooled.score_BU


def test_a_span_scores_all_its_steps_from_the_state_at_its_start():
    rollout = played([[1, 2, 3]], [[0, 1, 2]])
    views = plan(rollout, Steps(torch.tensor([[1]]), torch.tensor([[3]]), torch.ones(1, 1)))
    assert views.hide_BKL.int().tolist() == [[[0, 0, 1, 1]]]
    assert views.score_BKL.int().tolist() == [[[0, 0, 1, 1]]]
    assert views.size_BU.tolist() == [[2.0]]


def test_slots_that_were_never_committed_are_hidden_and_not_scored():
    rollout = played([[1, 2, 3]], [[0, -1, 1]])
    views = plan(rollout, chosen([[1]]))
    assert views.hide_BKL.int().tolist() == [[[0, 0, 1, 1]]]
    assert views.score_BKL.int().tolist() == [[[0, 0, 0, 1]]]


def test_tokens_behind_the_end_are_scored_too():
    # 5 is the end token: slot 2 is not valid, but step 1 did commit it
    rollout = played([[1, 5, 2]], [[0, 0, 1]])
    assert plan(rollout, chosen([[1]])).score_BKL.int().tolist() == [[[0, 0, 0, 1]]]


@pytest.mark.parametrize("unit", ["step", "slot"])
def test_unused_entries_and_empty_steps_score_nothing(unit):
    # c_s = 3, 0, 1; entry 2 has weight 0
    rollout = played([[1, 2, 3, 4]], [[0, 0, 0, 2]], num_steps=3)
    views = plan(rollout, chosen([[0, 1, 2]], [[1.0, 1.0, 0.0]]), unit=unit)
    assert views.score_BKL.any(2).tolist() == [[True, False, False]]
    assert int(views.live_BU.sum()) == (1 if unit == "step" else 3)


def test_step_units_carry_the_selectors_weight_on_their_term_only():
    rollout = played([[1, 2]], [[0, 1]])
    views = plan(rollout, chosen([[0, 1]], [[2.0, 0.5]]))
    assert views.weight_BU.tolist() == [[2.0, 0.5]]
    assert set(views.weight_BKL[views.score_BKL].tolist()) == {1.0}


def test_a_slot_is_judged_by_the_column_of_the_step_that_committed_it():
    # slots committed at steps 2, 0, 1; chosen in the order 1, 2: columns 0 and 1
    rollout = played([[1, 2, 3]], [[2, 0, 1]])
    views = plan(rollout, chosen([[1, 2]], [[3.0, 0.5]]), unit="slot")
    assert views.live_BU.tolist() == [[False, True, False, True]]
    credit_BU = views.credit(torch.tensor([[10.0, 20.0]]))
    assert credit_BU[views.live_BU].tolist() == [20.0, 10.0]
    assert views.weight_BU[views.live_BU].tolist() == [0.5, 3.0]
    assert views.size_BU[views.live_BU].tolist() == [1.0, 1.0]


def test_a_step_named_twice_is_scored_once_with_both_weights():
    rollout = played([[1, 2]], [[0, 1]])
    steps = chosen([[1, 0, 1]], [[0.5, 1.0, 0.25]])
    views = plan(rollout, steps, unit="slot")
    assert views.score_BKL.any(2).tolist() == [[True, True, False]]
    assert views.weight_BU.tolist() == [[0.0, 1.0, 0.75]]
    logprob_BKL = torch.where(views.score_BKL, -2.0, 0.0)
    pooled = DenoisingSteps(unit="slot").pool(logprob_BKL, views, rollout, NO_CREDIT)
    assert pooled.score_BU.tolist() == [[0.0, -2.0, -2.0]]


def test_slots_of_a_step_add_up_to_the_step():
    rollout = played([[1, 2, 3, 4]], [[1, 0, 1, 2]])
    steps = SELECTORS.get("all")()(rollout, KEY)
    by_step, by_slot = (plan(rollout, steps, unit=unit) for unit in ("step", "slot"))
    logprob_BKL = torch.where(by_step.score_BKL, torch.arange(-5.0, 0.0), 0)
    assert by_step.total(logprob_BKL).sum() == by_slot.total(logprob_BKL).sum() == -10.0


def test_temperature_is_the_samplers_unless_given():
    rollout = played([[1]], [[0]], temperature=0.9)
    assert plan(rollout, chosen([[0]])).temperature == 0.9
    assert plan(rollout, chosen([[0]]), temperature=1.0).temperature == 1.0
    greedy = played([[1]], [[0]], temperature=0.0)
    assert plan(greedy, chosen([[0]])).temperature == 1.0


def test_missing_steps_are_refused():
    with pytest.raises(UsageError, match="add a selector"):
        plan(played([[1]], [[0]]), None)


def test_unknown_units_are_refused():
    with pytest.raises(ValidationError):
        DenoisingSteps(unit="sequence")


@pytest.mark.parametrize("counts", [(1, 1, 1), (2, 1), (0, 3), (1, 0, 2)])
def test_all_steps_add_up_to_the_trajectory(counts):
    policy, rollout = toy.TableDenoiser(), toy.trajectories(counts)
    views = plan(rollout, SELECTORS.get("all")()(rollout, KEY))
    pooled = DenoisingSteps().pool(
        toy.logprobs(policy, rollout, views), views, rollout, torch.zeros(views.size_BU.shape)
    )
    torch.testing.assert_close(
        pooled.score_BU.sum(1), toy.chain_logprob(policy, rollout), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("unit", ["step", "slot"])
def test_views_of_all_steps_score_each_committed_slot_once(unit):
    rollout = toy.trajectories((2, 0, 1))
    views = plan(rollout, SELECTORS.get("all")()(rollout, KEY), unit=unit)
    assert torch.equal(views.score_BKL.sum(1), rollout.answer_BL.long())


@pytest.mark.parametrize("name", ["clipped_surrogate", "policy_gradient"])
def test_first_pass_has_ratio_one_and_the_gradient_of_reinforce(name):
    policy, rollout = toy.TableDenoiser(), toy.trajectories((2, 0, 1))
    likelihood = DenoisingSteps()
    views = plan(rollout, SELECTORS.get("all")()(rollout, KEY))
    advantage_BU = torch.linspace(-1, 1, views.size_BU.numel()).view(views.size_BU.shape)
    leaf_BKL = score(policy, rollout, views, micro_batch=7).logprob_BKL.requires_grad_()
    new = likelihood.pool(leaf_BKL, views, rollout, advantage_BU)
    with torch.no_grad():
        old = likelihood.pool(
            score(policy, rollout, views, micro_batch=7).logprob_BKL, views, rollout, advantage_BU
        )
    options = {"kl": "none", "normaliser": "step"}
    value, metrics = LOSSES.get(name)(**options)(
        new, old, None, advantage_BU, Units.of(views, rollout)
    )
    value.backward()
    if "ratio" in metrics:
        assert (metrics["ratio"] == 1).all() and not metrics["clip_fraction"].any()
    replay(policy, rollout, views, leaf_BKL.grad, micro_batch=5)

    # reinforce by hand: mean over the live steps of -A log pi / c_s, straight through autograd
    direct = views.total(toy.logprobs(policy, rollout, views))
    live_BU = views.live_BU
    expected = (-advantage_BU * direct / views.size_BU.clamp(min=1))[live_BU].mean()
    (grad,) = torch.autograd.grad(expected, policy.table)
    torch.testing.assert_close(policy.table.grad, grad, rtol=1e-5, atol=1e-7)


def test_uneven_steps_give_finite_gradients_and_empty_ones_nothing():
    # c_s = 1, 0, 3
    rollout = played([[1, 2, 3, 4]] * 2, [[0, 2, 2, 2]] * 2, num_steps=3)
    views = plan(rollout, chosen([[0, 1, 2]] * 2))
    leaf_BKL = torch.where(views.score_BKL, -1.0, 0.0).requires_grad_()
    advantage_BU = torch.tensor([[1.0, 5.0, -1.0]] * 2)
    new = DenoisingSteps().pool(leaf_BKL, views, rollout, advantage_BU)
    loss = LOSSES.get("clipped_surrogate")(kl="k3", kl_coef=0.1, normaliser="step")
    value, metrics = loss(new, new, new, advantage_BU, Units.of(views, rollout))
    value.backward()
    # 4 live steps; ratio 1: -(1 / 1 - 1 / 3) * 2 / 4 = -1/3
    assert value.item() == pytest.approx(-1 / 3)
    assert leaf_BKL.grad.isfinite().all()
    assert not leaf_BKL.grad[:, 1].any()
    assert all(metric.isfinite().all() for metric in metrics.values())


def stored(rollout, hidden, draft):
    """The rollout with states and drafts of one row."""
    return replace(
        rollout, hidden_BTN=torch.tensor([hidden]).bool(), draft_BTN=torch.tensor([draft])
    )


def test_stored_states_are_shown_and_last_fillings_scored():
    # slot 1 is filled with a 4 at step 0, masked again after step 1, and filled with 1 at step 2
    rollout = stored(
        played([[1, 2, 3]], [[2, 0, 1]]),
        [[1, 1, 1], [0, 0, 1], [1, 0, 0]],
        [[4, 2, 0], [4, 2, 3], [1, 2, 3]],
    )
    views = plan(rollout, chosen([[0, 1, 2]]))
    assert views.hide_BKL[..., 1:].int().tolist() == [[[1, 1, 1], [0, 0, 1], [1, 0, 0]]]
    assert views.score_BKL[..., 1:].int().tolist() == [[[0, 1, 0], [0, 0, 1], [1, 0, 0]]]
    assert views.shown_BKL[0, 1].tolist() == [0, 4, 2, 3]
    assert views.target_BKL is None


@pytest.mark.parametrize("unit", ["step", "slot"])
def test_a_span_hides_what_it_fills_masks_and_fills_again(unit):
    # at step 1 a 4 stands in slot 1, which the span 1..2 replaces
    rollout = stored(
        played([[1, 2, 3]], [[2, 0, 1]]),
        [[1, 1, 1], [0, 0, 1], [1, 0, 0]],
        [[4, 2, 0], [4, 2, 3], [1, 2, 3]],
    )
    steps = Steps(torch.tensor([[1, 0]]), torch.tensor([[3, 1]]), torch.ones(1, 2))
    views = plan(rollout, steps, unit=unit)
    assert views.hide_BKL[0, 0, 1:].int().tolist() == [1, 0, 1]
    assert views.score_BKL[..., 1:].int().tolist() == [[[1, 0, 1], [0, 1, 0]]]


def tree(**options):
    """Two prompts of two samples; those of the first share step 0 of 2, of the second none."""
    rollout = played(
        [[1, 2, 3], [1, 0, 0], [1, 2, 3], [3, 2, 1]],
        [[0, 1, 1], [0, 1, 1], [0, 1, 1], [1, 0, 1]],
        group_size=2,
    )
    rollout = replace(rollout, branch_BT=torch.tensor([[7, 1], [7, 2], [5, 5], [6, 6]]))
    return plan(rollout, chosen([[0, 1], [1, 0], [0, 1], [0, 1]]), **options).parent_BU


def test_units_that_start_from_one_state_have_one_parent():
    parent_BU = tree()
    root, other_root = parent_BU[0, 0], parent_BU[2, 0]
    assert parent_BU[1, 1] == root and parent_BU[3, 0] == other_root != root
    assert parent_BU[0, 1] == parent_BU[1, 0] != root, "children of the step that was shared"
    assert parent_BU[2, 1] != parent_BU[3, 1], "no step was shared"
    assert parent_BU.unique().numel() == 5


def test_a_slots_parent_is_that_of_the_view_that_scores_it():
    by_step, by_slot = tree(), tree(unit="slot")
    # row 0: slot 1 was committed at step 0 (column 0), the others at step 1 (column 1)
    assert by_slot[0, 1:].tolist() == [by_step[0, 0], by_step[0, 1], by_step[0, 1]]
    assert by_slot[1, 1:].tolist() == [by_step[1, 1], by_step[1, 0], by_step[1, 0]]


def test_without_shared_steps_there_are_no_parents_and_nothing_is_shown():
    views = plan(played([[1, 2]], [[0, 1]]), chosen([[0]]))
    assert views.parent_BU is None and views.shown_BKL is None


def test_prompt_noise_is_fresh_in_each_view_and_pass_and_spares_the_answer():
    rollout = played([[1, 2]] * 400, [[0, 1]] * 400)
    part, steps = DenoisingSteps(prompt_noise=0.5), chosen([[0, 1]] * 400)
    assert part.random and not DenoisingSteps().random
    first, second = (part.plan(rollout, steps, Key(0, 0, "views", p), 2) for p in (0, 1))
    clean = plan(rollout, steps)
    for views in (first, second):
        assert torch.equal(views.hide_BKL[..., 1:], clean.hide_BKL[..., 1:])
        assert torch.equal(views.score_BKL, clean.score_BKL)
        share = views.hide_BKL[..., 0].float().mean().item()
        assert share == pytest.approx(0.5, abs=0.08)
    noise_BK = first.hide_BKL[..., 0]
    assert not torch.equal(noise_BK[:, 0], noise_BK[:, 1])
    assert not torch.equal(noise_BK, second.hide_BKL[..., 0])


def test_tokens_behind_the_end_can_be_left_out():
    # 5 is the end token; step 1 commits slot 3 behind it, and slot 1
    rollout = played([[1, 5, 2]], [[1, 0, 1]])
    views = plan(rollout, chosen([[1]]), only_valid=True)
    assert views.score_BKL.int().tolist() == [[[0, 1, 0, 0]]]
    assert views.hide_BKL.int().tolist() == [[[0, 1, 0, 1]]]
    assert views.size_BU.tolist() == [[1.0]]


def test_given_slots_are_neither_hidden_nor_scored():
    rollout = played([[1, 2, 3]], [[0, -1, 1]])
    given = torch.tensor([[False, False, True, False]])
    rollout = replace(
        rollout, answer_BL=rollout.answer_BL & ~given, valid_BL=rollout.valid_BL & ~given
    )
    views = plan(rollout, chosen([[0, 1]]))
    assert views.hide_BKL.int().tolist() == [[[0, 1, 0, 1], [0, 0, 0, 1]]]
    assert views.score_BKL.int().tolist() == [[[0, 1, 0, 0], [0, 0, 0, 1]]]


def in_blocks(tokens, reveal, block_size=2):
    return replace(played(tokens, reveal), block_size=block_size)


def test_two_streams_score_a_step_of_every_block_in_one_view():
    # blocks [p a] [b c] [d e], written a, c, b, d and e together
    rollout = in_blocks([[1, 2, 3, 4, 0]], [[0, 2, 1, 3, 3]])
    views = plan(rollout, chosen([[0, 1, 2, 3]]), layout="dual_stream")
    assert views.hide_BKL.int().tolist() == [[[0, 1, 1, 1, 1, 1], [0, 0, 1, 0, 0, 0]]]
    assert views.score_BKL.int().tolist() == [[[0, 1, 0, 1, 1, 1], [0, 0, 1, 0, 0, 0]]]
    assert views.unit_BKL[views.score_BKL].tolist() == [0, 1, 3, 3, 2]
    assert views.size_BU.tolist() == [[1.0, 1.0, 1.0, 2.0]]
    assert views.column_BU.tolist() == [[0, 1, 2, 3]]
    assert (views.layout, views.context) == ("dual_stream", "block_causal")
    logprob_BKL = torch.tensor([[[0, -1.0, 0, -2.0, -4.0, -8.0], [0, 0, -16.0, 0, 0, 0]]])
    pooled = DenoisingSteps().pool(logprob_BKL, views, rollout, NO_CREDIT)
    assert pooled.score_BU.tolist() == [[-1.0, -2.0, -16.0, -12.0]]


def test_two_streams_keep_the_weights_of_units():
    rollout = in_blocks([[1, 2, 3]], [[0, 1, 2]])
    steps = chosen([[2, 0, 1]], [[2.0, 0.5, 0.0]])
    views = plan(rollout, steps, layout="dual_stream")
    assert views.weight_BU.tolist() == [[2.0, 0.5, 0.0]]
    assert views.live_BU.tolist() == [[True, True, False]]
    assert views.score_BKL.any(2).sum() == 1  # one step of each block


def test_a_step_in_two_blocks_is_refused():
    rollout = in_blocks([[1, 2, 3]], [[0, 0, 1]])  # a and b, of [p a] [b c], at step 0
    with pytest.raises(UsageError, match="step 0 of a row wrote into a block of 2 tokens behind"):
        plan(rollout, chosen([[0, 1]]), layout="dual_stream")
    # c alone was written behind a finished block
    assert plan(rollout, chosen([[1]]), layout="dual_stream").score_BKL.sum() == 1


def test_noise_in_the_prompt_has_no_place_in_two_streams():
    with pytest.raises(ValidationError, match="leave prompt_noise out, or use layout: full"):
        DenoisingSteps(layout="dual_stream", prompt_noise=0.1)


def test_only_two_streams_need_blocks():
    assert not DenoisingSteps().needs_blocks
    assert DenoisingSteps(layout="dual_stream").needs_blocks
    assert DenoisingSteps().forwards_in_blocks(4, 9) == 9
    assert DenoisingSteps(layout="dual_stream").forwards_in_blocks(4, 9) == 4
