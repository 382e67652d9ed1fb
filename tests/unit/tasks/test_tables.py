"""Files and hub data as rows."""

import gzip
import json
import time
from pathlib import Path

import datasets
import pytest

from dllmzoo.errors import TaskError
from dllmzoo.tasks._tables import read_file, read_hub
from tests.fake_hub import unplug

ROWS = [{"q": "one", "n": 1}, {"q": "two", "n": 2}]
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS)


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", JSONL),
        ("a.ndjson", JSONL),
        ("a.json", json.dumps(ROWS)),
        ("a.csv", "q,n\none,1\ntwo,2\n"),
        ("a.tsv", "q\tn\none\t1\ntwo\t2\n"),
        ("odd [1] name*.csv", "q,n\none,1\ntwo,2\n"),
    ],
)
def test_a_file_is_read_by_its_ending_from_the_current_folder(name, text):
    Path(name).write_text(text)
    table = read_file(name)
    assert list(table.rows) == ROWS
    assert table.columns == ("q", "n")
    assert table.source == str(Path(name).resolve())


def test_parquet_and_gzip_are_read():
    datasets.Dataset.from_list(ROWS).to_parquet("a.parquet")
    assert list(read_file("a.parquet").rows) == ROWS
    Path("a.jsonl.gz").write_bytes(gzip.compress(JSONL.encode()))
    assert list(read_file("a.jsonl.gz").rows) == ROWS


def test_nothing_is_left_in_the_folder():
    Path("a.jsonl").write_text(JSONL)
    read_file("a.jsonl")
    assert [path.name for path in Path().iterdir()] == ["a.jsonl"]


def test_text_columns_keep_their_zeros():
    Path("a.csv").write_text("q,n\n0012,007\n,8\nNA,9\n1e5,1\n")
    table = read_file("a.csv", text_columns=("q", "not there"))
    assert [row["q"] for row in table.rows] == ["0012", None, "NA", "1e5"]
    assert [row["n"] for row in table.rows] == [7, 8, 9, 1]


def test_a_row_without_a_column_has_none_there():
    Path("a.jsonl").write_text('{"q": "one", "n": 1}\n{"q": "two"}\n')
    assert list(read_file("a.jsonl").rows) == [{"q": "one", "n": 1}, {"q": "two", "n": None}]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "", "a.csv cannot be read: .*No columns"),
        ("a.csv", "q,n\n", "a.csv (holds no rows|cannot be read)"),
        ("a.csv", "q\none,1,2\n", "more fields than its first line"),
        ("a.jsonl", '{"q": 1}\n{"q": nope}\n', "line 2 is no JSON"),
        ("a.txt", "one\n", "not known by its ending; there are: .csv"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(name, text, said):
    Path(name).write_text(text)
    with pytest.raises(TaskError, match=said):
        read_file(name)


def test_a_missing_file_is_named_with_the_folder_it_was_looked_for_in(tmp_path):
    with pytest.raises(TaskError, match=f"{tmp_path}/no.csv is not there; .*current folder"):
        read_file("no.csv")


def test_missing_columns_are_named_with_the_data():
    Path("a.jsonl").write_text(JSONL)
    with pytest.raises(TaskError, match=r"a.jsonl has no column 'gold' for x; there are: q, n"):
        read_file("a.jsonl").require("q", "gold", why=" for x")


def test_a_data_set_that_cannot_be_reached_says_what_to_download():
    with pytest.raises(TaskError, match="hf download nobody/nothing --repo-type dataset"):
        read_hub("nobody/nothing", None, "train", None)


def test_a_data_set_of_the_hub_is_read_where_it_is(monkeypatch):
    asked = []

    def load(name, subset, *, split, revision):
        asked.append((name, subset, split, revision))
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load)
    table = read_hub("me/data", "main", "test", "abc")
    assert list(table.rows) == ROWS and table.columns == ("q", "n")
    assert asked == [("me/data", "main", "test", "abc")]


def test_a_hub_that_does_not_answer_is_one_quick_error(tmp_path, monkeypatch, caplog):
    unplug(monkeypatch, tmp_path)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    start = time.monotonic()
    for _ in range(2):
        with pytest.raises(TaskError, match=r"`dllmzoo pull datasets/me/data@abc` and copy its"):
            read_hub("me/data", "main", "test", "abc")
    assert time.monotonic() - start < 10
    assert [record.name for record in caplog.records] == ["dllmzoo"]


def test_a_line_that_is_no_object_is_named_once(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"q": 1}\n[1, 2]\n')
    with pytest.raises(TaskError) as error:
        read_file(str(file))
    assert str(error.value) == f"{file}:2 holds no JSON object, but [1, 2]"
