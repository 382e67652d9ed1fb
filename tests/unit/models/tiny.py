"""Networks small enough to build in a test, and the public config they come from."""

import torch

from dllmzoo.models._load import build_model, load_tokenizer
from dllmzoo.models.dream import DreamConfig
from dllmzoo.models.llada import LLaDAConfig
from dllmzoo.models.sdar import SdarConfig

PUBLIC = {
    "activation_type": "silu",
    "alibi": False,
    "alibi_bias_max": 8.0,
    "architectures": ["LLaDAModelLM"],
    "attention_dropout": 0.0,
    "attention_layer_norm": False,
    "attention_layer_norm_with_affine": True,
    "bias_for_layer_norm": False,
    "block_group_size": 1,
    "block_type": "llama",
    "d_model": 4096,
    "embedding_dropout": 0.0,
    "embedding_size": 126464,
    "eos_token_id": 126081,
    "flash_attention": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "init_cutoff_factor": None,
    "init_device": "meta",
    "init_fn": "mitchell",
    "init_std": 0.02,
    "input_emb_norm": False,
    "layer_norm_type": "rms",
    "layer_norm_with_affine": True,
    "mask_token_id": 126336,
    "max_sequence_length": 4096,
    "mlp_hidden_size": 12288,
    "mlp_ratio": 4,
    "model_type": "llada",
    "multi_query_attention": None,
    "n_heads": 32,
    "n_kv_heads": 32,
    "n_layers": 32,
    "pad_token_id": 126081,
    "precision": "amp_bf16",
    "residual_dropout": 0.0,
    "rms_norm_eps": 1e-05,
    "rope": True,
    "rope_full_precision": True,
    "rope_theta": 500000.0,
    "scale_logits": False,
    "torch_dtype": "bfloat16",
    "use_cache": False,
    "vocab_size": 126464,
    "weight_tying": False,
}
"""Fields of an 8B checkpoint's config.json."""

PUBLIC_SDAR = {
    "architectures": ["SDARForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "block_size": 4,
    "bos_token_id": 151643,
    "eos_token_id": 151643,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2560,
    "initializer_range": 0.02,
    "intermediate_size": 9728,
    "mask_token_id": 151669,
    "max_position_embeddings": 32768,
    "max_window_layers": 36,
    "model_type": "sdar",
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
"""Fields of a 4B checkpoint's config.json."""

PUBLIC_DREAM = {
    "architectures": ["DreamModel"],
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151643,
    "hidden_act": "silu",
    "hidden_size": 3584,
    "initializer_range": 0.02,
    "intermediate_size": 18944,
    "mask_token_id": 151666,
    "max_position_embeddings": 131072,
    "max_window_layers": 28,
    "model_type": "Dream",
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "pad_token_id": 151643,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 152064,
}
"""Fields of a 7B checkpoint's config.json."""

SMALL = {"d_model": 16, "n_layers": 2, "n_heads": 4, "mlp_hidden_size": 24, "init_std": 0.3}


SMALL_SDAR = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 6, "intermediate_size": 24, "block_size": 3, "max_position_embeddings": 64,
    "initializer_range": 0.3,
}  # fmt: skip

SMALL_DREAM = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 64, "initializer_range": 0.3,
}  # fmt: skip


def tokenizer():
    """Nine tokens: six characters, padding 6, end 7, mask 8."""
    return load_tokenizer("characters:01234=")


def tiny(seed=0, **fields):
    """A network of nine tokens whose logits depend visibly on every weight."""
    return build_model("llada", SMALL | {"init_fn": "normal"} | fields, tokenizer(), seed)


def tiny_sdar(seed=0, **fields):
    """A block model of nine tokens, in blocks of three."""
    return build_model("sdar", SMALL_SDAR | fields, tokenizer(), seed)


def small_sdar(**fields):
    """A public config of a small block model."""
    words = {"vocab_size": 12, "mask_token_id": 11, "eos_token_id": 10, "bos_token_id": 10}
    return PUBLIC_SDAR | SMALL_SDAR | words | fields


def sdar_4b():
    """The 4B config."""
    return SdarConfig.from_dict(dict(PUBLIC_SDAR))


def tiny_dream(seed=0, **fields):
    """A network of nine tokens whose head is shifted, with biases that are not 0."""
    model = build_model("dream", SMALL_DREAM | fields, tokenizer(), seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.copy_(0.3 * torch.randn(weight.shape, generator=generator))
    return model


def small_dream(**fields):
    """A public config of a small shape."""
    words = {"vocab_size": 12, "mask_token_id": 11, "eos_token_id": 10, "pad_token_id": 10}
    return PUBLIC_DREAM | SMALL_DREAM | words | fields


def dream_7b():
    """The 7B config."""
    return DreamConfig.from_dict(dict(PUBLIC_DREAM))


def small_public(**fields):
    """A public config of a small shape."""
    shape = {"d_model": 16, "n_layers": 1, "n_heads": 2, "n_kv_heads": 2, "mlp_hidden_size": 8}
    words = {
        "vocab_size": 12,
        "embedding_size": 12,
        "mask_token_id": 11,
        "eos_token_id": 10,
        "pad_token_id": 10,
    }
    return PUBLIC | shape | words | fields


def llada_8b():
    """The 8B config."""
    return LLaDAConfig.from_dict(dict(PUBLIC))


def tokens(rows, length, seed=0):
    """Random ids of characters and masks."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 6, (rows, length), generator=generator)
    return ids.masked_fill(torch.rand(rows, length, generator=generator) < 0.3, 8)
