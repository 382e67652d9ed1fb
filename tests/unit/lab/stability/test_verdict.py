import pytest

from dllmzoo.lab.stability.cells import over_seeds
from dllmzoo.lab.stability.verdict import holds, judge, late_difference
from tests.unit.lab.stability.made import entries

STEADY, FALLEN = [0.2, 0.2, 0.25, 0.3, 0.3], [0.2, 0.05, 0.05, 0.05, 0.05]


def judged(**arms):
    """Verdicts of base: how many of 5 seeds fell, by arm."""
    runs = []
    for arm, fallen in arms.items():
        runs += entries("base", arm, [FALLEN] * fallen + [STEADY] * (5 - fallen))
    return judge(runs, over_seeds(runs))


def test_the_whole_claim_can_be_reproduced():
    said = judged(grpo=5, clip_only=4, sn_only=5, stable_drl=1)
    assert said[0].startswith("base: the claim that GRPO collapses, StableDRL does not, and")
    assert said[0].endswith("reproduced in every part")


def test_parts_that_fail_are_named():
    said = judged(grpo=5, clip_only=0, sn_only=3, stable_drl=0)
    assert said[0].endswith(
        "reproduced for GRPO, conditional clip and StableDRL; "
        "not shown for clip only and self-normalisation only"
    )
    assert "base: clip only collapsed on 0 of 5 seeds" in said[2]
    assert "claimed: collapse: not shown" in said[2]


def test_a_half_that_only_learns_less_is_reproduced_in_part():
    runs = entries("base", "stable_drl", [[0.2, 0.3, 0.3]] * 5)
    runs += entries("base", "clip_only", [[0.2, 0.2, 0.2 + 0.01 * seed] for seed in range(5)])
    # differences -0.1, -0.09, ... -0.06: mean -0.08, deviation 0.0158, t interval +- 0.0196
    said = judge(runs, over_seeds(runs))
    assert (
        "in part for clip only, which does not collapse but learns less" in said[0]
        and "late solved rate behind StableDRL's (-8.0 points, -10.0 to -6.0)" in said[2]
    )


def test_arms_that_were_not_run_are_named():
    said = judged(grpo=5, stable_drl=0)
    assert said[0].endswith("; clip only and self-normalisation only not run")


def test_nothing_reproduced_is_said_plainly():
    said = judged(grpo=3, stable_drl=2)
    assert "enough: not shown for GRPO, conditional clip and StableDRL; clip only" in said[0]


def test_counts_come_with_interval_update_and_sign():
    said = judged(grpo=5, stable_drl=0)
    assert said[1].startswith(
        "base: GRPO, conditional clip collapsed on 5 of 5 seeds "
        "(95 % interval 48 to 100 %), in the median after 4 updates, signs: solved rate 5; "
        "claimed: collapse: reproduced; late solved rate behind StableDRL's"
    )


def test_few_seeds_are_called_few():
    runs = entries("base", "grpo", [FALLEN] * 3)
    assert judge(runs, over_seeds(runs))[0].endswith("(3 seeds: an indication only)")


def test_the_arm_without_a_ratio_has_no_claim():
    runs = entries("base", "policy_gradient", [STEADY] * 5)
    assert "claimed" not in judge(runs, over_seeds(runs))[1]


def test_other_conditions_follow_in_a_line_each():
    runs = entries("base", "grpo", [FALLEN] * 5)
    runs += entries("clean", "grpo", [STEADY] * 5)
    assert judge(runs, over_seeds(runs))[-1] == (
        "clean: GRPO, conditional clip collapsed on 0 of 5 seeds"
    )


def test_without_base_the_first_condition_is_judged():
    runs = entries("clean", "grpo", [STEADY] * 5)
    assert judge(runs, over_seeds(runs))[0].startswith("clean: the claim")
    assert judge([], []) == ["nothing was run, so nothing is shown"]


def test_a_cell_of_failed_runs_says_nothing():
    runs = entries("base", "grpo", [FALLEN] * 2, failed=2)
    assert holds("grpo", over_seeds(runs)[0]) is None
    assert "was not run to an end on any seed" in judge(runs, over_seeds(runs))[1]


def test_stopped_runs_keep_the_solved_rate_they_had():
    runs = entries("base", "grpo", [[0.2]] * 2, stopped=2)
    runs += entries("base", "stable_drl", [STEADY] * 2)
    assert late_difference("grpo", "stable_drl", "base", runs).value == pytest.approx(-0.1)
