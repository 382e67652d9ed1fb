"""Every key that a run writes to metrics.jsonl is documented in docs/metrics.md."""

import itertools
import json
from dataclasses import fields

import pytest

import dllmzoo
from dllmzoo.checks import check
from dllmzoo.recipe.recipe import attempt
from dllmzoo.tasks._functions import FUNCTIONS
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES, SELECTORS
from tests.docs.metrics_table import PAGE, undocumented
from tests.runs import recipe

TRAIN = {
    "rounds": 1, "prompts": 2, "group_size": 2, "passes": 2, "minibatches": 2,
    "rollout_batch": 8, "micro_batch": 8,
}  # fmt: skip
EVALUATE = {"examples": 2, "steps": 4}


def assert_documented(rows):
    keys = {key for row in rows for key in row}
    missing = undocumented(keys)
    assert not missing, f"{PAGE.name} has no row for {', '.join(missing)}"


def ran(folder, **changes):
    small = {"train": TRAIN, "evaluate": EVALUATE}
    return list(dllmzoo.train(recipe(folder, **(small | changes))))


TREE = {"name": "tree", "branch": [2], "answer_length": 16, "steps": 4, "temperature": 1.0}


def combinations(loss):
    """Every likelihood with a plain advantage, every advantage with steps and with sequences."""
    views = {"name": "elbo", "unit": "view"}
    slots = {"name": "denoising_steps", "unit": "slot"}
    pairs = [(likelihood, "group_relative") for likelihood in [*LIKELIHOODS.names(), views]]
    scored = ("denoising_steps", slots, "elbo", views)
    pairs += itertools.product(scored, ADVANTAGES.names())
    for likelihood, advantage in pairs:
        name = likelihood if isinstance(likelihood, str) else likelihood["name"]
        steps = LIKELIHOODS.get(name).uses_steps
        parts = {"likelihood": likelihood, "advantage": advantage, "loss": loss}
        parts["selector"] = {"name": "entropy", "steps": 2} if steps else None
        if getattr(LOSSES.get(loss), "needs_branches", False) is True:
            parts["sampler"] = TREE
        yield parts


@pytest.mark.parametrize("loss", LOSSES.names())
def test_parts_that_go_together_report_documented_keys_and_others_are_refused(tmp_path, loss):
    trained = 0
    for i, parts in enumerate(combinations(loss)):
        small = {"train": TRAIN, "evaluate": EVALUATE}
        made, problems = attempt(recipe(tmp_path / str(i), **(small | parts)))
        if problems or check(made):
            continue
        rows = ran(tmp_path / str(i), **parts)
        assert rows[-1]["round"] == 1
        assert_documented(rows)
        trained += 1
    assert trained > 0


KL = [
    {"kl": kl, "kl_anchor": anchor}
    for kl in ("k1", "k2", "k3", "exact")
    for anchor in ("reference", "old")
    if (kl, anchor) != ("exact", "old")
]


@pytest.mark.parametrize("loss", ["clipped_surrogate", "policy_gradient"])
@pytest.mark.parametrize("kl", KL, ids=lambda kl: f"{kl['kl']}-{kl['kl_anchor']}")
def test_every_kl_reports_documented_keys(tmp_path, loss, kl):
    rows = ran(tmp_path / "run", loss={"name": loss, "kl_coef": 0.1, **kl})
    assert rows[1]["kl"] is not None
    assert_documented(rows)


SAMPLER = {"answer_length": 16, "steps": 4, "temperature": 1.0}
BESIDE = {
    "top_advantage": {"sampler": {"name": "low_confidence", "record_drafts": True, **SAMPLER}},
    "edges": {"sampler": TREE},
}
"""What a selector needs of other parts."""


@pytest.mark.parametrize("name", SELECTORS.names())
def test_every_selector_reports_documented_keys(tmp_path, name):
    counts = "steps" in {field.name for field in fields(SELECTORS.get(name))}
    selector = {"name": name, "steps": 2} if counts else name
    assert_documented(ran(tmp_path / "run", selector=selector, **BESIDE.get(name, {})))


def test_all_rewards_and_step_counts_report_documented_keys(tmp_path):
    task = {"name": "sudoku", "blanks": [4, 6]}
    task["rewards"] = {"cells": 1.0, "solved": 0.5, "cells_released": 0.1}
    rows = ran(tmp_path / "run", task=task, evaluate=EVALUATE | {"also_steps": [2]})
    assert "eval/steps2/solved_rate" in rows[-1] and "reward_errors/solved" in rows[-1]
    assert_documented(rows)


REWARD = '''
"""A reward of one's own that abstains now and then."""
from dllmzoo.tasks.records import reward

@reward("starts_with_one", columns=("question",))
def starts_with_one(texts, records):
    return [None if record["question"] == "2=" else float(text[:1] == "1")
            for text, record in zip(texts, records)]
'''


@pytest.fixture(scope="module")
def own_reward(tmp_path_factory):
    """A plug-in file; what it declares is forgotten afterwards."""
    file = tmp_path_factory.mktemp("plugin") / "mine.py"
    file.write_text(REWARD)
    yield file
    FUNCTIONS.pop("starts_with_one", None)


@pytest.mark.parametrize("stage", ["rl", "sft"])
def test_own_data_report_documented_keys(tmp_path, own_reward, stage):
    data = [{"question": f"{i}=", "gold": str(i % 5)} for i in range(5)] * 4
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
    task = {
        "name": "records", "file": str(tmp_path / "data.jsonl"), "prompt": "question",
        "answer": "gold", "rewards": {"starts_with_one": 1.0, "exact_match": 0.5},
        "test_share": 0.3,
    }  # fmt: skip
    train = TRAIN if stage == "rl" else {"rounds": 1, "prompts": 2}
    rows = ran(tmp_path / "run", stage=stage, task=task, plugins=[str(own_reward)], train=train)
    if stage == "rl":
        assert "reward_abstained/starts_with_one" in rows[-1]
    assert_documented(rows)


def test_supervised_training_reports_documented_keys(tmp_path):
    rows = ran(tmp_path / "run", stage="sft", train={"rounds": 2, "prompts": 4})
    assert rows[-1]["masked_share"] is not None
    assert_documented(rows)


def test_what_measures_the_machine_says_so_and_the_rest_is_reproducible(tmp_path):
    both = [ran(tmp_path / name) for name in ("one", "other")]
    for one, other in zip(*both, strict=True):
        assert one.keys() == other.keys()
        for key in one:
            if not any(word in key for word in ("time", "per_second", "memory")):
                assert json.dumps(one[key]) == json.dumps(other[key]), key
