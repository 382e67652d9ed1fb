"""What is printed: plain and wide in a pipe."""

import json

from dllmzoo.cli import _output as out


def test_a_plain_table_has_aligned_columns_and_no_trailing_blanks():
    text = out.plain_table(("a", "bb"), [("xxx", "y"), ("z", "")], title="two rows")
    assert text == "two rows\na    bb\nxxx  y\nz\n"


def test_a_table_without_headers_has_rows_only():
    assert out.plain_table(("", ""), [("a", "b")]) == "a  b\n"
    assert out.plain_table(("", ""), []) == ""


def test_nothing_is_wrapped_or_cut_outside_of_a_terminal(capsys):
    long = "word " * 100
    out.say(long)
    out.table(("name", "meaning"), [("x", long)])
    assert all(line.count("word") == 100 for line in capsys.readouterr().out.splitlines()[::2])


def test_markup_is_printed_as_it_stands(capsys):
    out.say("[bold] is not bold", style="bold")
    assert capsys.readouterr().out == "[bold] is not bold\n"


def test_json_keeps_letters_and_writes_paths_as_text(capsys, tmp_path):
    out.say_json({"é": tmp_path})
    assert json.loads(capsys.readouterr().out) == {"é": str(tmp_path)}


def test_the_main_process_is_rank_zero(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert out.is_main_process()
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert not out.is_main_process()
    monkeypatch.setenv("RANK", "0")
    assert out.is_main_process()


def test_a_table_in_a_terminal_wraps_all_columns_but_the_first(monkeypatch):
    import io

    from rich.console import Console

    text = io.StringIO()
    monkeypatch.setattr(out, "is_terminal", lambda: True)
    monkeypatch.setattr(out, "console", lambda: Console(file=text, width=30))
    out.table(("name", "meaning"), [("long_name_of_it", "a [meaning] of many words that wraps")])
    lines = text.getvalue().splitlines()
    assert any("long_name_of_it" in line for line in lines)
    assert all(len(line) <= 30 for line in lines)
    assert "[meaning]" in text.getvalue().replace("\n", "")
