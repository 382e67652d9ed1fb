"""Folders of runs that were killed are removed by the next, and those of living ones are not."""

import os
import subprocess
import sys
import time

import pytest

from dllmzoo.sandbox.staged import OWNER, PREFIX, UNFINISHED_SECONDS, Staged, remove_left_over


def folder(below, name="old", *, owner=True):
    made = below / f"{PREFIX}{name}"
    (made / "code").mkdir(parents=True)
    if owner:
        (made / OWNER).touch()
    return made


def test_a_folder_whose_process_ended_is_removed(tmp_path):
    left = folder(tmp_path)
    (left / "code").chmod(0o555)
    assert remove_left_over(str(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_a_living_process_stays():
    staged = Staged()
    code = "from dllmzoo.sandbox.staged import remove_left_over as r; r()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert os.path.exists(staged.folder)
    staged.remove()
    assert not os.path.exists(staged.folder)


def test_a_folder_that_is_being_made_stays_for_an_hour(tmp_path):
    new = folder(tmp_path, owner=False)
    assert remove_left_over(str(tmp_path)) == 0
    old = time.time() - UNFINISHED_SECONDS - 1
    os.utime(new, (old, old))
    assert remove_left_over(str(tmp_path)) == 1


def test_links_and_files_of_such_a_name_stay(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / OWNER).touch()
    (tmp_path / f"{PREFIX}link").symlink_to(kept)
    (tmp_path / f"{PREFIX}file").touch()
    assert remove_left_over(str(tmp_path)) == 0
    assert (kept / OWNER).exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder of somebody else")
def test_a_folder_of_another_user_stays(tmp_path):
    theirs = folder(tmp_path)
    os.chown(theirs, 61000, 61000)
    assert remove_left_over(str(tmp_path)) == 0
    assert theirs.exists()
