"""Every behaviour learned from public bug reports (S1 to S56) has a test that is there."""

import ast
import functools
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LETTERS = {"a": range(1, 11), "b": range(11, 17), "c": range(17, 25), "d": range(25, 33),
           "e": range(33, 45), "f": range(45, 57)}  # fmt: skip

SAMPLING = "unit/samplers/test_semi_autoregressive.py"

ELSEWHERE = {
    1: SAMPLING + "::test_s1_padding_and_neighbours_change_nothing",
    2: "unit/training/test_loop.py::test_the_score_of_every_step_is_what_the_sampler_recorded",
    3: SAMPLING + "::test_s3_a_prompt_may_hold_end_tokens_that_are_real",
    4: SAMPLING + "::test_s4_the_split_into_batches_changes_nothing",
    5: "property/test_block_sampler.py::test_the_cache_changes_nothing",
    6: "unit/test_checks_of_models.py::test_the_mask_of_config_and_tokenizer_must_be_one",
    15: "unit/cli/test_evaluate.py::test_options_change_what_is_asked_and_say_what_differs",
    17: "property/test_first_ratio.py::test_the_first_ratio_is_1_for_every_split",
    18: "unit/training/test_update.py::test_the_micro_batch_changes_no_weight",
    21: "unit/advantages/test_group_advantages.py::test_equal_rewards_give_exactly_zero",
    22: "unit/test_checks.py::test_a_group_of_one_is_answered_with_the_nearest_numbers",
    23: "unit/cli/test_train.py::test_the_dry_run_says_what_a_round_costs_and_leaves_nothing",
    30: "e2e/test_many_processes.py::"
    "test_two_processes_that_share_the_parameters_compute_what_one_does",
    32: "unit/training/test_preflight.py::test_memory_by_hand",
    33: "unit/tasks/test_rewards.py::test_one_value_for_six_answers_is_refused_with_both_counts",
    36: "unit/tasks/test_numbers.py::test_a_stated_number_is_read",
    37: "property/test_math_answers.py::test_the_truth_table_in_a_worker_thread",
    38: "unit/tasks/test_countdown.py::test_the_table_of_wrong_and_right",
    39: "unit/tasks/test_sudoku_grade.py::"
        "test_a_changed_clue_costs_everything_but_the_released_reward",
    41: "unit/tasks/test_question_task.py::test_ways_of_extraction_are_shares_of_all_texts",
    42: "unit/training/test_evaluate.py::"
        "test_each_example_counts_once_whatever_the_number_of_processes",
    45: "unit/cli/test_check.py::test_six_mistakes_are_six_problems_with_line_and_column",
    50: "unit/test_registry.py::test_two_claimants_are_both_named_with_file_and_line",
    56: "e2e/test_processes.py::test_ctrl_c_finishes_the_round_saves_and_exits_130",
}  # fmt: skip
"""Scenarios that a test of their component covers, where `e2e/test_scenarios_*.py` adds nothing."""

AS_WELL = (
    "property/test_llada.py::test_a_row_is_the_same_alone_and_padded_on_any_side_among_others",
    "unit/samplers/test_block_diffusion.py::test_an_end_token_of_the_prompt_stops_nothing",
    "unit/training/test_prompts.py::test_padding_is_told_by_the_mask_not_by_the_token",
    "property/test_block_sampler.py::test_rows_alone_and_behind_padding",
    "unit/models/test_load.py::test_the_all_mask_forward_uses_the_masks_embedding",
    "unit/samplers/test_infill.py::test_only_blanks_are_filled_and_the_rest_stays",
    "unit/training/test_every_recipe.py::"
    "test_a_pass_uses_its_own_plan_and_random_plans_draw_fresh_masks",
    "unit/advantages/test_pass_rate_filter.py::"
    "test_prompts_outside_the_limits_get_nothing_and_the_others_the_inner_advantage",
    "unit/test_checks.py::test_minibatches_hold_whole_groups",
    "unit/training/test_export.py::test_what_is_written_is_compared_with_what_was_trained",
    "e2e/test_processes.py::test_kill_9_and_resume_give_the_bits_of_an_uninterrupted_run",
    "unit/models/test_lora.py::test_merged_weights_have_the_public_names",
    SAMPLING + "::test_only_masked_slots_of_the_active_block_go_through_the_head",
    "unit/tasks/test_rewards.py::test_a_timeout_counts_as_zero_and_stops_nothing",
    "unit/tasks/test_boxed.py::test_braces_are_matched",
    "property/test_math_answers.py::test_the_truth_table_in_a_subprocess",
    "unit/tasks/test_symbolic.py::test_a_slow_comparison_is_cut_and_the_next_one_is_right",
    "unit/tasks/test_math500.py::test_timeouts_are_counted_apart_from_wrong_answers",
    "unit/tasks/test_arithmetic.py::test_anything_else_is_no_expression",
    "unit/tasks/test_sudoku_grade.py::test_the_strict_parser_of_chat_answers",
    "unit/cli/test_generate.py::test_a_trace_page_holds_every_answer_with_a_guess_before_each_step",
    "unit/report/test_viewer.py::test_a_chosen_step_shows_its_guess_its_reward_and_its_credit",
    "unit/recipe/test_overrides.py::test_values_are_yaml_and_only_the_first_equals_sign_splits",
)
"""Further tests on which the claim rests."""


@functools.cache
def names_in(path: Path) -> frozenset[str]:
    names = (
        n.name
        for n in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(n, ast.FunctionDef)
    )
    return frozenset(name for name in names if name.startswith("test_"))


def own(letter: str) -> frozenset[str]:
    return names_in(TESTS / "e2e" / f"test_scenarios_{letter}.py")


@pytest.mark.parametrize("place", [*ELSEWHERE.values(), *AS_WELL])
def test_a_test_that_is_named_is_there(place):
    file, _, name = place.partition("::")
    assert name in names_in(TESTS / file)


@pytest.mark.parametrize("letter", LETTERS)
def test_every_scenario_has_a_test_of_its_name_or_one_elsewhere(letter):
    named = {word for name in own(letter) for word in name.split("_") if word[0] == "s"}
    covered = {number for number in LETTERS[letter] if f"s{number}" in named or number in ELSEWHERE}
    assert set(LETTERS[letter]) - covered == set()


@pytest.mark.parametrize("letter", LETTERS)
def test_a_scenario_stands_under_its_letter(letter):
    for name in own(letter):
        number = name.removeprefix("test_s").partition("_")[0]
        assert number.isdigit() and int(number) in LETTERS[letter], name
