"""The smallest network of each family, by name."""

QWEN = {
    "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "intermediate_size": 16,
}  # fmt: skip
FAMILIES = {
    "llada": {"d_model": 8, "n_layers": 2, "n_heads": 2, "mlp_hidden_size": 16},
    "dream": QWEN,
    "sdar": {**QWEN, "head_dim": 4, "block_size": 2},
}
