"""Unit test of the check of shape suffixes."""

import pytest
import torch

from dllmzoo.shapes import dims


def test_letters_get_their_sizes():
    assert dims(steps_BK=torch.zeros(2, 3), reward_B=torch.zeros(2)) == {"B": 2, "K": 3}


def test_a_name_with_more_words_ends_in_its_suffix():
    assert dims(block_entropy_BT=torch.zeros(1, 5)) == {"B": 1, "T": 5}


def test_a_letter_with_two_sizes_is_refused_naming_both_tensors():
    with pytest.raises(ValueError, match=r"^B is 3 in steps_BK but 4 in reward_B$"):
        dims(steps_BK=torch.zeros(3, 2), reward_B=torch.zeros(4))


def test_a_letter_twice_in_one_name_means_a_square():
    assert dims(mask_LL=torch.zeros(4, 4)) == {"L": 4}
    with pytest.raises(ValueError, match="L is 4 in mask_LL but 3 in mask_LL"):
        dims(mask_LL=torch.zeros(4, 3))


def test_another_rank_than_the_name_says_is_refused():
    with pytest.raises(ValueError, match=r"steps_BK has shape \(2,\), its name says 2 axes"):
        dims(steps_BK=torch.zeros(2))


def test_a_digit_is_a_literal_size():
    assert dims(weight_B1=torch.zeros(5, 1)) == {"B": 5}
    with pytest.raises(ValueError, match="1 is 1 in weight_B1 but 2 in weight_B1"):
        dims(weight_B1=torch.zeros(5, 2))
