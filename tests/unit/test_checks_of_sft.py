"""What supervised training asks of the network, known before anything is loaded."""

import pytest

from tests.unit.checked import found, one
from tests.unit.recipe.small_parts import small_zoo

LLADA = {
    "name": "llada", "tokenizer": "characters:1+=",
    "config": {"d_model": 8, "n_layers": 1, "n_heads": 2, "max_sequence_length": 16},
}  # fmt: skip
SDAR = {
    "name": "sdar", "tokenizer": "characters:1+=",
    "config": {
        "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 16,
        "max_position_embeddings": 16, "block_size": 4,
    },
}  # fmt: skip
FULL = SDAR | {"config": SDAR["config"] | {"attention": "full"}}


@pytest.fixture(autouse=True, scope="module")
def _small_zoo():
    with small_zoo():
        yield


@pytest.mark.parametrize(
    ("model", "why"), [(LLADA, "the family llada has none"), (FULL, "attention is full")]
)
def test_noise_of_blocks_needs_blocks(model, why):
    problem = one(stage="sft", model=model, sft={"noise": "block"})
    assert problem.path == "sft.noise" and why in problem.message
    assert "use noise: row" in problem.hint


def test_documents_in_one_row_need_a_network_that_keeps_them_apart():
    problem = one(stage="sft", model=LLADA, sft={"pack": 16})
    assert problem.path == "sft.pack"
    assert "llada has no mask that keeps them apart" in problem.message
    assert "tail: batch" in problem.hint


def test_a_network_with_blocks_takes_both_and_so_does_what_is_not_read():
    assert found(stage="sft", model=SDAR, sft={"noise": "block", "pack": 16}) == []
    assert found(model=LLADA, sft={"noise": "block", "pack": 16}) == []
