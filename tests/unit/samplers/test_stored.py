from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import EOS, KEY, MASK, answer, prompts, table

Stored = SAMPLERS.get("stored")


def given(answers, *rows):
    return replace(prompts(*rows), answer_BN=torch.tensor(answers))


def test_the_given_answers_come_back_and_nothing_runs():
    policy = table({0: 0.5}, {0: 0.5}, {0: 0.5})
    batch = given([[1, 2, EOS], [3, EOS, EOS]], [1, 2], [4])
    rollout = Stored(answer_length=3)(policy, batch, KEY)
    assert rollout.tokens_BL.tolist() == [[1, 2, 1, 2, EOS], [EOS, 4, 3, EOS, EOS]]
    assert rollout.attend_BL.tolist() == [[True] * 5, [False] + [True] * 4]
    assert answer(rollout.valid_BL, rollout).tolist() == [[True] * 3, [True, True, False]]
    assert rollout.answer_BL.sum(1).tolist() == [3, 3] and rollout.length_B.tolist() == [3, 2]
    assert (rollout.reveal_BL == -1).all()
    for name in ("logprob_BL", "entropy_BL", "confidence_BL"):
        assert (getattr(rollout, name) == 0).all()
    assert policy.rows == rollout.forwards == rollout.num_steps == 0
    assert rollout.block_entropy_BT.shape == (2, 0)
    assert rollout.temperature == 1.0


def test_the_state_before_the_end_shows_the_whole_answer_as_hidden():
    # no step made it, so every slot is one that was never committed
    rollout = Stored(answer_length=2)(table({0: 0.5}), given([[1, 2]], [1]), KEY)
    assert rollout.hidden_before(torch.tensor([[0]])).tolist() == [[[False, True, True]]]


def test_answers_that_are_missing_or_do_not_fit_are_refused():
    policy = table({0: 0.5})
    with pytest.raises(UsageError, match="sampler stored needs an answer with every prompt"):
        Stored(answer_length=2)(policy, prompts([1]), KEY)
    with pytest.raises(UsageError, match=r"have 2 tokens, and the answer_length .* is 3"):
        Stored(answer_length=3)(policy, given([[1, 2]], [1]), KEY)
    with pytest.raises(UsageError, match="holds the mask token"):
        Stored(answer_length=2)(policy, given([[1, MASK]], [1]), KEY)


def test_it_says_what_it_is():
    assert (Stored.records_steps, Stored.given) == (False, "answers")
    assert Stored().num_steps == Stored().num_forwards == 0
