"""What must fit together: each rule broken once, each at its place."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from dllmzoo.checks import load_checked
from dllmzoo.errors import RecipeError, TaskError
from dllmzoo.recipe import load
from dllmzoo.zoo import LIKELIHOODS, SAMPLERS, TASKS
from tests.unit.checked import checkpoint, found, one, write
from tests.unit.recipe.small_parts import Sums, Writer, recipe, small_zoo


@pytest.fixture(autouse=True, scope="module")
def _small_zoo():
    with small_zoo():
        yield


@pytest.fixture
def folder(tmp_path):
    return checkpoint(tmp_path)


def test_a_recipe_without_problems_has_none():
    assert found() == []


def test_a_selector_needs_a_likelihood_of_steps():
    problem = one(likelihood="bound")
    assert problem.path == "selector"
    assert (
        problem.message == "likelihood bound uses no denoising steps, so nothing reads the selector"
    )
    assert "scorer" in problem.hint
    assert found(likelihood="bound", selector=None) == []


def test_a_likelihood_of_steps_needs_a_selector():
    problem = one(selector=None)
    assert problem.path == "likelihood"
    assert "chooser" in problem.hint


def test_previews_need_steps():
    (problem,) = found(likelihood="bound", selector=None, advantage="stepwise_small")
    assert problem.path == "advantage"
    assert "one-shot guesses" in problem.message
    assert "centred" in problem.hint


def test_credit_for_steps_needs_units_that_belong_to_steps():
    problem = one(likelihood={"name": "scorer", "unit": "sequence"}, advantage="stepwise_small")
    assert problem.path == "advantage"
    assert problem.message.endswith("likelihood scorer gives one log-prob per sequence")
    for unit in ("step", "slot"):
        assert found(likelihood={"name": "scorer", "unit": unit}, advantage="stepwise_small") == []


def test_a_loss_takes_only_its_units():
    problem = one(loss="share")
    assert problem.path == "loss"
    assert (
        problem.message
        == "loss share works per sequence, and likelihood scorer gives one log-prob per step"
    )
    assert "clip" in problem.hint
    assert "bound" in problem.hint
    assert found(loss="share", likelihood={"name": "scorer", "unit": "sequence"}) == []


def test_an_exact_kl_needs_plain_sums():
    exact = {"name": "clip", "kl": "exact", "kl_coef": 0.1}
    problem = one(loss=exact, likelihood="bound", selector=None)
    assert problem.path == "loss.kl"
    assert found(loss=exact) == []


def test_a_kl_needs_a_reference():
    model = {"weights": "llada-8b-instruct", "reference": "none"}
    loss = {"name": "clip", "kl": "k3", "kl_coef": 0.1}
    assert one(model=model, loss=loss).path == "model.reference"
    assert found(model=model, loss={**loss, "kl_coef": 0}) == []
    problem = one(model={**model, "reference": "adapter"})
    assert "there is no lora" in problem.message
    assert found(model={**model, "reference": "adapter", "lora": {}}) == []


def test_a_group_of_one_is_answered_with_the_nearest_numbers():
    problem = one(train={"prompts": 6, "group_size": 1})
    assert problem.path == "train.group_size"
    assert "prompts 6 x group_size 1 = 6 sequences" in problem.message
    assert problem.hint == (
        "nearest: prompts: 3, group_size: 2 (as many sequences), or prompts: 6, group_size: 2"
    )
    assert one(train={"prompts": 1, "group_size": 1}).hint == "nearest: prompts: 1, group_size: 2"


def test_no_more_steps_are_chosen_than_there_are():
    problem = one(selector={"name": "chooser", "steps": 5})
    assert problem.path == "selector.steps"
    assert problem.hint == "use selector.steps: 4 or less, or sampler.steps: 5"
    assert found(selector={"name": "chooser", "steps": 4}) == []


def test_minibatches_hold_whole_groups():
    problem = one(train={"prompts": 4, "minibatches": 5})
    assert problem.path == "train.minibatches"
    assert problem.hint == "use minibatches: 4 or less, or prompts: 5"
    # 5 prompts in 4 parts of ceil(5 / 4) = 2 make only 3 parts
    problem = one(train={"prompts": 5, "minibatches": 4})
    assert problem.hint == "nearest: minibatches: 1 or 5; or prompts: 8"
    assert found(train={"prompts": 5, "minibatches": 3}) == []


def test_a_sampler_without_steps_serves_no_likelihood_of_steps():
    @dataclass(frozen=True)
    class Stored(Writer):
        records_steps: ClassVar[bool] = False

    with SAMPLERS.temporarily("stored", Stored):
        assert one(sampler="stored").path == "sampler"
        assert found(sampler="stored", likelihood="bound", selector=None) == []


def test_an_evaluation_needs_a_sampler_that_asks_the_model():
    stored = {"name": "stored", "answer_length": 8}
    sequence = {"likelihood": "bound", "selector": None, "task": "sudoku"}
    problem = one(sampler=stored, **sequence)
    assert problem.path == "sampler"
    assert problem.message.startswith("sampler stored hands out answers of the data")
    assert problem.hint.startswith("add evaluate.sampler: {name: low_confidence, answer_length: 8")
    good = {"sampler": {"name": "writer"}}
    assert found(sampler=stored, evaluate=good, **sequence) == []
    problem = one(evaluate={"sampler": stored}, task="sudoku")
    assert problem.path == "evaluate.sampler"


def test_the_evaluation_asks_its_own_sampler_for_steps():
    own = {"sampler": {"name": "writer", "answer_length": 3, "steps": 2}, "steps": 4}
    problem = one(evaluate=own)
    assert problem.path == "evaluate.steps"
    assert "steps 4 are more than answer_length 3" in problem.message
    assert found(evaluate=own | {"steps": 3}) == []


def test_given_answers_need_a_task_that_gives_them():
    own = {"evaluate": {"sampler": "writer"}, "likelihood": "bound", "selector": None}
    problem = one(sampler="stored", **own)
    assert problem.path == "task"
    assert problem.message == (
        "sampler stored is given answers with every prompt, and task sums gives none"
    )
    assert "`given(example, key, sample)`" in problem.hint
    assert found(sampler="stored", task="sudoku", **own) == []
    problem = one(evaluate={"sampler": {"name": "infill", "answer_length": 16}})
    assert problem.path == "task" and "infill: COLUMN" in problem.hint


def test_the_evaluation_asks_for_steps_that_the_sampler_can_run():
    problem = one(evaluate={"steps": 4, "also_steps": [2, 9]})
    assert problem.path == "evaluate.also_steps"
    assert (
        problem.message == "the sampler cannot take 9 steps: steps 9 are more than answer_length 8"
    )


def test_a_part_must_say_what_its_protocol_makes_it_say():
    @dataclass(frozen=True)
    class Silent:
        uses_steps: ClassVar[bool] = False
        linear: ClassVar[bool] = False

    with LIKELIHOODS.temporarily("silent", Silent):
        problem = one(likelihood="silent", selector=None)
    assert problem.path == "likelihood"
    assert problem.message == (
        "likelihood silent does not have random, unit, shares_masks, num_forwards, plan, pool, "
        "which every likelihood must"
    )
    assert problem.hint.endswith("such as `random` in the class Silent")


def test_what_a_protocol_lets_a_part_leave_out_is_taken_as_usual():
    @dataclass(frozen=True)
    class Short(Sums):
        gives: ClassVar[tuple[str, ...]] = ()

    with TASKS.temporarily("short", Short):
        assert found(task="short") == []


def test_supervised_training_is_not_judged_by_parts_it_does_not_read():
    assert found(stage="sft", likelihood="bound", train={"group_size": 1}) == []


# --- the task ---


def test_a_task_says_what_its_stage_lacks():
    @dataclass(frozen=True)
    class Tested(Sums):
        def problems(self, stage: str) -> list[str]:
            return ["there is nothing to train on: write file"] if stage == "rl" else []

    with TASKS.temporarily("tested", Tested):
        problem = one(task={"name": "tested", "file": None})
        assert (problem.path, problem.message) == (
            "task.file", "there is nothing to train on: write file",
        )  # fmt: skip
        assert found(task="tested", stage="sft") == []


def test_aime_is_not_trained_on_without_a_file(tmp_path):
    model = {"tokenizer": "characters:1+=", "config": {"d_model": 8, "n_layers": 1, "n_heads": 2}}
    assert "aime24 has no training data" in one(task="aime24", model=model).message
    assert "aime24 has no training data" in one(task="aime24", model=model, stage="sft").message
    (tmp_path / "own.jsonl").write_text('{"problem": "1+1=", "answer": "2"}\n')
    own = {"name": "aime24", "file": str(tmp_path / "own.jsonl")}
    assert found(task=own, model=model) == []


def test_a_task_says_what_is_wrong_with_its_data():
    problem = one(task={"name": "sums", "file": "gone.jsonl"})
    assert (problem.path, problem.message) == ("task.file", "the file gone.jsonl is not there")

    @dataclass(frozen=True)
    class Failing(Sums):
        def check(self) -> list[str]:
            raise TaskError("the column answer is missing")

    with TASKS.temporarily("failing", Failing):
        assert one(task="failing").message == "the column answer is missing"


def test_chat_prompts_need_a_chat_template(folder):
    chat = {"name": "sums", "chat": True}
    assert found(model={"weights": str(folder)}, task=chat) == []
    write(folder, "tokenizer_config.json", chat_template=None)
    assert "no chat template" in one(model={"weights": str(folder)}, task=chat).message


def test_prompt_and_answer_must_fit_the_longest_sequence(folder):
    problem = one(model={"weights": str(folder)}, sampler={"name": "writer", "answer_length": 12})
    assert problem.path == "sampler.answer_length"
    small = {"d_model": 8, "n_layers": 1, "n_heads": 2, "max_sequence_length": 11}
    model = {"tokenizer": "characters:1+=", "config": small}
    problem = one(model=model)  # "1+1=" and 8 tokens of answer are 12
    assert problem.message == (
        "a prompt of 4 tokens and an answer of 8 exceed the model's longest sequence, 11"
    )
    assert problem.hint == "use answer_length: 7 or less"
    longer = {"sampler": {"name": "writer", "answer_length": 9}}
    model["config"] = {**small, "max_sequence_length": 12}
    assert one(model=model, evaluate=longer).path == "evaluate.sampler.answer_length"
    longer["sampler"]["answer_length"] = 12
    assert "leaves no room" in one(model=model, evaluate=longer).message


def test_a_character_tokenizer_must_know_the_prompts():
    small = {"d_model": 8, "n_layers": 1, "n_heads": 2}
    problem = one(model={"tokenizer": "characters:1=", "config": small})
    assert problem.message == "prompts hold '+', and the tokenizer knows only the characters '1='"


# --- everything at once ---


def test_problems_of_keys_and_across_parts_come_together(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("""\
lerning_rate: 1
model: {weights: llada-8b-instrct}
task: sums
sampler: {name: writer, steps: 4}
selector: {name: chooser, steps: 9}
likelihood: {name: scorer, unit: steps}
advantage: stepwise_small
loss: {name: share, clip_hig: 2}
train: {group_size: 1, rounds: 0}
""")
    with pytest.raises(RecipeError) as caught:
        load_checked(path)
    assert [(p.where.removeprefix(str(path)), p.path) for p in caught.value.problems] == [
        (":1:1", "lerning_rate"),
        (":2:9", "model.weights"),
        (":5:27", "selector.steps"),
        (":6:28", "likelihood.unit"),
        (":8:21", "loss.clip_hig"),
        (":9:9", "train.group_size"),
        (":9:24", "train.rounds"),
    ]


def test_nothing_is_concluded_from_a_key_that_is_wrong():
    with pytest.raises(RecipeError) as caught:
        load_checked(recipe(selector={"name": "chooser", "steps": 0}, sampler={"name": "wrter"}))
    assert [p.path for p in caught.value.problems] == ["sampler.name", "selector.steps"]


def test_a_checked_recipe_is_handed_back():
    assert load_checked(recipe()) == load(recipe())
    with pytest.raises(RecipeError, match="no such file"):
        load_checked("nothing_here")
