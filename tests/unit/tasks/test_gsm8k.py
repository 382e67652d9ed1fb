"""The GSM8K task: data, prompts, rewards, metrics."""

import datasets
import pytest
from pydantic import ValidationError

from dllmzoo.errors import TaskError
from dllmzoo.zoo import TASKS
from tests.unit.tasks.question_files import KEY, jsonl, question_task
from tests.unit.tasks.question_files import ROWS as EVERY

Gsm8k = TASKS.get("gsm8k")
ROWS = EVERY["gsm8k"]


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def task(**options):
    return question_task("gsm8k", **options)


def graded(text, gold="72", name="correct", **options):
    example = {"question": "q", "answer": gold}
    return Gsm8k(rewards={name: 1.0}, **options).reward([text], [example]).total_X.item()


# --- rewards


@pytest.mark.parametrize(
    ("text", "gold", "right"),
    [
        ("<answer>72</answer>", "72", True), ("<answer>72.0</answer>", "72", True),
        ("<answer>1,000</answer>", "1000", True), ("<answer>1000</answer>", "1,000", True),
        (r"<answer>\boxed{72}</answer>", "72", True), (r"\boxed{72}", "72", True),
        ("#### 72", "72", True), ("The answer is 72.", "72", True), ("72", "72", False),
        ("<answer>5</answer> wait <answer>72</answer>", "72", True),
        ("<answer>72</answer> wait <answer>5</answer>", "72", False),
        ("<answer>-72</answer>", "72", False), ("<answer>1/0</answer>", "72", False),
        ("<answer>7 2</answer>", "72", False), ("<answer></answer>", "72", False),
        ("", "72", False),
    ],
)  # fmt: skip
def test_numbers_are_compared_exactly(text, gold, right):
    assert graded(text, gold) == float(right)
    assert graded(text, gold, "signed") == (1.0 if right else -1.0)


def test_options_of_extraction():
    assert graded("it is 72", lenient=True) == 1.0
    assert graded(r"\boxed{72} \boxed{5}") == 0.0
    assert graded(r"\boxed{72} \boxed{5}", box="first") == 1.0
    assert graded("<answer>50%</answer>", "1/2") == 0.0
    assert graded("<answer>50%</answer>", "1/2", percent="fraction") == 1.0


def test_a_gold_that_is_no_number_is_an_error_and_never_equal():
    with pytest.raises(TaskError, match="right answer 'many' is no number"):
        graded("<answer>many</answer>", "many")
    assert graded("<answer>many</answer>", "many", on_error="zero") == 0.0


def test_the_set_of_d1_adds_up_to_four():
    perfect = "<reasoning>\nx\n</reasoning>\n<answer>\n72\n</answer>\n"
    names = ["correctness", "int", "strict_format", "soft_format", "xmlcount"]
    d1 = Gsm8k(rewards={f"{name}_released": 1.0 for name in names})
    found = d1.reward([perfect], [{"question": "q", "answer": "72"}])
    assert found.part_XC.tolist() == [[2.0, 0.5, 0.5, 0.0, 0.5]]
    assert graded(perfect, name="format") == 1.0
    assert graded(perfect + "more", name="format") == 0.0
    assert graded("The answer is 72 now", name="espo_released") == 1.0
    assert graded(perfect, name="xmlcount_spg_released") == pytest.approx(0.487)


def test_metrics_tell_where_results_were_found():
    texts = ["<answer>72</answer>", r"\boxed{x}", "none", r"<answer>\boxed{72}</answer>"]
    metrics = Gsm8k().metrics(texts, [{"question": "q", "answer": "72"}] * 4)
    assert metrics["solved_rate"].hits == [1, 0, 0, 1]
    assert metrics["parse_rate"].hits == [1, 0, 0, 1]
    ways = {name: sum(r.hits) for name, r in metrics.items() if name.startswith("extracted_by/")}
    assert ways == {
        "extracted_by/tag": 1, "extracted_by/boxed": 1, "extracted_by/nothing": 1,
        "extracted_by/tag_boxed": 1, "extracted_by/hash": 0, "extracted_by/phrase": 0,
        "extracted_by/last_number": 0,
    }  # fmt: skip


# --- data


def test_rows_become_question_solution_and_number():
    own = task()
    assert own.check() == [] and own.hub is None
    [example] = own.test(1)
    assert example == {
        "question": "What is 0 + 1?", "solution": "It is 0 + 1 = <<0+1=1>>1.", "answer": "1",
    }  # fmt: skip
    assert own.answer(example, KEY, 0) == (
        "<reasoning>\nIt is 0 + 1 = 1.\n</reasoning>\n<answer>\n1\n</answer>"
    )
    assert own.reward([own.answer(example, KEY, 0)], [example]).total_X.item() == 1.0


def test_data_of_the_hub_are_the_pinned_ones(monkeypatch):
    asked = []

    def load(name, subset, *, split, revision):
        asked.append((name, subset, split, revision))
        return datasets.Dataset.from_list(ROWS[:4] if split == "test" else ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load)
    own = Gsm8k()
    assert own.check() == [] and own.hub == "openai/gsm8k" and asked == []
    assert len(own.draw(16, KEY)) == 16 and len(own.test(10)) == 4
    assert {each[:3] for each in asked} == {
        ("openai/gsm8k", "main", "train"), ("openai/gsm8k", "main", "test"),
    }  # fmt: skip
    assert all(len(revision) == 40 for *_, revision in asked)


def test_the_message_without_a_connection_names_the_pinned_revision_and_the_columns():
    with pytest.raises(TaskError) as caught:
        Gsm8k().test(1)
    said = str(caught.value)
    assert "--repo-type dataset --revision cc7b047b6e" in said
    assert "columns question, answer" in said
    with pytest.raises(TaskError, match=r"task\.file"):
        Gsm8k(test_file=jsonl(ROWS)).draw(1, KEY)


def test_problems_of_files_are_known_before_training():
    bad = jsonl([{"question": "q", "answer": "so #### many"}, *ROWS], "bad.jsonl")
    [problem] = task(file=bad).check()
    assert "bad.jsonl: row 1: the right answer 'many' is no number" in problem
    [problem] = task(test_file=jsonl([{"question": "q"}], "bad.jsonl")).check()
    assert "bad.jsonl has no column 'answer'; there are: question" in problem
    [problem] = task(file=jsonl([{"question": " ", "answer": "5"}], "bad.jsonl")).check()
    assert "row 1: no question" in problem
    many = jsonl([{"question": "q", "answer": "x"}] * 9, "bad.jsonl")
    [problem] = task(file=many).check()
    assert problem.endswith("and 4 more")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rewards": {"corect": 1.0}}, "Did you mean 'correct'"),
        ({"rewards": {"correct": 0.0}}, "nothing to learn"),
        ({"percent": "half"}, "fraction"),
        ({"prompt_style": "compact"}, "d1_eval"),
    ],
)
def test_impossible_options_are_refused(options, said):
    with pytest.raises(ValidationError, match=said):
        Gsm8k(**options)
