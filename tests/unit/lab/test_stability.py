import json
import math

import pytest

from dllmzoo.errors import UsageError
from dllmzoo.lab.card import result_card
from dllmzoo.lab.runs import Arm, Outcome, check_arms
from dllmzoo.lab.stability import (
    CONDITIONS,
    RIVALS,
    Options,
    drawing,
    named_tables,
    plot,
    run,
    tables,
    verdicts,
)  # fmt: skip
from dllmzoo.lab.stability.arms import CLAIMED, loss_of
from dllmzoo.lab.stability.binomial import at_most, exact_interval
from dllmzoo.lab.stability.cells import over_seeds, run_entry
from dllmzoo.lab.stability.collapse import signs
from dllmzoo.lab.stability.measure import curves, figures, quantile
from dllmzoo.lab.stability.report import number
from dllmzoo.lab.stability.verdict import holds, judge, late_difference

SMALL = (
    "train.rounds=2", "train.prompts=2", "train.group_size=2", "evaluate.every=1",
    "evaluate.examples=4", "evaluate.steps=2", "sampler.steps=2", "train.passes=2",
)  # fmt: skip


def rows(solved, norms=None, passes=4):
    """Metrics of a run that is evaluated every round."""
    norms = norms or [0.1] * (len(solved) - 1)
    found = [{"round": 0, "update": 0, "eval/solved_rate": solved[0]}]
    for i, (rate, norm) in enumerate(zip(solved[1:], norms, strict=True), 1):
        found.append(
            {
                "round": i,
                "update": passes * i,
                "reward": 0.5 + 0.01 * i,
                "grad_norm": norm,
                "grad_norm_max": 2 * norm,
                "log_ratio": -0.5,
                "log_ratio_std": float(i),
                "ratio_q99": 10.0 * i,
                "ratio_max": 100.0 * i,
                "ess_share": 0.5,
                "eval/solved_rate": rate,
                "time/elapsed": 2.0 * i,
            }
        )
    return found


def outcome(found, status="finished", name="base.grpo.0"):
    return Outcome(Arm(name, "stable_drl_sudoku"), status, "", found)


def entries(condition, arm, solved, stopped=0, failed=0):
    """One run a seed; the first `stopped` were stopped, the last `failed` failed."""
    found = []
    for seed, curve in enumerate(solved):
        status = "stopped" if seed < stopped else "finished"
        status = "failed" if seed >= len(solved) - failed else status
        found.append(run_entry(outcome(rows(curve), status), condition, arm, seed, "solved_rate"))
    return found


class TestCollapse:
    def test_a_steady_run_does_not_collapse(self):
        assert signs(rows([0.2, 0.19, 0.25, 0.3]), "solved_rate", stopped=False) == {}

    def test_three_low_evaluations_in_a_row_are_a_collapse_from_the_first_of_them(self):
        found = signs(rows([0.2, 0.09, 0.12, 0.09, 0.05, 0.01, 0.0]), "solved_rate", stopped=False)
        assert found == {"solved rate": 12}  # rounds 3, 4, 5; the one of round 1 was alone

    def test_exactly_half_is_not_below_half(self):
        assert signs(rows([0.2, 0.1, 0.1, 0.1]), "solved_rate", stopped=False) == {}

    def test_a_solved_rate_of_nothing_cannot_fall(self):
        assert signs(rows([0.0, 0.0, 0.0, 0.0]), "solved_rate", stopped=False) == {}

    def test_two_low_evaluations_are_no_collapse(self):
        assert signs(rows([0.2, 0.01, 0.01, 0.2]), "solved_rate", stopped=False) == {}

    def test_a_gradient_norm_above_a_thousand_times_the_first_is_a_collapse(self):
        # the first round's mean is 0.1; its largest 0.2; then 2 * 51 = 102 > 1e3 * 0.1
        found = signs(rows([0.2] * 4, [0.1, 49.0, 51.0]), "solved_rate", stopped=False)
        assert found == {"gradient": 12}

    def test_a_round_without_a_gradient_is_not_the_first_value(self):
        found = signs(rows([0.2] * 4, [0.0, 0.1, 0.2]), "solved_rate", stopped=False)
        assert found == {}

    @pytest.mark.parametrize("value", [math.inf, math.nan])
    def test_a_number_that_is_not_finite_is_a_collapse(self, value):
        found = rows([0.2] * 4)
        found[2]["ratio_max"] = value
        assert signs(found, "solved_rate", stopped=False) == {"not finite": 8}

    def test_a_refused_update_is_a_collapse_at_the_next_update(self):
        found = signs(rows([0.2] * 3), "solved_rate", stopped=True)
        assert found == {"not finite": 9}

    def test_a_run_stopped_before_its_first_row_collapsed_at_once(self):
        assert signs([], "solved_rate", stopped=True) == {"not finite": 1}

    def test_every_sign_is_told(self):
        found = signs(rows([0.2, 0.01, 0.01, 0.01], [0.1, 90, 1]), "solved_rate", stopped=True)
        assert found == {"not finite": 13, "gradient": 8, "solved rate": 4}

    def test_rows_without_evaluation_are_passed_over(self):
        found = rows([0.2, 0.01, 0.2, 0.01, 0.2, 0.01])
        for row in found[2::2]:
            row["eval/solved_rate"] = None
        assert signs(found, "solved_rate", stopped=False) == {"solved rate": 4}


class TestFigures:
    def test_figures_are_those_of_the_rows(self):
        found = figures(rows([0.2, 0.1, 0.3, 0.4, 0.2]), "solved_rate")
        assert (found["solved_first"], found["solved_last"], found["solved_low"]) == (0.2, 0.2, 0.1)
        assert found["solved_late"] == pytest.approx(0.3)  # after 12 and 16 of 16 updates
        assert found["reward_first"] == pytest.approx(0.51)  # a quarter of four rounds is one
        assert found["reward_last"] == pytest.approx(0.54)
        assert found["log_ratio_var"] == pytest.approx(7.5)  # (1 + 4 + 9 + 16) / 4
        assert (found["log_ratio_var_first"], found["log_ratio_var_last"]) == (1.0, 16.0)
        assert (found["grad_q50"], found["grad_max"], found["ratio_max"]) == (0.2, 0.2, 400.0)
        assert (found["kl"], found["updates"], found["seconds"]) == (0.5, 16, 8.0)

    def test_what_a_loss_does_not_report_is_none(self):
        found = figures(rows([0.2, 0.2]), "solved_rate")
        assert found["clipped"] is None
        assert found["drift"] is None

    def test_a_run_that_never_trained_has_figures(self):
        found = figures(rows([0.2]), "solved_rate")
        assert found["solved_first"] == 0.2
        assert found["grad_max"] is None
        assert figures([], "solved_rate")["updates"] == 0

    def test_numbers_that_are_not_finite_are_left_out(self):
        found = rows([0.2, 0.2, 0.2])
        found[1]["ratio_max"] = math.inf
        assert figures(found, "solved_rate")["ratio_max"] == 200.0
        assert curves(found, "solved_rate")[1]["ratio_max"] is None

    def test_a_quantile_is_the_value_of_the_nearest_rank(self):
        assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
        assert quantile([1.0, 2.0, 3.0, 4.0], 0.9) == 4.0  # rank 2.7
        assert quantile([], 0.5) is None


class TestInterval:
    @pytest.mark.parametrize(
        ("hits", "outof", "low", "high"),
        [(0, 5, 0.0, 0.5218), (5, 5, 0.4782, 1.0), (3, 10, 0.0667, 0.6525), (0, 0, 0.0, 1.0)],
    )
    def test_the_interval_is_clopper_and_pearsons(self, hits, outof, low, high):
        assert exact_interval(hits, outof) == pytest.approx((low, high), abs=1e-4)

    def test_its_ends_have_a_chance_of_a_fortieth(self):
        low, high = exact_interval(2, 7)
        assert at_most(2, 7, high) == pytest.approx(0.025)
        assert 1 - at_most(1, 7, low) == pytest.approx(0.025)


class TestCells:
    def test_failed_runs_count_nowhere(self):
        cell = over_seeds(entries("base", "grpo", [[0.2, 0.2]] * 4, stopped=2, failed=1))[0]
        assert (cell["seeds"], cell["failed"], cell["collapsed"]) == ([0, 1, 2], 1, 2)
        assert cell["signs"] == {"not finite": 2}
        assert cell["updates"] == 5

    def test_the_first_sign_dates_a_collapse_and_every_sign_is_counted(self):
        runs = entries("base", "grpo", [[0.2, 0.01, 0.01, 0.01]] * 2, stopped=1)
        cell = over_seeds(runs)[0]
        assert [run["collapsed"] for run in runs] == [4, 4]
        assert cell["signs"] == {"not finite": 1, "solved rate": 2}
        assert (cell["collapsed"], cell["updates"]) == (2, 4)

    def test_rates_are_averaged_and_extremes_kept(self):
        solved = [[0.2, 0.2, 0.3], [0.2, 0.1, 0.5]]
        found = over_seeds(entries("base", "stable_drl", solved))[0]["figures"]
        assert found["solved_late"] == pytest.approx(0.4)
        # deviation sqrt(0.02), over sqrt(2) seeds is 0.1; t of one degree is 12.7062
        assert found["solved_late_high"] == pytest.approx(0.4 + 1.27062)
        assert found["solved_low"] == 0.1


class TestVerdicts:
    STEADY, FALLEN = [0.2, 0.2, 0.25, 0.3, 0.3], [0.2, 0.05, 0.05, 0.05, 0.05]

    def judged(self, **arms):
        """Verdicts of base: how many of 5 seeds fell, by arm."""
        runs = []
        for arm, fallen in arms.items():
            runs += entries("base", arm, [self.FALLEN] * fallen + [self.STEADY] * (5 - fallen))
        return judge(runs, over_seeds(runs))

    def test_the_whole_claim_can_be_reproduced(self):
        said = self.judged(grpo=5, clip_only=4, sn_only=5, stable_drl=1)
        assert said[0].startswith("base: the claim that GRPO collapses, StableDRL does not, and")
        assert said[0].endswith("reproduced in every part")

    def test_parts_that_fail_are_named(self):
        said = self.judged(grpo=5, clip_only=0, sn_only=3, stable_drl=0)
        assert said[0].endswith(
            "reproduced for GRPO, conditional clip and StableDRL; "
            "not shown for clip only and self-normalisation only"
        )
        assert "base: clip only collapsed on 0 of 5 seeds" in said[2]
        assert "claimed: collapse: not shown" in said[2]

    def test_a_half_that_only_learns_less_is_reproduced_in_part(self):
        runs = entries("base", "stable_drl", [[0.2, 0.3, 0.3]] * 5)
        runs += entries("base", "clip_only", [[0.2, 0.2, 0.2 + 0.01 * seed] for seed in range(5)])
        # differences -0.1, -0.09, ... -0.06: mean -0.08, deviation 0.0158, t interval +- 0.0196
        said = judge(runs, over_seeds(runs))
        assert (
            "in part for clip only, which does not collapse but learns less" in said[0]
            and "late solved rate behind StableDRL's (-8.0 points, -10.0 to -6.0)" in said[2]
        )

    def test_arms_that_were_not_run_are_named(self):
        said = self.judged(grpo=5, stable_drl=0)
        assert said[0].endswith("; clip only and self-normalisation only not run")

    def test_nothing_reproduced_is_said_plainly(self):
        said = self.judged(grpo=3, stable_drl=2)
        assert "enough: not shown for GRPO, conditional clip and StableDRL; clip only" in said[0]

    def test_counts_come_with_interval_update_and_sign(self):
        said = self.judged(grpo=5, stable_drl=0)
        assert said[1].startswith(
            "base: GRPO, conditional clip collapsed on 5 of 5 seeds "
            "(95 % interval 48 to 100 %), in the median after 4 updates, signs: solved rate 5; "
            "claimed: collapse: reproduced; late solved rate behind StableDRL's"
        )

    def test_few_seeds_are_called_few(self):
        runs = entries("base", "grpo", [self.FALLEN] * 3)
        assert judge(runs, over_seeds(runs))[0].endswith("(3 seeds: an indication only)")

    def test_the_arm_without_a_ratio_has_no_claim(self):
        runs = entries("base", "policy_gradient", [self.STEADY] * 5)
        assert "claimed" not in judge(runs, over_seeds(runs))[1]

    def test_other_conditions_follow_in_a_line_each(self):
        runs = entries("base", "grpo", [self.FALLEN] * 5)
        runs += entries("clean", "grpo", [self.STEADY] * 5)
        assert judge(runs, over_seeds(runs))[-1] == (
            "clean: GRPO, conditional clip collapsed on 0 of 5 seeds"
        )

    def test_without_base_the_first_condition_is_judged(self):
        runs = entries("clean", "grpo", [self.STEADY] * 5)
        assert judge(runs, over_seeds(runs))[0].startswith("clean: the claim")
        assert judge([], []) == ["nothing was run, so nothing is shown"]

    def test_a_cell_of_failed_runs_says_nothing(self):
        runs = entries("base", "grpo", [self.FALLEN] * 2, failed=2)
        assert holds("grpo", over_seeds(runs)[0]) is None
        assert "was not run to an end on any seed" in judge(runs, over_seeds(runs))[1]

    def test_stopped_runs_keep_the_solved_rate_they_had(self):
        runs = entries("base", "grpo", [[0.2]] * 2, stopped=2)
        runs += entries("base", "stable_drl", [self.STEADY] * 2)
        assert late_difference("grpo", "stable_drl", "base", runs).value == pytest.approx(-0.1)


class TestGrid:
    def test_every_run_of_the_full_grid_is_a_checked_recipe(self, tmp_path):
        runs = Options(grid="full").runs()
        names = [arm.name for arm in runs]
        assert len(set(names)) == len(names) <= 200
        assert set(check_arms(runs[::12], tmp_path)) == set(names[::12])

    def test_the_quick_grid_is_part_of_the_full_one(self):
        quick, full = Options().runs(), Options(grid="full").runs()
        assert len(quick) == 10
        assert set(quick) <= set(full)

    def test_arms_differ_in_their_loss_alone(self):
        one, other = (CONDITIONS["base"].run(arm, 0) for arm in ("grpo", "stable_drl"))
        changed = set(one.overrides) ^ set(other.overrides)
        assert all(each.startswith("loss=") for each in changed)

    def test_the_two_halves_of_stable_drl_are_its_two_switches(self):
        whole, clip, normalise = (
            loss_of(arm, "sum") for arm in ("stable_drl", "clip_only", "sn_only")
        )
        assert whole | {"self_normalise": False} == clip
        assert whole | {"clip": False} == normalise

    def test_noise_wraps_the_arm(self):
        loss = loss_of("grpo", "token", noise={"noise": 2.0})
        assert loss["name"] == "perturbed"
        assert loss["noise"] == 2.0
        assert loss["inner"]["length_norm"] == "token"

    @pytest.mark.parametrize("condition", CONDITIONS.values(), ids=str)
    def test_a_condition_makes_as_many_updates_as_it_says(self, condition):
        changes = dict(c.split("=", 1) for c in condition.run("stable_drl", 3).overrides)
        rounds, passes = int(changes["train.rounds"]), int(changes["train.passes"])
        assert rounds * passes == condition.updates
        assert rounds / int(changes["evaluate.every"]) == 9
        assert changes["seed"] == "3"

    def test_names_choose_conditions_arms_and_seeds(self):
        options = Options(conditions=("sum", "noise-1"), arms=("sn_only",), seeds=2)
        assert [arm.name for arm in options.runs()] == [
            "sum.sn_only.0", "sum.sn_only.1", "noise-1.sn_only.0", "noise-1.sn_only.1",
        ]  # fmt: skip

    def test_an_unknown_name_is_answered_with_the_nearest(self):
        with pytest.raises(UsageError, match=r"no condition 'tokens'. Did you mean 'token'"):
            Options(conditions=("tokens",)).cells()
        with pytest.raises(UsageError, match=r"no arm 'gpro'. Did you mean 'grpo'"):
            Options(arms=("gpro",)).cells()

    def test_a_condition_that_changes_nothing_for_an_arm_is_refused(self):
        with pytest.raises(UsageError, match="eps-100 changes nothing but clip_only and stable"):
            Options(conditions=("eps-100",), arms=("grpo",)).cells()

    def test_no_seeds_are_refused(self):
        with pytest.raises(UsageError, match="--seeds must be 1 or more"):
            Options(seeds=0).cells()

    def test_every_condition_knows_its_arms(self):
        for condition in CONDITIONS.values():
            assert set(condition.arms) <= set(condition.only or RIVALS)
        assert set(CLAIMED) <= set(CONDITIONS["base"].arms)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.2054, "0.205"),
        (37.0, "37"),
        (1.42e19, "1.4e+19"),
        (123.4, "123"),
    ],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two arms, one seed, two rounds each, and the lines said on the way."""
    lines = []
    options = Options(
        seeds=1, changes=SMALL, jobs=1, output=tmp_path_factory.mktemp("lab") / "study"
    )
    return options, run(options, lines.append), lines


def test_a_study_of_two_arms_runs_to_its_tables(study):
    options, result, _ = study
    assert [each["name"] for each in result["runs"]] == ["base.grpo.0", "base.stable_drl.0"]
    stable = result["runs"][1]
    assert stable["status"] == "finished"
    assert stable["figures"]["updates"] == 4
    assert stable["figures"]["drift"] > 0
    assert 0 < stable["figures"]["ess"] <= 1
    assert stable["figures"]["clipped"] <= 6.0 + 1e-6
    assert json.loads((options.output / "stability.json").read_text()) == result
    for headers, lines, _ in tables(result):
        assert lines
        assert all(len(line) == len(headers) for line in lines)


def test_a_study_goes_on_where_it_stopped(study):
    options, result, _ = study
    said = []
    again = run(options, said.append)
    assert again["runs"] == result["runs"]
    assert said == ["2 of 2 runs are done already"]


def test_a_changed_loss_is_not_worth_a_note(study):
    assert not [line for line in study[2] if line.startswith("note: loss")]


def test_a_study_has_what_a_card_is_made_of(study, tmp_path):
    result = study[1]
    headers, lines, title = named_tables(result)["collapses"]
    card = result_card(
        "small-study", title, "dllmzoo lab stability", headers, lines, recipes=result["recipes"],
        seeds=result["seeds"], verdicts=verdicts(result),
    )  # fmt: skip
    assert card.recipes == ("stable_drl_sudoku",)
    assert card.seeds == (0,)
    assert card.verdicts[0].startswith("base: the claim that GRPO collapses")
    assert result["failed"] == {}


def test_a_run_that_fails_is_named_and_counts_nowhere(study, tmp_path, monkeypatch):
    def failing(arms, folder, jobs, *, say):
        folder.mkdir()
        return [Outcome(arm, "failed", "out of luck", []) for arm in arms]

    monkeypatch.setattr("dllmzoo.lab.stability.run_arms", failing)
    result = run(Options(seeds=1, output=tmp_path / "failed"))
    assert result["failed"] == {
        "base.grpo.0": "out of luck", "base.stable_drl.0": "out of luck",
    }  # fmt: skip
    assert [cell["seeds"] for cell in result["cells"]] == [[], []]
    assert tables(result)


def test_one_condition_gets_all_its_curves(study, tmp_path):
    pytest.importorskip("matplotlib")
    assert plot(study[1], tmp_path / "one.svg") == [tmp_path / "one.svg"]
    text = (tmp_path / "one.svg").read_text()
    for panel in (*drawing.SHORT, *drawing.LONG):
        assert panel.title in text
    assert "StableDRL" in text
    assert "base: masks of their own" in text


def test_of_several_conditions_each_gets_a_figure_beside_the_main_one(study, tmp_path, monkeypatch):
    drawn = {}

    def draw(runs, rows, stem):
        drawn[stem.name] = [(name, len(panels)) for name, panels in rows]
        return stem

    monkeypatch.setattr(drawing, "_draw", draw)
    other = [{**each, "condition": "token"} for each in study[1]["runs"]]
    files = plot({"runs": [*study[1]["runs"], *other]}, tmp_path / "curves")
    assert [file.name for file in files] == ["curves", "curves_base", "curves_token"]
    assert drawn["curves"] == [("base", 4)]
    assert drawn["curves_token"] == [("token", 4), ("token", 4)]


def test_nothing_cannot_be_plotted(tmp_path):
    with pytest.raises(UsageError, match="no runs to plot"):
        plot({"runs": []}, tmp_path / "x.svg")
