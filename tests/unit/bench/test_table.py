"""Tables for people and pages, and the command that makes them."""

import json

import pytest

from dllmzoo.bench import runner, table
from dllmzoo.cli._app import run
from dllmzoo.errors import UsageError


def way(seconds, **more):
    return {
        "dtype": "float32", "seconds": seconds, "all_seconds": [seconds],
        "parts": {"rollout": seconds}, "peak_bytes": 2**21, "flops": 3_000_000_000_000,
        "flops_per_second": 3e12 / seconds, "matmul_peak": 4e12, "share_of_peak": 0.375,
        "tokens_per_second": 1234.5, "facts": {},
    } | more  # fmt: skip


RECORD = {
    "format": 1,
    "settings": {
        "size": "60m", "device": "cpu", "dtype": "float32", "repeats": 5, "threads": None,
    },
    "machine": {
        "cpu": "A processor", "cores": 2, "memory_gib": 23.4, "system": "Linux", "python": "3.11",
        "torch": "2.13.0", "dllmzoo": "0.1", "gpu": None, "threads": 2,
    },
    "load_at_start": 0.05,
    "cases": [
        {
            "case": "rollout", "summary": "", "baseline": "plain", "scaled": "eight steps stand",
            "same_tokens": True,
            "ways": {
                "ours": way(
                    2.0, faster={"median": 6.0, "low": 5.5, "high": 6.5}, smaller=None,
                    dtype="bfloat16",
                ),
                "plain": way(12.0, peak_bytes=None, flops=None, share_of_peak=None),
            },
        },
        {
            "case": "growth_states", "summary": "", "baseline": "K=4", "scaled": "",
            "growth": {"exponent": 1.0123, "memory": 1.02},
            "ways": {"K=4": way(1.0), "K=32": way(8.0)},
        },
    ],
}  # fmt: skip
LINE = "| rollout | ours (bfloat16) | 2 | 6 (5.5 to 6.5) | 1,234 | 3 | 37.5 % | 2 MiB | - |"
PLAIN = "|  | plain | 12 | - | 1,234 | - | - | - | - |"


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(RECORD))
    return path


def test_the_table_has_a_line_for_each_way():
    text = table.markdown(RECORD)
    assert LINE in text and PLAIN in text
    assert "| growth_states: K=4, K=32 | 1, 8 | 1.01 | 2 MiB, 2 MiB | 1.02 |" in text


def test_the_table_names_machine_and_scale():
    text = table.markdown(RECORD)
    assert "A processor; 2 cores, 23.4 GiB, 2 threads; torch 2.13.0; medians of 5; load" in text
    assert "- rollout: eight steps stand." in text
    assert "both ways commit the same tokens" in text


def test_parts_and_overhead_are_said():
    ours = way(4.0, parts={"rollout": 3.0, "update": 1.0}, facts={"overhead_share": 0.021})
    case = RECORD["cases"][0] | {"ways": {"ours": ours}}
    said = list(table.notes(RECORD | {"cases": [case]}))
    assert "rollout, ours, seconds: rollout 3, update 1." in said
    assert any(line.startswith("rollout, ours: 2.1 % of the round is spent") for line in said)


def test_a_page_is_written_between_its_markers_and_again(tmp_path):
    page = tmp_path / "performance.md"
    page.write_text("before\n<!-- bench:60m-cpu -->\nold\n<!-- end of bench:60m-cpu -->\nafter\n")
    table.write(RECORD, page)
    once = page.read_text()
    table.write(RECORD, page)
    assert page.read_text() == once and LINE in once and "old" not in once
    assert once.startswith("before\n") and once.endswith("-->\nafter\n")


def test_a_page_without_markers_is_refused_and_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text")
    with pytest.raises(UsageError, match="no lines <!-- bench:60m-cpu -->"):
        table.write(RECORD, page)
    assert page.read_text() == "text"
    with pytest.raises(UsageError, match="No such file"):
        table.write(RECORD, tmp_path / "none.md")


def test_the_command_makes_tables_of_stored_figures(stored, capsys):
    assert run(["bench", "--from", str(stored), "--markdown"]) == 0
    assert LINE in capsys.readouterr().out
    assert run(["bench", "--from", str(stored)]) == 0
    assert "6 (5.5 to 6.5)" in capsys.readouterr().out


def test_the_command_lists_cases_and_sizes(capsys):
    assert run(["bench", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "rollout_greedy" in listed and "60m: d 512, 8 layers" in listed
    assert run(["bench", "--list", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"cases", "sizes"}


def test_the_command_measures_saves_and_warns(tmp_path, monkeypatch, capsys):
    asked = []

    def measured(cases, settings, *, told, each):
        asked.append(([case.name for case in cases], settings))
        each(RECORD)
        return RECORD

    monkeypatch.setattr(runner, "measure", measured)
    monkeypatch.setattr("dllmzoo.bench.machine.load", lambda: 99.0)
    path = tmp_path / "out.json"
    words = ["bench", "score", "--size", "60m", "--repeats", "2", "-o", str(path), "--json"]
    assert run(words) == 0
    assert asked == [(["score"], runner.Settings("60m", "cpu", "float32", 2))]
    assert json.loads(path.read_text()) == RECORD
    said = capsys.readouterr()
    assert "the load of this machine is 99.0" in said.err
    assert json.loads(said.out) == RECORD


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--size", "8b"], "run on a GPU only; add --device cuda"),
        (["--dtype", "float16"], "--dtype float16: there are float32, bfloat16"),
        (["nothing"], "there is no benchmark 'nothing'"),
        (["--from", "nowhere.json"], "no figures can be read there"),
    ],
)
def test_the_command_refuses_in_words(words, said, capsys):
    assert run(["bench", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_file_of_something_else_is_refused(tmp_path, capsys):
    path = tmp_path / "other.json"
    path.write_text("[]")
    assert run(["bench", "--from", str(path)]) == 2
    assert "not a file that `dllmzoo bench --output` wrote" in capsys.readouterr().err
