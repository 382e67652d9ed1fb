import json
import logging

import pytest
import torch

from dllmzoo.errors import ModelError
from dllmzoo.models.sdar import SdarConfig, SDARForCausalLM
from tests.unit.models.tiny import PUBLIC_SDAR, sdar_4b, small_sdar, tiny_sdar


def read(**fields):
    return SdarConfig.from_dict(small_sdar(**fields))


def problems(**fields):
    with pytest.raises(ModelError) as caught:
        read(**fields)
    return str(caught.value).splitlines()[1:]


def test_the_public_fields_are_read_and_written_back_unchanged(tmp_path):
    read_in = PUBLIC_SDAR | {"something_new": {"a": [1, 2]}, "auto_map": {"AutoModel": "x.Y"}}
    SdarConfig.from_dict(dict(read_in)).save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    written.pop("transformers_version")
    added = {"attention": "block_causal", "pad_token_id": None}
    assert {n: v for n, v in written.items() if n not in added} == read_in
    assert all(written.get(name) == value for name, value in added.items())


def test_a_saved_model_writes_the_class_name_and_dtype_of_the_public_configs(tmp_path):
    for dtype in (torch.float32, torch.bfloat16):
        SDARForCausalLM(read(architectures=None, torch_dtype=None)).to(dtype).save_pretrained(
            tmp_path
        )
        written = json.loads((tmp_path / "config.json").read_text())
        assert written["architectures"] == ["SDARForCausalLM"]
        assert written["model_type"] == "sdar"
        assert written["torch_dtype"] == str(dtype).removeprefix("torch.")
        assert "dtype" not in written
        assert set(small_sdar()) <= set(written)


def test_sizes_of_4b():
    config = sdar_4b()
    assert (config.hidden_size, config.head_dim, config.num_embeddings) == (2560, 128, 151936)
    assert config.max_sequence_length == config.max_position_embeddings == 32768
    assert config.known_ids == {"mask_token_id": 151669}
    assert read().known_ids == {}


def test_copies_without_block_size_and_mask_get_those_of_the_others_and_say_so(caplog):
    fields = {n: v for n, v in PUBLIC_SDAR.items() if n not in ("block_size", "mask_token_id")}
    with caplog.at_level(logging.INFO, logger="dllmzoo"):
        config = SdarConfig.from_dict(fields)
    assert (config.block_size, config.mask_token_id) == (4, 151669)
    assert "config.json lacks block_size and mask_token_id" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="dllmzoo"):
        small = read(mask_token_id=None, block_size=None)
    assert (small.block_size, small.mask_token_id) == (4, None), "151669 is no id of 12 tokens"
    assert "mask_token_id" not in caplog.text


def test_a_field_that_shapes_the_network_must_be_written():
    fields = small_sdar()
    del fields["head_dim"], fields["rope_theta"]
    with pytest.raises(
        ModelError, match=r"lacks head_dim, rope_theta; write them into config.json"
    ):
        SdarConfig.from_dict(fields)


def test_the_attention_program_of_a_published_config_is_not_obeyed():
    assert read(attn_implementation="flex_attention")._attn_implementation is None
    asked = SdarConfig.from_dict(small_sdar(), attn_implementation="flex_attention")
    assert asked._attn_implementation == "flex_attention"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_act", "gelu"),
        ("attention_bias", True),
        ("attention_dropout", 0.1),
        ("use_sliding_window", True),
        ("sliding_window", 128),
        ("rope_scaling", {"type": "linear"}),
        ("rope_parameters", {"rope_theta": 5.0}),
        ("hidden_size", "64"),
        ("intermediate_size", 1.5),
        ("num_hidden_layers", 0),
        ("num_attention_heads", True),
        ("num_attention_heads", 3),
        ("num_key_value_heads", 3),
        ("num_key_value_heads", 0),
        ("head_dim", 5),
        ("head_dim", -2),
        ("vocab_size", None),
        ("max_position_embeddings", -1),
        ("rope_theta", 0),
        ("rms_norm_eps", "1e-6"),
        ("tie_word_embeddings", None),
        ("block_size", 0),
        ("block_size", 2.0),
        ("block_size", True),
        ("attention", "causal"),
        ("mask_token_id", 12),
        ("mask_token_id", -1),
        ("eos_token_id", [1, 99]),
        ("pad_token_id", "0"),
    ],
)
def test_a_value_that_is_not_built_is_refused(field, value):
    found = problems(**{field: value})
    assert any(field in line and repr(value) in line for line in found), found


def test_every_problem_is_listed_at_once():
    found = problems(hidden_act="relu", sliding_window=4, rope_theta="x", block_size=-1, head_dim=0)
    assert len(found) == 5
    assert len(problems(head_dim=7, mask_token_id=400, num_key_value_heads=3)) == 3


def test_block_size_and_attention_are_read_and_checked_at_each_call():
    model = tiny_sdar()
    assert model.block_size == 3
    model.config.block_size = 5
    assert model.block_size == 5
    model.config.block_size = 0
    with pytest.raises(ModelError, match="was changed: block_size is 0"):
        model(torch.zeros(1, 4, dtype=torch.long))
    model.config.block_size, model.config.attention = 4, "full"
    assert model.block_size is None
    model.config.attention = "causal"
    with pytest.raises(ModelError, match="attention is 'causal'"):
        model(torch.zeros(1, 4, dtype=torch.long))
