"""Loading: sources, stages, formats, plug-ins, smoke blocks, all problems at once."""

from pathlib import Path

import pytest

from dllmzoo.errors import RecipeError
from dllmzoo.recipe import Recipe, load
from dllmzoo.recipe.recipe import attempt
from dllmzoo.recipe.sections import Lora, Optimizer, Train
from dllmzoo.zoo import LOSSES
from tests.unit.recipe.small_parts import recipe

TEXT = """\
format: 1
title: A small recipe
model: {name: llada, weights: llada-8b-instruct}
task: sums
sampler: {name: writer, answer_length: 8, steps: 4}
selector: chooser
likelihood: scorer
advantage: centred
loss:
  name: clip
  clip_low: 0.1
optimizer: {lr: 1e-5}
train: {rounds: 3}
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str = "small.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def problems(source, *overrides, smoke=False):
    with pytest.raises(RecipeError) as caught:
        load(source, overrides, smoke=smoke)
    return caught.value.problems


def places(source, path):
    return [(p.where.removeprefix(str(path)), p.path) for p in problems(source)]


def test_a_file_becomes_sections_and_parts(write):
    path = write(TEXT)
    made = load(path)
    assert isinstance(made, Recipe)
    assert (made.title, made.stage, made.seed, made.name) == ("A small recipe", "rl", 0, "small")
    assert made.loss.clip_low == 0.1
    assert made.selector.steps == 2
    assert made.optimizer == Optimizer(lr=1e-5)
    assert made.train == Train(rounds=3)
    assert made.output == "runs/small"
    assert made.folder == path.parent
    assert made.where("loss", "clip_low") == f"{path}:11:3"
    assert made.where("loss", "clip_high") == f"{path}:9:1"
    assert load(str(path)) == made


def test_a_mapping_takes_names_objects_and_sections():
    made = load(recipe(optimizer=Optimizer(lr=1.0), model={"name": "llada", "weights": Path("w"),
                                                           "lora": Lora(rank=2)}))  # fmt: skip
    assert made.optimizer.lr == 1.0
    assert made.model.weights == "w"
    assert made.model.lora == Lora(rank=2)
    assert load(recipe(loss=made.loss, model=made.model)).loss is made.loss
    assert made.name == "recipe"


def test_a_recipe_is_handed_back_and_can_be_changed():
    made = load(recipe())
    assert load(made) is made
    assert load(made, ["seed=4"]).seed == 4


def test_the_name_of_the_model_alone_will_do(write):
    path = write(TEXT.replace("{name: llada, weights: llada-8b-instruct}", "llada"))
    assert load(path, ["model.weights=x"]).model.weights == "x"


def test_every_kind_of_mistake_is_reported_in_the_order_of_the_text(write):
    path = write("""\
format: 1
sede: 3
stage: rll
seed: -1
seed: 2
model: {name: llad, weights: 3, lora: {rank: 0, lr: 2}}
task: {name: sums, rewards: {right: much}}
sampler: {name: writer, steps: 40, answer_length: 8}
selector: {name: choser}
likelihood: {name: scorer, schedule: {name: curve, power: 0}}
advantage: [centred]
loss:
  name: clip
  clip_low: half
  epsilon: 2
optimizer: {lr: "1e-5", betas: [0.9, 1]}
train: 3
evaluate: {steps: 1.5}
sft: {schedule: curvy}
output: 7
""")
    assert places(path, path) == [
        (":2:1", "sede"),
        (":3:1", "stage"),
        (":4:1", "seed"),
        (":5:1", "seed"),
        (":6:9", "model.name"),
        (":6:21", "model.weights"),
        (":6:40", "model.lora.rank"),
        (":6:49", "model.lora.lr"),
        (":7:30", "task.rewards.right"),
        (":8:25", "sampler.steps"),
        (":9:12", "selector.name"),
        (":10:52", "likelihood.schedule.power"),
        (":11:1", "advantage"),
        (":14:3", "loss.clip_low"),
        (":15:3", "loss.epsilon"),
        (":16:13", "optimizer.lr"),
        (":16:38", "optimizer.betas[1]"),
        (":17:1", "train"),
        (":18:12", "evaluate.steps"),
        (":19:7", "sft.schedule"),
        (":20:1", "output"),
    ]


def test_infinite_settings_are_refused_where_they_have_no_meaning(write):
    path = write(TEXT.replace("1e-5", ".inf"))
    assert places(path, path) == [(":12:13", "optimizer.lr")]


def test_missing_parts_are_named_with_the_stage_that_needs_them():
    found = problems({"seed": 1})
    assert {p.path for p in found} == {
        "model", "task", "sampler", "likelihood", "advantage", "loss",
    }  # fmt: skip
    assert all(p.message == "is missing" for p in found)
    assert found[-1].hint == "stage: rl needs the part `task`"
    assert {p.path for p in problems({"stage": "sft"})} == {"model", "task", "sampler"}
    assert [p.path for p in problems(recipe(loss=None))] == ["loss"]


def test_supervised_training_notes_the_parts_it_does_not_read():
    made = load({"stage": "sft", "model": {"config": {}}, "task": "sums", "sampler": "writer"})
    assert made.loss is None
    assert made.notices == []
    made = load(recipe(stage="sft"))
    assert made.notices == ["stage: sft does not read selector, likelihood, advantage, loss"]


def test_another_format_is_refused_with_what_to_do():
    (newer,) = problems(recipe(format=2))
    assert newer.message == "format 2 is not read here, only format 1"
    assert "pip install --upgrade dllmzoo" in newer.hint
    (older,) = problems(recipe(format=0))
    assert "dllmzoo check" in older.hint
    (text,) = problems(recipe(format="1"))
    assert text.message == "expected int, got '1'"
    assert load(recipe()).document.find("format").where == "recipe"


def test_a_section_key_of_another_project_is_answered(write):
    path = write(TEXT.replace("rounds: 3", "num_generations: 3"))
    (found,) = problems(path)
    assert found.where == f"{path}:13:9"
    assert found.message == "'num_generations' is called train.group_size here"


def test_smoke_changes_apply_when_asked_for_and_are_always_checked(write):
    block = "smoke:\n  train: {rounds: 1, prompts: 2}\n  loss.clip_low: 0.4\n  selector: null\n"
    path = write(TEXT + block)
    assert load(path).train.rounds == 3
    short = load(path, smoke=True)
    assert (short.train.rounds, short.train.prompts, short.loss.clip_low) == (1, 2, 0.4)
    assert short.selector is None
    assert load(path, ["train.rounds=5"], smoke=True).train.rounds == 5
    bad = write(TEXT + "smoke:\n  train: {rounds: 0}\n  los.clip: 3\n", "bad.yaml")
    assert places(bad, bad) == [(":15:11", "train.rounds"), (":16:3", "los")]
    assert "no smoke block" in load(write(TEXT), smoke=True).notices[0]
    (wrong,) = problems(write(TEXT + "smoke: 3\n", "wrong.yaml"))
    assert wrong.message == "expected mapping, got 3"


def test_plug_ins_are_found_beside_the_recipe(write):
    write(
        "from dataclasses import dataclass\n"
        "from dllmzoo import LOSSES\n"
        "@LOSSES.register('mine')\n"
        "@dataclass(frozen=True)\n"
        "class Mine:\n"
        "    size: int = 1\n",
        "my_parts.py",
    )
    text = TEXT.replace("clip\n  clip_low: 0.1", "mine\n  size: 3")
    path = write(text + "plugins: [./my_parts.py]\n")
    with LOSSES.temporarily("nothing"):
        made = load(path)
        assert made.loss.size == 3
        assert made.plugins == (str(path.parent / "my_parts.py"),)


def test_a_failing_plug_in_stands_at_its_place(write):
    write("import nothing_of_that_name\n", "broken.py")
    path = write(TEXT + "plugins:\n  - ./broken.py\n  - ./gone.py\n  - no_such_module\n  - 3\n")
    found = problems(path)
    assert [p.path for p in found] == [f"plugins[{i}]" for i in range(4)]
    assert [p.where.removeprefix(str(path)) for p in found] == [
        f":{14 + i + 1}:5" for i in range(4)
    ]
    assert "broken.py" in found[0].message
    assert "nothing_of_that_name" in found[0].message
    assert "gone.py" in found[1].message


def test_a_source_that_is_no_recipe_is_refused(write, tmp_path):
    for text in ("- 1\n", "just words\n", "3"):
        path = write(text)
        (found,) = problems(path)
        assert "a recipe is a mapping of keys" in found.message
    assert problems(write(""))[0].message == "is empty"
    assert problems(tmp_path)[0].message == "is a folder"
    assert "not UTF-8" in problems(_binary(tmp_path))[0].message


def _binary(folder):
    path = folder / "binary.yaml"
    path.write_bytes(bytes(range(256)))
    return path


def test_a_packaged_recipe_is_found_by_name_and_a_typo_is_answered():
    (found,) = problems("egspo_sa_sudok")
    assert found.message == "there is no such file, nor a packaged recipe of that name"
    assert "'egspo_sa_sudoku'" in found.hint


def test_an_attempt_keeps_what_could_be_built():
    made, found = attempt(
        recipe(loss={"name": "clip", "clip_low": -1, "clip_high": 2}, task="smus")
    )
    assert {p.path for p in found} == {"loss.clip_low", "task"}
    assert made is not None
    assert (made.loss.clip_low, made.loss.clip_high) == (0.2, 2.0)
    assert made.task is None
    assert attempt("nothing_of_that_name")[0] is None


def test_evaluation_may_name_a_sampler_of_its_own():
    plain = load(recipe())
    assert plain.evaluate.sampler is None
    named = load(recipe(evaluate={"sampler": "entropy"}))
    assert type(named.evaluate.sampler).__name__ == "Entropy"
    made = load(recipe(evaluate={"sampler": {"name": "margin", "answer_length": 5, "steps": 2}}))
    assert (made.evaluate.sampler.answer_length, made.evaluate.sampler.num_steps) == (5, 2)
    changed = load(made, ["evaluate.sampler.steps=3"])
    assert changed.evaluate.sampler.steps == 3
    other = load(named, ["evaluate.sampler.answer_length=9", "evaluate.sampler.commits=cosine"])
    assert other.evaluate.sampler.answer_length == 9
    assert load(made, ["evaluate.sampler=null"]).evaluate.sampler is None


def test_a_bad_option_of_the_evaluation_sampler_has_its_place(write):
    text = TEXT + "evaluate: {sampler: {name: margin, stepz: 3}}\n"
    with pytest.raises(RecipeError) as caught:
        load(write(text))
    (problem,) = caught.value.problems
    assert problem.path == "evaluate.sampler.stepz"
    assert problem.where.endswith("small.yaml:14:36") and "did you mean 'steps'" in problem.hint


def test_a_recipe_with_an_evaluation_sampler_is_written_and_read_alike(tmp_path):
    from dllmzoo.recipe import difference, dump, resolved

    made = load(recipe(evaluate={"sampler": {"name": "infill", "answer_length": 16, "steps": 4}}))
    file = tmp_path / "again.yaml"
    file.write_text(dump(resolved(made)))
    again = load(file)
    assert again.evaluate == made.evaluate and difference(made, again) == []
