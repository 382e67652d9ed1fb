"""docs/metrics.md is a table that a program can read."""

from tests.docs.metrics_table import PAGE, documented, undocumented


def test_every_row_has_a_unit_and_a_meaning():
    assert len(documented()) > 20
    for key, (unit, meaning) in documented().items():
        assert unit and meaning, key


def test_every_table_row_with_a_key_is_read():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(rows) == len(documented())


def test_patterns_cover_their_names_and_nothing_else():
    keys = ["reward/cells", "eval/solved_rate", "eval/solved_rate_low", "eval/steps4/solved_rate"]
    assert undocumented([*keys, "round", "time/rollout"]) == []
    assert undocumented(["reward/", "eval/steps/solved_rate", "surprise", "rounds"]) == [
        "eval/steps/solved_rate",
        "reward/",
        "rounds",
        "surprise",
    ]


def test_machine_fields_are_named_for_what_they_measure():
    for key, (unit, _) in documented().items():
        if unit in {"seconds", "1/s", "FLOP/s", "bytes"}:
            assert any(word in key for word in ("time", "per_second", "memory")), key
