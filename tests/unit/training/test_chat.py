"""Messages as a prompt and an answer, in tokens."""

import pytest

from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from dllmzoo.training.chat import split
from dllmzoo.training.prompts import Codec
from tests.unit.training.talk import END, FORGETS, NEWLINES, PLAIN, START, TURN, said, talker

ASKED = [said("system", "s"), said("user", "1+1?")]


class Talk:
    """A task of one conversation."""

    def __init__(self, prompt=ASKED, answer="2"):
        self.given = prompt, answer

    def prompt(self, example):
        return self.given[0]

    def answer(self, example, key, sample):
        return self.given[1]


def codec(template=PLAIN, **options):
    return Codec(talker(template), 5, (END, TURN), **options)


def demonstrated(made, task=None, number=1, **options):
    options = {"answer_length": 6} | options
    return made.demonstrations(task or Talk(), [{}] * number, Key(0, 0, "a"), **options)


def texts(made, tokens):
    return made.tokenizer.batch_decode(tokens)


def test_a_conversation_is_cut_where_the_answer_starts():
    asked, answer = split(talker(), ASKED, " 2 ")
    assert asked == "<s><|h|>system<|/h|>s<|eot|><|h|>user<|/h|>1+1?<|eot|><|h|>assistant<|/h|>"
    assert answer == "2<|eot|>"


def test_an_answer_that_the_prompt_begins_goes_on():
    asked, answer = split(talker(), [*ASKED, said("assistant", "one ")], "two")
    assert asked.endswith("<|h|>assistant<|/h|>one")  # the template trims
    assert answer == " two<|eot|>"


@pytest.mark.parametrize("template", [PLAIN, NEWLINES])
def test_the_prompt_is_what_the_model_is_asked_and_the_answer_ends_its_turn(template):
    made = codec(template)
    prompts, answer_BN, real_BN, kept_B = demonstrated(made)
    assert prompts.tokens_BL[0].tolist() == made.prompt_ids(ASKED)
    assert prompts.tokens_BL[0].tolist().count(START) == 1
    assert texts(made, answer_BN) == ["2<|eot|>" + 4 * "<|end|>"]
    assert real_BN.all() and kept_B.all()


def test_a_template_that_rewrites_what_was_said_is_refused():
    talk = [*ASKED, said("assistant", "2"), said("user", "why?")]
    made = codec(FORGETS)
    with pytest.raises(TaskError, match=r"otherwise once it is answered: from character \d+ on"):
        demonstrated(made, Talk(talk, "so"))


def test_what_a_template_refuses_is_told_with_the_roles():
    made = codec("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(TaskError, match="refuses messages of system, user: roles must alternate"):
        demonstrated(made)
    with pytest.raises(TaskError, match="no chat template"):
        demonstrated(codec(None))


def test_two_start_tokens_are_refused():
    with pytest.raises(TaskError, match="starts a prompt with two start tokens"):
        demonstrated(codec("{{ bos_token }}" + PLAIN))


class Several(Talk):
    """Answers of one, two and five characters."""

    def answer(self, example, key, sample):
        return ("1", "22", "55555")[sample % 3]


@pytest.mark.parametrize(
    ("tail", "ends", "real"),
    [
        ("canvas", ["1.EEEEEE", "22.EEEEE", "55555.EE"], [8, 8, 8]),
        ("batch", ["1.EEEE", "22.EEE", "55555."], [6, 6, 6]),
        ("end", ["1.EEEE", "22.EEE", "55555."], [2, 3, 6]),
    ],
)
def test_the_tail_fills_the_canvas_or_the_batch_or_ends_once(tail, ends, real):
    made = codec()
    _, answer_BN, real_BN, _ = demonstrated(made, Several(), 3, answer_length=8, tail=tail)
    shown = [t.replace("<|end|>", "E").replace("<|eot|>", ".") for t in texts(made, answer_BN)]
    assert shown == ends
    assert real_BN.sum(1).tolist() == real
    assert real_BN.cumprod(1).sum(1).tolist() == real


def test_plain_text_gets_one_end_token_where_it_has_none():
    made = codec()
    task = Talk("1+1=", "2")
    _, answer_BN, real_BN, _ = demonstrated(made, task, tail="end")
    assert texts(made, answer_BN) == ["2<|end|>"] and real_BN.tolist() == [[True, True]]
    _, answer_BN, _, _ = demonstrated(made, task, tail="end", answer_length=1)
    assert texts(made, answer_BN) == ["2"]
    with pytest.raises(TaskError, match="no end token"):
        demonstrated(Codec(talker(), 5, ()), task, tail="end")


def test_a_batch_is_as_wide_as_its_widest_process():
    seen = []

    def widest(length):
        seen.append(length)
        return 5

    _, answer_BN, _, _ = demonstrated(codec(), tail="batch", widest=widest)
    assert seen == [2] and answer_BN.shape == (1, 5)


def test_what_is_too_long_is_refused_or_left_out_never_cut():
    made = codec()
    with pytest.raises(TaskError, match=r"has 6 tokens, the answer canvas 5; .*sft.too_long: drop"):
        demonstrated(made, Several(), 3, answer_length=5)
    prompts, answer_BN, real_BN, kept_B = demonstrated(
        made, Several(), 3, answer_length=5, too_long="drop"
    )
    assert kept_B.tolist() == [True, True, False]
    assert prompts.attend_BL[2].sum() == 1 and real_BN.sum(1).tolist() == [5, 5, 1]
    assert texts(made, answer_BN[2:]) == ["<|end|>" * 5]


def test_a_prompt_that_leaves_no_room_is_too_long():
    length = len(codec().prompt_ids(ASKED))
    made = codec(max_length=length + 5)
    for tail, kept in (("canvas", [False] * 3), ("batch", [True, True, False])):
        found = demonstrated(made, Several(), 3, answer_length=6, tail=tail, too_long="drop")
        assert found.kept_B.tolist() == kept
    with pytest.raises(TaskError, match=rf"a prompt of {length} tokens and an answer of 6 exceed"):
        demonstrated(made, Several(), 3)


def test_end_tokens_stop_where_the_model_does():
    # the second row has room for its answer, not for as many end tokens as the first
    class Uneven(Several):
        def prompt(self, example):
            return "1" if example["short"] else "1" * 8

    made = codec(max_length=12)
    found = made.demonstrations(
        Uneven(), [{"short": True}, {"short": False}], Key(0, 0, "a"), answer_length=6, first=2,
        tail="batch",
    )  # fmt: skip
    assert found.real_BN.sum(1).tolist() == [5, 4]
    assert found.kept_B.all()
