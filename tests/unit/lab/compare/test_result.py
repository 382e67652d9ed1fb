"""Numbers, tables, sentences and figures of a comparison that never ran."""

import json
from types import SimpleNamespace

import pytest

from dllmzoo import SAMPLERS
from dllmzoo.errors import RunError
from dllmzoo.lab import compare
from dllmzoo.lab.compare.contest import Contestant
from dllmzoo.lab.compare.options import Options
from dllmzoo.lab.compare.result import compared, further_steps, mean_curves
from dllmzoo.lab.runs import Arm, Outcome
from tests.unit.lab.small import rows


def contestant(label, sampler="low_confidence"):
    recipe = SimpleNamespace(
        task=SimpleNamespace(primary="solved_rate"), method="m", stage="rl",
        evaluate=SimpleNamespace(examples=64, steps=8, sampler=None),
        sampler=SAMPLERS.get(sampler)(answer_length=16, block_length=16, steps=4),
        train=SimpleNamespace(prompts=2, group_size=4),
    )  # fmt: skip
    return Contestant(label, f"{label}.yaml", (), recipe, 10.0, 10.0)


def outcome(label, seed, *scores, status="finished", flops=10.0):
    found = rows(*scores, flops=flops)
    for steps in (4, 16):
        found[0][f"eval/steps{steps}/solved_rate"] = 0.05
        if status == "finished":
            found[-1][f"eval/steps{steps}/solved_rate"] = scores[-1] - 0.1
    message = "" if status == "finished" else "not finite"
    return Outcome(Arm(f"{label},seed={seed}", f"{label}.yaml"), status, message, found)


ALL = [
    outcome("a", 0, 0.1, 0.3, 0.50), outcome("a", 1, 0.1, 0.2, 0.52),
    outcome("b", 0, 0.1, 0.2, 0.40), outcome("b", 1, 0.1, 0.3, 0.42),
    outcome("c", 0, 0.1, 0.45, 0.44, flops=15.0), outcome("c", 1, 0.1, 0.05, status="stopped"),
]  # fmt: skip


@pytest.fixture
def result():
    found = [contestant(label) for label in "bca"]
    rates = dict.fromkeys("abc", 1e-4)
    options = Options(recipes=("a", "b", "c"), budget_flops=20.0, seeds=2)
    return compared(found, rates, ALL, options) | {"tuning": None}


def test_methods_come_best_first_with_means_over_seeds(result):
    assert [method["label"] for method in result["methods"]] == ["a", "b", "c"]
    a = result["methods"][0]
    # (0.50 + 0.52) / 2, gains 0.40 and 0.42
    assert a["final"]["value"] == pytest.approx(0.51)
    assert a["gain"]["value"] == pytest.approx(0.41)
    assert (a["flops"], a["samples"], a["updates"], a["seconds"]) == (20.0, 16.0, 2.0, 2.0)
    assert a["rounds"] == 2


def test_the_score_of_a_stopped_run_is_its_last_one(result):
    c = result["methods"][2]
    assert [run["final"] for run in c["runs"]] == [0.44, 0.05]
    assert c["at_steps"]["4"]["number"] == 1


def test_the_cost_is_that_of_the_first_evaluation_at_80_percent_of_the_best(result):
    # 0.8 * 0.51 = 0.408: c gets there after one round of 15 FLOPs, b on one seed only
    assert result["target"] == pytest.approx(0.408)
    reach = {method["label"]: method["reach"] for method in result["methods"]}
    assert [hit["flops"] for hit in reach["a"]] == [20.0, 20.0]
    assert reach["b"][0] is None and reach["b"][1]["samples"] == 16
    assert reach["c"] == [{"flops": 15.0, "samples": 8, "updates": 1, "seconds": 1.0}, None]


def test_every_pair_has_a_verdict(result):
    # a - b: 0.10 and 0.10: no spread at all
    pairs = {(pair["one"], pair["other"]): pair for pair in result["pairs"]}
    assert pairs["a", "b"]["verdict"] == "higher"
    assert pairs["a", "c"]["verdict"] == "not told apart"
    assert len(pairs) == 3


def test_numbers_survive_json(result):
    assert json.loads(json.dumps(result)) == result


def test_curves_are_means_and_a_stopped_run_keeps_its_last_score(result):
    curves = mean_curves(result)["methods"]
    # a after round 1: (0.3 + 0.2) / 2
    assert [point["mean"] for point in curves["a"]] == pytest.approx([0.1, 0.25, 0.51])
    last = curves["c"][-1]
    assert last["values"] == [0.44, 0.05] and last["flops"] == 30.0


def test_a_method_with_a_failed_run_is_left_out_and_said():
    found = [contestant("a"), contestant("b")]
    outcomes = [*ALL[:3], Outcome(Arm("b,seed=1", "b.yaml"), "failed", "no memory", [])]
    options = Options(recipes=("a", "b"), budget_flops=20.0, seeds=2)
    result = compared(found, {"a": 1.0, "b": 1.0}, outcomes, options) | {"tuning": None}
    assert [method["label"] for method in result["methods"]] == ["a"]
    assert result["failed"] == {"b": "b,seed=1: no memory"}
    assert compare.verdicts(result)[-1] == "Failed and left out: b."
    assert "pairs" not in compare.named_tables(result)
    with pytest.raises(RunError, match="every method failed"):
        compared(found[1:], {"b": 1.0}, outcomes, options)


def test_steps_besides_the_main_ones_are_half_and_twice_within_the_answer():
    found = [contestant("a")]
    assert further_steps(found, None) == (4, 16)
    assert further_steps(found, (16, 2, 8)) == (2, 16)
    found[0].recipe.evaluate.steps = 16
    assert further_steps(found, None) == (8,)
    found[0].recipe.evaluate.steps = None  # the sampler's own, 4
    assert further_steps(found, None) == (2, 8)


def test_tables_say_it_all_in_text(result):
    tables = compare.named_tables(result)
    assert list(tables) == ["scores", "steps", "reach", "pairs"]
    headers, lines, title = tables["scores"]
    assert "64 held-out examples with 8 denoising steps, after 20 FLOPs, 2 seeds" in title
    row = dict(zip(headers, lines[0], strict=True))
    # t with 1 degree 12.706, deviation 0.0141: 0.51 -+ 0.127
    assert (row["final"], row["95 % (t)"], row["gain"]) == ("0.510", "0.383 to 0.637", "+0.410")
    assert lines[2][-1] == "1"  # stopped
    for headers, lines, _ in tables.values():
        assert lines and all(len(line) == len(headers) for line in lines)
        assert all(isinstance(cell, str) for line in lines for cell in line)
    assert tables["reach"][1][1][1] == "1 of 2"
    assert compare.tables(result) == list(tables.values())


def test_rates_are_a_table_where_there_was_a_search(result):
    tuning = {
        "metric": "solved_rate", "seed": 1000, "budget_flops": 20.0, "rates": {"a": 1e-4},
        "edge": ["a"], "table": [
            {"recipe": "a", "factor": 1, "lr": 1e-4, "status": "finished", "last": 0.5},
            {"recipe": "a", "factor": 2, "lr": 2e-4, "status": "failed", "last": None},
        ],
    }  # fmt: skip
    _, lines, title = compare.named_tables(result | {"tuning": tuning})["rates"]
    assert lines[0][-1] == "chosen, outermost" and lines[1][4:] == ("", "")
    assert "seed 1000" in title


def test_sentences_name_the_best_the_rest_and_what_went_wrong(result):
    assert compare.verdicts(result) == (
        "a has the highest mean solved_rate, 0.510, at 20 FLOPs.",
        "Not told apart from it: c.",
        "Below it: b.",
        "Of 3 pairs 1 are told apart at 95 % each, with no correction for their number: about "
        "0.2 would be by chance alone.",
        "Stopped by a health check on some seed: c.",
    )


def test_samplers_of_their_own_are_told():
    found = [contestant("a"), contestant("b", "random_order")]
    options = Options(recipes=("a", "b"), budget_flops=20.0, seeds=2)
    result = compared(found, {"a": 1.0, "b": 1.0}, ALL[:4], options) | {"tuning": None}
    said = (
        "Evaluated with samplers of their own, each greedy: low_confidence (a); random_order (b)."
    )
    assert said in compare.verdicts(result)


def test_up_to_eight_methods_share_one_figure(result, tmp_path):
    assert compare.plot(result, tmp_path / "curves.svg") == [tmp_path / "curves.svg"]
    text = (tmp_path / "curves.svg").read_text()
    assert all(f">{label}<" in text for label in "abc")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"


def test_more_methods_get_a_panel_each_against_every_cost(result, tmp_path):
    many = [{**result["methods"][0], "label": f"method{i}"} for i in range(9)]
    files = compare.plot({**result, "methods": many}, tmp_path / "curves")
    assert [file.name for file in files] == [
        "curves.svg", "curves_samples.svg", "curves_updates.svg", "curves_seconds.svg",
    ]  # fmt: skip
    assert "9. method8" in files[0].read_text()


def test_the_same_numbers_are_the_same_figure(result, tmp_path):
    compare.plot(result, tmp_path / "one")
    compare.plot(result, tmp_path / "two")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
