"""The file of answers: a prefix of what it will be, whatever kills the program."""

import json

import pytest

from dllmzoo.cli._answer_file import begun, differences, new_file, of_length, settings_file
from dllmzoo.errors import UsageError

SETTINGS = {"format": 2, "samples": 1, "sampler": {"name": "a", "steps": 4}, "policy": "abc"}
LINES = [{"id": i, "text": "ü\u2028\n" * i} for i in range(7)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "x.jsonl"


def filled(path, settings=SETTINGS, *, finish=True):
    """Seven lines in calls of 3, 3 and 1, of 12, 12 and 4 forwards."""
    file = begun(path, dict(settings), resume=False)
    for first in (0, 3, 6):
        part = LINES[first : first + 3]
        file.append(part, 4 * len(part))
    if finish:
        file.finish({"answers": 7, "forwards": file.forwards})
    return file


def test_a_finished_file_holds_its_lines_and_no_progress(path):
    assert filled(path).forwards == 28
    assert [json.loads(line) for line in path.read_text().split("\n")[:-1]] == LINES
    settings = json.loads(settings_file(path).read_text())
    assert settings == {**SETTINGS, "answers": 7, "forwards": 28}


@pytest.mark.parametrize("finish", [True, False])
@pytest.mark.parametrize("lost", [0, 1, 30, 10**6])
def test_a_file_cut_anywhere_goes_on_from_a_whole_call_to_the_same_bytes(path, lost, finish):
    filled(path, finish=finish)
    whole = path.read_bytes()
    path.write_bytes(whole[: max(len(whole) - lost, 0)])
    file = begun(path, dict(SETTINGS), resume=True)
    kept = len(file.lines)
    assert kept in ((0, 7) if finish else (0, 3, 6, 7)) and file.lines == LINES[:kept]
    assert kept == 7 or lost
    assert whole.startswith(path.read_bytes()) and file.forwards == 4 * kept
    file.append(LINES[kept:], 4 * (7 - kept))
    file.finish({"answers": 7, "forwards": file.forwards})
    assert path.read_bytes() == whole
    assert json.loads(settings_file(path).read_text())["forwards"] == 28


def test_a_line_that_is_no_json_is_where_a_file_ends(path):
    filled(path, finish=False)
    lines = path.read_bytes().split(b"\n")
    lines[4] = b'{"id": \x00\x00'
    path.write_bytes(b"\n".join(lines))
    assert len(begun(path, dict(SETTINGS), resume=True).lines) == 3


def test_lines_that_were_written_before_they_were_counted_are_made_again(path):
    file = filled(path, finish=False)
    file.path.write_bytes(path.read_bytes() + b'{"id": 7}\n')  # killed before the settings' turn
    assert len(begun(path, dict(SETTINGS), resume=True).lines) == 7


def test_other_settings_are_refused_with_what_differs(path):
    filled(path, finish=False)
    before = path.read_bytes()
    other = {**SETTINGS, "samples": 2, "sampler": {"name": "a", "steps": 8, "more": None}}
    with pytest.raises(UsageError) as refused:
        begun(path, other | {"policy": "xyz"}, resume=True)
    message = str(refused.value)
    for line in ("samples is 2, and was 1", "sampler.steps is 8, and was 4",
                 "sampler.more is None, and was not there", "the weights are not the same",
                 "--overwrite"):  # fmt: skip
        assert line in message
    assert path.read_bytes() == before


def test_a_file_without_settings_is_refused(path):
    filled(path)
    settings_file(path).unlink()
    with pytest.raises(UsageError, match=r"x\.settings\.json, which says how .* was made"):
        begun(path, dict(SETTINGS), resume=True)


def test_without_resume_a_file_starts_over(path):
    filled(path)
    assert begun(path, dict(SETTINGS), resume=False).lines == []
    assert path.read_bytes() == b""


def test_to_go_on_where_nothing_is_starts(path):
    assert begun(path, dict(SETTINGS), resume=True).lines == []


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "deep").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        begun(tmp_path / "deep" / "x.jsonl", dict(SETTINGS), resume=False)


def test_tuples_are_the_lists_that_a_file_holds():
    assert differences({"blanks": [4, 8]}, {"blanks": (4, 8)}, "task") == []


def test_names_count_up_and_to_go_on_is_the_last_one(tmp_path):
    assert new_file(tmp_path, "sudoku", resume=False).name == "sudoku-1.jsonl"
    assert new_file(tmp_path, "sudoku", resume=True).name == "sudoku-1.jsonl"
    (tmp_path / "sudoku-1.jsonl").touch()
    of_length(tmp_path / "sudoku-2.jsonl", 256).touch()
    assert (tmp_path / "sudoku-2-256.jsonl").exists()
    assert new_file(tmp_path, "sudoku", resume=False).name == "sudoku-3.jsonl"
    assert new_file(tmp_path, "sudoku", resume=True).name == "sudoku-2.jsonl"


@pytest.mark.parametrize("content", ["[1, 2]", "7", "{", ""])
def test_settings_that_are_no_object_cannot_be_gone_on_with(path, content):
    filled(path)
    settings_file(path).write_text(content)
    with pytest.raises(UsageError, match=r"x\.settings\.json.* cannot be read; start over"):
        begun(path, dict(SETTINGS), resume=True)


@pytest.mark.parametrize(
    "said", [{}, {"progress": [[3, "x"]]}, {"progress": 4}, {"progress": [[3]]}, {"answers": 7}]
)
def test_settings_that_do_not_say_how_far_it_got_cannot_be_gone_on_with(path, said):
    filled(path)
    whole = path.read_bytes()
    settings_file(path).write_text(json.dumps(SETTINGS | said))
    with pytest.raises(UsageError, match=r"does not say how far .* start over with --overwrite"):
        begun(path, dict(SETTINGS), resume=True)
    assert path.read_bytes() == whole
