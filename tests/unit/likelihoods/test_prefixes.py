"""Prefixes likelihood: one view per valid token, left to right."""

from dataclasses import replace

import torch

from dllmzoo.records import Key
from dllmzoo.zoo import LIKELIHOODS
from tests.strategies import played

Prefixes = LIKELIHOODS.get("prefixes")
KEY = Key(5, 0, "views")


def test_view_j_shows_what_stands_before_slot_j_and_scores_it():
    views = Prefixes().plan(played([[1, 2, 3]], [[2, 0, 1]]), None, KEY, 1)
    assert views.hide_BKL[0].int().tolist() == [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
    assert views.score_BKL[0].int().tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    logprob_BKL = torch.diag_embed(torch.tensor([[-1.0, -2.0, -3.0]]))
    logprob_BKL = torch.nn.functional.pad(logprob_BKL, (1, 0))
    pooled = Prefixes().pool(logprob_BKL, views, played([[1, 2, 3]], [[2, 0, 1]]), views.size_BU)
    assert pooled.score_BU.tolist() == [[0.0, -1.0, -2.0, -3.0]]


def test_slots_after_the_end_cost_nothing():
    # 5 is the end token: 2 valid slots of 4
    views = Prefixes().plan(played([[1, 5, 2, 3]], [[0, 1, 2, 3]]), None, KEY, 1)
    assert views.score_BKL.any(2).tolist() == [[True, True, False, False]]
    assert views.hide_BKL[0, 0].tolist() == [False, True, True, True, True]


def test_slots_that_were_given_are_shown_and_not_scored():
    # slot 1 stood in the prompt
    rollout = played([[1, 2, 3]], [[0, -1, 1]])
    given = torch.tensor([[False, False, True, False]])
    rollout = replace(
        rollout, answer_BL=rollout.answer_BL & ~given, valid_BL=rollout.valid_BL & ~given
    )
    views = Prefixes().plan(rollout, None, KEY, 1)
    assert views.hide_BKL[0].int().tolist() == [[0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]]
    assert views.score_BKL.any(2).tolist() == [[True, False, True]]


def test_passes_are_alike_and_facts_are_stated():
    likelihood = Prefixes()
    assert not likelihood.random and likelihood.num_forwards is None
    assert likelihood.unit == "slot" and likelihood.linear and not likelihood.uses_steps
    rollout = played([[1, 2]], [[0, 1]], temperature=0.7)
    assert likelihood.plan(rollout, None, KEY, 1).temperature == 0.7
    assert Prefixes(temperature=2.0).plan(rollout, None, KEY, 1).temperature == 2.0
