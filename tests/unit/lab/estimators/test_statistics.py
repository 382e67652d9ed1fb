import math

import pytest
import torch

from dllmzoo.lab.estimators.statistics import errors, gradient_errors


def test_errors_by_hand():
    # answer 0: estimates 1, 3 of truth 1: errors 0, 2, mean 1, variance 2
    # answer 1: estimates 4, 4 of truth 5: errors -1, -1, mean -1, variance 0
    found = errors(
        torch.tensor([1.0, 3.0, 4.0, 4.0]), torch.tensor([1.0, 5.0]).double(),
        torch.tensor([0, 0, 1, 1]),
    )  # fmt: skip
    assert found.bias == pytest.approx(0.0)
    assert found.std == pytest.approx(1.0)  # root of (2 * 2 + 2 * 0) / 4
    assert found.bias_se == pytest.approx(math.sqrt(1 / 4))
    assert found.rmse == pytest.approx(math.sqrt((0 + 4 + 1 + 1) / 4))


def test_biases_that_cancel_over_answers_are_found():
    # +1 for one answer, -1 for the other: no mean bias, but each is off by 1
    index_B = torch.arange(40) % 2
    estimate_B = 1.0 - 2.0 * index_B
    found = errors(estimate_B, torch.zeros(2).double(), index_B)
    assert (found.bias, found.answer_bias, found.std) == (0.0, 1.0, 0.0)
    assert found.biased


def test_noise_is_no_bias():
    index_B = torch.arange(4000) % 4
    noise_B = torch.randn(4000, generator=torch.Generator().manual_seed(0))
    found = errors(noise_B, torch.zeros(4).double(), index_B)
    assert not found.biased
    assert errors(noise_B + 0.2, torch.zeros(4).double(), index_B).biased
    assert found.std == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("rows", [64, 128, 256, 1024])
def test_noise_is_no_bias_however_few_the_rows_of_an_answer(rows):
    # 16 answers: with 64 rows hardly one is seen often enough for a bias of its own to be told,
    # with 128 and 256 some are
    found = []
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        index_B = torch.randint(16, (rows,), generator=generator)
        noise_B = torch.randn(rows, generator=generator)
        found.append(errors(noise_B, torch.zeros(16).double(), index_B).biased)
    assert sum(found) <= 1


def test_an_uncertain_truth_widens_the_error():
    found = errors(
        torch.ones(20), torch.zeros(1).double(), torch.zeros(20, dtype=torch.long), truth_se=0.5
    )
    assert found.bias_se == pytest.approx(0.5)
    assert not found.biased


def test_gradient_errors_by_hand():
    # exact (2, 0); estimates (2, 2) and (2, 4), whose exact counterparts are (2, 0) twice:
    # mean gap (0, 3), variance of gaps 2, chance 2 / 2 = 1, so bias^2 = 9 - 1 = 8
    exact = torch.tensor([2.0, 0.0]).double()
    estimates = torch.tensor([[2.0, 2.0], [2.0, 4.0]]).double()
    found = gradient_errors(estimates, exact.expand(2, 2), exact)
    assert found.bias == pytest.approx(math.sqrt(8) / 2)
    assert found.resolution == pytest.approx(1 / 2)
    assert found.scale == pytest.approx(1.0)
    assert found.std == pytest.approx(math.sqrt(2) / 2)
    assert found.error == pytest.approx(math.sqrt((4 + 16) / 2) / 2)
    assert found.cosine == pytest.approx((1 / math.sqrt(2) + 1 / math.sqrt(5)) / 2)
    assert found.cosine_of_mean == pytest.approx(2 / math.sqrt(4 + 8))  # mean (2, 3), 9 - 1 along


def test_the_exact_estimates_have_no_bias():
    exact = torch.tensor([1.0, 1.0]).double()
    estimates = torch.tensor([[0.0, 2.0], [2.0, 0.0]]).double()
    found = gradient_errors(estimates, estimates, exact)
    assert (found.bias, found.resolution) == (0.0, 0.0)
    assert found.cosine_of_mean == pytest.approx(1.0)
