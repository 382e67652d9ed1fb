import pytest
import torch

from dllmzoo.samplers._filters import likeliest

PROBS = torch.tensor([[0.1, 0.4, 0.3, 0.2]])


def kept(top_k, top_p, prob_SV=PROBS):
    return [row.nonzero()[:, 0].tolist() for row in likeliest(prob_SV.log(), top_k, top_p)]


@pytest.mark.parametrize(
    ("top_k", "top_p", "expected"),
    [
        (0, 1.0, [0, 1, 2, 3]),
        (2, 1.0, [1, 2]),
        (9, 1.0, [0, 1, 2, 3]),
        # .4 before token 2, .7 before token 3, .9 before token 0
        (0, 0.39, [1]),
        (0, 0.5, [1, 2]),
        (0, 0.75, [1, 2, 3]),
        (0, 0.95, [0, 1, 2, 3]),
        # of two tokens 4/7 and 3/7: .57 before token 2
        (2, 0.5, [1]),
        (2, 0.6, [1, 2]),
        (1, 0.01, [1]),
    ],
)
def test_top_k_first_then_top_p_of_what_is_left(top_k, top_p, expected):
    assert kept(top_k, top_p) == [expected]


def test_among_equals_the_lower_id_stays():
    assert kept(2, 1.0, torch.tensor([[0.2, 0.3, 0.2, 0.3], [0.25] * 4])) == [[1, 3], [0, 1]]
    assert kept(3, 1.0, torch.tensor([[0.2, 0.3, 0.2, 0.3]])) == [[0, 1, 3]]


def test_a_forbidden_token_stays_forbidden():
    assert kept(3, 1.0, torch.tensor([[0.6, 0.0, 0.4, 0.0]])) == [[0, 2]]
    assert kept(0, 0.99, torch.tensor([[0.6, 0.0, 0.4, 0.0]])) == [[0, 2]]
