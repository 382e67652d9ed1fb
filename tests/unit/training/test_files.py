"""Files and folders that appear whole or not at all."""

import json
import os

import pytest

from dllmzoo.training.files import whole_folder, write_bytes, write_json


def test_a_file_is_replaced_whole_and_leaves_no_other(tmp_path):
    write_bytes(tmp_path / "deep" / "a", b"one")
    write_bytes(tmp_path / "deep" / "a", b"two")
    assert (tmp_path / "deep" / "a").read_bytes() == b"two"
    assert os.listdir(tmp_path / "deep") == ["a"]
    write_json(tmp_path / "b.json", {"word": "é"})
    assert json.loads((tmp_path / "b.json").read_text(encoding="utf-8")) == {"word": "é"}


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    write_bytes(tmp_path / "a", b"one")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_bytes(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"one"


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_folder_that_is_not_finished_never_appears(tmp_path, failure):
    with pytest.raises(failure), whole_folder(tmp_path / "new") as inside:
        (inside / "half").write_text("half")
        raise failure
    assert os.listdir(tmp_path) == []


def test_a_folder_is_replaced_whole(tmp_path):
    for word in ("one", "two"):
        with whole_folder(tmp_path / "final") as inside:
            (inside / word).write_text(word)
            assert (tmp_path / "final" / "two").exists() is False
    assert os.listdir(tmp_path / "final") == ["two"] and os.listdir(tmp_path) == ["final"]


def test_what_a_killed_writer_left_is_swept_away(tmp_path):
    (tmp_path / ".final.tmp").mkdir()
    (tmp_path / ".final.tmp" / "torn").write_text("torn")
    with whole_folder(tmp_path / "final") as inside:
        (inside / "whole").write_text("whole")
    assert os.listdir(tmp_path / "final") == ["whole"] and os.listdir(tmp_path) == ["final"]
