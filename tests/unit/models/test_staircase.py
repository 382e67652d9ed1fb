import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.models._staircase import (
    Tokens,
    documents,
    may_attend,
    runs,
    staircase,
    token_positions,
)


def drawing(mask):
    """One line a query, `#` where it attends."""
    return ["".join("#" if seen else "." for seen in row) for row in mask.tolist()]


def test_five_tokens_in_blocks_of_two():
    # clean, then target: a target block sees the clean blocks before it and itself
    assert drawing(staircase(5, 2)) == [
        "##........", "##........", "####......", "####......", "#####.....",
        ".....##...", ".....##...", "##.....##.", "##.....##.", "####.....#",
    ]  # fmt: skip


def test_a_token_causal_context_changes_the_clean_stream_alone():
    mask = staircase(4, 2, context="token_causal")
    assert drawing(mask[:4, :4]) == ["#...", "##..", "###.", "####"]
    assert torch.equal(mask[4:], staircase(4, 2)[4:])


def test_a_grid_at_the_answer_counts_prompt_blocks_backwards():
    # prompt of 3: blocks [0] [1 2] | [3 4] [5]
    mask = staircase(6, 2, prompt_length=3, origin="answer")
    assert drawing(mask[:6, :6]) == ["#.....", "###...", "###...", "#####.", "#####.", "######"]
    assert drawing(mask[6:, :6])[3] == "###..." and drawing(mask[6:, 6:])[3] == "...##."
    assert torch.equal(staircase(6, 2, prompt_length=3), staircase(6, 2))


def test_documents_never_meet_and_have_grids_of_their_own():
    mask = staircase(5, 2, document_L=torch.tensor([7, 7, 7, 2, 2]))
    assert drawing(mask[:5, :5]) == ["##...", "##...", "###..", "...##", "...##"]
    assert drawing(mask[5:, :5]) == [".....", ".....", "##...", ".....", "....."]
    assert drawing(mask[5:, 5:]) == ["##...", "##...", "..#..", "...##", "...##"]


def test_padding_is_seen_by_nobody():
    real = torch.tensor([[False, True, True, True, False]])
    position = torch.tensor([[0, 0, 1, 2, 2]])
    clean = Tokens.clean(position, real, 2)
    assert drawing(may_attend(clean, clean)[0])[1:4] == [".##..", ".##..", ".###."]
    target = clean.as_target()
    assert drawing(may_attend(target, clean)[0])[1:4] == [".....", ".....", ".##.."]
    assert drawing(may_attend(target, target)[0])[1:4] == [".##..", ".##..", "...#."]
    assert not may_attend(clean, target).any()


def test_documents_are_read_off_positions():
    position = torch.tensor(
        [[0, 1, 2, 0, 1, 2, 0], [0, 1, 2, 3, 0, 0, 0], [0, 0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0]]
    )
    expected = torch.tensor(
        [[0, 0, 0, 1, 1, 1, 2], [0, 0, 0, 0, 1, 1, 1], [0, 1, 1, 2, 2, 3, 3], [0, 0, 0, 0, 0, 0, 0]]
    )
    assert torch.equal(documents(position), expected)


def test_positions_restart_with_each_document():
    counted = torch.tensor([[0, 0, 1, 2, 3, 4, 4]])  # a padded slot at either end
    document = torch.tensor([[0, 0, 0, 0, 5, 5, 5]])
    assert token_positions(counted, document).tolist() == [[0, 0, 1, 2, 0, 1, 1]]


def test_runs_number_blocks_within_a_row():
    position = torch.tensor([[0, 1, 2, 3, 0, 1]])
    document = torch.tensor([[0, 0, 0, 0, 1, 1]])
    tokens = Tokens.clean(position, position >= 0, 3, document=document)
    assert tokens.block.tolist() == [[0, 0, 0, 1, 0, 0]]
    assert runs(tokens).tolist() == [[0, 0, 0, 1, 2, 2]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"block_size": 0}, "block_size 0 .* at least one token"),
        ({"block_size": 2, "origin": "prompt"}, "origin 'prompt'.* absolute, answer"),
        ({"block_size": 2, "context": "causal"}, "context is 'causal'"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        staircase(4, **arguments)
