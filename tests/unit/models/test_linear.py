"""Linear layers by another product: the numbers of torch's own."""

import pytest
import torch
import torch.nn.functional as F

from dllmzoo.models import _linear
from dllmzoo.models._linear import Linear, linear
from dllmzoo.models._load import build_model, load_tokenizer
from tests.unit.models.families import FAMILIES

pytestmark = pytest.mark.skipif(
    not _linear.AVAILABLE, reason="torch was built without oneDNN, or this is no x86 processor"
)


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Small products too."""
    monkeypatch.setattr(_linear, "WORTH", 0)


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("shape", [(6, 8), (2, 3, 8), (1, 8), (2, 3, 4, 8)])
@pytest.mark.parametrize("bias", [True, False])
def test_numbers_and_gradients_are_those_of_torch(shape, bias):
    mine, weight = Linear(8, 5, bias=bias), drawn(5, 8)
    mine.weight.data = weight
    x, y = drawn(*shape).requires_grad_(), drawn(*shape).requires_grad_()
    found, expected = mine(x), F.linear(y, weight.requires_grad_(), mine.bias)
    torch.testing.assert_close(found, expected)
    with torch.no_grad():
        torch.testing.assert_close(mine(x), expected)
    out = drawn(*found.shape)
    (found * out).sum().backward()
    (expected * out).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    torch.testing.assert_close(mine.weight.grad, weight.grad)


def test_a_transposed_input_and_a_gradient_that_is_spread_out_are_read_right():
    x, weight = drawn(8, 6).t().requires_grad_(), drawn(5, 8).requires_grad_()
    grads = torch.autograd.grad(linear(x, weight).sum(), (x, weight))  # its gradient is expanded
    expected = torch.autograd.grad(F.linear(x, weight).sum(), (x, weight))
    torch.testing.assert_close(grads, expected)


def test_second_derivatives_are_right():
    x, weight = drawn(4, 3).requires_grad_(), drawn(2, 3).requires_grad_()
    found = []
    for product in (linear, F.linear):
        (first,) = torch.autograd.grad(product(x, weight).pow(3).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.pow(2).sum(), (x, weight)))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-4)


def test_a_frozen_layer_keeps_no_input():
    kept = []

    def pack(tensor):
        kept.append(tuple(tensor.shape))
        return tensor

    x, weight = drawn(7, 3).requires_grad_(), drawn(2, 3)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        made = linear(x * 1.0, weight)
    assert kept == [(2, 3)]
    made.sum().backward()
    torch.testing.assert_close(x.grad, weight.sum(0).expand(7, 3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_are_left_to_torch(dtype, monkeypatch):
    monkeypatch.setattr(_linear, "_product", None)
    x, weight = drawn(6, 8).to(dtype), drawn(5, 8).to(dtype)
    assert torch.equal(linear(x, weight), F.linear(x, weight))
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x.float(), weight.float()).dtype == torch.bfloat16


@pytest.mark.parametrize("family", FAMILIES)
def test_a_network_says_the_same_by_either_product(family, monkeypatch):
    policy = build_model(family, FAMILIES[family], load_tokenizer("characters:0123"), 0)
    tokens_BL, found = torch.tensor([[1, 2, 3, 0, 1, 2]]), []
    for worth in (0, 2**60):
        monkeypatch.setattr(_linear, "WORTH", worth)
        policy.zero_grad()
        logits = policy(tokens_BL).logits
        logits.log_softmax(-1)[..., 1].sum().backward()
        found.append((logits.detach(), [p.grad.clone() for p in policy.parameters()]))
    torch.testing.assert_close(found[0], found[1])
