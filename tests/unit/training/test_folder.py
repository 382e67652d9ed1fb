"""The run folder: what is cut back, what is deleted, what is refused."""

import gzip
import json

import pytest

from dllmzoo.errors import RunError, UsageError
from dllmzoo.training.checkpoint import State
from dllmzoo.training.folder import (
    OURS,
    RunFolder,
    finished,
    refuse_another_recipe,
    refuse_folder,
)


@pytest.fixture
def folder(tmp_path):
    """A run folder with four rounds and two rollout files."""
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.note(format=1, seed=0, versions={})
    run.recipe.write_text("format: 1\n")
    for round in range(5):
        run.append({"round": round, "loss": 0.1 * round, "nothing": None})
    for round in (2, 4):
        run.write_rollouts(round, [{"sample": 0, "answer": "é"}])
    return run


def checkpointed(run, round, **state):
    path = run.path / "checkpoints" / f"round-{round:06d}"
    path.mkdir(parents=True)
    whole = vars(State(round=round)) | state
    (path / "state.json").write_text(json.dumps(whole))


def test_cutting_back_keeps_the_bytes_up_to_the_round_and_drops_later_rollouts(folder):
    before = folder.metrics.read_bytes().splitlines(keepends=True)
    folder.cut_back(2)
    assert folder.metrics.read_bytes() == b"".join(before[:3])
    assert [path.name for path in (folder.path / "rollouts").iterdir()] == ["000002.jsonl.gz"]


@pytest.mark.parametrize("torn", ['{"round": 5, "loss": 0.', '{"rou', "\0\0\0"])
def test_a_torn_last_line_is_dropped(folder, torn):
    whole = folder.metrics.read_bytes()
    with folder.metrics.open("a") as file:
        file.write(torn)
    assert [row["round"] for row in folder.rows()] == [0, 1, 2, 3, 4]
    folder.cut_back(4)
    assert folder.metrics.read_bytes() == whole


def test_rollout_files_have_the_same_bytes_for_the_same_lines(folder):
    file = folder.path / "rollouts" / "000002.jsonl.gz"
    before = file.read_bytes()
    folder.write_rollouts(2, [{"sample": 0, "answer": "é"}])
    assert file.read_bytes() == before
    assert json.loads(gzip.decompress(before)) == {"sample": 0, "answer": "é"}


def test_clearing_deletes_what_a_run_writes_and_nothing_else(folder):
    (folder.path / "notes.txt").write_text("mine")
    (folder.path / "final").mkdir()
    (folder.path / ".final.tmp").mkdir()
    (folder.path / ".metrics.jsonl.tmp").write_text("torn")
    folder.clear()
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]


def test_a_link_to_a_folder_is_removed_and_its_target_kept(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "weights").write_text("precious")
    (folder.path / "final").symlink_to(elsewhere)
    folder.clear()
    assert (elsewhere / "weights").read_text() == "precious"


def test_the_manifest_is_deleted_last_so_that_a_kill_meanwhile_leaves_a_run_folder(folder):
    assert OURS[-1] == "manifest.json"


def test_a_folder_that_holds_only_what_a_kill_left_of_the_first_write_is_cleared(tmp_path):
    run = RunFolder(tmp_path)
    (tmp_path / ".manifest.json.tmp").write_text("{")
    run.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else_is_never_cleared(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("somebody else's")
    with pytest.raises(UsageError, match=r"no manifest\.json.*deletes nothing"):
        RunFolder(tmp_path).clear()
    assert (tmp_path / "metrics.jsonl").exists()


def test_a_run_is_finished_when_its_rounds_or_its_minutes_are_used_up(folder):
    assert not finished(folder, 4, None)
    checkpointed(folder, 4, minutes=3.0)
    folder.note(finished={"round": 4})
    assert not finished(folder, 4, None), "no final weights yet"
    folder.final.mkdir()
    assert finished(folder, 4, None) and finished(folder, 3, None)
    assert not finished(folder, 5, None) and not finished(folder, 5, 4.0)
    assert finished(folder, 5, 3.0)
    folder.note(finished=None)
    assert not finished(folder, 4, None)


def test_the_newest_complete_checkpoint_counts(folder):
    assert folder.last_checkpoint() is None
    checkpointed(folder, 2)
    checkpointed(folder, 10)
    (folder.path / "checkpoints" / "round-000012").mkdir()  # no state: not complete
    (folder.path / "checkpoints" / ".round-000014.tmp").mkdir()
    assert folder.last_checkpoint().name == "round-000010"


def test_a_resumed_run_may_change_how_long_and_where_but_nothing_else(folder):
    refuse_another_recipe(folder, [])
    may = [
        "train.rounds", "train.max_minutes", "train.save_every", "train.trackers", "output",
        "evaluate.steps", "evaluate.also_steps", "evaluate",
    ]  # fmt: skip
    refuse_another_recipe(folder, may)
    with pytest.raises(RunError, match=r"loss\.clip_low, train\.prompts differ"):
        refuse_another_recipe(folder, ["loss.clip_low", *may, "train.prompts"])
    with pytest.raises(RunError, match="evaluated"):
        refuse_another_recipe(folder, ["evaluated"])


def test_a_folder_in_use_is_refused_unless_a_flag_says_what_to_do(folder, tmp_path):
    with pytest.raises(UsageError, match=r"--resume auto.*--overwrite"):
        refuse_folder(folder, None, False, None)
    refuse_folder(folder, None, True, None)
    refuse_folder(folder, "auto", False, None)
    refuse_folder(RunFolder(tmp_path / "new"), None, False, None)
    with pytest.raises(UsageError, match="exclude each other"):
        refuse_folder(folder, "auto", True, None)


def test_resuming_a_named_folder_without_a_run_is_an_error_not_a_new_run(tmp_path):
    with pytest.raises(UsageError, match="holds no run to go on with"):
        refuse_folder(RunFolder(tmp_path / "typo"), tmp_path / "typo", False, None)
    assert not (tmp_path / "typo").exists()


def test_a_stranger_with_a_manifest_is_neither_cleared_nor_gone_on_with(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "app"}')
    (tmp_path / "final").mkdir()
    (tmp_path / "final" / "thesis.tex").write_text("three years")
    with pytest.raises(UsageError, match=r"holds final but no recipe\.resolved\.yaml"):
        refuse_folder(RunFolder(tmp_path), "auto", False, None)
    with pytest.raises(UsageError, match="deletes nothing in it"):
        RunFolder(tmp_path).clear()
    assert (tmp_path / "final" / "thesis.tex").read_text() == "three years"


def test_a_damaged_manifest_is_named(folder):
    (folder.path / "manifest.json").write_text("{")
    with pytest.raises(RunError, match=r"manifest\.json is damaged"):
        folder.manifest()


def test_overwriting_the_weights_that_a_run_starts_from_is_refused(folder, tmp_path):
    folder.final.mkdir()
    for weights in (folder.path, folder.final):
        with pytest.raises(UsageError, match="--overwrite would delete"):
            refuse_folder(folder, None, True, str(weights))
    refuse_folder(folder, None, True, "llada-tiny-sudoku")
    refuse_folder(folder, None, True, str(tmp_path))


@pytest.mark.parametrize("name", ["taken", "taken/run"])
def test_a_file_in_place_of_the_run_folder_is_said_before_anything_is_loaded(tmp_path, name):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(UsageError, match="taken is a file; choose another `output=`"):
        refuse_folder(RunFolder(tmp_path / name), None, True, None)
    assert (tmp_path / "taken").read_text() == "mine"
