"""What must fit together: each rule broken once, each at its place."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

from dllmzoo.checks import check, load_checked
from dllmzoo.errors import RecipeError, TaskError
from dllmzoo.recipe import load
from dllmzoo.zoo import LIKELIHOODS, SAMPLERS, TASKS
from tests.unit.recipe.small_parts import Sums, Writer, recipe, small_zoo


@pytest.fixture(autouse=True, scope="module")
def _small_zoo():
    with small_zoo():
        yield


def found(**changes):
    return check(load(recipe(**changes)))


def one(**changes):
    (problem,) = found(**changes)
    return problem


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


def test_parts_that_say_little_are_taken_as_usual():
    @dataclass(frozen=True)
    class Silent:
        size: int = 1

    with LIKELIHOODS.temporarily("silent", Silent):
        assert found(likelihood="silent", selector=None) == []


def test_supervised_training_is_not_judged_by_parts_it_does_not_read():
    assert found(stage="sft", likelihood="bound", train={"group_size": 1}) == []


# --- the model ---


@pytest.fixture
def folder(tmp_path):
    """A checkpoint's small files: a network of 20 tokens whose mask is 19."""
    write(tmp_path, "config.json", model_type="llada", vocab_size=20, mask_token_id=19,
          max_sequence_length=12)  # fmt: skip
    write(tmp_path, "tokenizer_config.json", mask_token="[M]", chat_template="x")
    write(tmp_path, "tokenizer.json", model={"vocab": {"a": 0, "b": 1}},
          added_tokens=[{"content": "[M]", "id": 19}])  # fmt: skip
    return tmp_path


def write(folder, name, **content):
    path = folder / name
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({k: v for k, v in {**old, **content}.items() if v is not None}))


def test_a_checkpoint_that_fits_has_no_problem(folder):
    assert found(model={"weights": str(folder)}, sampler="writer") == []


def test_a_run_folder_means_its_final_weights(folder, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "final").symlink_to(folder)
    assert found(model={"weights": str(run)}) == []


def test_something_must_be_loaded_or_built():
    assert one(model={"name": "llada"}).path == "model"
    problem = one(model={"weights": "llada-8b-instruct", "config": {}})
    assert problem.path == "model.config"


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ("llada-8b-instrct", "did you mean 'llada-8b-instruct'"),
        ("./nothing_here", "neither a folder, nor a card, nor a hub id"),
        ("runs/nothing_here", "neither a folder"),
        ("tests", "holds neither config.json nor adapter_config.json"),
    ],
)
def test_weights_that_are_nowhere_are_refused(weights, words):
    problem = one(model={"weights": weights})
    assert problem.path == "model.weights"
    assert words in problem.message


def test_a_hub_id_is_not_looked_up():
    assert found(model={"weights": "owner/name@main"}) == []


def test_another_family_is_refused(folder):
    write(folder, "config.json", model_type="Dream")
    problem = one(model={"weights": str(folder)})
    assert problem.path == "model.weights"
    assert problem.message == "these weights are of the family 'Dream', and model.name is 'llada'"


def test_the_mask_of_config_and_tokenizer_must_be_one(folder):
    write(folder, "config.json", mask_token_id=18)
    problem = one(model={"weights": str(folder)})
    assert problem.message == (
        "the tokenizer's mask token has id 19, and the config's mask_token_id is 18"
    )
    write(folder, "config.json", mask_token_id=None)
    assert "no mask_token_id" in one(model={"weights": str(folder)}).message
    write(folder, "config.json", mask_token_id=20)
    messages = [problem.message for problem in found(model={"weights": str(folder)})]
    assert "mask_token_id 20 is none of the 20 embeddings" in messages


def test_the_mask_of_a_public_vocabulary_is_known(folder):
    write(folder, "config.json", vocab_size=126464, mask_token_id=126081)
    write(folder, "tokenizer_config.json", mask_token=None)
    problem = one(model={"weights": str(folder)})
    assert problem.message == (
        "mask_token_id is 126081, and the public vocabulary of 126464 tokens has its mask at 126336"
    )


def test_a_tokenizer_from_elsewhere_must_fit(folder):
    problem, size = found(
        model={"weights": str(folder), "tokenizer": "characters:" + "1234567890+=/*-()%^&!ab"}
    )
    assert {problem.path, size.path} == {"model.tokenizer"}
    assert "id 25" in problem.message
    assert "ids up to 25" in size.message
    assert one(model={"weights": str(folder), "tokenizer": "characters:aa"}).message == (
        "the tokenizer 'characters:aa' names 'a' twice"
    )


def test_an_adapter_is_judged_by_its_base(folder, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    write(adapter, "adapter_config.json", base_model_name_or_path=str(folder))
    assert found(model={"weights": str(adapter)}) == []
    write(folder, "config.json", model_type="sdar")
    assert "'sdar'" in one(model={"weights": str(adapter)}).message


def test_a_broken_file_is_named(folder):
    (folder / "config.json").write_text("{")
    assert "config.json cannot be read" in one(model={"weights": str(folder)}).message


def test_a_network_from_nothing_needs_a_tokenizer_and_known_fields():
    assert one(model={"config": {}}).path == "model.tokenizer"
    small = {"d_model": 8, "n_layers": 1, "n_heads": 2}
    model = {"tokenizer": "characters:1+=", "config": small}
    assert found(model=model) == []
    shape, unknown = found(model={**model, "config": {**small, "d_modle": 3, "n_heads": 3}})
    assert (unknown.path, unknown.hint) == ("model.config.d_modle", "did you mean 'd_model'?")
    assert shape.path == "model.config.d_model"
    problem = one(model={**model, "config": {**small, "mask_token_id": 0}})
    assert problem.message == "mask_token_id is 0, and the tokenizer has 5"
    assert (
        one(model={**model, "config": {**small, "vocab_size": 3}}).path == "model.config.vocab_size"
    )


# --- the task ---


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
