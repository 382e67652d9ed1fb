import pytest
import torch

from dllmzoo.records import Key
from dllmzoo.samplers._noise import KeyedNoise, Slots, inverse_cdf, tempered
from tests.unit.samplers.toy import KEY


def noise(samples, steps=4, slots=5, key=KEY):
    return KeyedNoise(key, torch.tensor(samples), steps, slots, torch.device("cpu"))


def every_slot(step, rows, slots):
    row_S = torch.arange(rows).repeat_interleave(slots)
    return Slots(step, row_S, torch.arange(slots).repeat(rows))


def test_a_number_picks_the_token_whose_share_of_the_line_it_hits():
    # shares [0, .25) [.25, .25) [.25, 1): the second token has none
    prob_SV = torch.tensor([[0.25, 0.0, 0.75]]).expand(5, -1)
    uniform_S = torch.tensor([0.0, 0.2499, 0.25, 0.26, 0.9999999])
    assert inverse_cdf(prob_SV, uniform_S).tolist() == [0, 0, 2, 2, 2]


def test_tokens_of_probability_zero_are_never_drawn():
    prob_SV = torch.tensor([[0.0, 0.0, 1.0, 0.0]]).expand(2, -1)
    assert inverse_cdf(prob_SV, torch.tensor([0.0, 1 - 2**-24])).tolist() == [2, 2]


def test_probabilities_need_not_add_up_to_one():
    prob_SV = torch.tensor([[0.1, 0.3]])
    assert inverse_cdf(prob_SV, torch.tensor([0.24])).tolist() == [0]
    assert inverse_cdf(prob_SV, torch.tensor([0.26])).tolist() == [1]


def test_the_last_digit_of_a_large_vocabulary_stays_exact():
    V = 100_000
    prob_SV = torch.full((3, V), 1 / V)
    uniform_S = torch.tensor([0.5, 0.25, 0.999])
    drawn = inverse_cdf(prob_SV, uniform_S)
    assert (drawn - (uniform_S.double() * V).long()).abs().max() <= 1


def test_nothing_leaves_the_vocabulary_even_without_numbers():
    prob_SV = torch.full((1, 4), float("nan"))
    assert 0 <= inverse_cdf(prob_SV, torch.tensor([0.5])).item() < 4


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_softmax(temperature):
    # 400 samples x 5 steps x 10 slots = 20000 fixed draws; every share within 4 standard errors
    logits_V = torch.tensor([1.0, -0.5, 2.0, 0.3, -torch.inf, -2.0])
    source, n = noise(range(400), steps=5, slots=10), 20_000
    drawn = [
        source.token(logits_V.expand(4000, -1), temperature, every_slot(step, 400, 10))
        for step in range(5)
    ]
    share_V = torch.cat(drawn).bincount(minlength=6) / n
    prob_V = (logits_V / temperature).softmax(-1)
    assert ((share_V - prob_V).abs() <= 4 * (prob_V * (1 - prob_V) / n).sqrt()).all()
    assert share_V[4] == 0


def test_neighbouring_slots_steps_and_samples_draw_independently():
    # correlation of 2000 pairs of uniform numbers: standard error 1 / sqrt(2000) = 0.022
    u_BTN = noise(range(100), steps=5, slots=5)._uniform_BTN
    for a, b in (
        (u_BTN[:-1], u_BTN[1:]),
        (u_BTN[:, 1:], u_BTN[:, :-1]),
        (u_BTN[..., 1:], u_BTN[..., :-1]),
    ):
        assert abs(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1]) < 4 * 0.0224


def test_a_row_draws_by_its_sample_wherever_it_stands():
    logits_SV = torch.zeros(10, 50)
    here = noise([7, 3]).token(logits_SV, 1.0, every_slot(2, 2, 5)).view(2, 5)
    there = noise([3, 9, 7]).token(logits_SV.repeat(2, 1)[:15], 1.0, every_slot(2, 3, 5)).view(3, 5)
    assert torch.equal(here, there[[2, 0]])


def test_another_round_draws_other_numbers():
    logits_SV = torch.zeros(10, 1000)
    other = noise([7, 3], key=Key(seed=3, round=1, purpose="sample"))
    drawn = noise([7, 3]).token(logits_SV, 1.0, every_slot(2, 2, 5))
    assert not torch.equal(other.token(logits_SV, 1.0, every_slot(2, 2, 5)), drawn)


def test_the_order_is_drawn_once_and_apart_from_the_tokens():
    source = noise([7, 3])
    first = source.priority(every_slot(0, 2, 5))
    assert torch.equal(source.priority(every_slot(3, 2, 5)), first)
    assert not torch.equal(source._uniform_BTN[:, 0].flatten(), first)


def test_tiny_temperatures_stay_finite():
    drawn_SV = tempered(torch.tensor([[50.0, 40.0, -torch.inf]]), 1e-30)
    assert drawn_SV.softmax(-1).tolist() == [[1.0, 0.0, 0.0]]
    assert drawn_SV.logsumexp(-1).item() == 0.0


def test_a_slot_is_drawn_anew_at_every_step():
    # 200 slots, 8 equal tokens: two independent draws agree at about 1 in 8
    keyed, logits_SV = noise(range(40)), torch.zeros(200, 8)
    first, second = (keyed.token(logits_SV, 1.0, every_slot(step, 40, 5)) for step in (0, 1))
    assert 0.02 < (first == second).float().mean().item() < 0.3
