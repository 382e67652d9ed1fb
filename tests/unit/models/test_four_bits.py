"""A base in 4 bits: all of it or an error, and adapters that learn through it."""

from importlib.util import find_spec

import pytest
import torch

from dllmzoo.errors import ModelError, RecipeError, UsageError
from dllmzoo.models import _four_bits
from dllmzoo.models._load import build_model, load_model
from dllmzoo.models._lora import add_lora
from dllmzoo.models._sharded import blocks
from dllmzoo.recipe import load
from dllmzoo.recipe.sections import Lora
from dllmzoo.training.export import save_policy
from tests.runs import recipe
from tests.unit.training.small import TOKENIZER, network

needs_package = pytest.mark.skipif(
    find_spec("bitsandbytes") is None,
    reason="needs bitsandbytes: pip install 'dllmzoo[quantize]'",
)
CONFIG = {
    "d_model": 64, "n_layers": 2, "n_heads": 2, "mlp_hidden_size": 128, "max_sequence_length": 64,
}  # fmt: skip
MODEL = {"name": "llada", "weights": "llada-tiny-sudoku", "quantize": "4bit"}
LORA = {"preset": "all-linear", "rank": 2, "alpha": 4.0}


def test_without_the_package_it_is_an_error_before_anything_is_read(monkeypatch):
    monkeypatch.setattr(_four_bits, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs bitsandbytes: pip install 'dllmzoo\[quantize\]'"):
        load_model("nowhere/at-all", quantize="4bit")


def test_a_layer_left_in_full_precision_is_an_error():
    with pytest.raises(ModelError, match=r"of block 0 is not in 4 bits"):
        _four_bits.only_four_bits(network())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MODEL, "it needs `lora` and `weights`"),
        (recipe("x")["model"] | {"quantize": "4bit", "lora": LORA}, "`lora` and `weights`"),
        (MODEL | {"lora": LORA, "reference": "copy"}, "`reference: adapter`"),
        (recipe("x")["model"] | {"lora": LORA, "reference_device": "cpu"}, "frozen copy only"),
        (recipe("x")["model"] | {"reference": "none", "reference_device": "cpu"}, "frozen copy"),
    ],
)
def test_a_recipe_that_asks_for_what_cannot_be_is_refused(tmp_path, model, message):
    with pytest.raises(RecipeError, match=message):
        load(recipe(tmp_path, model=model))


@pytest.fixture
def quantised(tmp_path):
    save_policy(tmp_path / "base", build_model("llada", CONFIG, TOKENIZER, 3), TOKENIZER)
    place = {"": torch.device("cpu")}
    return load_model(tmp_path / "base", quantize="4bit", device_map=place)


@needs_package
def test_every_linear_layer_of_a_block_is_in_four_bits_and_the_head_is_not(quantised):
    held = sum(p.numel() * p.element_size() for b in blocks(quantised) for p in b.parameters())
    weights = 2 * (4 * 64 * 64 + 3 * 64 * 128)
    assert weights / 2 <= held <= weights / 2 + 2 * 2 * 64 * 4
    assert quantised.get_output_embeddings().weight.dtype == torch.float32


@needs_package
def test_adapters_get_the_gradient_of_the_dequantised_network(quantised):
    from bitsandbytes.functional import dequantize_4bit

    plain = build_model("llada", CONFIG, TOKENIZER, 4)
    state = dict(quantised.state_dict())
    for name, module in quantised.named_modules():
        if type(module).__name__ == "Linear4bit":
            weight = module.weight
            state[f"{name}.weight"] = dequantize_4bit(weight.data, weight.quant_state)
    plain.load_state_dict({name: state[name] for name in plain.state_dict()})
    tokens = torch.tensor([[1, 2, 3, 4], [4, 0, 1, 2]])
    grads = []
    for model in (quantised, plain):
        adapted = add_lora(model, Lora(rank=2, alpha=4.0), seed=1)
        with torch.no_grad():
            adapted.eval()(tokens)  # what happens at evaluation must not reach training
        adapted.train()(tokens).logits.square().sum().backward()
        grads.append({n: p.grad for n, p in adapted.named_parameters() if p.requires_grad})
    assert grads[0].keys() == grads[1].keys()
    for name, grad in grads[0].items():
        torch.testing.assert_close(grad, grads[1][name], rtol=1e-3, atol=1e-3)
