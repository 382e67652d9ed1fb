import copy
import pickle

import pytest
from transformers import AutoTokenizer

from dllmzoo.errors import ModelError, UsageError
from dllmzoo.models._load import load_tokenizer
from dllmzoo.models._tokenizer import character_tokenizer


def test_ids_are_the_characters_in_order_then_padding_end_and_mask():
    tokenizer = character_tokenizer("01234=")
    assert tokenizer("0123=").input_ids == [0, 1, 2, 3, 5]
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.mask_token_id) == (6, 7, 8)
    assert len(tokenizer) == 9
    assert tokenizer("4[MASK][EOS]").input_ids == [4, 8, 7]


@pytest.mark.parametrize("characters", ["01234=", "ab é\n.", "ABC日本語", "[]MASK"])
def test_text_comes_back_without_a_space_too_many(characters):
    tokenizer = character_tokenizer(characters)
    text = characters[::-1] + characters * 2
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.batch_decode(tokenizer([text, text[:2]]).input_ids) == [text, text[:2]]
    assert tokenizer.decode([*tokenizer.encode(text), tokenizer.eos_token_id],
                            skip_special_tokens=True) == text  # fmt: skip


@pytest.mark.parametrize("text", ["01x2", ["0", "1x"], "x[MASK]"])
def test_an_unknown_character_is_named_and_never_dropped(text):
    with pytest.raises(ModelError, match=r"knows the characters '01234=', not 'x'") as caught:
        character_tokenizer("01234=")(text)
    assert "`tokenizer: characters:01234=x`" in str(caught.value)


def test_chat_prompts_are_refused():
    with pytest.raises(ModelError, match="no chat format; use plain prompts"):
        character_tokenizer("01").apply_chat_template([{"role": "user", "content": "1"}])


@pytest.mark.parametrize("characters", ["", "010"])
def test_characters_are_given_and_given_once(characters):
    with pytest.raises(UsageError, match=r"needs characters|'0' twice"):
        load_tokenizer(f"characters:{characters}")


def test_a_saved_tokenizer_loads_alone_and_keeps_its_manners(tmp_path):
    tokenizer = character_tokenizer("01234=")
    tokenizer.save_pretrained(tmp_path)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sum(map(len, first.values())) < 4000
    ours = load_tokenizer(tmp_path)
    with pytest.raises(ModelError, match="not 'x'"):
        ours("x")
    plain = AutoTokenizer.from_pretrained(tmp_path)
    for each in (ours, plain, pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert each("10=").input_ids == [1, 0, 5]
        assert each.mask_token_id == 8
        assert each.decode([1, 0, 5]) == "10="
    with pytest.raises(Exception, match="Missing"):
        plain("x")
    ours.save_pretrained(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first
