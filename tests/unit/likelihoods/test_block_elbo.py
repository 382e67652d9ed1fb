"""Block ELBO: masks, weights, tails and spacing, by hand."""

from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.laws import inputs
from dllmzoo.records import Key, take
from dllmzoo.zoo import LIKELIHOODS
from tests.scripted import script
from tests.strategies import played

BlockElbo = LIKELIHOODS.get("block_elbo")
KEY = Key(0, 0, "views")


def in_blocks(rollout, block_size=2):
    return replace(rollout, block_size=block_size)


def plan(rollout, numbers=None, **options):
    key = KEY if numbers is None else script(**{k: torch.tensor(v) for k, v in numbers.items()})
    return BlockElbo(**options).plan(rollout, None, key, 1)


def test_paper_name_is_an_alias():
    assert LIKELIHOODS.get("ebpo") is BlockElbo


def test_each_block_has_a_mask_and_a_weight_of_its_own():
    # one prompt word: blocks [p a] [b c] [d e]; sizes 1 of 1, floor(.2 * 2) + 1 = 1 of 2,
    # floor(.9 * 2) + 1 = 2 of 2; the order inside [b c] puts c first
    rollout = in_blocks(played([[1, 2, 3, 4, 0]], [[0, 1, 2, 3, 4]]))
    numbers = {"size": [[[0.7], [0.2], [0.9]]], "subset": [[0, 0, 0.8, 0.3, 0.5, 0.6]]}
    views = plan(rollout, numbers, views=1)
    assert views.hide_BKL.int().tolist() == [[[0, 1, 0, 1, 1, 1]]]
    assert torch.equal(views.score_BKL, views.hide_BKL)
    # m / k: 1 / 1, 2 / 1, 2 / 2
    assert views.weight_BKL[views.score_BKL].tolist() == [1.0, 2.0, 1.0, 1.0]
    assert views.size_BU.tolist() == [[5.0]]
    assert (views.layout, views.context, views.shown_BKL) == ("dual_stream", "block_causal", None)
    logprob_BKL = torch.tensor([[[0, -1.0, 0, -2.0, -3.0, -0.5]]])
    found = BlockElbo(views=1).pool(logprob_BKL, views, rollout, torch.zeros(1, 1))
    assert found.score_BU.item() == -1 - 4 - 3 - 0.5


def test_views_are_averaged_or_stand_alone():
    rollout = in_blocks(played([[1, 2, 3]], [[0, 1, 2]]))
    together, apart = (plan(rollout, views=4, unit=unit) for unit in ("sequence", "view"))
    assert torch.equal(together.hide_BKL, apart.hide_BKL)
    torch.testing.assert_close(together.weight_BKL * 4, apart.weight_BKL)
    assert together.size_BU.tolist() == [[3.0]]
    assert apart.size_BU.tolist() == [[3.0] * 4]
    assert BlockElbo(unit="view").unit == "view"


def test_every_block_hides_a_slot_in_every_view():
    rollout = in_blocks(played([[1, 2, 3, 4, 1, 2, 3]] * 20, [list(range(7))] * 20), 3)
    views = plan(rollout, views=5)
    for block, slots in ((0, [1, 2]), (1, [3, 4, 5]), (2, [6, 7])):
        hidden = views.score_BKL[..., slots].sum(2)
        assert hidden.min() >= 1, block
        expected = torch.where(views.score_BKL[..., slots], len(slots) / hidden.unsqueeze(2), 0)
        torch.testing.assert_close(views.weight_BKL[..., slots] * 5, expected.double())


# [p a] [b end | x y] [z ..]: 5 is the end token; blocks of 4 start at the prompt's word
TAIL = {"tokens": [[1, 5, 3, 4, 2, 2]], "reveal": [[0, 1, 2, 3, 4, 5]]}


@pytest.mark.parametrize(
    ("tail", "scored", "size"),
    [("keep_sampled", [0, 1, 1, 0, 0, 0, 0], 2), ("pad_end", [0, 1, 1, 0, 0, 0, 0], 2),
     ("score_tail", [0, 1, 1, 1, 0, 0, 0], 3)],
)  # fmt: skip
def test_slots_behind_the_end_in_its_block_are_masked_with_it(tail, scored, size):
    rollout = in_blocks(played(**TAIL), 4)
    everything = {"size": [0.99], "subset": [[0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]}
    views = plan(rollout, everything, views=1, tail=tail)
    # the block of p, 1, end, 3 has three slots; the next block is left out, masked throughout
    assert views.hide_BKL[0, 0].int().tolist() == [0, 1, 1, 1, 1, 1, 1]
    assert views.score_BKL[0, 0].int().tolist() == scored
    assert views.size_BU.tolist() == [[float(size)]]
    one = {"size": [0.0], "subset": [[0, 0.1, 0.2, 0.05, 0.4, 0.5, 0.6]]}
    views = plan(rollout, one, views=1, tail=tail)
    assert views.hide_BKL[0, 0].int().tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert views.score_BKL.any() == (tail == "score_tail")
    first = {"size": [0.0], "subset": [[0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]}
    views = plan(rollout, first, views=1, tail=tail)
    assert views.weight_BKL[views.score_BKL].tolist() == [3.0]  # 3 slots, 1 hidden


def test_a_padded_tail_shows_end_tokens():
    rollout = in_blocks(played(**TAIL), 4)
    views = plan(rollout, views=2, tail="pad_end")
    assert views.shown_BKL.tolist() == [[[0, 1, 5, 5, 5, 5, 5]] * 2]
    other = in_blocks(played([[1, 2, 3, 4]], [[0, 1, 2, 3]]), 4)
    assert torch.equal(plan(other, tail="pad_end").shown_BKL[:, 0], other.tokens_BL)


def test_tails_share_their_masks():
    rollout = in_blocks(played(**TAIL), 4)
    kept, padded, scored = (
        plan(rollout, views=6, tail=tail) for tail in ("keep_sampled", "pad_end", "score_tail")
    )
    assert torch.equal(kept.hide_BKL, scored.hide_BKL)
    assert torch.equal(kept.hide_BKL, padded.hide_BKL)
    assert torch.equal(kept.score_BKL, padded.score_BKL)


def test_slots_that_were_never_written_are_masked_throughout():
    # the sampler stopped behind the end token, inside the block: 3 was never written
    rollout = in_blocks(played([[1, 5, 5, 5]], [[0, 1, -1, -1]], num_steps=2), 4)
    views = plan(rollout, views=8, tail="score_tail")
    assert views.hide_BKL[0, :, 3:].all() and not views.score_BKL[0, :, 3:].any()
    assert views.size_BU.tolist() == [[2.0]]
    assert (views.score_BKL.sum(2) < 2).any()
    # an answer that no sampler made has no record, and all of it counts
    given = in_blocks(played([[1, 5, 5, 5]], [[-1] * 4], num_steps=1), 4)
    assert plan(given, views=8, tail="score_tail").size_BU.tolist() == [[3.0]]


def test_strides_run_over_all_blocks_of_the_first_view_and_on_to_the_next():
    # blocks of 2: [p a] [b c] [d e], 3 cells a view, 6 in all: u = .05 + j / 6
    rollout = in_blocks(played([[1, 2, 3, 4, 0]], [[0, 1, 2, 3, 4]]))
    numbers = {"size": [0.05], "subset": [[0, 0.1, 0.2, 0.3, 0.4, 0.5]]}
    views = plan(rollout, numbers, views=2, spacing="strided")
    # .05 .217 .383 | .55 .717 .883: k of two slots is 2 from .5 on
    assert views.score_BKL[0].int().tolist() == [[0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 1, 1]]


def test_strides_count_the_blocks_of_each_row():
    # the second row ends in the second block, so it has 2 cells a view, the first 3
    rollout = in_blocks(played([[1, 2, 3, 4, 0], [1, 5, 3, 4, 0]], [[0, 1, 2, 3, 4]] * 2))
    numbers = {"size": [0.3, 0.3], "subset": [[0, 0.1, 0.2, 0.3, 0.4, 0.5]] * 2}
    views = plan(rollout, numbers, views=1, spacing="strided", tail="score_tail")
    # first row: .3 .633 .967; second: .3 .8
    assert views.score_BKL[:, 0].int().tolist() == [[0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0]]


def test_strata_give_every_block_one_size_of_each_part():
    rollout = in_blocks(played([[1, 2, 3, 4, 0, 1, 2]] * 40, [list(range(7))] * 40), 4)
    views = plan(rollout, views=4, spacing="stratified")
    sizes = views.score_BKL[..., 4:].sum(2)  # the second block, of 4 slots
    assert sizes.sort(1).values.tolist() == [[1, 2, 3, 4]] * 40
    assert len({tuple(row) for row in sizes.tolist()}) == 4  # a random turn


def test_given_slots_are_left_alone():
    rollout = in_blocks(played([[1, 2, 3, 4]], [[0, 1, 2, 3]]))
    fixed = torch.tensor([[False, False, True, False, False]])
    rollout = replace(
        rollout, answer_BL=rollout.answer_BL & ~fixed, valid_BL=rollout.valid_BL & ~fixed
    )
    views = plan(rollout, views=3)
    assert not views.hide_BKL[..., 2].any()
    assert (views.weight_BKL[..., 3] * 3 == 1).all()  # alone in its block: always hidden
    assert views.size_BU.tolist() == [[3.0]]


def test_an_empty_answer_is_worth_nothing():
    rollout = in_blocks(played([[1, 2]], [[0, 1]]))
    rollout = replace(rollout, valid_BL=torch.zeros_like(rollout.valid_BL))
    for spacing in ("independent", "stratified", "strided"):
        views = plan(rollout, spacing=spacing)
        assert not views.score_BKL.any() and not views.live_BU.any()
        assert views.weight_BKL.isfinite().all()


@pytest.mark.parametrize("spacing", ["independent", "stratified", "strided"])
def test_masks_follow_the_sample_and_not_the_batch(spacing):
    rollout = in_blocks(played([[1, 2, 3, 4, 0]] * 3, [[0, 1, 2, 3, 4]] * 3))
    whole = plan(rollout, spacing=spacing)
    assert not torch.equal(whole.hide_BKL[0], whole.hide_BKL[1])
    row = torch.tensor([2])
    alone = plan(inputs.padded(take(rollout, row), 3), spacing=spacing)
    assert torch.equal(alone.hide_BKL[..., 3:], whole.hide_BKL[row])


def test_draws_and_forwards_are_counted():
    assert (BlockElbo(views=3).num_forwards, BlockElbo(views=3).num_draws) == (3, 3)
    assert BlockElbo(views=3, spacing="strided").num_draws == 1


def test_a_network_without_blocks_is_refused():
    with pytest.raises(UsageError, match="likelihood block_elbo works in the blocks"):
        plan(played([[1, 2]], [[0, 1]]))
