"""`pytest tests/golden --golden DIR` runs every case of a folder laid out like the one here."""

from collections import Counter
from pathlib import Path

from tests.golden import (  # noqa: F401
    family_a,
    family_a_dream,
    family_a_sdar,
    family_b,
    family_b_dream,
    family_b_sdar,
    family_c,
    family_c_elbo,
    family_c_sdar,
    family_d,
    family_d_losses,
    family_e,
    family_f,
    family_g,
    family_g_bounds,
    family_g_losses,
)
from tests.golden.case import HANDLERS, Case, read_cases

DATA = Path(__file__).parent / "data"
RESULTS: Counter[tuple[str, str]] = Counter()


def pytest_addoption(parser):
    parser.addoption("--golden", type=Path, default=DATA, help="folder with golden cases")


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        cases = read_cases(metafunc.config.getoption("--golden"))
        covered = [case for case in cases if case.family in HANDLERS]
        metafunc.parametrize("case", covered, ids=lambda case: f"{case.family}-{case.name}")


def pytest_runtest_logreport(report):
    if report.when == "call" and "test_golden.py::test_case[" in report.nodeid:
        family = report.nodeid.partition("[")[2].partition("-")[0]
        how = "not covered" if report.skipped else "passed" if report.passed else "failed"
        RESULTS[family, how] += 1


def pytest_terminal_summary(terminalreporter, config):
    if not RESULTS:
        return
    for case in read_cases(config.getoption("--golden")):
        if case.family not in HANDLERS:
            RESULTS[case.family, "not covered"] += 1
    terminalreporter.section("golden families")
    for family in sorted({family for family, _ in RESULTS}):
        counts = {how: RESULTS[family, how] for how in ("passed", "failed", "not covered")}
        said = ", ".join(f"{n} {how}" for how, n in counts.items() if n)
        terminalreporter.write_line(f"{family:<28} {said}")


__all__ = ["Case"]
