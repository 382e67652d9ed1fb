"""How the program ends: one message, the right exit code, no traceback."""

import sys

import pytest

import dllmzoo
from dllmzoo.cli import _app, listing, main
from dllmzoo.errors import HealthError, Interrupted, RunError, UsageError


def test_the_version_is_the_packages(cli):
    assert cli("--version").out == f"dllmzoo {dllmzoo.__version__}\n"


def test_without_a_command_the_help_is_shown(cli):
    done = cli()
    assert done.code == 0
    for name in ("train", "sweep", "lab", "eval", "generate", "list", "show", "check", "schema"):
        assert name in done.out
    assert "130" in done.out and "health check" in done.out


@pytest.mark.parametrize("command", ["train", "sweep", "lab", "eval", "generate", "export", "list",
                                     "show", "check", "schema", "new", "env"])  # fmt: skip
def test_every_command_explains_itself(cli, command):
    done = cli(command, "--help")
    assert done.code == 0
    assert f"dllmzoo {command}" in done.out
    assert done.err == ""


def test_a_misspelt_command_is_answered_with_the_nearest(cli):
    done = cli("tarin", "x")
    assert done.code == 2
    assert "there is no command 'tarin'. Did you mean 'train'?" in done.err


def test_an_unknown_option_is_a_usage_error(cli):
    done = cli("list", "--jsn")
    assert done.code == 2
    assert "--jsn" in done.err and "--json" in done.err
    assert "Try: dllmzoo list --help" in done.err


def test_a_missing_argument_is_named(cli):
    done = cli("train")
    assert done.code == 2
    assert "RECIPE" in done.err


@pytest.mark.parametrize(
    ("error", "code"),
    [(RunError("no"), 1), (UsageError("no"), 2), (HealthError("no"), 3), (Interrupted("no"), 130)],
)
def test_an_error_of_ours_is_one_message_with_its_code(cli, monkeypatch, error, code):
    def fail(kind):
        raise error

    monkeypatch.setattr(listing.kinds, "find", fail)
    done = cli("list", "loss")
    assert (done.code, done.out, done.err) == (code, "", "no\n")


def test_an_unexpected_error_says_how_to_see_more(cli, monkeypatch):
    def fail(kind):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(listing.kinds, "find", fail)
    done = cli("list", "loss")
    assert done.code == 1
    assert done.err.splitlines() == [
        "unexpected ZeroDivisionError: division by zero",
        "Run the command again with --debug for the traceback.",
    ]


@pytest.mark.parametrize("words", [["--debug", "list", "loss"], ["list", "loss", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(cli, monkeypatch, words):
    def fail(kind):
        raise UsageError("no")

    monkeypatch.setattr(listing.kinds, "find", fail)
    with pytest.raises(UsageError):
        cli(*words)


def test_an_interrupt_ends_with_130(cli, monkeypatch):
    def stop(kind):
        raise KeyboardInterrupt

    monkeypatch.setattr(listing.kinds, "find", stop)
    assert cli("list", "loss").code == 130


def test_only_the_main_process_reports_a_bad_recipe(cli, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert cli("list", "lossess").err == ""


def test_a_failure_of_another_process_is_reported_with_its_number(cli, monkeypatch):
    def fail(kind):
        raise RunError("no")

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(listing.kinds, "find", fail)
    assert cli("list", "loss").err == "[process 1] no\n"


def test_main_reads_the_arguments_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["dllmzoo", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("dllmzoo ")


def test_words_behind_two_dashes_are_no_flags():
    assert _app._split_at_dashes(["a", "--", "--debug"]) == (["a"], ["--", "--debug"])
