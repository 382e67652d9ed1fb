"""A run folder as the data of a page."""

import gzip
import json
import warnings

import pytest

from dllmzoo.errors import UsageError
from dllmzoo.lab.figure import COLOURS, figure
from dllmzoo.report.answers import changed, table
from dllmzoo.report.collect import collect, names
from dllmzoo.report.figures import panels
from dllmzoo.report.page import page
from dllmzoo.report.traces import by_step, chosen, fitting, read_lines, read_run, spread
from tests.unit.report import made


def test_the_prompts_whose_answers_differ_most_are_shown():
    rewards = [(0, 0.5), (0, 0.5), (1, 0.0), (1, 0.4), (1, 1.0), (2, 0.3), (2, 0.5)]
    lines = [made.sudoku_line(group=g, sample=s, reward=r) for s, (g, r) in enumerate(rewards)]
    found = chosen(lines, groups=2, answers=2)
    pairs = [(line["group"], line["reward"]) for line in found]
    assert pairs == [(1, 1.0), (1, 0.0), (2, 0.5), (2, 0.3)]


def test_a_reward_without_a_value_ranks_last():
    lines = [made.sudoku_line(reward=None), made.sudoku_line(reward=0.2, sample=1)]
    assert [line["sample"] for line in chosen(lines)] == [1, 0]


def test_values_are_spread_with_both_ends():
    assert spread([1, 2, 3, 4, 5], 3) == [1, 3, 5]
    assert spread([1, 2], 3) == [1, 2] and spread([1, 2, 3], 1) == [3]


def test_entropy_and_choices_are_means_by_step():
    lines = [
        {"reveal": [0, 0, 1, -1], "entropy": [0.1, 0.3, 0.5, 9.0],
         "steps": [{"start": 0, "stop": 2, "weight": 1.0}, {"start": 2, "stop": 3, "weight": 0.0}]},
        {"reveal": [1], "entropy": [0.7], "steps": [{"start": 1, "stop": 2, "weight": 1.0}]},
    ]  # fmt: skip
    # step 0: (0.1 + 0.3) / 2; step 1: (0.5 + 0.7) / 2; chosen by one and by both
    assert by_step(lines) == {"entropy": [0.2, 0.6], "chosen": [0.5, 1.0]}


def test_as_many_answers_are_shown_as_there_is_room_for():
    traces = [{"text": "x" * 100, "n": n} for n in range(5)]
    size = len(json.dumps(traces[0]))
    assert [t["n"] for t in fitting(traces, 3 * size)] == [0, 2, 4]
    assert fitting(traces, 0) == [traces[-1]]
    assert fitting([], 10) == []


def test_files_at_even_distances_are_read_and_a_damaged_one_is_passed_over(tmp_path):
    rollouts = {round: [made.sudoku_line()] for round in range(1, 14)}
    run = made.run(tmp_path / "run", 13, rollouts=rollouts)
    (run / "rollouts" / "000013.jsonl.gz").write_bytes(b"not gzip")
    found = read_run(run, budget=10**6, rounds=3)
    assert found["files"] == [3, 13] and found["seen"] == 2
    assert [trace["round"] for trace in found["traces"]] == [1, 7]
    assert "answer_ids" not in found["traces"][0]


def test_what_training_writes_is_what_the_viewer_reads():
    from tests.unit.training.test_rollouts import logged

    found, seen, _ = logged(advantage=("stepwise_one_shot", {"guesses": 2}))
    for b, line in enumerate(found):
        assert len(line["tokens"]) == len(line["reveal"])
        assert "".join(line["tokens"]).startswith(line["answer"])
        assert line["num_steps"] == seen.rollout.num_steps == len(line["block_entropy"]) == 3
        assert line["block_entropy"] == pytest.approx(
            seen.rollout.block_entropy_BT[b].tolist(), abs=1e-6
        )


def test_names_are_as_short_as_they_can_be(tmp_path):
    assert names([tmp_path / "a", tmp_path / "b"]) == ["a", "b"]
    assert names([tmp_path / "x" / "a", tmp_path / "y" / "a"]) == ["x/a", "y/a"]


def test_what_is_no_run_and_what_comes_twice_is_refused(tmp_path):
    with pytest.raises(UsageError, match="holds no run"):
        collect([tmp_path])
    run = made.run(tmp_path / "run")
    with pytest.raises(UsageError, match="given twice"):
        collect([run, tmp_path / "." / "run"])


def test_many_runs_share_the_points_of_a_page(tmp_path):
    words = {"keys": ["reward"], "every": 1000, "rollouts": {}}
    runs = [made.run(tmp_path / str(n), 399, **words) for n in range(10)]
    assert collect(runs[:5])["runs"][0]["bin"] == 1  # 2000 / 5 = 400 points for 400 rows
    shared = collect(runs)["runs"][0]  # 200 points each
    assert shared["bin"] == 2 and len(shared["columns"]["round"]) == 201  # round 0 is alone
    assert "the mean of up to 2 rounds" in page(collect(runs), title="many")


def test_a_run_that_has_only_begun_has_a_page(tmp_path):
    run = made.run(tmp_path / "run", 0, rollouts={}, finished=False)
    (run / "metrics.jsonl").unlink()
    data = collect([run])
    assert data["runs"][0]["state"] == "not finished" and data["charts"] == []
    assert "made by hand" in page(data, title="begun")


def test_rates_gains_and_flips_are_counted(tmp_path):
    rows = table({"start": {"8": [0, 1, 0, 1]}, "end": {"8": [1, 1, 1, 0], "None": [1]}})
    start, end, own = rows
    assert (start["rate"], end["rate"], end["gain"]) == (0.5, 0.75, 0.25)
    assert (end["improved"], end["worse"]) == (2, 1)
    assert own["steps"] == "the sampler's own" and "gain" not in own
    assert start["low"] < 0.5 < start["high"]


def test_answers_that_changed_come_with_their_neighbours(tmp_path):
    run = made.run(tmp_path / "run")
    assert changed(run) is None
    made.kept(run, "start", [made.WRONG, made.SOLVED], [False, True])
    made.kept(run, "end", [made.SOLVED, made.WRONG], [True, False])
    assert changed(run) is None, "the end is one that a resumed run has gone beyond"
    made.outcomes(run, [0, 1], [1, 0])
    found = changed(run)
    assert (found["num_improved"], found["num_worse"], found["examples"]) == (1, 1, 2)
    (better,) = found["improved"]
    assert (better["before"], better["after"]) == (made.WRONG, made.SOLVED)
    assert (better["reward_before"], better["reward_after"]) == (0.25, 1.0)


def test_kept_answers_are_those_that_the_report_reads(tmp_path):
    from dllmzoo.training.evaluate import Evaluation
    from dllmzoo.training.kept_answers import keep_answers
    from tests.unit.training.small import Digits

    task = Digits()
    examples = task.test(2)
    for when, texts in (("start", ["000000", "444444"]), ("end", ["444444", "444444"])):
        result = Evaluation({}, [text[0] == "4" for text in texts], texts, examples, 1)
        keep_answers(tmp_path, when, task, result)
    made.outcomes(tmp_path, [0, 1], [1, 1])
    (moved,) = changed(tmp_path)["improved"]
    assert (moved["reward_before"], moved["reward_after"]) == (0.0, 1.0)
    assert moved["prompt"] == task.prompt(examples[0])


def test_figures_hold_what_moves(tmp_path):
    runs = [made.run(tmp_path / name, 3, keys=["reward", "kl"], rollouts={}) for name in "ab"]
    rows = (runs[1] / "metrics.jsonl").read_text().splitlines()
    still = [json.dumps({**json.loads(row), "kl": 0.5}) for row in rows]
    for run in runs:
        (run / "metrics.jsonl").write_text("\n".join(still) + "\n")
    found = {panel.name: panel for panel in panels(collect(runs))}
    assert set(found) == {"reward", "updates"}
    assert [line["label"] for line in found["reward"].lines] == ["a", "b"]
    assert found["reward"].lines[0]["x"] == [0, 1, 2, 3]


def test_lines_of_a_file_are_read_as_written(tmp_path):
    file = tmp_path / "000001.jsonl.gz"
    file.write_bytes(gzip.compress('{"answer": "é"}\n'.encode()))
    assert read_lines(file) == [{"answer": "é"}]


def test_a_figure_has_room_for_its_axes_whatever_its_legend_says(tmp_path):
    names = [f"egspo_sa_sudoku,clip_low=0.2,seed={n}" for n in range(4)]
    keys = ["ratio", "ratio_q01", "ratio_q50", "ratio_q99", "ratio_max"]
    runs = [made.run(tmp_path / name, 3, keys=keys, rollouts={}) for name in names]
    panel = next(each for each in panels(collect(runs)) if each.name == "ratio_quantiles")
    assert len(panel.lines) == 20
    drawn = tmp_path / "drawn"
    with warnings.catch_warnings(action="error"), figure(drawn, *panel.size) as page:
        axes = page.subplots()
        panel.draw(axes, COLOURS)
    box = axes.get_window_extent()  # 2.6 inches of 100 dots, less the title and the labels
    assert box.height > 150 and box.width > 200
