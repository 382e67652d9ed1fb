"""Rows into columns: torn lines, thinning, numbers that JSON cannot hold."""

import json

import pytest

from dllmzoo.report.keys import OTHER, charts
from dllmzoo.report.rows import columns, read_rows
from dllmzoo.report.settings import differences, flat
from tests.docs.metrics_table import documented
from tests.unit.report import made


def test_a_torn_last_line_is_left_out(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"round": 0}\n{"round": 1, "reward": 0.5}\n{"round": 2, "rew')
    assert read_rows(file) == [{"round": 0}, {"round": 1, "reward": 0.5}]
    assert read_rows(tmp_path / "missing.jsonl") == []


def test_few_rounds_are_kept_as_they_are():
    rows = [{"round": 0, "kl": float("nan")}, {"round": 1, "kl": 0.123456789}]
    assert columns(rows) == ({"round": [0, 1], "kl": [None, 0.123457]}, 1)


def test_many_rounds_are_drawn_in_bins_that_end_at_evaluations():
    rows = [{"round": r, "reward": r, "ratio_max": r, "ratio_q01": r} for r in range(8)]
    rows[2]["eval/solved_rate"] = 0.25
    found, size = columns(rows, points=2)
    # bins of 4, cut after round 2: rounds 0 to 2, 3 to 6, 7
    assert size == 4
    assert found["round"] == [2, 6, 7]
    assert found["reward"] == [1, 4.5, 7]
    assert found["ratio_max"] == [2, 6, 7] and found["ratio_q01"] == [0, 3, 7]
    assert found["eval/solved_rate"] == [0.25, None, None]


def test_evaluations_of_every_round_do_not_undo_the_bins():
    rows = [{"round": r, "eval/solved_rate": 0.5} for r in range(1000)]
    assert len(columns(rows, points=100)[0]["round"]) == 100


def test_every_documented_key_has_its_chart():
    keys = made.metric_keys()
    assert len(keys) >= 60
    groups = charts([*keys, "eval/solved_rate_low", "eval/solved_rate_high"])
    drawn = [
        line["key"] for group in groups for chart in group["charts"] for line in chart["lines"]
    ]
    assert sorted(drawn) == sorted(set(keys) - {"round"})
    assert OTHER not in [group["title"] for group in groups]


@pytest.mark.parametrize("key", ["lr", "kl", "grad_norm", "reward", "ess_share", "clip_fraction"])
def test_a_chart_has_the_unit_of_the_documentation(key):
    unit = documented()[key][0]
    (chart,) = [chart for group in charts([key]) for chart in group["charts"]]
    assert chart["unit"] == ("" if unit == "1" else unit)


def test_keys_of_a_loss_of_ones_own_are_drawn_too():
    (group,) = charts(["temperature_used"])
    assert group["title"] == OTHER and group["charts"][0]["lines"][0]["key"] == "temperature_used"


def test_an_interval_belongs_to_its_metric():
    (group,) = charts(["eval/a", "eval/a_low", "eval/a_high", "eval/steps4/a", "eval/steps8/a"])
    one, other = group["charts"]
    assert one["lines"] == [
        {"key": "eval/a", "label": "eval", "low": "eval/a_low", "high": "eval/a_high"}
    ]
    assert [line["label"] for line in other["lines"]] == ["4 steps", "8 steps"]


def test_recipes_are_compared_key_by_key():
    one = {"title": "x", "seed": 0, "loss": {"name": "a", "clip": 0.2}, "lora": None}
    other = {"title": "y", "seed": 0, "loss": {"name": "b"}, "lora": {"rank": 8}}
    assert differences([one, other]) == [
        {"key": "loss.name", "values": ["a", "b"]},
        {"key": "loss.clip", "values": ["0.2", None]},
        {"key": "lora", "values": ["null", None]},
        {"key": "lora.rank", "values": [None, "8"]},
    ]
    assert differences([one, one]) == []
    assert flat({"a": {"b": [1, True, None]}}) == {"a.b": "[1, true, null]"}
    assert json.loads(json.dumps(flat(one)))["seed"] == "0"
