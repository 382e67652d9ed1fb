"""How many simple programs are run in a second: at least 50 on two idle cores."""

import itertools

import pytest

from dllmzoo.sandbox import Sandbox, Suite, missing_bubblewrap

TESTS = Suite(("assert f(1) == 2", "assert f(2) == 3", "assert f([]) == 0"))
NUMBER = itertools.count()


def programs(num):
    return [
        (f"def f(x):\n    return x + 1 if x else 0\n# {next(NUMBER)}", TESTS) for _ in range(num)
    ]


@pytest.mark.parametrize("isolation", ["bubblewrap", "subprocess"])
def test_100_programs_of_three_tests(benchmark, isolation):
    if isolation == "bubblewrap" and (missing := missing_bubblewrap()):
        pytest.skip(missing)
    sandbox = Sandbox(isolation, workers=2)
    sandbox.run(programs(4))
    found = benchmark.pedantic(
        sandbox.run, setup=lambda: ((programs(100),), {}), rounds=3, iterations=1
    )
    sandbox.close()
    assert {verdict.outcome for verdicts in found for verdict in verdicts} == {"pass"}
