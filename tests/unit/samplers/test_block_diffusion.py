import math
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.errors import UsageError
from dllmzoo.laws import Case
from dllmzoo.laws.models import tiny
from dllmzoo.records import join, take
from dllmzoo.zoo import MODELS, SAMPLERS
from tests.unit.samplers.toy import EOS, KEY, MASK, answer, prompts, table

Block = SAMPLERS.get("block_diffusion")

ORDERED = ({0: 0.5}, {1: 0.8}, {2: 0.3}, {3: 0.6})
"""Slots 0 to 3 choose tokens 0 to 3; order of confidence: slot 1, 3, 0, 2."""


class Zeros:
    """A schedule with steps that commit nothing."""

    def commits(self, num_masked, steps):
        assert steps == 4
        return [0, num_masked - 1, 0, 1]


def fixed(*rows, size=2):
    policy = table(*rows)
    policy.block_size = size
    return policy


def greedy(policy, batch=None, **options):
    sampler = Block(temperature=0.0, **options)
    return sampler(policy, prompts([1, 2]) if batch is None else batch, KEY)


def steps_of(rollout):
    return answer(rollout.reveal_BL, rollout).tolist()


def sdar(size, **config):
    network = tiny(MODELS.get("sdar"), Case(3))
    network.config.block_size = size
    return network


def test_blocks_lie_on_the_grid_of_each_row():
    # two tokens of prompt: slots 0 1 | 2 3; one: slot 0 | 1 2 | 3
    rollout = greedy(fixed(*ORDERED), prompts([1, 2], [3]), answer_length=4)
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, 1, 2, 3]] * 2
    assert steps_of(rollout) == [[1, 0, 3, 2], [0, 1, 2, 3]]
    assert (rollout.num_steps, rollout.block_size, rollout.forwards) == (4, 2, 8)


def test_one_step_fills_a_block():
    rollout = greedy(fixed(*ORDERED), prompts([1, 2], [3]), answer_length=4, steps_per_block=1)
    assert steps_of(rollout) == [[0, 0, 1, 1], [0, 1, 1, 2]]
    assert rollout.forwards == 2 + 3
    entropy = [[*rollout.block_entropy_BT[row].tolist()] for row in range(2)]
    assert all(value > 0 for value in entropy[0][:2] + entropy[1][:3])
    assert entropy[0][2:] == [0, 0] and entropy[1][3:] == [0]


def test_block_entropies_are_means_over_the_masked_slots_of_the_block():
    def entropy(p):  # one token of probability p, nine share the rest
        return -p * math.log(p) - (1 - p) * math.log((1 - p) / 9)

    rollout = greedy(fixed(*ORDERED), answer_length=4)
    expected = [(entropy(0.5) + entropy(0.8)) / 2, entropy(0.5)]
    expected += [(entropy(0.3) + entropy(0.6)) / 2, entropy(0.3)]
    assert rollout.block_entropy_BT[0].tolist() == pytest.approx(expected, abs=1e-5)


def test_confident_tokens_are_committed_together():
    # blocks: prompt and slots 0 1 | 2 3
    options = {"answer_length": 4, "remask": "dynamic"}
    policy = fixed(*ORDERED, size=4)
    assert steps_of(greedy(policy, **options)) == [[1, 0, 3, 2]]  # none above .9
    assert steps_of(greedy(policy, threshold=0.4, **options)) == [[0, 0, 2, 1]]
    # two a step: slot 1 alone is above .55, not enough, so the best two
    found = greedy(policy, threshold=0.55, steps_per_block=1, **options)
    assert steps_of(found) == [[0, 0, 1, 1]]


def test_rows_that_finish_a_block_early_are_left_out_of_it():
    # above .4: slot 0 and 1, then 3, then 2; rows of 2 and 4 prompt tokens, blocks of 4
    policy = fixed(*ORDERED, size=4)
    found = greedy(
        policy, prompts([1, 2], [1, 2, 3, 4]), answer_length=4, remask="dynamic", threshold=0.4
    )
    # row 0: slots 0 1 | 2 3; row 1: 0 1 2 3 in one block, above .4: 0, 1 and 3
    assert steps_of(found) == [[0, 0, 2, 1], [0, 0, 1, 0]]
    # first block: both rows, then row 1; second: row 0 twice
    assert [rows for rows, *_ in found.reads] == [2, 1, 1, 1]
    assert found.forwards == policy.rows == 5


def test_left_to_right():
    rollout = greedy(fixed(*ORDERED), answer_length=4, remask="sequential")
    assert steps_of(rollout) == [[0, 1, 2, 3]]
    rollout = greedy(
        fixed(*ORDERED, size=3), answer_length=4, remask="sequential", steps_per_block=1
    )
    assert steps_of(rollout) == [[0, 1, 1, 1]]


def test_the_sharpest_slots_within_a_bound():
    # sharper first: slots 1 3 0 2, with 0.94, 1.55, 1.79, 2.15 nats
    policy = fixed(*ORDERED, size=6)
    options = {"answer_length": 4, "remask": "entropy_bound"}
    assert steps_of(greedy(policy, entropy_bound=0.0, **options)) == [[2, 0, 3, 1]]
    # 0 and 0.94 within the bound, 2.49 not; then 0, but not 1.79
    assert steps_of(greedy(policy, entropy_bound=1.0, **options)) == [[1, 0, 2, 0]]
    # then 1.79 too
    assert steps_of(greedy(policy, entropy_bound=2.0, **options)) == [[1, 0, 1, 0]]
    assert steps_of(greedy(policy, entropy_bound=9.0, **options)) == [[0, 0, 0, 0]]


def test_masked_slots_of_the_first_block_are_shared_over_its_steps():
    # three tokens of prompt in a block of 8: 5 masked slots in 4 steps, 2 1 1 1; then 3
    rows = [{0: 0.9 - 0.1 * slot} for slot in range(8)]
    policy, batch = fixed(*rows, size=8), prompts([1, 2, 3])
    options = {"answer_length": 8, "steps_per_block": 4, "remask": "sequential"}
    assert steps_of(greedy(policy, batch, **options)) == [[0, 0, 1, 2, 3, 4, 5, 6]]
    # by the schedule of a full block, 2 2 2 2, cut off at 5 and at 3
    found = greedy(policy, batch, commits_of="block", **options)
    assert steps_of(found) == [[0, 0, 1, 1, 2, 3, 3, 4]]


def test_steps_that_commit_nothing_are_left_out():
    rollout = greedy(fixed(*ORDERED, size=6), answer_length=4, steps_per_block=4, commits=Zeros())
    assert steps_of(rollout) == [[0, 0, 1, 0]]
    assert rollout.forwards == 2


def test_a_row_stops_behind_the_block_with_an_end_token():
    rows = ({0: 0.5}, {EOS: 0.9}, {2: 0.5}, {3: 0.5}, {4: 0.5}, {5: 0.5})
    # slots 0 1 | 2 3 | 4 5 and 0 | 1 2 | 3 4 | 5
    rollout = greedy(fixed(*rows), prompts([1, 2], [3]), answer_length=6)
    assert steps_of(rollout) == [[1, 0, -1, -1, -1, -1], [0, 1, 2, -1, -1, -1]]
    assert answer(rollout.tokens_BL, rollout).tolist() == [
        [0, EOS, EOS, EOS, EOS, EOS], [0, EOS, 2, EOS, EOS, EOS],
    ]  # fmt: skip
    assert rollout.length_B.tolist() == [2, 2]
    assert rollout.forwards == 2 + 3
    for name in ("logprob_BL", "entropy_BL", "confidence_BL"):
        assert (answer(getattr(rollout, name), rollout)[:, 3:] == 0).all()
    rollout = greedy(fixed(*rows), prompts([1, 2]), answer_length=6, stop_at_end=False)
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, EOS, 2, 3, 4, 5]]


def test_an_end_token_of_the_prompt_stops_nothing():
    rollout = greedy(fixed(*ORDERED, size=3), prompts([1, EOS]), answer_length=4)
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, 1, 2, 3]]


def test_a_mask_token_in_the_prompt_stays():
    rollout = greedy(fixed(*ORDERED, size=4), prompts([1, MASK]), answer_length=4)
    assert rollout.tokens_BL.tolist() == [[1, MASK, 0, 1, 2, 3]]


def test_confidences_are_those_that_slots_were_chosen_by():
    rollout = greedy(fixed(*ORDERED), answer_length=4)
    found = answer(rollout.confidence_BL, rollout)[0].tolist()
    assert found == pytest.approx([0.5, 0.8, 0.3, 0.6])
    sure = Block(answer_length=4, top_k=1, remask="dynamic", confidence="after_filters")
    rollout = sure(fixed(*ORDERED, size=6), prompts([1, 2]), KEY)
    assert answer(rollout.confidence_BL, rollout).tolist() == [[1.0] * 4]
    assert steps_of(rollout) == [[0] * 4]  # the trap of the released script
    assert (rollout.logprob_BL == 0).all()


def test_what_a_cache_saves_by_hand():
    """7 tokens of prompt, blocks of 3: two are read once, slots at places 7 8 | 9 10 11 | 12."""
    sampler, policy = Block(answer_length=6, temperature=0.0, stop_at_end=False), sdar(3)
    rollout = sampler(policy, prompts([1, 2, 3, 4, 5, 6, 7]), KEY)
    expected = [
        (1, 6, 6, 0),
        (1, 3, 9, 2), (1, 3, 9, 1), (1, 3, 9, 0),
        (1, 3, 12, 3), (1, 3, 12, 2), (1, 3, 12, 1), (1, 3, 12, 0),
        (1, 1, 13, 1),
    ]  # fmt: skip
    assert list(rollout.reads) == list(sampler.planned_reads(7, 3)) == expected
    assert rollout.forwards == 9 <= sampler.num_forwards == 12
    whole = replace(sampler, cache=False)
    plain = whole(policy, prompts([1, 2, 3, 4, 5, 6, 7]), KEY)
    expected = [(1, 13, 13, n) for n in (2, 1, 3, 2, 1, 1)]
    assert list(plain.reads) == list(whole.planned_reads(7, 3)) == expected
    assert plain.forwards == 6 == whole.num_forwards
    assert torch.equal(plain.tokens_BL, rollout.tokens_BL)


def test_rows_leave_the_cache_when_they_stop():
    # prompts of 1, 3 and 4 tokens and blocks of 2: whole blocks of 0, 2 and 4 tokens before
    policy, batch = sdar(2), prompts([1], [2, 3, 4], [5, 6, 7, 8])
    sampler = Block(answer_length=3, temperature=0.0, stop_at_end=False)
    rollout = sampler(policy, batch, KEY)
    # slots 0 | 1 2 twice, then 0 1 | 2: two steps for the first block, one for the last
    assert list(rollout.reads) == [
        (3, 4, 4, 0),
        (3, 2, 6, 4), (1, 2, 6, 1), (3, 2, 6, 0),
        (3, 2, 8, 5), (2, 2, 8, 2),
    ]  # fmt: skip
    for row in range(3):
        alone = sampler(policy, take(batch, torch.tensor([row])), KEY)
        assert torch.equal(alone.reveal_BL[0], rollout.reveal_BL[row])
        assert torch.equal(alone.tokens_BL[0], rollout.tokens_BL[row])


def test_a_prompt_inside_the_first_block_is_not_read_beforehand():
    rollout = Block(answer_length=5, temperature=0.0)(sdar(16), prompts([1, 2, 3]), KEY)
    assert {read[:3] for read in rollout.reads} == {(1, 8, 8)}
    assert len(rollout.reads) == 5


def test_only_masked_slots_of_the_active_block_go_through_the_head():
    rollout = greedy(sdar(4), prompts([1, 2, 3]), answer_length=6, stop_at_end=False)
    # slot 0 | 1 2 3 4 | 5
    assert [logits for *_, logits in rollout.reads] == [1, 0, 4, 3, 2, 1, 0, 1]


def test_joined_rollouts_hold_the_reads_of_both():
    sampler, policy, batch = Block(answer_length=4), sdar(2), prompts([1, 2], [3])
    parts = [sampler(policy, take(batch, torch.tensor([row])), KEY) for row in range(2)]
    whole = join(parts)
    assert whole.reads == parts[0].reads + parts[1].reads
    assert whole.forwards == sum(rows for rows, *_ in whole.reads)
    assert take(whole, torch.tensor([0])).reads == whole.reads


def test_no_row_at_all():
    batch = prompts([1, 2], [3, 4, 5])
    rollout = Block(answer_length=4)(sdar(2), take(batch, torch.arange(0)), KEY)
    assert rollout.tokens_BL.shape == (0, 7) and rollout.reads == ()


def test_a_network_without_blocks_is_refused():
    policy = fixed(*ORDERED, size=None)
    with pytest.raises(UsageError, match="attention has blocks"):
        greedy(policy, answer_length=4)
    network = sdar(2)
    network.config.attention = "full"
    with pytest.raises(UsageError, match="low_confidence"):
        greedy(network, answer_length=4)


def test_stopping_needs_an_end_token():
    policy = fixed(*ORDERED)
    policy.stop_ids = ()
    with pytest.raises(UsageError, match="stop_at_end: false"):
        greedy(policy, answer_length=4)
    rollout = greedy(policy, answer_length=4, stop_at_end=False)
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"threshold": 0.9}, "remask: dynamic only"),
        ({"threshold": 0.9, "remask": "sequential"}, "leave threshold out"),
        ({"entropy_bound": 0.5}, "remask: entropy_bound only"),
        ({"remask": "entropy_bound"}, "needs a bound in nats"),
        (
            {"remask": "entropy_bound", "entropy_bound": 0.5, "steps_per_block": 2},
            "leave one of them out",
        ),
        ({"commits_of": "block"}, "give steps_per_block"),
    ],
)
def test_settings_that_say_nothing_are_refused(options, said):
    with pytest.raises(ValidationError, match=said):
        Block(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"answer_length": 0}, {"steps_per_block": 0}, {"remask": "dynamic", "threshold": 1.5},
        {"temperature": -1.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5},
        {"confidence": "plain"}, {"record_drafts": True}, {"block_size": 4},
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(options):
    with pytest.raises((ValidationError, TypeError)):
        Block(**options)


def test_a_schedule_that_does_not_add_up_is_refused():
    class Wrong:
        def commits(self, num_masked, steps):
            return [1] * steps

    with pytest.raises(UsageError, match="add up"):
        greedy(fixed(*ORDERED), answer_length=4, steps_per_block=1, commits=Wrong())
