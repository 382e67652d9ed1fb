"""A run as it is watched: pace, facts, plain lines, the live bar."""

import pytest

from dllmzoo.cli import _output as out
from dllmzoo.cli import _progress as progress
from dllmzoo.cli import _sparkline
from dllmzoo.cli._progress import Pace, Plain, clock, facts, number, speed

ROW = {
    "round": 3,
    "reward": 0.71234,
    "rollout/solved_rate": 0.5,
    "kl": 0.00012,
    "clip_fraction": 0.0,
    "grad_norm": 0.11,
    "eval/solved_rate": None,
}


def paced(rounds=10, seconds=2.0, ended=4, max_seconds=None):
    pace = Pace(rounds, max_seconds)
    pace.started = 0.0
    for round in range(ended):
        pace.end(round, now=round * seconds)
    return pace


def test_the_pace_is_rounds_over_time():
    # rounds 0 to 3 ended at 0, 2, 4, 6 s: 3 rounds in 6 s = 0.5 a second; 7 rounds are left: 14 s
    pace = paced()
    assert pace.per_second == pytest.approx(0.5)
    assert pace.seconds_left == pytest.approx(14.0)


def test_the_time_limit_bounds_what_is_left():
    # 6 of 10 s are used, so 4 s are left whatever the rounds say
    assert paced(max_seconds=10.0).seconds_left == pytest.approx(4.0)


def test_one_round_says_nothing_about_the_pace():
    pace = paced(ended=1)
    assert pace.per_second is None and pace.seconds_left is None
    assert speed(pace) == "" and clock(pace.seconds_left) == "-:--"


def test_slow_rounds_are_told_in_seconds():
    assert speed(paced(seconds=2.0)) == "2.0 s/round"
    assert speed(paced(seconds=0.25)) == "4.00 rounds/s"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (61, "1:01"), (3599.7, "1:00:00"), (3723, "1:02:03")]
)
def test_a_clock_has_hours_only_where_there_are_some(seconds, text):
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.000"), (0.12345, "0.123"), (0.00012, "1.20e-04"), (5e3, "5.00e+03")]
)
def test_numbers_keep_three_digits(value, text):
    assert number(value) == text


def test_the_facts_of_a_round_leave_out_what_is_not_there():
    assert facts(ROW, "solved_rate") == [
        ("reward", "0.712"),
        ("solved", "0.500"),
        ("KL", "1.20e-04"),
        ("clipped", "0.000"),
        ("grad norm", "0.110"),
    ]
    assert facts({"round": 1, "loss": 2.5}, "solved_rate") == [("loss", "2.500")]


def test_a_plain_log_says_every_few_rounds_one_line(capsys):
    watcher = Plain(every=5, primary="solved_rate")
    for round in range(1, 11):
        watcher.show({**ROW, "round": round}, paced())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["5/10", "10/10"]
    assert lines[0] == (
        "round 5/10  reward 0.712  solved 0.500  KL 1.20e-04  clipped 0.000  grad norm 0.110  "
        "2.0 s/round  0:14 left"
    )


def test_a_plain_log_says_every_evaluation(capsys):
    Plain(every=100, primary="solved_rate").show({"round": 0, "eval/solved_rate": 0.25}, paced())
    assert capsys.readouterr().out == "round 0/10  eval solved 0.250\n"


def test_a_plain_log_breaks_a_long_silence(capsys, monkeypatch):
    watcher = Plain(every=100, primary="solved_rate")
    watcher.said -= progress.QUIET_SECONDS
    watcher.show(ROW, paced())
    watcher.show(ROW, paced())
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_watching_passes_the_rows_on_and_shows_each(capsys):
    rows = [{"round": 0}, {"round": 1}]
    said = []
    watcher = Plain(1, "solved_rate", said.append)
    assert list(progress.watch(iter(rows), watcher, Pace(1))) == rows
    assert [line.split("  ")[0] for line in said] == ["round 0/1", "round 1/1"]
    assert capsys.readouterr().out == ""


def test_watching_ends_the_display_when_the_run_fails():
    class Recorder(progress.Silent):
        ended = False

        def __exit__(self, *error):
            Recorder.ended = True

    def rows():
        yield {"round": 0}
        raise ValueError

    with pytest.raises(ValueError):
        list(progress.watch(rows(), Recorder(), Pace(1)))
    assert Recorder.ended


def test_the_live_bar_shows_numbers_and_keeps_evaluations(monkeypatch):
    import io

    from rich.console import Console

    text = io.StringIO()
    screen = Console(file=text, force_terminal=True, width=100)
    monkeypatch.setattr(out, "console", lambda: screen)
    monkeypatch.setattr(out, "say", lambda line: screen.print(line))
    monkeypatch.setattr(_sparkline, "has_blocks", lambda: True)
    pace = paced()
    with progress.Live(10, "solved_rate") as live:
        live.show({**ROW, "eval/solved_rate": 0.25}, pace)
        for round, reward in ((4, 0.8), (5, None), (6, 0.9)):
            live.show({"round": round, "reward": reward}, pace)
        live.show({**ROW, "reward": 0.71234}, pace)
        live.display.refresh()
    shown = text.getvalue()
    assert "3/10" in shown and "0:14 left" in shown and "reward 0.712" in shown
    assert "eval solved 0.250" in shown
    # 0.71234, 0.8, 0.9, 0.71234: lowest, 3.7 of 8 steps up, highest, lowest
    assert "▁▄█▁" in shown
