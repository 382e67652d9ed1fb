import json

import pytest
import torch

from dllmzoo.errors import ModelError
from dllmzoo.models.llada import LLaDAConfig, LLaDAModelLM
from tests.unit.models.tiny import PUBLIC, llada_8b, small_public


def read(**fields):
    return LLaDAConfig.from_dict(small_public(**fields))


def problems(**fields):
    with pytest.raises(ModelError) as caught:
        read(**fields)
    return str(caught.value).splitlines()[1:]


def test_the_public_fields_are_read_and_written_back_unchanged(tmp_path):
    read_in = PUBLIC | {"something_new": {"a": [1, 2]}, "auto_map": {"AutoModel": "x.Y"}}
    LLaDAConfig.from_dict(dict(read_in)).save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    written.pop("transformers_version")
    assert written == read_in


def test_a_saved_model_writes_the_class_name_and_dtype_of_the_public_configs(tmp_path):
    for dtype in (torch.float32, torch.bfloat16):
        LLaDAModelLM(read(architectures=None, torch_dtype=None)).to(dtype).save_pretrained(tmp_path)
        written = json.loads((tmp_path / "config.json").read_text())
        assert written["architectures"] == ["LLaDAModelLM"]
        assert written["model_type"] == "llada"
        assert written["torch_dtype"] == str(dtype).removeprefix("torch.")
        assert "dtype" not in written and "tie_word_embeddings" not in written
        assert set(small_public()) <= set(written)


def test_derived_sizes_of_8b():
    config = llada_8b()
    assert (config.head_width, config.num_kv_heads, config.mlp_width) == (128, 32, 12288)
    assert config.num_embeddings == 126464
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (
        4096,
        32,
        32,
    )
    assert config.tie_word_embeddings is False


def test_null_means_the_usual_value():
    config = read(n_kv_heads=None, mlp_hidden_size=None, mlp_ratio=3, embedding_size=None)
    # 3 * 16 = 48
    assert (config.num_kv_heads, config.mlp_width, config.num_embeddings) == (2, 48, 12)
    assert config.n_kv_heads is None and config.embedding_size is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_type", "sequential"),
        ("block_group_size", 2),
        ("layer_norm_type", "default"),
        ("layer_norm_with_affine", False),
        ("activation_type", "swiglu"),
        ("rope", False),
        ("alibi", True),
        ("multi_query_attention", True),
        ("scale_logits", True),
        ("input_emb_norm", True),
        ("attention_layer_norm", True),
        ("include_bias", True),
        ("include_qkv_bias", True),
        ("bias_for_layer_norm", True),
        ("attention_dropout", 0.1),
        ("embedding_dropout", 0.1),
        ("residual_dropout", 1),
        ("clip_qkv", 8.0),
        ("rope_scaling", {"type": "linear"}),
        ("d_model", "64"),
        ("d_model", 18),
        ("n_layers", 0),
        ("n_heads", 3),
        ("n_heads", True),
        ("n_kv_heads", 0),
        ("mlp_hidden_size", 1.5),
        ("vocab_size", None),
        ("max_sequence_length", -1),
        ("rope_theta", 0),
        ("rms_norm_eps", "1e-5"),
        ("weight_tying", None),
        ("rope_full_precision", "yes"),
        ("embedding_size", 11),
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
    found = problems(
        block_type="sequential",
        alibi=True,
        scale_logits=1,
        attention_dropout=0.1,
        rope_theta="x",
        n_heads=3,
        n_kv_heads=None,
        mask_token_id=400,
        multi_query_attention=True,
    )
    assert len(found) == 8
    assert (
        "  multi_query_attention is True, must be None or False; write n_kv_heads: 1 instead"
        in (found)
    )
    assert "  d_model / n_heads is 16 / 3, must be whole and even" in found


def test_grouped_heads_that_contradict_each_other_are_refused():
    assert (
        "multi_query_attention is False" in problems(multi_query_attention=False, n_kv_heads=1)[0]
    )
    assert read(multi_query_attention=False).num_kv_heads == 2
    assert read(n_kv_heads=1).num_kv_heads == 1
    assert "must divide n_heads" in problems(n_heads=4, n_kv_heads=3)[0]


@pytest.mark.parametrize("value", [0, 0.0])
def test_a_dropout_of_zero_may_be_written_as_an_integer(value):
    assert read(residual_dropout=value).residual_dropout == 0


def test_a_checkpoint_must_state_what_shapes_the_network():
    fields = small_public()
    for name in ("rope_theta", "mask_token_id", "mlp_hidden_size", "mlp_ratio"):
        del fields[name]
    with pytest.raises(ModelError, match=r"lacks rope_theta, mask_token_id, mlp_hidden_size; wri"):
        LLaDAConfig.from_dict(fields)


def test_weight_tying_decides_whatever_tie_word_embeddings_says():
    config = read(tie_word_embeddings=True)
    assert config.weight_tying is False and config.tie_word_embeddings is False
