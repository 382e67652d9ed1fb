"""Text to rows and back."""

from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from tests.unit.training.small import TOKENIZER, Digits, codec, network

# characters:01234= gives 0..4 their own value and = the id 5; then padding, end, mask
END, MASK = 7, 8


@pytest.fixture(scope="module")
def made():
    return codec(network())


def examples(*texts):
    return [{"text": text} for text in texts]


def test_rows_are_repeated_and_padded_on_the_left(made):
    prompts = made.prompts(Digits(), examples("123", "4"), 2, answer_length=6, first=5)
    assert (made.mask_id, made.stop_ids) == (MASK, (END,))
    assert prompts.tokens_BL.tolist() == [[1, 2, 3, 5]] * 2 + [[END, END, 4, 5]] * 2
    assert prompts.attend_BL.long().tolist() == [[1, 1, 1, 1]] * 2 + [[0, 0, 1, 1]] * 2
    assert prompts.group_B.tolist() == [5, 5, 6, 6]
    assert prompts.sample_B.tolist() == [10, 11, 12, 13]
    assert [e["text"] for e in prompts.examples] == ["123", "123", "4", "4"]


def test_padding_is_told_by_the_mask_not_by_the_token(made):
    # a prompt that holds the end token is attended throughout
    class Ends(Digits):
        def prompt(self, example):
            return example["text"] + TOKENIZER.eos_token

    prompts = made.prompts(Ends(), examples("1", "22"), 1, answer_length=2)
    assert prompts.attend_BL.tolist() == [[False, True, True], [True, True, True]]


def test_a_prompt_without_room_for_the_answer_is_refused_never_cut(made):
    short = replace(made, max_length=9)
    short.prompts(Digits(), examples("12"), 1, answer_length=6)  # 3 + 6 = 9
    with pytest.raises(TaskError, match=r"prompt of 4 tokens and an answer of 6 exceed.*9"):
        short.prompts(Digits(), examples("123"), 1, answer_length=6)


def test_messages_without_a_chat_template_are_refused(made):
    with pytest.raises(TaskError, match="no chat template"):
        made.prompt_ids([{"role": "user", "content": "1"}])


def test_an_answer_ends_at_its_first_end_token_and_holds_no_special_ones(made):
    tokens_BN = torch.tensor([[1, 2, END, 3], [END, 1, 1, 1], [1, 6, 2, 3], [4, 4, 4, 4]])
    assert made.texts(tokens_BN) == ["12", "", "123", "4444"]


def test_demonstrations_are_filled_up_with_end_tokens(made):
    prompts, answer_BN = made.demonstrations(
        Digits(), examples("12", "3333"), Key(0, 0, "a"), answer_length=4, first=2
    )
    assert answer_BN.tolist() == [[1, 2, END, END], [3, 3, 3, END]]
    assert prompts.sample_B.tolist() == [2, 3]


def test_a_demonstration_longer_than_the_canvas_is_refused(made):
    with pytest.raises(TaskError, match=r"has 3 tokens, the answer canvas 2.*answer_length"):
        made.demonstrations(Digits(), examples("1234"), Key(0, 0, "a"), answer_length=2)


def test_demonstrations_draw_by_the_samples_number_in_the_round(made):
    seen = []

    class Notes(Digits):
        def answer(self, example, key, sample):
            seen.append((key, sample))
            return "1"

    key = Key(3, 7, "prompts/answers")
    made.demonstrations(Notes(), examples("1", "2"), key, answer_length=2, first=4)
    assert seen == [(key, 4), (key, 5)]


def test_a_model_without_an_end_token_pads_and_reads_but_fills_no_tail(made):
    endless = replace(made, stop_ids=())
    assert endless.prompts(Digits(), examples("1", "22"), 1, answer_length=2).attend_BL.sum() == 5
    assert endless.texts(torch.tensor([[1, 2]])) == ["12"]
    endless.demonstrations(Digits(), examples("12"), Key(0, 0, "a"), answer_length=2)
    with pytest.raises(TaskError, match="no end token to fill the rest"):
        endless.demonstrations(Digits(), examples("12"), Key(0, 0, "a"), answer_length=3)


def test_no_prompts_at_all_are_no_rows(made):
    assert made.prompts(Digits(), [], 4, answer_length=2).tokens_BL.shape == (0, 0)
    assert made.texts(torch.zeros(0, 4, dtype=torch.long)) == []
