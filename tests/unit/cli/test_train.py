"""`dllmzoo train`: progress, the final table, resume, refusals, exit codes."""

import json
import signal
from pathlib import Path

import pytest

from dllmzoo.cli import _output as out
from dllmzoo.cli import _progress as progress
from dllmzoo.cli import train as command
from dllmzoo.errors import HealthError
from dllmzoo.recipe import load
from dllmzoo.training import loop, run


def test_a_run_is_watched_and_ends_with_the_table(cli, recipe):
    done = cli("train", recipe)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("round 0/2  eval solved ")
    assert lines[1].startswith("round 1/2  reward ")
    assert "eval solved" in lines[2] and "0:00 left" in lines[2]
    assert "solved rate on the same 8 held-out examples, greedy" in lines
    base, trained = (next(x for x in lines if x.startswith(w)) for w in ("base ", "trained "))
    assert "%" in base and "points (" in trained and "points" not in base
    assert any(line.startswith("wall time 0:0") and "runs/tiny" in line for line in lines)
    assert lines[-4:] == [
        "  dllmzoo eval runs/tiny",
        "  dllmzoo generate runs/tiny --trace",
        "  dllmzoo export runs/tiny tiny-model",
        "  dllmzoo train tiny.yaml --resume auto train.rounds=4",
    ]


def test_the_manifest_holds_the_command(cli, recipe):
    cli("train", recipe, "train.rounds=1", "title=two words", "-q")
    manifest = json.loads(Path("runs/tiny/manifest.json").read_text())
    assert manifest["command"] == "dllmzoo train tiny.yaml train.rounds=1 'title=two words' -q"


def test_a_quiet_run_prints_the_table_alone(cli, recipe):
    done = cli("train", recipe, "--smoke", "--quiet")
    assert done.code == 0
    assert "round 1" not in done.out and "trained" in done.out


def test_another_process_prints_nothing(cli, recipe, monkeypatch):
    monkeypatch.setattr(out, "is_main_process", lambda: False)
    done = cli("train", recipe, "--smoke")
    assert (done.code, done.out) == (0, "")


def test_a_folder_that_holds_a_run_is_refused(cli, recipe):
    cli("train", recipe, "--smoke", "-q")
    done = cli("train", recipe, "--smoke", "-q")
    assert done.code == 2
    assert "runs/tiny is not empty" in done.err and "--overwrite" in done.err
    assert cli("train", recipe, "--smoke", "-q", "--overwrite").code == 0


def test_a_finished_run_says_so_and_shows_its_table(cli, recipe):
    cli("train", recipe, "-q")
    done = cli("train", recipe, "--resume", "auto")
    assert done.code == 0
    assert "runs/tiny is finished; nothing to do" in done.err
    assert "trained" in done.out and "round 1" not in done.out


def test_a_run_goes_on_with_more_rounds(cli, recipe):
    cli("train", recipe, "train.rounds=1", "-q")
    done = cli("train", recipe, "--resume", "auto")
    assert done.code == 0
    assert "going on after round 1" in done.err
    assert "round 2/2" in done.out and "round 1/2" not in done.out


def test_a_run_can_be_named_by_its_folder(cli, recipe):
    cli("train", recipe, "train.rounds=1", "-q", "output=elsewhere")
    done = cli("train", recipe, "--resume", "elsewhere", "-q")
    assert done.code == 0
    assert "run folder elsewhere" in done.out


def test_resume_auto_without_a_run_starts_one_and_says_so(cli, recipe):
    done = cli("train", recipe, "--smoke", "-q", "--resume", "auto")
    assert done.code == 0
    assert "starting" in done.err


def test_another_recipe_cannot_go_on(cli, recipe):
    cli("train", recipe, "train.rounds=1", "-q")
    done = cli("train", recipe, "loss.clip_low=0.5", "--resume", "auto")
    assert done.code == 1
    assert "loss.clip_low" in done.err


def test_resume_and_overwrite_exclude_each_other(cli, recipe):
    done = cli("train", recipe, "--resume", "auto", "--overwrite")
    assert done.code == 2
    assert "exclude each other" in done.err


def test_the_dry_run_says_what_a_round_costs_and_leaves_nothing(cli, recipe):
    done = cli("train", recipe, "--dry-run")
    assert done.code == 0
    for label in ("samples per round", "updates per round", "FLOPs per round", "time per round"):
        assert label in done.out
    assert not Path("runs").exists()
    assert json.loads(cli("train", recipe, "--dry-run", "--json").out)["samples"] == 8


def test_the_printed_config_is_a_recipe_with_every_default(cli, recipe):
    Path("full.yaml").write_text(cli("train", recipe, "--print-config").out)
    assert "weight_decay" in Path("full.yaml").read_text()
    assert load("full.yaml").loss == load("tiny.yaml").loss
    assert json.loads(cli("train", recipe, "--print-config", "--json").out)["seed"] == 0


def test_options_that_fall_away_are_told(cli, recipe):
    done = cli("train", recipe, "selector=uniform", "sampler.steps=8", "--dry-run")
    assert done.err.startswith("note: ") and "dropped: steps" in done.err


def test_a_bad_recipe_ends_with_2_and_all_problems(cli, recipe):
    done = cli("train", recipe, "loss.clip_lo=1", "optimizer.lr=fast")
    assert done.code == 2
    assert "loss.clip_lo" in done.err and "optimizer.lr" in done.err
    assert not Path("runs").exists()


def test_a_word_that_is_no_change_is_a_problem(cli, recipe):
    done = cli("train", recipe, "faster")
    assert done.code == 2
    assert "faster" in done.err and "key=value" in done.err


def test_a_health_check_ends_with_3(cli, recipe, monkeypatch):
    def sick(*parts, **options):
        raise HealthError("the loss is not finite")

    monkeypatch.setattr(loop, "train", sick)
    done = cli("train", recipe)
    assert done.code == 3
    assert "\nthe loss is not finite" in done.err
    assert "Traceback" not in done.err


def test_an_interrupt_saves_and_ends_with_130(cli, recipe, monkeypatch):
    original = progress.Plain.show

    def interrupt(self, row, pace):
        original(self, row, pace)
        if row["round"] == 0:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(progress.Plain, "show", interrupt)
    done = cli("train", recipe, "train.rounds=50")
    assert done.code == 130
    assert "stopped by SIGINT after round 1" in done.err and "--resume auto" in done.err


def test_a_second_interrupt_stops_at_once(cli, recipe, monkeypatch):
    def stop(recipe, **options):
        yield {"round": 0}
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "train", stop)
    done = cli("train", recipe)
    assert done.code == 130
    assert done.err == "stopped at once; nothing was saved yet\n"


@pytest.mark.parametrize(
    ("terminal", "quiet", "as_json", "kind"),
    [(True, False, False, progress.Live), (False, False, False, progress.Plain),
     (True, True, False, progress.Silent), (True, False, True, progress.Plain)],
)  # fmt: skip
def test_the_display_suits_the_reader(recipe, monkeypatch, terminal, quiet, as_json, kind):
    monkeypatch.setattr(out, "is_terminal", lambda: terminal)
    assert type(command.watcher_for(load(recipe), quiet=quiet, as_json=as_json)) is kind


def test_numbers_of_the_table_are_percent_and_points():
    assert command.percent(0.371) == "37.1 %"
    assert command.between(0.33, 0.4141) == "33.0 to 41.4"
    assert command.gain(0.25, 0.2, 0.3) == "+25.0 points (+20.0 to +30.0)"
    assert command.gain(None, None, None) == ""
    assert command.gain(0.0, None, None) == "+0.0 points (no example changed)"
