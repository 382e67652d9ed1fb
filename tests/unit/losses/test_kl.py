"""KL estimators against the exact KL of two small distributions."""

import pytest
import torch

from dllmzoo.losses._kl import estimated_kl, exact_kl
from tests.strategies import estimate, units

NEW = torch.tensor([0.5, 0.3, 0.2]).log()
REFERENCE = torch.tensor([0.2, 0.5, 0.3]).log()
EXACT = (NEW.exp() * (NEW - REFERENCE)).sum()
"""0.5 ln 2.5 + 0.3 ln 0.6 + 0.2 ln (2/3) = 0.458145 - 0.153248 - 0.081093 = 0.223805."""


def each_token(kind, gradient="value", new=NEW):
    """The estimate for each token of the vocabulary, one unit a row."""
    facts = units(len(new))
    return estimated_kl(
        kind, gradient, estimate(new), REFERENCE.unsqueeze(1), facts, "none"
    ).squeeze(1)


def test_the_exact_value():
    assert EXACT.item() == pytest.approx(0.223805, abs=1e-6)


@pytest.mark.parametrize("kind", ["k1", "k3"])
def test_k1_and_k3_have_the_exact_kl_as_mean(kind):
    assert (NEW.exp() * each_token(kind)).sum().item() == pytest.approx(EXACT.item(), abs=1e-6)


@pytest.mark.parametrize("kind", ["k2", "k3"])
def test_k2_and_k3_are_never_negative(kind):
    gaps = torch.cat([torch.logspace(-12, 4, 400), -torch.logspace(-12, 4, 400)])
    new = estimate(gaps.unsqueeze(1))
    kl_BU = estimated_kl(kind, "value", new, torch.zeros(800, 1), units(800), "none")
    assert (kl_BU >= 0).all()
    assert kl_BU.isfinite().all()


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_equal_policies_have_no_kl(kind):
    facts = units(3)
    kl_BU = estimated_kl(kind, "value", estimate(NEW), NEW.unsqueeze(1), facts, "none")
    assert not kl_BU.any()


@pytest.mark.parametrize("kind", ["k1", "k3"])
def test_the_score_gradient_is_that_of_the_exact_kl(kind):
    # mean over tokens of the score gradient = gradient of KL(softmax(z), reference)
    logits = NEW.clone().requires_grad_()
    logprob = logits.log_softmax(0)
    exact = (logprob.exp() * (logprob - REFERENCE)).sum()
    (expected,) = torch.autograd.grad(exact, logits, retain_graph=True)
    weighted = (logprob.detach().exp() * each_token(kind, "score", logprob)).sum()
    (found,) = torch.autograd.grad(weighted, logits)
    torch.testing.assert_close(found, expected)


def test_exact_kl_is_divided_by_the_units_length():
    facts = units(1, size_BU=torch.tensor([[4.0]]), canvas=8)
    new = estimate(torch.zeros(1, 1), torch.tensor([[2.0]]))
    for length_norm, expected in (("none", 2.0), ("token", 0.5), ("canvas", 0.25)):
        assert exact_kl(new, facts, length_norm).item() == expected
