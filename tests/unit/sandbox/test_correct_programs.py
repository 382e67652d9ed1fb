"""A correct program passes, whatever its values are and however its tests are written."""

import threading

import pytest

from dllmzoo.sandbox import Suite
from tests.unit.sandbox.honest import CLASSES, FUNCTIONS, SUITES

DOUBLE = "def f(x):\n    return 2 * x"


def outcomes(sandbox, code, *tests, **options):
    return [verdict.outcome for verdict in sandbox.run([(code, Suite(tests, **options))])[0]]


def test_each_test_has_its_own_outcome(sandbox):
    tests = "assert f(2) == 4", "assert f(2) == 5", "assert f(None) == 4", "assert f('a') == 'aa'"
    assert outcomes(sandbox, DOUBLE, *tests) == ["pass", "fail", "error", "pass"]


@pytest.mark.parametrize(
    "value",
    [
        "None", "True", "-7", "10 ** 400", "0.1", "float('inf')", "1 + 2j", "'ä\\n\\ud800'",
        "b'\\x00'", "[1, [2, (3,)]]", "{1, 2}", "frozenset({1})", "{'a': {2: [None]}}", "range(3)",
        "bytearray(b'x')", "'x' * 100_000", "list(range(50_000))", "Counter('aab')",
        "OrderedDict(a=1)", "deque([1], 3)", "Decimal('1.10')", "Fraction(1, 3)",
        "datetime.date(2024, 2, 29)", "datetime.timedelta(seconds=3)", "int", "...",
    ],
)  # fmt: skip
def test_plain_values_cross_in_both_directions(sandbox, value):
    imports = (
        "import datetime\nfrom collections import *\nfrom decimal import *\nfrom fractions import *"
    )
    code = f"{imports}\ndef make():\n    return {value}\ndef same(x):\n    return x"
    test = f"x = {value}\nassert make() == x == same(x)\nassert type(make()) is type(same(x))"
    assert outcomes(sandbox, code, test, setup=imports) == ["pass"]


@pytest.mark.parametrize(
    ("code", "test"),
    [
        ("def f(xs):\n    xs.sort()", "a = [2, 1]\nf(a)\nassert a == [1, 2]"),
        ("def f(g, x):\n    return g(x)", "assert f(lambda v: v + 1, 1) == 2"),
        ("def f(g, x):\n    return g(x)", "assert f(f, 1) == 2 if False else f(abs, -1) == 1"),
        ("def f(n):\n    yield from range(n)", "assert list(f(3)) == [0, 1, 2]"),
        ("def f(n):\n    return lambda k: n + k", "assert f(1)(2) == 3"),
        ("def f(xs):\n    return map(abs, xs)", "assert [*f(iter([-1, 2]))] == [1, 2]"),
        ("def f():\n    print('hi')", "out = io.StringIO()\nwith redirect_stdout(out):\n    f()\n"
         "assert out.getvalue() == 'hi\\n'"),
        ("def f(x):\n    raise KeyError('no ' + x)", "with pytest.raises(KeyError, match='no a'):\n"
         "    f('a')"),
        ("import enum\nclass E(str, enum.Enum):\n    A = 'a'\ndef f():\n    return E.A",
         "assert f() == 'a'"),
        ("def f(x):\n    return x / 3", "assert f(1) == pytest.approx(0.333333333)"),
        ("import re\ndef f(s):\n    return re.match('a', s)", "assert f('ab')\nassert not f('b')"),
        ("def f(x):\n    global n\n    n = x\nn = 0", "f(3)\nassert solution.n == 3"),
        ("def f(n):\n    return n and f(n - 1)", "assert f(900) == 0"),
        ("import threading\ndef f():\n    out = []\n    t = threading.Thread(target=out.append, "
         "args=(1,))\n    t.start()\n    t.join()\n    return out", "assert f() == [1]"),
        ("import subprocess\ndef f():\n    return subprocess.run(['/bin/echo', 'x'], "
         "capture_output=True).stdout", "assert f() == b'x\\n'"),
        ("import tempfile\ndef f():\n    with tempfile.TemporaryFile('w+') as t:\n"
         "        t.write('a' * 1000)\n        return t.tell()", "assert f() == 1000"),
        ("def f():\n    return 1\nif __name__ == '__main__':\n    raise SystemExit", "assert f()"),
    ],
)  # fmt: skip
def test_what_functions_do_is_seen_by_tests(sandbox, code, test):
    setup = "import io, pytest, solution\nfrom contextlib import redirect_stdout"
    assert outcomes(sandbox, code, test, setup=setup) == ["pass"]


def test_classes_are_tested_by_their_own_words(sandbox):
    code = """
class Full(Exception):
    pass
class Stack:
    def __init__(self, most): self.most, self.items = most, []
    def push(self, x):
        if len(self.items) == self.most: raise Full('full')
        self.items.append(x)
        return self
    def __len__(self): return len(self.items)
    def __eq__(self, other): return self.items == getattr(other, 'items', other)
    def __add__(self, other): return Stack(self.most).push(len(self) + len(other))
"""
    setup = "from solution import Stack, Full\nimport pytest"
    tests = (
        "s = Stack(2).push(1)\nassert isinstance(s, Stack) and len(s) == 1 and s.items == [1]",
        "assert s == Stack(1).push(1) and s == [1] and s != [2]",
        "assert (s + s).items == [2]",
        "with pytest.raises(Full):\n    Stack(0).push(1)",
        "try:\n    Stack(0).push(1)\nexcept Full as error:\n    assert str(error) == 'full'",
        "s.most = 9\nassert s.most == 9",
    )
    assert outcomes(sandbox, code, *tests, setup=setup, objects=True) == ["pass"] * 6


def test_names_of_built_in_functions_are_the_programs_where_the_data_ask_for_them(sandbox):
    code = "def sum(a, b):\n    return a * b"
    assert outcomes(sandbox, code, "assert sum(2, 5) == 10", names=("sum",)) == ["pass"]
    assert outcomes(sandbox, code, "assert sum([2, 5]) == 7") == ["pass"]


def test_parameters_of_pytest_are_all_run(sandbox):
    setup = (
        "import pytest\nfrom solution import f\n"
        "@pytest.mark.parametrize('x, y', [(1, 2), (2, 4), pytest.param(3, 6)])\n"
        "@pytest.mark.parametrize('z', [0, 1])\n"
        "def test_f(x, y, z):\n    assert f(x) == y + z * wrong"
    )
    right = outcomes(sandbox, DOUBLE, "pytest.run(test_f)", setup=f"wrong = 0\n{setup}")
    assert right == ["pass"]
    wrong = outcomes(sandbox, DOUBLE, "pytest.run(test_f)", setup=f"wrong = 1\n{setup}")
    assert wrong == ["fail"]


def test_the_truth_is_the_same_in_threads_and_many_at_once(sandbox):
    programs = [
        (f"def f(x):\n    return x + {i}", Suite((f"assert f(1) == {1 + i % 3}",)))
        for i in range(6)
    ]
    expected = [("pass",)] * 3 + [("fail",)] * 3
    found = {}

    def run(name):
        verdicts = sandbox.run(programs)
        found[name] = [tuple(v.outcome for v in each) for each in verdicts]

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": expected, "b": expected}


def test_nothing_is_left_over_for_the_next_program(sandbox):
    code = (
        "import os, builtins\nopen('left', 'w').close()\nbuiltins.left = 1\ndef f():\n    return 1"
    )
    seen = "['left' in os.listdir(), hasattr(builtins, 'left')]"
    look = f"import os, builtins\ndef f():\n    return {seen}"
    assert outcomes(sandbox, code, "open('left', 'w').close()\nassert f() == 1") == ["pass"]
    assert outcomes(sandbox, look, "assert f() == [False, False]") == ["pass"]
    assert outcomes(sandbox, DOUBLE, "import os\nassert 'left' not in os.listdir()") == ["pass"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_correct_function_passes(sandbox, name):
    code, test = FUNCTIONS[name]
    setup = "import pytest, json, decimal\nfrom solution import *"
    [[verdict]] = sandbox.run([(code, Suite((test,), setup))])
    assert verdict.outcome == "pass", verdict


@pytest.mark.parametrize("name", CLASSES)
def test_a_correct_class_passes(sandbox, name):
    code, test = CLASSES[name]
    setup = "import pytest\nfrom solution import *"
    [[verdict]] = sandbox.run([(code, Suite((test,), setup, objects=True))])
    assert verdict.outcome == "pass", verdict


@pytest.mark.parametrize("name", SUITES)
def test_classes_of_tests_are_prepared_as_they_ask(sandbox, name):
    setup = f"import pytest\nfrom solution import f\n{SUITES[name]}"
    test = "import pytest\npytest.run_method(T, 'test')"
    [[verdict]] = sandbox.run([(DOUBLE, Suite((test,), setup))])
    assert verdict.outcome == "pass", verdict
    [[verdict]] = sandbox.run([("def f(x):\n    return 0", Suite((test,), setup))])
    assert verdict.outcome == "fail", verdict
