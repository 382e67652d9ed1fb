"""Ids and texts that tokenizer, config and policy must share."""

import copy
import dataclasses

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from dllmzoo.training.preflight._tokens import chat_template
from dllmzoo.training.preflight._verdict import Subject
from tests.unit.training.ready import failed, ready, with_policy, with_tokenizer


def printable(special, *, adds_own=False):
    """A tokenizer of single printable characters."""
    symbols = ["[PAD]", "[EOS]", "[MASK]", "[BOS]", *map(chr, range(32, 127))]
    backend = Tokenizer(models.WordLevel({each: i for i, each in enumerate(symbols)}, "?"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    if adds_own:
        start = processors.TemplateProcessing("[BOS] $A", special_tokens=[("[BOS]", 3)])
        backend.post_processor = start
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def test_a_mask_id_is_one_id_everywhere():
    loaded, learner = ready()
    policy = copy.deepcopy(learner.policy)
    policy.config.mask_token_id = 3
    found = failed(loaded, with_policy(learner, policy))
    assert found["mask id"].message == (
        "it is not one id: config 3, tokenizer 8, policy 3, codec 8"
    )
    policy.config.mask_token_id, policy.config.eos_token_id = 8, 8
    assert "also ends answers" in failed(loaded, with_policy(learner, policy))["mask id"].message


def test_a_mask_must_be_a_special_token():
    loaded, learner = ready()
    spelled = learner.codec.tokenizer

    class Plain:
        """Reads the mask token letter by letter."""

        mask_token_id, eos_token_id, chat_template = 8, 7, None

        def __call__(self, text, **_):
            return {"input_ids": [0] * 6 if text == "[MASK]" else spelled(text)["input_ids"]}

        def __getattr__(self, name):
            return getattr(spelled, name)

        def __len__(self):
            return len(spelled)

    found = failed(loaded, with_tokenizer(learner, Plain()))
    assert "'[MASK]' as [0, 0, 0, 0, 0, 0]: it is no special token" in found["mask id"].message


def test_the_end_token_of_the_tokenizer_must_end_answers():
    loaded, learner = ready()
    policy = copy.deepcopy(learner.policy)
    policy.config.eos_token_id = 6
    found = failed(loaded, with_policy(learner, policy))["tokenizer"]
    assert found.message == "its end token 7 does not end answers, which end at 6"
    assert "eos_token_id" in found.hint
    policy.config.eos_token_id = [6, 7]
    assert failed(loaded, with_policy(learner, policy)) == {}
    policy.config.eos_token_id = 9
    found = failed(loaded, with_policy(learner, policy))["tokenizer"]
    assert found.message == "the end token 9 is none of the tokenizer's 9 tokens"


def test_texts_must_come_back():
    loaded, learner = ready()
    spelled = learner.codec.tokenizer

    class Forgets:
        """Has no 4: writes 0 instead."""

        mask_token_id, eos_token_id, chat_template = 8, 7, None

        def __call__(self, text, **options):
            return spelled(text.replace("4", "0"), **options)

        def __getattr__(self, name):
            return getattr(spelled, name)

        def __len__(self):
            return len(spelled)

    found = failed(loaded, with_tokenizer(learner, Forgets()))
    assert "rewards would read another text" in found["tokenizer"].message


LLAMA_LIKE = (
    "{{ bos_token }}{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}[EOS]{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "adds_own", "bos", "outcome", "said"),
    [
        (LLAMA_LIKE, False, "[BOS]", "ok", "1 start token in a chat prompt"),
        (LLAMA_LIKE, True, "[BOS]", "ok", "1 start token in a chat prompt"),  # one is not added
        ("[BOS]" + LLAMA_LIKE, False, "[BOS]", "failed", "with two start tokens"),
        (LLAMA_LIKE[15:], False, None, "ok", "the model has no start token"),
        (LLAMA_LIKE[15:], False, "[BOS]", "ok", "0 start token"),
        (LLAMA_LIKE[15:], True, "[BOS]", "failed", "begins with 0 start tokens"),
        (None, False, None, "skipped", "the tokenizer has none"),
    ],
)
def test_a_chat_prompt_begins_with_one_start_token(template, adds_own, bos, outcome, said):
    loaded, learner = ready()
    special = {"pad_token": "[PAD]", "eos_token": "[EOS]", "mask_token": "[MASK]"}
    if bos:
        special["bos_token"] = bos
    spelled = printable(special, adds_own=adds_own)
    spelled.chat_template = template
    subject = Subject(loaded, with_tokenizer(learner, spelled), False)
    found = chat_template(subject)
    assert (found.outcome, said in found.message) == (outcome, True), found


def test_a_tokenizer_must_not_write_ids_that_the_network_lacks():
    loaded, learner = ready()
    policy = copy.deepcopy(learner.policy)
    policy.config.vocab_size = 3
    found = failed(loaded, with_policy(learner, policy))
    assert found["tokenizer"].message.startswith("the tokenizer writes the id 5, and the network")
    assert list(found) == ["mask id", "tokenizer"]


@pytest.mark.parametrize(("thought", "outcome"), [("", "ok"), ("2", "failed")])
def test_a_template_that_rewrites_what_was_asked_is_found_before_any_round(thought, outcome):
    loaded, learner = ready()
    spelled = printable({"eos_token": "[EOS]", "mask_token": "[MASK]"})
    spelled.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'assistant' %}={{ m['content'] }}[EOS]"
        "{% else %}{{ m['content'] }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}=" + thought + "{% endif %}"
    )

    class Talk:
        def prompt(self, example):
            return [{"role": "user", "content": "1"}]

        def answer(self, example, key, sample):
            return "3"

        def test(self, number):
            return [{}]

    asked = dataclasses.replace(loaded, stage="sft", task=Talk())
    found = chat_template(Subject(asked, with_tokenizer(learner, spelled), False))
    assert found.outcome == outcome, found
    rewarded = dataclasses.replace(asked, stage="rl")  # no answer of the task's is learnt
    assert chat_template(Subject(rewarded, with_tokenizer(learner, spelled), False)).outcome == "ok"
    if outcome == "failed":
        assert "writes a conversation otherwise once it is answered" in found.message
