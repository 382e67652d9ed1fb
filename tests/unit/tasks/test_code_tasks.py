"""MBPP, HumanEval and KodCode: rewards, metrics, data, and the sandbox that has to be named."""

import copy
import json
import logging
import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

from dllmzoo.errors import TaskError
from dllmzoo.records import TIMEOUT, VALUE, Key
from dllmzoo.sandbox import Suite
from dllmzoo.tasks._code_data import code_example
from dllmzoo.zoo import TASKS
from tests.unit.tasks.code_rows import ACECODE, HUMANEVAL, KODCODE, MBPP

KEY = Key(0, 0, "prompts")
NAMES = ("mbpp", "humaneval", "kodcode")
TESTS = {"mbpp": MBPP, "humaneval": HUMANEVAL, "kodcode": KODCODE}


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def jsonl(rows, name="train.jsonl"):
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def task(name="mbpp", **options):
    options = {"sandbox": "subprocess", "workers": 1, "time_limit": 10.0, **options}
    return TASKS.get(name)(**options)


def on_files(name, train=KODCODE, **options):
    test = jsonl(TESTS[name][:4], "test.jsonl")
    return task(name, file=jsonl(train[4:]), test_file=test, **options)


def block(code, inside=True):
    fenced = f"```python\n{code}\n```"
    return f"<reasoning>\nx\n</reasoning>\n<answer>\n{fenced}\n</answer>\n" if inside else fenced


ADD = code_example(MBPP[3])
RIGHT, HALF, WRONG = "def add(x):\n    return x + 3", "def add(x):\n    return 4", "x = 1"


def graded(text, name="passed", **options):
    return task(rewards={name: 1.0}, **options).reward([text], [ADD]).total_X.item()


def test_a_program_earns_the_share_of_tests_that_it_passes():
    assert graded(block(RIGHT)) == 1.0 and graded(block(RIGHT, inside=False)) == 1.0
    assert graded(block(HALF)) == pytest.approx(1 / 3)
    assert graded(block(WRONG)) == graded("no program") == 0.0
    assert graded(block(HALF), "all_passed") == 0.0 and graded(block(RIGHT), "all_passed") == 1.0


def test_format_needs_a_fenced_program_that_parses():
    assert graded(block(WRONG), "format") == 1.0
    assert graded(block("def f("), "format") == graded(RIGHT, "format") == 0.0
    assert graded(block(WRONG), "tags") == 1.0 and graded(block(WRONG, False), "tags") == 0.0


def test_released_rewards_by_hand():
    # four tags on lines of their own, and no character behind the last: 4 * 0.125
    egspo = {"passed": 1.0, "xmlcount_released": 1.0, "block_in_answer_released": 1.0}
    assert task(rewards=egspo).reward([block(RIGHT)], [ADD]).total_X.item() == pytest.approx(2.0)
    espo = {"passed": 1.0, "fenced_released": 1.0}  # range 0..2
    texts = [block(RIGHT, inside=False), block(HALF, inside=False), block("def f(", inside=False)]
    found = task(rewards=espo).reward(texts, [ADD] * 3).total_X.tolist()
    assert found == pytest.approx([2.0, 4 / 3, 0.5])
    coder = {"passed": 2.0, "fenced_released": 0.5}  # range 0..2.5
    found = task(rewards=coder).reward(texts, [ADD] * 3).total_X.tolist()
    assert found == pytest.approx([2.5, 2 / 3 + 0.5, 0.25])


def test_a_task_that_was_used_can_be_sent_to_another_process():
    used = on_files("mbpp")
    expected = used.reward([block(RIGHT), block(HALF)], [ADD] * 2).total_X.tolist()
    for other in (pickle.loads(pickle.dumps(used)), copy.deepcopy(used)):
        assert other == used and other.test(1) == used.test(1)
        found = other.reward([block(RIGHT), block(HALF)], [ADD] * 2).total_X.tolist()
        assert found == expected


def test_ending_early_and_claiming_equality_earn_nothing():
    cheats = (
        "import sys\nsys.exit(0)",
        "import os\ndef add(x):\n    os._exit(0)",
        "class A:\n    def __eq__(self, o): return True\n    def __sub__(self, o): return 0\n"
        "def add(x):\n    return A()",
        "import builtins\nbuiltins.abs = lambda x: 0\ndef add(x):\n    return 0",
    )
    found = task().reward(list(map(block, cheats)), [ADD] * len(cheats))
    assert found.total_X.tolist() == [0.0] * len(cheats)


def test_errors_and_timeouts_are_counted_apart_from_wrong_answers():
    endless = "def add(x):\n    return 99**99**99"
    texts = [*map(block, (RIGHT, HALF, WRONG, endless, "def add(")), "nothing"]
    own = task(rewards={"passed": 1.0})
    found = own.reward(texts, [ADD] * 6)
    assert found.outcome_XC[:, 0].tolist() == [VALUE] * 3 + [TIMEOUT] + [VALUE] * 2
    metrics = own.metrics(texts, [ADD] * 6)
    assert metrics["solved_rate"].hits == [1, 0, 0, 0, 0, 0]
    assert metrics["tests_passed_rate"].hits == [3, 1, 0, 0, 0, 0]
    assert metrics["tests_passed_rate"].outof == [3] * 6
    assert metrics["error_rate"].hits == [0, 0, 1, 0, 1, 0]
    assert metrics["timeout_rate"].hits == [0, 0, 0, 1, 0, 0]
    assert metrics["parse_rate"].hits == [1, 1, 1, 1, 0, 0]
    assert metrics["extracted_by/tag_fenced"].value == pytest.approx(5 / 6)


def test_a_text_that_passes_some_tests_and_is_late_in_others_keeps_its_share():
    code = "def add(x):\n    while x < 0: pass\n    return x + 3"
    found = task(time_limit=1.0).reward([block(code)], [ADD])
    assert found.outcome_XC.item() == VALUE and found.total_X.item() == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", NAMES)
def test_the_programs_of_the_data_solve_their_own_problems(name):
    own = on_files(name, train=TESTS[name])
    assert own.check() == [] and own.hub is None
    examples = own.test(4) + own.draw(2, KEY)
    texts = [own.answer(example, KEY, 0) for example in examples]
    assert own.metrics(texts, examples)["solved_rate"].value == 1.0
    fenced = on_files(name, prompt_style="fenced")
    texts = [fenced.answer(example, KEY, 0) for example in examples]
    assert fenced.reward(texts, examples).total_X.tolist() == [1.0] * 6


def test_a_body_completes_a_function():
    [example] = on_files("humaneval").test(1)
    own = task("humaneval")
    assert own.reward(["    return sum(map(shift, xs))\n"], [example]).total_X.item() == 1.0
    cheat = "import math\ndef shift(x): return 0\nmath.fabs = lambda x: 0\ndef total(xs): return 0"
    assert own.reward([block(cheat)], [example]).total_X.item() == 0.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pool", [MBPP, HUMANEVAL, KODCODE, ACECODE])
def test_every_task_trains_on_files_of_every_form(name, pool):
    own = on_files(name, train=pool)
    held_out = {e["question"] for e in own.test(50)}
    drawn = own.draw(40, KEY)
    assert len(drawn) == 40 and not held_out & {e["question"] for e in drawn}


def test_one_file_of_kodcode_is_split_into_nine_tenths_and_one():
    own = task("kodcode", file=jsonl(KODCODE))
    tested = {e["question"] for e in own.test(50)}
    trained = {e["question"] for e in own.draw(27, KEY)}
    assert (len(tested), len(trained)) == (3, 27) and not tested & trained


def test_problems_whose_tests_cannot_run_are_left_out_and_counted(caplog):
    odd = {**KODCODE[5], "test": "def test_it(tmp_path):\n    assert tmp_path"}
    own = task("kodcode", file=jsonl([*KODCODE[:5], odd]), test_file=jsonl(KODCODE[9:], "t.jsonl"))
    with caplog.at_level(logging.WARNING, "dllmzoo"):
        assert len({e["question"] for e in own.draw(5, KEY)}) == 5
    assert "1 of 6 problems have no test that can be run" in caplog.text


@pytest.mark.parametrize("name", NAMES)
def test_no_program_runs_where_no_sandbox_is_named(name):
    own = TASKS.get(name)()
    assert own.sandbox is None
    [problem] = own.check()
    assert "write `sandbox: bubblewrap` (recommended" in problem and "subprocess" in problem
    with pytest.raises(TaskError, match="no `sandbox` is named"):
        own.reward([block(RIGHT)], [ADD])
    with pytest.raises(ValidationError):
        TASKS.get(name)(sandbox="docker")


@pytest.mark.parametrize("name", NAMES)
def test_without_a_connection_the_error_says_what_to_download(name):
    with pytest.raises(TaskError, match=r"hf download .* --repo-type dataset(.|\n)*task\.file"):
        task(name, test_file=jsonl(TESTS[name])).draw(1, KEY)


def test_a_missing_sandbox_stops_whatever_the_policy(monkeypatch):
    from dllmzoo.sandbox import workers

    monkeypatch.setattr(workers.shutil, "which", lambda _: None)
    own = task(sandbox="bubblewrap", memory_mb=333, on_error="zero")
    assert "apt-get install bubblewrap" in own.check()[0]
    with pytest.raises(TaskError, match="apt-get install bubblewrap"):
        own.reward([block(RIGHT)], [ADD])


def test_styles_of_prompts():
    chat = task().prompt(ADD)
    assert [m["role"] for m in chat] == ["user"] and "```python\nassert add(1) == 4" in str(
        chat[0]["content"]
    )
    assert [m["role"] for m in task(prompt_style="fenced").prompt(ADD)] == ["system", "user"]
    assert task(prompt_style="d1_eval").prompt(ADD)[-1]["content"] == "<reasoning>"
    assert isinstance(task(prompt_style="text").prompt(ADD), str)


def test_data_without_programs_have_nothing_to_imitate():
    with pytest.raises(TaskError, match="nothing to imitate"):
        task().answer(code_example(ACECODE[0]), KEY, 0)
    assert isinstance(code_example(ACECODE[0])["suite"], Suite)
