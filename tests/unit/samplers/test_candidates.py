import math

import pytest
import torch

from dllmzoo.samplers import _candidates
from dllmzoo.samplers._candidates import Law, draw
from dllmzoo.samplers._noise import KeyedNoise, Slots
from tests.unit.samplers.toy import KEY

# vocabulary: 0, 1 words   2 end of text   3 end of turn   4 mask
MASK, STOPS = 4, (2, 3)


def candidates(*rows, temperature=0.0, end_rule="none"):
    law = Law(temperature, end_rule, MASK, STOPS)
    S = len(rows)
    at = Slots(0, torch.zeros(S, dtype=torch.int64), torch.arange(S))
    noise = KeyedNoise(KEY, torch.tensor([0]), 1, S, torch.device("cpu"))
    certainty = lambda prob_SV, token_S, noise, at: prob_SV.amax(-1)  # noqa: E731
    return draw(torch.tensor(rows), law, certainty, noise, at)


def logs(*probs):
    return [math.log(p) for p in probs]


def test_greedy_takes_the_likeliest_token_and_records_temperature_one():
    found = candidates(logs(0.2, 0.4, 0.1, 0.1, 0.2))
    assert found.token_S.tolist() == [1]
    assert found.confidence_S.item() == pytest.approx(0.4)
    # the mask is never drawn: 0.4 / (1 - 0.2)
    assert found.logprob_S.item() == pytest.approx(math.log(0.5), abs=1e-6)
    # -(2 * .2 ln .2 + .4 ln .4 + 2 * .1 ln .1) = .6438 + .3665 + .4605
    assert found.entropy_S.item() == pytest.approx(1.4708, abs=1e-4)


def test_greedy_takes_the_lowest_token_among_equals():
    assert candidates(logs(0.3, 0.3, 0.1, 0.1, 0.2)).token_S.tolist() == [0]


def test_the_mask_token_is_never_a_candidate():
    found = candidates(logs(0.05, 0.15, 0.05, 0.05, 0.7))
    assert found.token_S.tolist() == [1]
    assert found.confidence_S.item() == pytest.approx(0.15)


def test_log_probs_are_those_of_the_law_at_the_temperature():
    # p^(1/0.5) without the mask: .04, .16, .01, .01 of .22
    found = candidates(*[logs(0.2, 0.4, 0.1, 0.1, 0.2)] * 50, temperature=0.5)
    expected = torch.tensor([0.04, 0.16, 0.01, 0.01]).div(0.22).log()
    torch.testing.assert_close(found.logprob_S, expected[found.token_S])
    assert found.token_S.unique().numel() > 1
    confidence = torch.tensor([0.2, 0.4, 0.1, 0.1])
    torch.testing.assert_close(found.confidence_S, confidence[found.token_S])


def test_logits_inf_takes_the_end_of_text_out_of_everything():
    found = candidates(logs(0.1, 0.2, 0.5, 0.15, 0.05), end_rule="logits_inf")
    assert found.token_S.tolist() == [1]  # the end-of-turn token stays allowed
    assert found.confidence_S.item() == pytest.approx(0.2 / 0.5)
    assert found.logprob_S.item() == pytest.approx(math.log(0.2 / 0.45), abs=1e-6)
    share = [0.2, 0.4, 0.3, 0.1]
    assert found.entropy_S.item() == pytest.approx(-sum(p * math.log(p) for p in share), abs=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_confidence_inf_changes_confidences_only(temperature):
    rows = [logs(0.1, 0.2, 0.5, 0.15, 0.05), logs(0.3, 0.4, 0.1, 0.1, 0.1)] * 40
    plain = candidates(*rows, temperature=temperature)
    ruled = candidates(*rows, temperature=temperature, end_rule="confidence_inf")
    for name in ("token_S", "logprob_S", "entropy_S"):
        assert torch.equal(getattr(plain, name), getattr(ruled, name))
    end_S = torch.isin(ruled.token_S, torch.tensor(STOPS))
    assert end_S.any()
    assert (ruled.confidence_S[end_S] == 0).all()
    # the others are renormalised without both end tokens: 0.65 and 0.2 of the mass
    left_S = torch.tensor([0.35, 0.8] * 40)
    torch.testing.assert_close(ruled.confidence_S[~end_S], (plain.confidence_S / left_S)[~end_S])


def test_chunks_change_nothing(monkeypatch):
    rows = torch.randn(14, 5, generator=torch.Generator().manual_seed(0)).tolist()
    whole = candidates(*rows, temperature=0.8)
    monkeypatch.setitem(_candidates.ELEMENTS, "cpu", 10)
    parts = candidates(*rows, temperature=0.8)
    for name, value in vars(whole).items():
        assert torch.equal(getattr(parts, name), value), name


def test_half_precision_logits_are_read_in_float32():
    law = Law(0.0, "none", MASK, STOPS)
    logits_SV = torch.tensor([[4.0, 1.0, 0.0, 0.0, 0.0]], dtype=torch.bfloat16)
    at = Slots(0, torch.tensor([0]), torch.tensor([0]))
    noise = KeyedNoise(KEY, torch.tensor([0]), 1, 1, torch.device("cpu"))
    found = draw(logits_SV, law, lambda prob_SV, *_: prob_SV[:, 0], noise, at)
    assert found.logprob_S.dtype == found.entropy_S.dtype == torch.float32
    torch.testing.assert_close(found.confidence_S, logits_SV.float().softmax(-1)[:, 0])


def filtered(rule, temperature=1.0, **filters):
    """100 candidates of one distribution: .1, .4, .2, .2 and .1 for the mask."""
    law = Law(temperature, "none", MASK, STOPS, confidence=rule, **filters)
    at = Slots(0, torch.zeros(100, dtype=torch.int64), torch.arange(100))
    noise = KeyedNoise(KEY, torch.tensor([0]), 1, 100, torch.device("cpu"))
    rows = torch.tensor([logs(0.1, 0.4, 0.2, 0.2, 0.1)] * 100)
    return draw(rows, law, lambda prob_SV, token_S, noise, at: prob_SV.amax(-1), noise, at)


def test_filters_restrict_what_is_drawn_and_the_law_on_record():
    # the likeliest two: .4 and .2 of .6
    found = filtered("before_filters", top_k=2)
    assert found.token_S.unique().tolist() == [1, 2]
    expected = torch.tensor([0.0, 0.4 / 0.6, 0.2 / 0.6]).log()
    torch.testing.assert_close(found.logprob_S, expected[found.token_S])
    # .4 of .9 stands before token 2, .6 of .9 before token 3
    found = filtered("before_filters", top_p=0.6)
    assert found.token_S.unique().tolist() == [1, 2]
    torch.testing.assert_close(found.logprob_S, expected[found.token_S])
    entropy = -sum(p * math.log(p) for p in (0.1, 0.4, 0.2, 0.2, 0.1))
    torch.testing.assert_close(found.entropy_S, torch.full((100,), entropy))


def test_filters_look_at_the_tempered_law():
    # squared and without the mask: .01, .16, .04, .04 of .25; .64 before token 2, .8 before 3
    assert filtered("before_filters", 0.5, top_p=0.6).token_S.unique().tolist() == [1]
    assert filtered("before_filters", 0.5, top_p=0.7).token_S.unique().tolist() == [1, 2]


def test_confidence_is_a_probability_of_the_law_that_is_named():
    plain = torch.tensor([0.1, 0.4, 0.2, 0.2])
    for rule, temperature, expected in (
        ("temperature_one", 0.5, plain),
        ("before_filters", 1.0, plain),
        # squares .01, .16, .04, .04 and .01 of the mask, which is no candidate but has its share
        ("before_filters", 0.5, torch.tensor([0.01, 0.16, 0.04, 0.04]) / 0.26),
        ("after_filters", 1.0, torch.tensor([0.0, 0.4, 0.2, 0.0]) / 0.6),
        ("after_filters", 0.5, torch.tensor([0.0, 0.16, 0.04, 0.0]) / 0.2),
    ):
        found = filtered(rule, temperature, top_k=2)
        torch.testing.assert_close(found.confidence_S, expected[found.token_S])


def test_greedy_candidates_know_no_filters_and_no_temperature():
    for rule, expected in (("before_filters", 0.4), ("after_filters", 0.4 / 0.9)):
        found = filtered(rule, 0.0, top_k=1, top_p=0.1)
        assert found.token_S.tolist() == [1] * 100
        torch.testing.assert_close(found.confidence_S, torch.full((100,), expected))
        torch.testing.assert_close(found.logprob_S, torch.full((100,), math.log(0.4 / 0.9)))
