"""Steps of a sampler of blocks, scored for all blocks in one pass."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings

from dllmzoo.errors import UsageError
from dllmzoo.laws import inputs, trajectories
from dllmzoo.laws.case import Case
from dllmzoo.laws.planned import some_steps
from dllmzoo.records import Prompts, take
from dllmzoo.scoring import score
from dllmzoo.zoo import LIKELIHOODS, SAMPLERS, SELECTORS
from tests.block_policies import EXACT, KEY, NETWORKS, answered, network, sampled, value
from tests.strategies import cases

Steps = LIKELIHOODS.get("denoising_steps")


def without_mask(policy: torch.nn.Module):
    """Make the mask token impossible, so that the scorer's law is the sampler's."""

    def drop(module, args, out):
        out.logits[..., module.mask_id] = -1e4
        return out

    return policy.register_forward_hook(drop)


@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=15, deadline=None)
@given(case=cases())
def test_two_streams_give_the_log_probs_of_one(name, case):
    policy = network(name, case.integer("block", 1, 5))
    rollout = sampled(policy, case, steps_per_block=case.among("steps", (None, 1, 2)))
    steps = some_steps(rollout, case)
    only = case.truth("only valid")
    for unit in ("step", "slot"):
        one, two = (
            Steps(unit=unit, only_valid=only, layout=layout) for layout in ("full", "dual_stream")
        )
        views_one, views_two = (part.plan(rollout, steps, KEY, 1) for part in (one, two))
        for field in ("size_BU", "weight_BU", "column_BU", "live_BU"):
            assert torch.equal(getattr(views_one, field), getattr(views_two, field)), field
        found = value(two, policy, rollout, steps=steps)
        torch.testing.assert_close(found, value(one, policy, rollout, steps=steps), **EXACT)
    # a step lies in one block, so as many views as the most chosen steps of a block
    used = steps.weight_BK.sum(1) > 0
    most = 0
    for b in used.nonzero()[:, 0].tolist():
        reveal_L, block_L = rollout.reveal_BL[b], rollout.block_BL[b]
        chosen = steps.start_BK[b][steps.weight_BK[b] > 0]
        counts = rollout.valid_BL[b] if only else rollout.answer_BL[b]
        pairs = {
            (int(block_L[i]), int(reveal_L[i]))
            for i in range(len(reveal_L))
            if counts[i] and reveal_L[i] in chosen
        }
        blocks = [block for block, _ in pairs]
        most = max([most, *(blocks.count(block) for block in blocks)])
    assert int(views_two.score_BKL.any(2).sum(1).max()) == most
    bound = Steps(layout="dual_stream").forwards_in_blocks(
        policy.block_size, steps.start_BK.shape[1]
    )
    assert views_two.score_BKL.shape[1] == bound


@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=12, deadline=None)
@given(case=cases())
def test_all_steps_add_up_to_what_the_sampler_recorded(name, case):
    policy = network(name, case.integer("block", 1, 5))
    hook = without_mask(policy)
    try:
        rollout = sampled(policy, case, temperature=1.0)
        steps = SELECTORS.get("all")()(rollout, KEY)
        part = Steps(layout="dual_stream", unit="slot")
        views = part.plan(rollout, steps, KEY, 1)
        committed_BL = rollout.reveal_BL >= 0
        assert torch.equal(views.score_BKL.sum(1), committed_BL.long())
        logprob_BL = score(policy, rollout, views, micro_batch=5).logprob_BKL.sum(1)
    finally:
        hook.remove()
    torch.testing.assert_close(logprob_BL.float(), rollout.logprob_BL, rtol=1e-5, atol=1e-5)
    total_B = value(Steps(), policy, rollout, steps=steps).sum(1)
    assert total_B.isfinite().all()


# states that two streams cannot show


def test_a_sampler_that_goes_on_before_a_block_is_finished_is_refused():
    policy, case = network("toy", 2), Case(1, size=4)
    sampler = SAMPLERS.get("random_order")(answer_length=6, block_length=6, steps=6)
    rollout = sampler(policy, inputs.prompts(case), case.key("sample"))
    steps = inputs.every_step(rollout)
    assert value(Steps(), policy, rollout, steps=steps).isfinite().all()
    with pytest.raises(UsageError, match=r"a block of 2 tokens behind an unfinished one; use"):
        Steps(layout="dual_stream").plan(rollout, steps, KEY, 1)


def test_blocks_of_another_sampler_may_be_those_of_the_network():
    policy, case = network("toy", 2), Case(1, size=4)
    words_BL = case.integers("words", 0, 4, 4, 4)
    start = Prompts(words_BL, words_BL >= 0, torch.arange(4), torch.arange(4), [{}] * 4)
    sampler = SAMPLERS.get("low_confidence")(
        answer_length=6, block_length=2, steps=6, record_drafts=True
    )
    rollout = sampler(policy, start, case.key("sample"))
    steps = inputs.every_step(rollout)
    found = value(Steps(layout="dual_stream"), policy, rollout, steps=steps)
    torch.testing.assert_close(found, value(Steps(), policy, rollout, steps=steps), **EXACT)


def test_a_sampler_that_masks_again_is_refused():
    case = Case(3, size=4)
    rollout = trajectories.by_blocks(inputs.rollout(case), 2)
    steps = inputs.every_step(rollout)
    once, again = (
        trajectories.with_stored_states(rollout, case, remask=remask) for remask in (False, True)
    )
    assert Steps(layout="dual_stream").plan(once, steps, KEY, 1).shown_BKL is None
    with pytest.raises(UsageError, match="masked tokens again; use layout: full"):
        Steps(layout="dual_stream").plan(again, steps, KEY, 1)


def test_spans_over_blocks_show_each_block_behind_finished_ones():
    # prompt of 1, blocks [p a] [b c]; a at step 0, b at 1, c at 2, one span over all steps
    policy, rollout = network("toy", 2), answered(1, 3, 2)
    steps = take(inputs.every_step(rollout), torch.tensor([0]))
    whole = replace(
        steps, start_BK=steps.start_BK[:, :1], stop_BK=steps.stop_BK[:, 2:],
        weight_BK=steps.weight_BK[:, :1],
    )  # fmt: skip
    views = Steps(layout="dual_stream").plan(rollout, whole, KEY, 1)
    assert views.hide_BKL.int().tolist() == [[[0, 1, 1, 1]]]
    assert views.score_BKL.int().tolist() == [[[0, 1, 1, 1]]]
    assert views.size_BU.tolist() == [[3.0]]
    # b and c see a, which the span's one-stream view hides: both are read before step 1
    from_one = value(Steps(unit="slot"), policy, rollout, steps=steps)[0, 1]
    pair = replace(steps, start_BK=torch.tensor([[1]]), stop_BK=torch.tensor([[3]]),
                   weight_BK=torch.ones(1, 1))  # fmt: skip
    later = value(Steps(), policy, rollout, steps=pair)[0, 0]
    found = value(Steps(layout="dual_stream"), policy, rollout, steps=whole)[0, 0]
    torch.testing.assert_close(found, from_one + later, **EXACT)


def test_a_step_chosen_twice_is_two_units():
    policy, rollout = network("toy", 4), answered(0, 4, 4)
    start_BK = torch.tensor([[2, 0, 2, 2]])
    steps = replace(
        inputs.every_step(rollout), start_BK=start_BK, stop_BK=start_BK + 1,
        weight_BK=torch.tensor([[0.5, 1.0, 2.0, 0.0]]),
    )  # fmt: skip
    for unit in ("step", "slot"):
        one, two = (Steps(unit=unit, layout=layout) for layout in ("full", "dual_stream"))
        first, second = (part.plan(rollout, steps, KEY, 1) for part in (one, two))
        for field in ("size_BU", "weight_BU", "column_BU", "live_BU"):
            assert torch.equal(getattr(first, field), getattr(second, field)), field
        torch.testing.assert_close(
            value(two, policy, rollout, steps=steps), value(one, policy, rollout, steps=steps),
            **EXACT,
        )  # fmt: skip
    assert second.score_BKL.any(2).sum() == 2  # as slots they are scored once


def test_steps_that_were_not_chosen_are_shown_as_they_were():
    # one block of 4, slots written in the order 2 0 3 1; steps 1 and 3 are chosen
    rollout = replace(
        inputs.played(torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 3, 0, 2]])), block_size=5
    )
    steps = inputs.every_step(rollout)
    chosen = replace(
        steps, start_BK=steps.start_BK[:, [3, 1]], stop_BK=steps.stop_BK[:, [3, 1]],
        weight_BK=torch.ones(1, 2),
    )  # fmt: skip
    views = Steps(layout="dual_stream").plan(rollout, chosen, KEY, 1)
    assert views.hide_BKL.int().tolist() == [[[0, 1, 1, 0, 1], [0, 0, 1, 0, 0]]]
    assert views.score_BKL.int().tolist() == [[[0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]]
    assert views.unit_BKL[views.score_BKL].tolist() == [1, 0]
