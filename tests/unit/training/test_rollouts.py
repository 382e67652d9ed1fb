"""A round's experience as lines of a file."""

import json

import pytest

from dllmzoo.records import Key
from dllmzoo.training.loop import collect
from dllmzoo.training.meter import Meter
from dllmzoo.training.rollouts import lines
from tests.unit.training.small import Digits, budget, digit_sum, learner, method


def logged(**parts):
    made = learner()
    seen = collect(method(**parts), budget(), made, Meter(made.accelerator), 3, 1)
    return lines(seen, made.codec), seen, made


def test_a_line_says_what_was_asked_answered_chosen_and_rewarded():
    found, seen, made = logged(advantage=("stepwise_one_shot", {"guesses": 2}))
    assert [line["sample"] for line in found] == list(range(16))
    assert json.loads(json.dumps(found)) == found
    examples = Digits().draw(4, Key(3, 1, "prompts"))
    for b, line in enumerate(found):
        assert line["group"] == b // 4 and line["prompt"] == examples[b // 4]["text"] + "="
        assert line["answer"] == made.codec.texts(seen.rollout.tokens_BL[b : b + 1, -6:])[0]
        assert len(line["answer_ids"]) == len(line["reveal"]) == len(line["logprob"]) == 6
        assert set(line["reveal"]) == {0, 1, 2}
        assert line["reward"] == pytest.approx(digit_sum(line["answer"]) / 24, abs=1e-6)
        assert line["components"] == {"digits": line["reward"]}
        assert line["advantage"] == pytest.approx(seen.advantage_BA[b].tolist(), abs=1e-6)
        for k, step in enumerate(line["steps"]):
            start = int(seen.steps.start_BK[b, k])
            assert (step["start"], step["stop"], step["weight"]) == (start, start + 1, 1.0)
            assert len(step["guesses"]) == 2
            for guess in step["guesses"]:
                assert guess["reward"] == pytest.approx(digit_sum(guess["text"]) / 24, abs=1e-6)


def test_a_reward_that_has_no_value_is_null_and_says_why():
    found, _, _ = logged(task=Digits(abstain="all"))
    assert {line["reward"] for line in found} == {None}
    assert found[0]["components"] == {"digits": "abstain"}
    assert found[0]["steps"][0]["guesses"][0]["reward"] is None


def test_a_method_without_steps_or_guesses_logs_none():
    found, _, _ = logged(likelihood="mean_field", selector=None, advantage="group_relative")
    assert "steps" not in found[0] and len(found[0]["advantage"]) == 1
    found, _, _ = logged(advantage="group_relative")
    assert set(found[0]["steps"][0]) == {"start", "stop", "weight"}
