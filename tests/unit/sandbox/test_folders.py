"""Folders are deleted however they were left, and nothing else is."""

import os

from dllmzoo.sandbox.processes.folders import delete


def test_deeper_nesting_than_functions_can_call_themselves(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    before = os.getcwd()
    os.chdir(folder)
    for _ in range(1200):
        os.mkdir("d")
        os.chdir("d")
        open("file", "w").close()
    os.chdir(before)
    delete(str(folder))
    assert not folder.exists()


def test_links_are_deleted_and_not_followed(tmp_path):
    kept, folder = tmp_path / "kept", tmp_path / "a"
    (kept / "inside").mkdir(parents=True)
    (folder / "b").mkdir(parents=True)
    (folder / "link").symlink_to(kept)
    (folder / "b" / "link").symlink_to(kept)
    delete(str(folder))
    assert not folder.exists() and (kept / "inside").is_dir()
    (tmp_path / "link").symlink_to(kept)
    delete(str(tmp_path / "link"))
    assert (kept / "inside").is_dir(), "nor is the folder itself taken for its link"


def test_folders_without_rights_and_with_names_like_ours_are_deleted(tmp_path):
    folder = tmp_path / "a"
    for name in ("moved-0", "x/moved-0/moved-1", "x/y"):
        (folder / name).mkdir(parents=True)
    (folder / "moved-2").write_text("")
    (folder / "x").chmod(0)
    folder.chmod(0o500)
    delete(str(folder))
    assert not folder.exists()


def test_what_is_not_there_is_no_error(tmp_path):
    delete(str(tmp_path / "nothing"))
    assert list(tmp_path.iterdir()) == []
