"""What an answer to a Sudoku is worth, and what an evaluation counts."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllmzoo.errors import TaskError
from dllmzoo.tasks._grids import count_solutions
from dllmzoo.zoo import TASKS

Sudoku = TASKS.get("sudoku")
PUZZLE, SOLUTION = "0234300221430021", "1234341221434321"
EXAMPLE = {"puzzle": PUZZLE, "solution": SOLUTION}
AMBIGUOUS = {"puzzle": "0034341200434321", "solution": SOLUTION}
OTHER = "2134341212434321"
"""The second solution of the ambiguous puzzle."""
ALL = {"cells": 1.0, "cells_released": 1.0, "solved": 1.0}
GOLDEN = json.loads((Path(__file__).parent / "sudoku_rows.json").read_text())


def tagged(text):
    return f"<answer>\n{text}\n</answer>"


def parts(text, example=EXAMPLE, **options):
    """Component -> reward of one text."""
    rewards = Sudoku(rewards=ALL, **options).reward([text], [example])
    return dict(zip(rewards.names, rewards.part_XC[0].tolist(), strict=True))


# --- rewards


def test_cells_are_the_share_of_right_blanks():
    # 5 blanks (cells 0, 5, 6, 12, 13), the first of them wrong: 4 / 5
    share = pytest.approx(0.8)
    wrong = parts("2" + SOLUTION[1:])
    assert wrong == {"cells": share, "cells_released": share, "solved": 0.0}


def test_a_changed_clue_costs_everything_but_the_released_reward():
    changed = SOLUTION[:1] + "1" + SOLUTION[2:]
    assert parts(changed) == {"cells": 0.0, "cells_released": 1.0, "solved": 0.0}


def test_another_solution_is_solved_but_has_wrong_cells():
    # 4 blanks, all other than stored
    assert parts(OTHER, AMBIGUOUS) == {"cells": 0.0, "cells_released": 0.0, "solved": 1.0}
    # blanks 0-3 and 8-11 of which 2, 3, 10 and 11 agree with the stored solution
    half = {"puzzle": "0000341200004321", "solution": SOLUTION}
    assert parts(OTHER, half) == {"cells": 0.5, "cells_released": 0.5, "solved": 1.0}


def test_a_puzzle_without_blanks_has_no_cells_to_win():
    full = {"puzzle": SOLUTION, "solution": SOLUTION}
    assert parts(SOLUTION, full) == {"cells": 0.0, "cells_released": 0.0, "solved": 1.0}


def test_a_valid_grid_that_changes_clues_is_not_solved():
    assert parts(OTHER)["solved"] == 0.0


@pytest.mark.parametrize(
    "text", ["", SOLUTION[:15], SOLUTION + "1", f"{SOLUTION}\n", f"={SOLUTION}", "Row 1: 1234"]
)
def test_what_is_not_16_digits_is_a_parse_failure_in_compact(text):
    assert Sudoku().read(text) is None
    assert parts(text)["cells"] == parts(text)["solved"] == 0.0


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (tagged(SOLUTION), SOLUTION),
        (tagged("1234\n3412\n2143\n4321"), SOLUTION),
        (tagged("1 2 | 3 4\n3 4 | 1 2\n2 1 | 4 3\n4 3 | 2 1"), SOLUTION),
        ("<answer>1111</answer> no, " + tagged(SOLUTION), SOLUTION),
        (tagged(SOLUTION) + " or <answer>1111</answer>", None),
        (tagged("Row 1: 1234\nRow 2: 3412\nRow 3: 2143\nRow 4: 4321"), None),
        (tagged(SOLUTION[:15]), None),
        (tagged(SOLUTION + "1"), None),
        (SOLUTION, None),
    ],
)
def test_the_strict_parser_of_chat_answers(text, read):
    assert Sudoku(prompt_style="chat").read(text) == read


def test_the_d1_parser_serves_rewards_and_metrics():
    options = {"prompt_style": "chat", "parser": "d1"}
    text = tagged("Row 1: 1234, Row 2: 3412")
    # digits 1 1234 2 3412, filled up with zeros
    assert Sudoku(**options).read(text) == "1123423412000000"
    long = tagged(SOLUTION + "99")
    assert parts(long, **options) == {"cells": 1.0, "cells_released": 1.0, "solved": 1.0}
    assert Sudoku(**options).metrics([long], [EXAMPLE])["solved_rate"].value == 1.0
    assert parts(long, prompt_style="chat")["cells_released"] == 1.0
    assert parts(long, prompt_style="chat")["cells"] == 0.0


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row["comment"][:30])
def test_released_and_right_values_of_d1(row):
    example = {"puzzle": row["puzzle"], "solution": row["solution"]}
    values = parts(row["completion"], example, prompt_style="chat")
    assert values["cells_released"] == pytest.approx(row["released"]["sudoku"], abs=1e-9)
    assert count_solutions(row["puzzle"]) == row["num_completions_of_puzzle"]
    if row["right"]["solved"] is not None:
        assert values["solved"] == float(row["right"]["solved"])


def test_a_missing_column_is_named():
    with pytest.raises(TaskError, match="column 'solution', which sudoku does not have"):
        Sudoku().reward([SOLUTION], [{"puzzle": PUZZLE}])


def test_rewards_are_flat_over_texts():
    texts = [SOLUTION, "", OTHER]
    rewards = Sudoku(rewards={"solved": 2.0, "cells": 1.0}).reward(
        texts, [EXAMPLE, EXAMPLE, AMBIGUOUS]
    )
    assert rewards.names == ("solved", "cells")
    assert rewards.total_X.tolist() == [3.0, 0.0, 2.0]
    assert rewards.counted_X.all()


ANSWERS = st.one_of(
    st.text(max_size=40), st.text("01234", min_size=14, max_size=18), st.text("01234\n| ,<>/answer")
)


@given(text=ANSWERS)
def test_no_text_raises_and_rewards_stay_in_the_unit_interval(text):
    for style in ("compact", "chat"):
        for parser in ("strict", "d1"):
            for given_text in (text, tagged(text)):
                values = parts(given_text, prompt_style=style, parser=parser)
                assert all(0 <= value <= 1 for value in values.values())


@pytest.mark.parametrize("style", ["compact", "chat"])
def test_ten_thousand_random_answers_never_raise(style):
    draw = random.Random(0)
    pieces = ["<answer>", "</answer>", "1234", "0", "\n", "|", ",", " ", SOLUTION, "Row 1: ", "é"]
    texts = ["".join(draw.choices(pieces, k=draw.randrange(10))) for _ in range(10_000)]
    rewards = Sudoku(prompt_style=style, rewards=ALL).reward(texts, [EXAMPLE] * len(texts))
    assert rewards.total_X.isfinite().all()
    # `cells` and the released reward give the same wherever the strict parser can read
    task = Sudoku(prompt_style=style)
    for text, (cells, released, _) in zip(texts, rewards.part_XC.tolist(), strict=True):
        assert cells in (0.0, released) and (task.read(text) is not None or cells == 0.0)


# --- metrics


def test_metrics_tell_solved_cells_clues_and_parsing_apart():
    task = Sudoku()
    changed = SOLUTION[:1] + "1" + SOLUTION[2:]
    texts = [SOLUTION, changed, "?", OTHER]
    metrics = task.metrics(texts, [EXAMPLE, EXAMPLE, EXAMPLE, AMBIGUOUS])
    assert task.primary == "solved_rate" == next(iter(metrics))
    assert metrics["solved_rate"].hits == [1.0, 0.0, 0.0, 1.0]
    assert metrics["solved_rate"].value == 0.5
    # blank cells 5 + 5 + 5 + 4 = 19, right 5 + 5 + 0 + 0 (clues do not matter)
    assert metrics["cell_accuracy"].hits == [5.0, 5.0, 0.0, 0.0]
    assert metrics["cell_accuracy"].outof == [5.0, 5.0, 5.0, 4.0]
    assert metrics["cell_accuracy"].value == pytest.approx(10 / 19)
    assert metrics["clue_kept_rate"].value == 0.5
    assert metrics["parse_rate"].value == 0.75
    assert metrics["ambiguous_share"].value == 0.25


def test_metrics_of_nothing_have_no_value():
    assert all(ratio.value is None for ratio in Sudoku().metrics([], []).values())


def test_the_generated_test_list_is_unambiguous_and_its_solutions_solve_it():
    task = Sudoku()
    examples = task.test(64)
    metrics = task.metrics([e["solution"] for e in examples], examples)
    assert metrics.pop("ambiguous_share").value == 0.0
    assert {ratio.value for ratio in metrics.values()} == {1.0}
