"""Values computed by released implementations, one test per case."""

from tests.golden.case import HANDLERS


def test_case(case):
    HANDLERS[case.family](case)
