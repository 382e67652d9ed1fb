"""What ran through the network, counted by hand."""

from dataclasses import replace

import torch

from dllmzoo.records import Views
from dllmzoo.training.reads import Read, of_rollout, of_views
from tests.strategies import played

ROLLOUT = replace(played([[0, 1, 2, 3, 4]] * 2, [[0, 1, 2, 3, 4]] * 2), block_size=2)
"""Two rows of one prompt token and five answer tokens: places 0 1 | 2 3 | 4 5."""


def views(*rows, layout="dual_stream"):
    """Views of the two rows, given as the columns that each scores."""
    score_BKL = torch.zeros(2, len(rows) // 2, 6, dtype=torch.bool)
    for number, columns in enumerate(rows):
        score_BKL[number // score_BKL.shape[1], number % score_BKL.shape[1], columns] = True
    one = torch.ones(2, 1)
    return Views(
        score_BKL, score_BKL, score_BKL.float(), score_BKL.long(), one, one, one.long(),
        layout=layout,
    )  # fmt: skip


def test_one_stream_is_whole_rows_of_views_that_score():
    made = views([1], [2, 3], [], [5], layout="full")
    assert list(of_views(made, ROLLOUT, 2)) == [Read(3, 6, 4)]


def test_two_streams_are_as_wide_as_the_blocks_that_hold_a_scored_slot():
    # the blocks of columns 2 and 5 are 2 3 | 4 5; those of 1 are 0 1
    assert list(of_views(views([2, 5], [1]), ROLLOUT, 1)) == [
        Read(1, 6, 2, target=4), Read(1, 2, 1, target=2),
    ]  # fmt: skip
    assert list(of_views(views([2, 5], [1]), ROLLOUT, None)) == [Read(2, 6, 3, target=4)]
    assert list(of_views(views([3], [], [2, 3], [1, 2]), ROLLOUT, 2)) == [
        Read(2, 4, 3, target=2), Read(1, 4, 2, target=4),
    ]  # fmt: skip
    assert list(of_views(views([], []), ROLLOUT, 2)) == [Read(0, 6, 0, target=6)]


def test_padding_is_in_no_block():
    wide = replace(
        ROLLOUT, tokens_BL=ROLLOUT.tokens_BL,
        attend_BL=torch.tensor([[False, False, True, True, True, True], [True] * 6]),
    )  # fmt: skip
    # row 0: columns 2 3 | 4 5, row 1: 0 1 | 2 3 | 4 5
    assert list(of_views(views([2], [4]), wide, 1)) == [
        Read(1, 4, 1, target=2), Read(1, 6, 1, target=2),
    ]  # fmt: skip


def test_without_a_rollout_both_streams_count_in_full():
    assert list(of_views(views([2], [4]), None, 2)) == [Read(2, 6, 2, target=6)]


def test_short_reads_of_a_rollout_are_gathered_by_their_shape():
    reads = ((2, 6, 6, 0), (2, 3, 9, 5), (1, 3, 9, 2), (2, 3, 9, 0))
    made = replace(ROLLOUT, reads=reads, forwards=7)
    assert list(of_rollout(made, made.sampler)) == [Read(2, 6, 0), Read(5, 3, 7, keys=9)]


def test_other_rollouts_are_whole_rows():
    # ten rows, about half of five slots in each
    assert list(of_rollout(ROLLOUT, ROLLOUT.sampler)) == [Read(10, 6, 25)]
