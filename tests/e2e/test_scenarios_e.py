"""Behaviours learned from public bug reports, E: rewards, tasks and evaluation."""

import json
import math

import pytest
import torch

import dllmzoo
from dllmzoo.cli._app import run
from dllmzoo.errors import TaskError
from dllmzoo.records import Key
from dllmzoo.tasks._rewards import score
from dllmzoo.zoo import ADVANTAGES, TASKS
from tests.runs import recipe
from tests.strategies import played

ONE = {"question": "q", "solution": r"\boxed{72}", "answer": "72"}
GAME = {"numbers": [2, 3, 4], "target": 5}
TEXTS = [
    "<answer>72</answer>", r"\boxed{72}", "72", "<answer>1</answer>", r"\boxed{1} \boxed{72}",
    r"<answer>\boxed{72}</answer>", r"\boxed{72", "", "<answer></answer>",
    "<answer>2*4-3</answer>", "<answer>2*4-3 = 5</answer>", "<answer>2**4-3</answer>",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "component", "options", "example"),
    [
        ("gsm8k", "correct", {}, ONE), ("math500", "correct", {"symbolic": "off"}, ONE),
        ("aime24", "correct", {}, ONE), ("countdown", "solved", {}, GAME),
    ],
)  # fmt: skip
def test_s44_one_parser_serves_rewards_and_evaluation(name, component, options, example):
    task = TASKS.get(name)(rewards={component: 1.0}, **options)
    examples = [example] * len(TEXTS)
    rewarded = task.reward(TEXTS, examples).total_X.tolist()
    assert task.metrics(TEXTS, examples)["solved_rate"].hits == rewarded
    assert 0 < sum(rewarded) < len(TEXTS)


def half_broken(texts, examples):
    """A number, none, or an error, in turn."""
    return [[1.0, None, ValueError("no"), 0.5][i % 4] for i in range(len(texts))]


@pytest.mark.parametrize("name", ["group_relative", "leave_one_out", "z_score"])
@pytest.mark.parametrize("policy", ["zero", "abstain"])
def test_s34_whatever_a_reward_gives_advantages_are_finite(name, policy):
    rewards = score({"odd": half_broken}, {"odd": 1.0}, ["x"] * 8, [{}] * 8, policy)
    advantage_BA = ADVANTAGES.get(name)()(
        rewards, None, None, played([[1]] * 8, [[0]] * 8, group_size=4), 0
    )
    assert torch.isfinite(advantage_BA).all() and advantage_BA.abs().sum() > 0
    silent = [1, 5] + ([2, 6] if policy == "abstain" else [])
    assert (advantage_BA[silent] == 0).all() and not rewards.counted_X[silent].any()


@pytest.mark.parametrize("bad", [math.nan, "many", [1.0]])
def test_s34_what_is_no_number_stops_with_its_text(bad):
    with pytest.raises(TaskError, match=r"the reward 'odd' returned .* for text 1"):
        score({"odd": lambda texts, _: [1.0, bad]}, {"odd": 1.0}, ["x", "y"], [{}] * 2)


def test_s35_a_missing_column_is_told_before_training(tmp_path):
    file = tmp_path / "data.jsonl"
    file.write_text("".join(f'{{"prompt": "{i}="}}\n' for i in range(20)))
    task = {"name": "records", "file": str(file), "prompt": "prompt", "answer": "gold"}
    with pytest.raises(dllmzoo.errors.RecipeError, match="has no column 'gold'"):
        dllmzoo.train(recipe(tmp_path / "run", task=task))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("split", ["by_solution", "by_relabelling", "by_symmetry"])
def test_s40_no_solution_of_a_test_puzzle_is_trained_on(split):
    task = TASKS.get("sudoku")(split=split)
    tested = {e["solution"] for e in task.test(500)}
    trained = {e["solution"] for r in range(20) for e in task.draw(50, Key(0, r, "prompts"))}
    assert tested and trained and not tested & trained
    assert len(tested | trained) <= 288


def test_s43_a_score_keeps_all_settings_that_it_depends_on(tmp_path, capsys):
    folder = tmp_path / "run"
    train = {"rounds": 1, "prompts": 2, "group_size": 2, "micro_batch": 8}
    list(dllmzoo.train(recipe(folder, train=train)))
    assert run(["eval", str(folder), "sampler.steps=8"]) == 0
    assert "forwards per answer" in capsys.readouterr().out
    (file,) = (folder / "evaluations").glob("*.settings.json")
    kept = json.loads(file.read_text())
    sampler = kept["sampler"]
    assert sampler["end_rule"] == "none" and sampler["temperature"] == 0.0
    assert {"answer_length", "block_length", "steps", "cfg_scale", "commits"} <= set(sampler)
    assert {"model", "task", "data", "seed", "dtype", "device", "gpu", "versions"} <= set(kept)
    assert kept["task"]["prompt_style"] and kept["examples"] == 8
