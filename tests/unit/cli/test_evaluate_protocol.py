"""`dllmzoo eval` with samples, lengths and presets, and where it goes on."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from dllmzoo.cli._protocol import parse_lengths
from dllmzoo.errors import UsageError


@pytest.fixture
def copied(tiny_run, tmp_path, monkeypatch):
    """A finished run that may be written to, `tiny`, in the current folder."""
    shutil.copytree(tiny_run, tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    return Path("tiny")


def changed_recipe(copied, **sections):
    """The run's recipe with other options in some sections."""
    file = copied / "recipe.resolved.yaml"
    recipe = yaml.safe_load(file.read_text())
    for section, options in sections.items():
        recipe[section] |= options
    file.write_text(yaml.safe_dump(recipe))


def lines(file):
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def test_samples_are_drawn_at_the_temperature_of_training(cli, copied):
    done = cli("eval", copied, "--samples", 4, "--examples", 3, "-o", "x.jsonl")
    assert done.code == 0, done.err
    assert "3 examples of sudoku, 4 answers to each at temperature 1.0" in done.out
    for name in ("pass@1", "pass@2", "pass@4"):
        assert name in done.out
    rows = lines("x.jsonl")
    assert [row["sample"] for row in rows] == [0, 1, 2, 3] * 3
    assert len({row["text"] for row in rows}) > 3
    settings = json.loads(Path("x.settings.json").read_text())
    assert settings["sampler"]["temperature"] == 1.0 and settings["samples"] == 4
    assert settings["answers"] == 12 and settings["forwards"] == 12 * 4
    shares = [sum(row["solved"] for row in rows[i : i + 4]) / 4 for i in (0, 4, 8)]
    assert settings["metrics"]["pass@1"] == pytest.approx(sum(shares) / 3)
    hits, cells = settings["counts"]["cell_accuracy"]
    assert settings["metrics"]["cell_accuracy"] == hits / cells and cells == 12 * 8


def test_a_temperature_of_ones_own_wins(cli, copied):
    done = cli("eval", copied, "--samples", 2, "--temperature", 0.5, "--examples", 2, "--json")
    assert json.loads(done.out)["sampler"]["temperature"] == 0.5
    done = cli("eval", copied, "--temperature", 0.5, "--examples", 2, "--json")
    found = json.loads(done.out)
    assert found["sampler"]["temperature"] == 0.5 and found["samples"] == 1


def test_equal_answers_are_refused(cli, copied):
    done = cli("eval", copied, "--samples", 2, "--temperature", 0)
    assert done.code == 2 and "would give the same answer each time" in done.err
    changed_recipe(copied, sampler={"temperature": 0.0})
    done = cli("eval", copied, "--samples", 2)
    assert done.code == 2 and "--temperature" in done.err


def test_another_batch_gives_the_same_file(cli, copied):
    for batch in (1, 5, 256):
        words = ("--samples", 3, "--examples", 4, "--batch", batch)
        assert cli("eval", copied, *words, "-o", f"{batch}.jsonl").code == 0
    whole = Path("1.jsonl").read_bytes()
    assert Path("5.jsonl").read_bytes() == Path("256.jsonl").read_bytes() == whole


def test_each_length_has_a_file_and_a_row(cli, copied):
    done = cli("eval", copied, "--lengths", "16,20", "--examples", 3, "-o", "x.jsonl")
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()[2:4]]
    assert [row[:2] for row in rows] == [["16", "4"], ["20", "4"]]
    assert "answer length  steps  solved_rate" in done.out
    for length in (16, 20):
        settings = json.loads(Path(f"x-{length}.settings.json").read_text())
        assert settings["sampler"]["answer_length"] == length and settings["examples"] == 3
        assert len(lines(f"x-{length}.jsonl")) == 3
    again = cli("eval", copied, "--lengths", "16", "--examples", 3, "--json")
    assert [each["sampler"]["answer_length"] for each in json.loads(again.out)] == [16]
    assert lines("x-16.jsonl") == lines(json.loads(again.out)[0]["file"])


@pytest.mark.parametrize("text", ["", "16,", "0", "-4", "a", "16,16", "1.5"])
def test_lengths_that_are_none_are_refused(text):
    with pytest.raises(UsageError, match="--lengths"):
        parse_lengths(text)
    assert parse_lengths(" 128, 256") == (128, 256) and parse_lengths(None) == ()


PRESET = ("--preset", "d1", "task.prompt_style=compact", "--examples", 2)
"""The tiny tokenizer has no chat template, and its answers no room for a block of 32."""


def test_a_preset_sets_the_sampler_and_what_is_explicit_wins_with_a_note(cli, copied):
    changed_recipe(
        copied, sampler={"cfg_scale": 1.0, "end_rule": "logits_inf"},
        evaluate={"steps": 2, "sampler": {"name": "entropy", "answer_length": 16}},
    )  # fmt: skip
    done = cli("eval", copied, *PRESET, "sampler.block_length=8", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    sampler = found["sampler"]
    assert (sampler["name"], sampler["steps"], sampler["block_length"]) == ("low_confidence", 8, 8)
    assert (sampler["cfg_scale"], sampler["end_rule"], sampler["temperature"]) == (0, "none", 0)
    assert found["task"]["parser"] == "d1" and found["preset"] == "d1"
    assert "note: preset d1 says sampler.block_length 32; your 8 is used" in done.err
    assert "sampler.steps 8" not in done.err and "cfg_scale 0" not in done.err


def test_the_steps_of_a_preset_are_half_of_each_length(cli, copied):
    words = (*PRESET, "--lengths", "32,40", "task.parser=strict")
    done = cli("eval", copied, *words, "--json")
    assert done.code == 0, done.err
    assert [each["sampler"]["steps"] for each in json.loads(done.out)] == [16, 20]
    assert "note: preset d1 says task.parser d1; your strict is used" in done.err
    done = cli("eval", copied, *words, "--steps", 5, "--json")
    assert {each["sampler"]["steps"] for each in json.loads(done.out)} == {5}
    for steps in (16, 20):
        assert f"note: preset d1 says sampler.steps {steps}; your 5 is used" in done.err


@pytest.mark.parametrize("word", ["sampler=random_order", "sampler={name: random_order}"])
def test_another_sampler_than_the_presets_keeps_what_it_knows_of_it(cli, copied, word):
    done = cli("eval", copied, *PRESET, word, "sampler.answer_length=32", "--json")
    assert done.code == 0, done.err
    sampler = json.loads(done.out)["sampler"]
    assert (sampler["name"], sampler["steps"], sampler["block_length"]) == ("random_order", 16, 32)
    assert "note: preset d1 says sampler.name low_confidence; your random_order" in done.err


def test_a_threshold_of_ones_own_takes_the_place_of_a_presets_steps(cli, copied):
    changed_recipe(copied, sampler={"steps": None})
    words = ("sampler.threshold=0.9", "sampler.block_length=16")
    done = cli("eval", copied, *PRESET, *words, "--json")
    assert done.code == 0, done.err
    sampler = json.loads(done.out)["sampler"]
    assert sampler["threshold"] == 0.9 and sampler["steps"] is None


def test_samples_under_a_preset_are_drawn_as_training_drew(cli, copied):
    words = ("--samples", 2, "sampler.block_length=16")
    done = cli("eval", copied, *PRESET, *words, "--json")
    assert json.loads(done.out)["sampler"]["temperature"] == 1.0
    assert "note: preset d1 says sampler.temperature 0.0; your 1.0 is used" in done.err


def test_an_unknown_preset_is_refused(cli, copied):
    done = cli("eval", copied, "--preset", "d3")
    assert done.code == 2 and "there are: d1" in done.err


def test_a_torn_evaluation_goes_on_to_the_same_bytes(cli, copied):
    words = ("eval", copied, "--examples", 5, "--batch", 2)
    cli(*words)
    file, beside = (copied / "evaluations" / f"sudoku-1.{x}" for x in ("jsonl", "settings.json"))
    whole, settings = file.read_bytes(), beside.read_bytes()
    file.write_bytes(whole[:-100])
    done = cli(*words, "--resume")
    assert done.code == 0, done.err
    assert (file.read_bytes(), beside.read_bytes()) == (whole, settings)
    assert [p.name for p in file.parent.glob("sudoku*.jsonl")] == ["sudoku-1.jsonl"]
    assert cli(*words, "--resume").out == done.out  # finished: nothing to do but to report


def test_to_go_on_with_other_settings_is_refused_before_anything_is_loaded(
    cli, copied, monkeypatch
):
    cli("eval", copied, "--examples", 3)
    monkeypatch.setattr("dllmzoo.cli._policies.load_policy", None)
    done = cli("eval", copied, "--examples", 4, "--steps", 2, "--seed", 1, "--resume")
    assert done.code == 2
    for line in ("examples is 4, and was 3", "sampler.steps is 2, and was 4", "seed is 1",
                 "held-out examples are not the same"):  # fmt: skip
        assert line in done.err
    done = cli("eval", copied, "--resume", "--overwrite")
    assert done.code == 2 and "leave one of them out" in done.err


def test_to_go_on_with_other_weights_is_refused(cli, copied):
    from safetensors.torch import load_file, save_file

    cli("eval", copied, "--examples", 3)
    file = copied / "final" / "model.safetensors"
    weights = load_file(file)
    next(iter(weights.values())).flatten()[0] += 1
    save_file(weights, file, metadata={"format": "pt"})
    done = cli("eval", copied, "--examples", 3, "--resume")
    assert done.code == 2 and "the weights are not the same" in done.err


def test_a_difference_to_training_is_said(cli, copied):
    changed_recipe(copied, evaluate={"steps": 2})
    done = cli("eval", copied, "--examples", 2)
    assert "note: the run's training sampled otherwise: steps 2 (training 4)" in done.err
    assert "the numbers do not compare" not in done.err


def test_a_file_with_one_id_twice_is_counted_by_place(cli, copied):
    rows = [{"id": 7, "q": f"{x}=", "a": "1"} for x in range(3)]
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = (
        "task={name: records, file: data.jsonl, test_file: data.jsonl, prompt: q, answer: a, "
        "rewards: {exact_match: 1.0}}"
    )
    done = cli("eval", copied, task, "-o", "x.jsonl")
    assert done.code == 0, done.err
    assert [row["id"] for row in lines("x.jsonl")] == [0, 1, 2]


def test_a_few_problems_ask_for_more_samples(cli, copied, monkeypatch):
    monkeypatch.setattr("dllmzoo.cli._protocol.FEWEST_SAMPLES", {"sudoku": 8})
    done = cli("eval", copied, "--samples", 4, "--examples", 1)
    assert "mean over at least 8 answers to each: --samples 8" in done.err
    done = cli("eval", copied, "--samples", 8, "--examples", 1)
    assert "at least 8" not in done.err


def test_aime_asks_for_eight(cli, copied):
    rows = [{"problem": f"{x}=", "answer": str(x), "id": x} for x in range(2)]
    Path("aime.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--task", "aime24", "task.test_file=aime.jsonl", "task.prompt_style=text")
    done = cli("eval", copied, *words)
    assert "--samples 8" in done.err


@pytest.mark.parametrize(
    ("change", "instead"),
    [
        ("model.weights=elsewhere", "name the model as the first word"),
        ("seed=3", "use --seed"),
        ("train.rounds=4", "leave it out"),
    ],
)
def test_a_change_that_no_evaluation_reads_is_refused(cli, copied, change, instead):
    done = cli("eval", copied, change)
    assert done.code == 2
    assert f"{change} would change nothing" in done.err and instead in done.err


def test_another_dtype_may_be_named_as_in_the_recipe(cli, copied):
    done = cli("eval", copied, "model.dtype=bfloat16", "--examples", 1, "--json")
    assert json.loads(done.out)["dtype"] == "bfloat16"


def test_an_evaluation_that_cannot_be_made_replaces_no_answers(cli, copied):
    assert cli("eval", copied, "--examples", 2, "-o", "x.jsonl").code == 0
    before = Path("x.jsonl").read_bytes()
    long = ("sampler.answer_length=4096", "sampler.block_length=4096", "-o", "x.jsonl")
    done = cli("eval", copied, *long, "--overwrite")
    assert done.code == 2 and "exceed the model's" in done.err
    assert Path("x.jsonl").read_bytes() == before
    assert cli("eval", copied, *long[:2], "-o", "new.jsonl").code == 2
    assert not Path("new.jsonl").exists()


def test_data_that_cannot_be_read_are_a_mistake_of_the_command_line(cli, copied):
    done = cli("eval", copied, "--task", "chat")
    assert done.code == 2 and "the task chat has no data" in done.err
