"""The tutorial, followed word for word: it ends with a loss of one's own, trained and reported."""

import json
import re
import subprocess
import sys

import pytest
import yaml

from dllmzoo.cli._app import run
from tests.docs import test_code_blocks
from tests.docs.blocks import PROJECT, blocks

PAGE = PROJECT / "docs" / "tutorial.md"
INSTALL = {"python3", ".", "pip", "mkdir", "cd"}
"""Commands of the page that this environment has behind it."""

folder = test_code_blocks.folder


def hurry() -> list[str]:
    """The changes to a recipe with which, the page says, everything takes seconds."""
    found = re.search(r"^In a hurry\? Put `([^`]+)`", PAGE.read_text(encoding="utf-8"), re.M)
    assert found, "the page does not say what to do in a hurry"
    return found[1].split()


def follow(words: list[str], capsys) -> str:
    """Do what a line of the page says; returns what it printed."""
    if words[0] == "pytest":
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    assert words[0] == "dllmzoo", f"who reads the page cannot know {words[0]}"
    looks = {"--dry-run", "--print-config"} & set(words)
    words = words + hurry() if words[1] == "train" and not looks else words
    code = run(words[1:])
    said = capsys.readouterr()
    assert code == 0, said.out + said.err
    return said.out


def rows(name: str, folder) -> list[dict]:
    lines = (folder / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow  # three short runs, and pytest in a process of its own
def test_who_follows_the_page_has_a_loss_of_their_own_in_a_report(folder, capsys):
    printed, namespace = {}, {"__name__": "__main__"}
    for block in blocks(PAGE):
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(PAGE), "exec"), namespace)
        for words in block.commands():
            if words[0] not in INSTALL:
                printed[" ".join(words)] = follow(words, capsys)

    assert "solved rate" in next(iter(printed.values()))
    assert "leaky_clip" in printed["dllmzoo list loss --plugin leaky_clip.py"]
    assert "2 passed" in printed["pytest test_leaky_clip.py"]
    assert (folder / "runs" / "first" / "report.html").is_file()
    own, other = (
        yaml.safe_load((folder / "runs" / name / "recipe.resolved.yaml").read_text())
        for name in ("leaky", "ppo")
    )
    assert own["loss"]["name"] == "leaky_clip"
    assert {key for key in own if own[key] != other[key]} == {"loss", "output"}
    for name in ("leaky", "ppo"):
        assert any(row.get("clip_fraction") is not None for row in rows(name, folder))
    page = (folder / "both.html").read_text(encoding="utf-8")
    assert "leaky_clip" in page and "runs/ppo" in page


def test_what_dllmzoo_new_writes_is_what_the_page_replaces(folder, capsys):
    titles = [block.title for block in blocks(PAGE) if block.title]
    command = next(w for b in blocks(PAGE) for w in b.commands() if w[:2] == ["dllmzoo", "new"])
    follow(command, capsys)
    written = sorted(path.name for path in folder.iterdir())
    assert written == sorted(titles[:2])
    (name,) = re.findall(r'register\("(\w+)"\)', (folder / "leaky_clip.py").read_text())
    assert f'register("{name}")' in next(
        block.text for block in blocks(PAGE) if block.title == "leaky_clip.py"
    )
