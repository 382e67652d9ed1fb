from collections import Counter

import pytest
import torch
from pydantic import ValidationError

from dllmzoo.samplers._noise import Slots
from dllmzoo.samplers._sharpest_first import PlaceNoise
from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import EOS, KEY, ToyPolicy, answer, prompts, table

NAMES = ("entropy", "margin", "maskgit_plus")


class Likeliest:
    """Draws the likeliest token at any temperature."""

    def token(self, logits_SV, temperature, at):
        return logits_SV.argmax(-1)


def order(name, policy, **options):
    """The step of each slot of one answer."""
    sampler = SAMPLERS.get(name)(answer_length=len(policy.logits_NV), **options)
    rollout = sampler(policy, prompts([1]), KEY, Likeliest())
    return answer(rollout.reveal_BL, rollout)[0].tolist()


def test_entropies_are_those_of_the_law_that_confidence_names():
    # slot 0: .5 .45, rest .05: entropy .96; slot 1: .45 .1, rest .45: 1.88
    # of the two likeliest: .526 .474: .692; .818 .182: .474
    policy = table({0: 0.5, 1: 0.45}, {2: 0.45, 3: 0.1})
    assert order("entropy", policy, top_k=2) == [0, 1]
    assert order("entropy", policy, top_k=2, confidence="before_filters") == [0, 1]
    assert order("entropy", policy, top_k=2, confidence="after_filters") == [1, 0]
    # top_p: .5 and .45 hold .95, so slot 1 keeps all it needs for .9: eight tokens
    assert order("entropy", policy, top_p=0.9, confidence="after_filters") == [0, 1]


def test_margins_are_those_of_the_law_that_confidence_names():
    # leads .04 and .05; at temperature .5 squares: .09 / (.3^2 + .26^2 + 8 * .055^2) = .494 and
    # .3714; slot 1: .1, .05 and eight of .10625: the token of .10625 leads by 0 there
    policy = table({0: 0.30, 1: 0.26}, {2: 0.12, 3: 0.07})
    # slot 0 .04, slot 1 (rest 8 of .10125): .12 - .10125 = .019
    assert order("margin", policy) == [0, 1]
    # top_k 1: both leads are 1 - 0, a tie: the smaller position
    assert order("margin", table({2: 0.12}, {0: 0.9}), top_k=1) == [1, 0]
    tied = order("margin", table({2: 0.12}, {0: 0.9}), top_k=1, confidence="after_filters")
    assert tied == [0, 1]


def test_before_filters_means_at_the_temperature():
    # squares: .25 / (.25 + .2025) = .55, .16 / (.16 + 9 * .0667^2 = .04) = .8
    policy = table({0: 0.5, 1: 0.45}, {2: 0.4})
    for rule, expected in (
        ("temperature_one", [0, 1]), ("before_filters", [1, 0]), ("after_filters", [1, 0]),
    ):  # fmt: skip
        found = order("maskgit_plus", policy, temperature=0.5, confidence=rule)
        assert found == expected, rule
        # greedy, all of them are those of temperature 1
        assert order("maskgit_plus", policy, temperature=0.0, confidence=rule) == [0, 1]


@pytest.mark.parametrize("name", NAMES)
def test_a_held_back_token_goes_last_also_where_the_filters_leave_nothing_else(name):
    policy = table({EOS: 0.98}, {1: 0.4}, {2: 0.3})
    sampler = SAMPLERS.get(name)(
        answer_length=3, top_k=1, end_rule="confidence_inf", confidence="after_filters"
    )
    rollout = sampler(policy, prompts([1]), KEY)
    assert answer(rollout.tokens_BL, rollout).tolist() == [[EOS, 1, 2]]
    assert answer(rollout.reveal_BL, rollout)[0, 0] == 2
    assert answer(rollout.confidence_BL, rollout).tolist() == [[0.0, 1.0, 1.0]]


def test_filters_restrict_what_is_drawn():
    policy = table({0: 0.4, 1: 0.35}, {2: 0.3, 3: 0.25})
    for name in NAMES:
        sampler = SAMPLERS.get(name)(answer_length=2, top_p=0.45)
        rollout = sampler(policy, prompts(*[[1]] * 50), KEY)
        tokens_BN = answer(rollout.tokens_BL, rollout)
        assert set(tokens_BN[:, 0].tolist()) == {0, 1}
        assert set(tokens_BN[:, 1].tolist()) == {2, 3}


def test_positions_are_drawn_from_the_softmax_of_certainty_over_the_order_temperature():
    # confidences .8 .5 .2 at tau .3: e^2 : e : 1 = 7.389 : 2.718 : 1, shares .665 .245 .090;
    # after slot 0 the others go e : 1, so 0 1 2 has .665 * .731 = .486
    B = 3000
    sampler = SAMPLERS.get("maskgit_plus")(answer_length=3, temperature=0.0, order_temperature=0.3)
    rollout = sampler(table({0: 0.8}, {1: 0.5}, {2: 0.2}), prompts(*[[1]] * B), KEY)
    reveal_BN = answer(rollout.reveal_BL, rollout)
    first = Counter(reveal_BN.argmin(1).tolist())
    assert [first[n] / B for n in range(3)] == pytest.approx([0.665, 0.245, 0.090], abs=0.03)
    whole = (reveal_BN == torch.arange(3)).all(1).float().mean().item()
    assert whole == pytest.approx(0.486, abs=0.03)
    assert (answer(rollout.tokens_BL, rollout) == torch.arange(3)).all(), "tokens stay greedy"


def test_numbers_for_positions_are_new_at_every_step_and_not_those_of_the_tokens():
    noise = PlaceNoise(KEY, torch.arange(2), 4, 3, torch.device("cpu"))
    row_S, slot_S = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 2])
    found = [noise.priority(Slots(step, row_S, slot_S)) for step in range(4)]
    assert len({round(x, 6) for each in found for x in each.tolist()}) == 12
    steps = torch.tensor([2, 0, 3])
    mixed = noise.priority(Slots(steps, row_S, slot_S))
    assert mixed.tolist() == [found[2][0].item(), found[0][1].item(), found[3][2].item()]


@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_order_temperature_is_the_plain_order_and_a_row_keeps_its_draw(name):
    policy = ToyPolicy()
    options = {"answer_length": 6, "temperature": 0.0}
    rows = prompts([1, 2], [3], [4, 0, 5])
    plain = SAMPLERS.get(name)(**options)(policy, rows, KEY)
    cold = SAMPLERS.get(name)(**options, order_temperature=1e-6)(policy, rows, KEY)
    assert torch.equal(cold.reveal_BL, plain.reveal_BL)
    warm = SAMPLERS.get(name)(**options, order_temperature=2.0)
    together = warm(policy, rows, KEY)
    assert not torch.equal(together.reveal_BL, plain.reveal_BL)
    alone = warm(policy, prompts([4, 0, 5], samples=[2]), KEY)
    assert torch.equal(alone.reveal_BL[0], together.reveal_BL[2])


def test_greedy_samples_differ_only_where_positions_are_drawn():
    sampler = SAMPLERS.get("entropy")
    assert not sampler(temperature=0.0).greedy_varies
    assert sampler(temperature=0.0, order_temperature=0.5).greedy_varies


@pytest.mark.parametrize(
    "option",
    [{"order_temperature": -1.0}, {"top_p": 0.0}, {"top_k": -1}, {"confidence": "logits"}],
)
def test_settings_out_of_range_are_refused(option):
    with pytest.raises(ValidationError):
        SAMPLERS.get("margin")(**option)
