"""A copy of the policy in another precision, in a recipe."""

from dllmzoo.checks import check
from dllmzoo.recipe import load
from tests.runs import recipe


def made(tmp_path, **changes):
    base = recipe(tmp_path, **changes)
    base["train"] = base["train"] | {"rollout_dtype": "bfloat16"}
    loaded = load(base)
    return loaded, check(loaded)


def test_it_needs_nothing_further(tmp_path):
    loaded, problems = made(tmp_path)
    assert problems == [] and loaded.notices == []


def test_packed_weights_have_no_copy_in_another_precision(tmp_path):
    model = {
        "name": "llada", "weights": "llada-tiny-sudoku", "quantize": "4bit", "lora": {"rank": 2},
    }  # fmt: skip
    _, problems = made(tmp_path, model=model)
    assert [problem.path for problem in problems] == ["train.rollout_dtype"]


def test_supervised_training_says_that_it_does_not_read_it(tmp_path):
    loaded, _ = made(tmp_path, stage="sft")
    assert "train.rollout_dtype is not read" in " ".join(loaded.notices)
