"""`dllmzoo report` and `dllmzoo watch` on the command line."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.unit.report import made


def test_a_finished_run_becomes_one_file(cli, tiny_run, tmp_path):
    done = cli("report", tiny_run, "-o", tmp_path / "page.html")
    assert done.code == 0, done.err
    text = (tmp_path / "page.html").read_text()
    assert "A network of a few hundred weights" in text and done.out.startswith("wrote ")
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


def test_the_file_lies_in_the_first_run_and_keeps_its_bytes(cli, tmp_path):
    run = made.run(tmp_path / "run")
    done = json.loads(cli("report", run, "--json").out)
    file = Path(done["file"])
    assert file == run / "report.html" and file.stat().st_size == done["bytes"]
    before = file.read_bytes()
    assert cli("report", run).code == 0 and file.read_bytes() == before


def test_figures_are_drawn_as_svg_and_png(cli, tmp_path):
    run = made.run(tmp_path / "run", 3, keys=["reward"], rollouts={})
    done = cli("report", run, "--figures", tmp_path / "figures")
    assert done.code == 0, done.err
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"reward.svg", "reward.png"} <= drawn
    assert "drew 2 figures" in done.out


def test_runs_labs_and_cards_share_a_page(cli, tmp_path):
    run = made.run(tmp_path / "run")
    assert cli("report", run, "stability-quick").code == 0
    assert "Recipes and manifests" in (text := (run / "report.html").read_text())
    assert "stability-quick" in text


@pytest.mark.parametrize("word", ["nothing", "."])
def test_what_is_neither_run_nor_result_is_refused(cli, tmp_path, monkeypatch, word):
    monkeypatch.chdir(tmp_path)
    done = cli("report", word)
    assert done.code == 2 and f"{word} is no run folder" in done.err
    assert not any(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_refused(cli, tmp_path):
    run = made.run(tmp_path / "run")
    done = cli("report", run, "-o", tmp_path / "none" / "page.html")
    assert done.code == 2 and "there is no folder" in done.err


def test_watching_what_is_no_run_is_refused_before_a_port_is_opened(cli, tmp_path):
    done = cli("watch", tmp_path)
    assert done.code == 2 and "holds no run" in done.err


def test_ctrl_c_ends_the_watch_cleanly(tmp_path):
    run = made.run(tmp_path / "run", 2, keys=["reward"], rollouts={})
    process = subprocess.Popen(
        [sys.executable, "-m", "dllmzoo", "watch", str(run)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    said = process.stdout.readline()
    address = said.split(" at ")[1].split()[0]
    with urllib.request.urlopen(address) as answer:
        assert b"watching run" in answer.read()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("command", ["report", "watch"])
def test_a_file_of_a_run_that_cannot_be_read_is_named(cli, tmp_path, command):
    run = made.run(tmp_path / "run", 2, keys=["reward"], rollouts={})
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").mkdir()
    done = cli(command, run)
    assert done.code == 2 and "metrics.jsonl cannot be read: Is a directory" in done.err
