"""Runs of an experiment: checked first, run once, told apart by how they ended."""

import json
import shutil
import signal

import pytest

import dllmzoo
from dllmzoo.errors import Interrupted, RecipeError, RunError, UsageError
from dllmzoo.lab.runs import Arm, describe, run_arms
from dllmzoo.training.folder import RunFolder
from tests.unit.lab.small import BREAKS, write_recipe


@pytest.fixture
def tiny(tmp_path):
    return write_recipe(tmp_path / "tiny.yaml")


@pytest.fixture
def breaking(tmp_path):
    """A recipe whose loss ends the run as `loss.how` says."""
    (tmp_path / "breaks.py").write_text(BREAKS)
    with dllmzoo.LOSSES.temporarily("breaks_here"):
        yield write_recipe(
            tmp_path / "breaking.yaml", loss="breaks_here", plugins=[str(tmp_path / "breaks.py")]
        )


@pytest.fixture(scope="module")
def two_done(tmp_path_factory):
    """A finished experiment of two runs; copy it before writing to it."""
    folder = tmp_path_factory.mktemp("two")
    recipe = write_recipe(folder / "tiny.yaml")
    arms = [Arm(f"seed={seed}", recipe, (f"seed={seed}",)) for seed in (0, 1)]
    said = []
    outcomes = run_arms(arms, folder / "done", say=said.append)
    return folder / "done", arms, outcomes, said


@pytest.fixture
def copied(two_done, tmp_path):
    folder, arms, *_ = two_done
    shutil.copytree(folder, tmp_path / "done")
    return tmp_path / "done", arms


def test_each_arm_is_a_run_folder_with_its_rows(two_done):
    folder, arms, outcomes, said = two_done
    assert [(o.arm, o.status, o.message) for o in outcomes] == [(a, "finished", "") for a in arms]
    assert [len(o.rows) for o in outcomes] == [3, 3]
    assert (folder / "runs" / "seed=0" / "final" / "config.json").is_file()
    assert [line.partition(":")[0] for line in said] == ["[1/2] seed=0", "[2/2] seed=1"]
    assert "solved_rate" in said[0] and "2 rounds in" in said[0]


def test_sweep_json_says_what_the_folder_holds(two_done):
    folder, arms, *_ = two_done
    known = json.loads((folder / "sweep.json").read_text())
    assert known["format"] == 1
    assert known["arms"]["seed=1"] == {
        "recipe": arms[1].recipe, "overrides": ["seed=1"], "status": "finished", "message": "",
    }  # fmt: skip


def test_a_manifest_names_the_command_that_repeats_the_run_alone(two_done):
    folder, arms, *_ = two_done
    manifest = json.loads((folder / "runs" / "seed=1" / "manifest.json").read_text())
    assert manifest["command"].startswith(f"dllmzoo train {arms[1].recipe} seed=1 ")


def test_what_is_finished_is_not_run_again(copied, monkeypatch):
    folder, arms = copied

    def fail(*words, **options):
        raise AssertionError("ran again")

    monkeypatch.setattr("dllmzoo.training.run.train", fail)
    said = []
    outcomes = run_arms(arms, folder, say=said.append)
    assert [o.status for o in outcomes] == ["finished", "finished"]
    assert said == ["2 of 2 runs are done already"]
    (one,) = run_arms(arms[1:], folder)
    assert one.arm == arms[1]
    assert set(json.loads((folder / "sweep.json").read_text())["arms"]) == {"seed=0", "seed=1"}


def test_further_arms_join_a_folder(copied):
    folder, arms = copied
    more = [*arms, Arm("more", arms[0].recipe, ("seed=2", "train.rounds=1"))]
    assert [len(o.rows) for o in run_arms(more, folder)] == [3, 3, 2]


def test_a_run_that_was_cut_off_goes_on(copied):
    folder, arms = copied
    whole = (folder / "runs" / "seed=0" / "final" / "model.safetensors").read_bytes()
    shutil.rmtree(folder / "runs" / "seed=0" / "final")
    (first, _) = run_arms(arms, folder)
    assert first.status == "finished"
    assert (folder / "runs" / "seed=0" / "final" / "model.safetensors").read_bytes() == whole


def test_another_recipe_in_a_runs_folder_is_refused_before_anything_runs(copied):
    folder, arms = copied
    changed = [arms[0], Arm("seed=1", arms[1].recipe, ("seed=1", "train.rounds=9", "seed=5"))]
    with pytest.raises(RunError) as caught:
        run_arms([*changed, Arm("new", arms[0].recipe)], folder)
    said = str(caught.value)
    assert said.startswith("1 of 3 runs") and "  seed=1: seed, train.rounds differ" in said
    assert "choose another --output, or delete" in said
    assert not (folder / "runs" / "new").exists()


def test_all_problems_of_all_arms_are_reported_before_anything_is_written(tiny, tmp_path):
    arms = [
        Arm("good", tiny), Arm("a", tiny, ("loss.clip_lo=0.1",)), Arm("b", tiny, ("seed=-1",)),
        Arm("c", "not_there"), Arm("d", tiny, ("seed=-1",)),
    ]  # fmt: skip
    with pytest.raises(RecipeError) as caught:
        run_arms(arms, tmp_path / "new")
    places = [(p.where.partition(":")[0], p.path) for p in caught.value.problems]
    assert places == [("a", "loss.clip_lo"), ("b", "seed"), ("c", "")]
    assert caught.value.exit_code == 2
    assert not (tmp_path / "new").exists()


def test_a_health_stop_is_an_outcome_and_is_not_run_again(breaking, tmp_path, monkeypatch):
    arms = [Arm("nan", breaking), Arm("fine", breaking, ("loss.how=fine",))]
    outcomes = run_arms(arms, tmp_path / "x")
    assert [o.status for o in outcomes] == ["stopped", "finished"]
    assert "not applied" in outcomes[0].message and outcomes[0].rows
    monkeypatch.setattr("dllmzoo.training.run.train", lambda *words, **options: iter(()))
    again = run_arms(arms, tmp_path / "x")
    assert again == outcomes


def test_any_other_error_fails_its_arm_alone_and_is_tried_again(breaking, tmp_path):
    arms = [Arm("error", breaking, ("loss.how=error",)), Arm("fine", breaking, ("loss.how=fine",))]
    failed, fine = run_arms(arms, tmp_path / "x")
    assert (failed.status, fine.status) == ("failed", "finished")
    assert failed.message.startswith("unexpected ZeroDivisionError: by nothing")
    assert "by nothing" in (tmp_path / "x" / "errors" / "error.txt").read_text()
    said = []
    run_arms(arms, tmp_path / "x", say=said.append)
    assert said[0] == "1 of 2 runs are done already" and "[2/2] error: failed" in said[1]


def test_notices_of_the_recipes_are_told_once(tiny, tmp_path):
    words = ("loss={name: policy_gradient}", "train.rounds=1")
    arms = [Arm(f"s{seed}", tiny, (*words, f"seed={seed}")) for seed in (0, 1)]
    said = []
    run_arms(arms, tmp_path / "x", say=said.append)
    assert sum(line.startswith("note: loss: name changed") for line in said) == 1


@pytest.mark.parametrize(
    ("names", "said"),
    [(("a", "a"), "two runs are named 'a'"), (("../a",), "cannot be named"),
     ((".a",), "cannot be named"), (("a b",), "cannot be named"), (("x" * 201,), "at most 200"),
     ((), "nothing to run")],
)  # fmt: skip
def test_names_that_are_no_folders_are_refused(tiny, tmp_path, names, said):
    with pytest.raises(UsageError, match=said):
        run_arms([Arm(name, tiny) for name in names], tmp_path / "x")


def test_no_jobs_are_refused(tiny, tmp_path):
    with pytest.raises(UsageError, match="0 jobs"):
        run_arms([Arm("a", tiny)], tmp_path / "x", 0)


@pytest.mark.parametrize("foreign", ["thesis.txt", "metrics.jsonl"])
def test_a_folder_of_another_kind_is_refused_untouched(tiny, tmp_path, foreign):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / foreign).write_text("x")
    with pytest.raises(UsageError, match="not the folder of a sweep"):
        run_arms([Arm("a", tiny)], tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [foreign]
    with pytest.raises(UsageError, match="not the folder of a sweep"):
        run_arms([Arm("a", tiny)], tmp_path / "mine" / foreign)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2, "arms": {}}', '{"format": 1}'])
def test_a_damaged_list_of_arms_is_refused(tiny, tmp_path, text):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "sweep.json").write_text(text)
    with pytest.raises(UsageError, match=r"sweep\.json is damaged"):
        run_arms([Arm("a", tiny)], tmp_path / "x")


def test_a_signal_saves_the_round_and_the_same_call_goes_on(tiny, tmp_path, monkeypatch):
    arms = [Arm("a", tiny, ("train.rounds=3",)), Arm("b", tiny)]
    keep = RunFolder.append

    def append(self, row):
        keep(self, row)
        if row["round"] == 1:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", append)
        with pytest.raises(
            Interrupted, match=r"^a: .* after round 2.*; the same command"
        ) as caught:
            run_arms(arms, tmp_path / "x")
    assert caught.value.exit_code == 130
    assert (tmp_path / "x" / "runs" / "a" / "checkpoints" / "round-000002").is_dir()
    assert not (tmp_path / "x" / "runs" / "b").exists()
    assert [len(o.rows) for o in run_arms(arms, tmp_path / "x")] == [4, 3]


def test_a_signal_in_the_last_round_of_a_run_stops_the_ones_after_it(tiny, tmp_path, monkeypatch):
    keep = RunFolder.append

    def append(self, row):
        keep(self, row)
        if row["round"] == 2:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", append)
        with pytest.raises(Interrupted, match="the same command goes on"):
            run_arms([Arm("a", tiny), Arm("b", tiny)], tmp_path / "x")
    assert not (tmp_path / "x" / "runs" / "b").exists()
    assert [o.status for o in run_arms([Arm("a", tiny), Arm("b", tiny)], tmp_path / "x")] == [
        "finished", "finished",
    ]  # fmt: skip


def test_a_recipe_that_changes_while_runs_wait_fails_the_runs_it_changed(tmp_path):
    file = tmp_path / "mine.yaml"
    recipe = write_recipe(file)
    arms = [Arm("a", recipe), Arm("b", recipe)]
    outcomes = run_arms(arms, tmp_path / "x", say=lambda line: write_recipe(file, seed=77))
    assert [o.status for o in outcomes] == ["finished", "failed"]
    assert outcomes[1].message == f"seed changed in {recipe} since it was checked"
    with pytest.raises(RunError, match="a: seed differ"):
        run_arms(arms, tmp_path / "x")


def test_a_second_signal_stops_at_once(tiny, tmp_path, monkeypatch):
    def stop(*words, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("dllmzoo.training.run.train", stop)
    with pytest.raises(Interrupted, match="stopped at once"):
        run_arms([Arm("a", tiny)], tmp_path / "x")


def test_an_outcome_is_one_line(two_done):
    _, _, outcomes, _ = two_done
    line = describe(outcomes[0], "solved_rate")
    assert line.startswith("seed=0: finished, solved_rate 0.000 -> 0.000, 2 rounds in 0.0 min")
    assert "\n" not in line
