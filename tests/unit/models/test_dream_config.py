import json

import pytest
import torch

from dllmzoo.errors import ModelError
from dllmzoo.models._load import check_config
from dllmzoo.models.dream import DreamConfig, DreamModel
from tests.unit.models.tiny import PUBLIC_DREAM, dream_7b, small_dream, tiny_dream


def read(**fields):
    return DreamConfig.from_dict(small_dream(**fields))


def problems(**fields):
    with pytest.raises(ModelError) as caught:
        read(**fields)
    return str(caught.value).splitlines()[1:]


def test_the_public_fields_are_read_and_written_back_unchanged(tmp_path):
    read_in = PUBLIC_DREAM | {"something_new": {"a": [1, 2]}, "auto_map": {"AutoModel": "x.Y"}}
    DreamConfig.from_dict(dict(read_in)).save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    written.pop("transformers_version")
    assert written == read_in | {"head_dim": 128}


def test_a_saved_model_writes_the_class_name_and_dtype_of_the_public_configs(tmp_path):
    for dtype in (torch.float32, torch.bfloat16):
        DreamModel(read(architectures=None, torch_dtype=None)).to(dtype).save_pretrained(tmp_path)
        written = json.loads((tmp_path / "config.json").read_text())
        assert (written["architectures"], written["model_type"]) == (["DreamModel"], "Dream")
        assert written["torch_dtype"] == str(dtype).removeprefix("torch.")
        assert "dtype" not in written
        assert set(small_dream()) <= set(written)


def test_sizes_of_7b_are_the_defaults_too():
    config, own = dream_7b(), DreamConfig()
    for name in PUBLIC_DREAM.keys() & DreamConfig.__init__.__annotations__.keys() - {"use_cache"}:
        assert getattr(own, name) == getattr(config, name) == PUBLIC_DREAM[name], name
    assert (config.head_dim, config.num_embeddings) == (128, 152064)
    assert config.max_sequence_length == config.max_position_embeddings == 131072
    assert config.known_ids == {"mask_token_id": 151666}
    assert read().known_ids == {}


def test_a_stated_head_width_must_be_that_of_the_heads():
    assert read(head_dim=None).head_dim == read(head_dim=4).head_dim == 4
    assert problems(head_dim=6) == [
        "  head_dim is 6, must be hidden_size / num_attention_heads (16 / 4)"
    ]
    assert "must be hidden_size / num_attention_heads (18 / 4)" in problems(hidden_size=18)[0]


@pytest.mark.parametrize("name", sorted(DreamConfig.needed))
def test_a_checkpoint_must_state_what_shapes_it(name):
    fields = {n: v for n, v in PUBLIC_DREAM.items() if n != name}
    with pytest.raises(ModelError, match=f"the Dream config lacks {name}; write them into"):
        DreamConfig.from_dict(fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"use_sliding_window": True}, "use_sliding_window is True, must be False or None"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu', must be 'silu'"),
        ({"attention_dropout": 0.1}, "attention_dropout is 0.1, must be 0.0"),
        ({"attention_bias": False}, "attention_bias is False, must be true"),
        ({"rope_scaling": {"type": "yarn"}}, "rope_scaling is {'type': 'yarn'}, must be null"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters is {'rope_type': 'yarn'}"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3, must divide num_attention_heads"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True, must be a whole number"),
        ({"hidden_size": 12}, "head_dim is 3, must be even"),
        ({"rope_theta": 0}, "rope_theta is 0, must be a number > 0"),
        ({"rms_norm_eps": "tiny"}, "rms_norm_eps is 'tiny', must be a number > 0"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1, must be true or false"),
        ({"mask_token_id": 12}, "mask_token_id is 12, must be an id from 0 to 11"),
        ({"eos_token_id": [10, 12]}, "eos_token_id is [10, 12], must be an id from 0 to 11"),
    ],
)
def test_a_value_that_is_not_built_is_refused(fields, message):
    found = problems(**fields)
    assert len(found) == 1 and message in found[0]


def test_every_problem_is_named_at_once():
    found = problems(hidden_act="relu", use_sliding_window=True, vocab_size=0)
    assert [line.split()[0] for line in found] == ["hidden_act", "use_sliding_window", "vocab_size"]
    found = problems(num_attention_heads=0)
    assert found[0] == "  num_attention_heads is 0, must be a whole number >= 1"


def test_fields_without_meaning_here_are_kept():
    config = read(sliding_window=131072, max_window_layers=28, attention_bias=True)
    assert (config.sliding_window, config.max_window_layers) == (131072, 28)


def test_S6_ids_of_the_public_vocabulary_are_known():
    # 151669 is SDAR's mask, an ordinary token here
    wrong = DreamConfig.from_dict(PUBLIC_DREAM | {"mask_token_id": 151669})
    with pytest.raises(ModelError, match=r"mask_token_id is 151669, but the public .* at 151666"):
        check_config(wrong, None, "weights")
    check_config(dream_7b(), None, "weights")


def test_a_field_of_model_config_that_does_not_exist_is_named():
    with pytest.raises(ModelError, match="no field 'hidden_sise', did you mean 'hidden_size'"):
        tiny_dream(hidden_sise=4)
    assert tiny_dream(hidden_act="silu").config.hidden_size == 16
