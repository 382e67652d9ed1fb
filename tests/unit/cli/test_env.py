"""`dllmzoo env`: facts for a bug report, none about the user."""

import json
import os
import platform
import subprocess

import torch

from dllmzoo.cli import env


def test_versions_devices_and_threads_are_printed(cli):
    lines = cli("env").out.splitlines()
    facts = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in lines}
    assert facts["python"] == platform.python_version()
    assert facts["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    assert facts["torch threads"] == str(torch.get_num_threads())
    assert facts["devices"]


def test_json_holds_the_same_facts(cli):
    assert json.loads(cli("env", "--json").out)["dllmzoo"]


def test_nothing_names_a_folder_of_the_user(cli):
    assert os.sep + "home" not in cli("env").out


def test_a_package_that_is_not_there_is_said_to_be_so():
    assert env.installed("no-such-package-anywhere") == "not installed"


def test_outside_of_git_there_is_no_commit(monkeypatch):
    def fail(*words, **options):
        raise subprocess.CalledProcessError(128, "git")

    monkeypatch.setattr(subprocess, "run", fail)
    assert env.commit() is None
