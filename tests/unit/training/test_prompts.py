"""Text to rows and back."""

from dataclasses import dataclass, replace

import pytest
import torch
from transformers import PreTrainedTokenizerFast

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


def test_an_answer_that_the_prompt_begins_is_left_open(made):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made.tokenizer.backend_tokenizer)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m['content'] }}4{% endfor %}"
        "{% if add_generation_prompt %}3{% endif %}"
    )
    chat = replace(made, tokenizer=tokenizer)
    question = {"role": "user", "content": "1"}
    assert chat.prompt_ids([question]) == [1, 4, 3]
    begun = {"role": "assistant", "content": "22"}
    assert chat.prompt_ids([question, begun]) == [1, 4, 2, 2]


def test_an_answer_ends_at_its_first_end_token_and_holds_no_special_ones(made):
    tokens_BN = torch.tensor([[1, 2, END, 3], [END, 1, 1, 1], [1, 6, 2, 3], [4, 4, 4, 4]])
    assert made.texts(tokens_BN) == ["12", "", "123", "4444"]


def test_demonstrations_are_filled_up_with_end_tokens(made):
    prompts, answer_BN, real_BN, kept_B = made.demonstrations(
        Digits(), examples("12", "3333"), Key(0, 0, "a"), answer_length=4, first=2
    )
    assert answer_BN.tolist() == [[1, 2, END, END], [3, 3, 3, END]]
    assert prompts.sample_B.tolist() == [2, 3]
    assert real_BN.all() and kept_B.all()


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


# --- given answers


@dataclass(frozen=True)
class Wants:
    """Stands for a sampler that is given answers."""

    given: str | None
    answer_length: int = 5


class Giver(Digits):
    """Gives what stands in the example; blanks are spelled as the tokenizer or the task does."""

    def given(self, example, key, sample):
        return example["answers"][sample % 2]


class Both(Giver):
    def given_blanks(self, example, key, sample):
        return example["blanks"]


PAIR = {"text": "12", "answers": ["123", "40"], "blanks": "1[MASK]2"}


def given(made, task, kind, length=5, examples=(PAIR,), group_size=2):
    prompts = made.prompts(task, examples, group_size, answer_length=length)
    return made.with_given(prompts, task, Wants(kind, length), Key(1, 2, "prompts/given"))


def test_a_sampler_that_wants_nothing_is_given_nothing(made):
    prompts = made.prompts(Digits(), examples("12"), 2, answer_length=5)
    for sampler in (Wants(None), object()):
        assert made.with_given(prompts, Digits(), sampler, Key(0, 0, "x")) is prompts


def test_each_row_is_given_its_own_answer_filled_up_with_end_tokens(made):
    found = given(made, Giver(), "answers")
    assert found.answer_BN.tolist() == [[1, 2, 3, END, END], [4, 0, END, END, END]]
    assert found.tokens_BL.tolist() == [[1, 2, 5]] * 2


def test_blanks_become_mask_tokens_however_they_are_spelled(made):
    assert given(made, Both(), "blanks", 4).answer_BN.tolist() == [[1, MASK, 2, END]] * 2
    other = replace(made, tokenizer=Renamed())
    assert other.mask_text == "<|gap|>"
    assert given(other, Both(), "blanks", 4).answer_BN.tolist() == [[1, MASK, 2, END]] * 2
    spelled = PAIR | {"blanks": "1<|gap|>2[MASK]"}
    found = given(other, Both(), "blanks", 4, [spelled])
    assert found.answer_BN.tolist() == [[1, MASK, 2, MASK]] * 2


class Renamed:
    """The tokenizer of digits with another word for its mask token."""

    eos_token = TOKENIZER.eos_token

    def __call__(self, text, **options):
        return TOKENIZER(text.replace("<|gap|>", "[MASK]"), **options)

    def convert_ids_to_tokens(self, token):
        return {MASK: "<|gap|>"}.get(token)


def test_a_task_of_one_kind_gives_its_texts_to_either_sampler(made):
    masked = PAIR | {"answers": ["[MASK]2", "3[MASK]"]}
    found = given(made, Giver(), "blanks", 3, [masked])
    assert found.answer_BN.tolist() == [[MASK, 2, END], [3, MASK, END]]


def test_the_key_and_the_samples_number_reach_the_task(made):
    seen = []

    class Notes(Giver):
        def given(self, example, key, sample):
            seen.append((key.purpose, key.round, sample))
            return "1"

    prompts = made.prompts(Notes(), [PAIR, PAIR], 2, answer_length=2, first=3)
    made.with_given(prompts, Notes(), Wants("answers", 2), Key(1, 2, "prompts/given"))
    assert seen == [("prompts/given", 2, sample) for sample in (6, 7, 8, 9)]


def test_given_answers_that_do_not_fit_are_refused(made):
    with pytest.raises(TaskError, match=r"a given answer has 3 tokens, the answer canvas 2"):
        given(made, Giver(), "answers", 2)
    with pytest.raises(TaskError, match="no end token to fill the rest"):
        given(replace(made, stop_ids=()), Giver(), "answers", 5)
    with pytest.raises(TaskError, match=r"Digits has no method `given\(example, key, sample\)`"):
        given(made, Digits(), "answers")


def test_a_tokenizer_that_cannot_spell_a_blank_is_refused(made):
    class Cuts(Renamed):
        def __call__(self, text, **options):
            return TOKENIZER(text.replace("<|gap|>", "44"), **options)

    with pytest.raises(TaskError, match=r"has 1 blanks, and the tokenizer makes 0 mask tokens"):
        given(replace(made, tokenizer=Cuts()), Both(), "blanks")
    with pytest.raises(TaskError, match="no token of the model's mask id 99"):
        given(replace(made, mask_id=99, tokenizer=Renamed()), Both(), "blanks")
