"""Completion in the shell, through the protocol that shells speak, and without torch."""

import os
import resource
import shutil
import subprocess
import sys

import pytest

from dllmzoo.cli import _complete as complete
from dllmzoo.cli._app import run
from tests.unit.report import made

SECONDS = 1.0
"""Of processor time for one completion; about 0.25 on the machines we know."""


@pytest.fixture
def completed(monkeypatch, capsys):
    """What bash is offered after some words, the last of which is not finished."""

    def call(*words):
        monkeypatch.setenv("_DLLMZOO_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(("dllmzoo", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run([])
        assert ended.value.code == 0
        return capsys.readouterr().out.split()

    return call


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Three runs, one of them in the folder of a sweep."""
    for name in ("runs/one", "runs/two", "runs/sweep_x/runs/seed=0"):
        made.run(tmp_path / name, 1, keys=["reward"], rollouts={})
    (tmp_path / "own.yaml").touch()
    (tmp_path / "note.txt").touch()
    monkeypatch.chdir(tmp_path)


def test_commands_are_completed(completed):
    assert completed("ex") == ["export"]
    assert {"train", "show", "lab"} <= set(completed(""))
    assert completed("lab", "") == ["estimators", "stability", "compare"]


@pytest.mark.parametrize("command", ["train", "plan", "check", "sweep"])
def test_recipes_are_names_and_files(completed, runs, command):
    assert "egspo_sa_sudoku" in completed(command, "egspo_sa")
    assert completed(command, "own") == ["own.yaml"]
    assert completed(command, "note") == []
    assert "llada_8b/egspo_sa_sudoku" in completed(command, "llada_8b/")


def test_a_name_is_one_of_the_kind_before_it(completed, runs):
    assert completed("show", "loss", "stable") == ["stable_drl"]
    assert completed("show", "losses", "stable") == ["stable_drl"]
    assert completed("show", "sampler", "stable") == []
    assert completed("show", "method", "egspo-s") == ["egspo-sa"]
    assert "egspo_sudoku" in completed("show", "recipe", "")
    assert completed("show", "run", "") == ["runs/one", "runs/sweep_x/runs/seed=0", "runs/two"]
    assert {"selector", "run", "stable_drl", "egspo-sa"} <= set(completed("show", ""))
    assert completed("new", "los") == ["loss"] and completed("new", "reci") == []
    assert completed("list", "reci") == ["recipe"]


def test_runs_are_found_where_the_user_looks(completed, runs):
    assert completed("watch", "runs/o") == ["runs/one"]
    assert completed("watch", "./runs/t") == ["./runs/two"]
    assert completed("report", "runs/tw") == ["runs/two"]
    assert completed("train", "--resume", "runs/o") == ["runs/one"]


@pytest.mark.parametrize("command", ["eval", "generate", "export"])
def test_what_can_answer_is_a_run_or_weights(completed, runs, command):
    assert completed(command, "runs/o") == ["runs/one"]
    assert completed(command, "llada-tiny-s") == ["llada-tiny-sudoku"]


def test_options_and_cards_are_completed(completed):
    assert completed("plan", "x", "--gpu", "h") == ["h100", "h200"]
    assert "llada-8b-instruct" in completed("pull", "llada-8b-i")
    assert completed("pull", "gsm") == ["gsm8k-main"]
    assert "--json" in completed("list", "--j")
    assert "egspo_sudoku" in completed("generate", "x", "--recipe", "egspo_su")


def test_a_command_that_is_not_there_completes_to_nothing_odd(completed, capsys):
    completed("tarin", "x")
    assert capsys.readouterr().err == ""


def test_a_folder_that_cannot_be_read_offers_nothing(tmp_path):
    assert list(complete.files(f"{tmp_path}/none/x")) == []


def test_a_completion_takes_a_moment_and_imports_no_torch():
    program = "import sys; sys.argv = ['dllmzoo']; from dllmzoo.cli import main\n"
    program += "try: main()\nfinally: sys.stderr.write(str('torch' in sys.modules))"
    words = {"COMP_WORDS": "dllmzoo show ", "COMP_CWORD": "2"}
    environ = {**os.environ, **words, "_DLLMZOO_COMPLETE": "complete_bash"}
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-c", program], env=environ, capture_output=True, text=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        assert "selector" in done.stdout.split() and done.stderr == "False"
    assert min(spent) < SECONDS, f"{min(spent):.2f} s of processor time"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(shell, tmp_path):
    environ = {**os.environ, "_DLLMZOO_COMPLETE": f"source_{shell}", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['dllmzoo']; from dllmzoo.cli import main; "
         "main()"], env=environ, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"_DLLMZOO_COMPLETE=complete_{shell}" in done.stdout


def test_bash_completes_after_the_installation(tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash found; install one to run this test")
    program = tmp_path / "dllmzoo"
    lines = ["#!/bin/sh", f'exec "{sys.executable}" -m dllmzoo "$@"']
    program.write_text("\n".join(lines) + "\n")
    program.chmod(0o755)
    environ = {**os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def ask(script):
        done = subprocess.run([bash, "-c", script], env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "bash completion installed" in ask("dllmzoo --install-completion; true")
    script = tmp_path / ".bash_completions" / "dllmzoo.sh"
    assert f"source '{script}'" in (tmp_path / ".bashrc").read_text()
    assert ask("dllmzoo --show-completion; true").strip() == script.read_text().strip()
    said = ask(
        f"source {script}; COMP_WORDS=(dllmzoo show loss stable); COMP_CWORD=3; "
        "_dllmzoo_completion dllmzoo; echo ${COMPREPLY[@]}"
    )
    assert said == "stable_drl\n"
