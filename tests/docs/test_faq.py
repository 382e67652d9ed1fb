"""The headings of docs/faq.md are messages of the code, word for word, and stand there alone."""

import ast
import re
from pathlib import Path

import pytest

import dllmzoo

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "faq.md"
HEADINGS = re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), re.M)
MESSAGES = [heading.strip("`") for heading in HEADINGS]
VALUE = "\x00"
"""Stands in a text of the code for what it fills in."""


def told(node: ast.AST) -> str | None:
    """A text of the code, its blanks marked; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(told(part) or VALUE for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = told(node.left), told(node.right)
        return "".join(side or VALUE for side in sides) if any(sides) else None
    return None


def texts_of(source: str) -> list[str]:
    """Every text of a file that is no docstring."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found = (told(node) for node in nodes if id(node) not in docstrings)
    return [" ".join(text.split()) for text in found if text]


def pattern(message: str) -> re.Pattern[str]:
    """What a text of the code must hold: a word in capitals is itself, or a value filled in."""
    parts = re.split(r"(\b[A-Z]{2,}\b)", message)
    fixed = [re.escape(part.strip("'`")) for part in parts[::2]]
    blanks = [rf"(?:{word}|['`]*{VALUE}[^ ]*)" for word in parts[1::2]]
    return re.compile("".join(a + b for a, b in zip(fixed, [*blanks, ""], strict=True)))


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Every text of the package."""
    files = Path(dllmzoo.__file__).parent.rglob("*.py")
    return [text for path in files for text in texts_of(path.read_text(encoding="utf-8"))]


def test_there_are_many_messages_and_each_stands_once():
    assert len(MESSAGES) > 70
    assert all(re.fullmatch(r"(`+)[^\s`].*\1", heading) for heading in HEADINGS)
    assert len(MESSAGES) == len(set(MESSAGES))


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_in_one_text_of_the_code(message, texts):
    wanted = pattern(message)
    assert any(wanted.search(text) for text in texts)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_has_words_of_its_own(message):
    fixed = "".join(re.split(r"\b[A-Z]{2,}\b", message))
    assert len(fixed.replace(" ", "")) > 6


def test_a_message_with_another_word_is_not_found():
    texts = texts_of('say(f"{path} is not empty; go on with " + hint)')
    assert any(pattern("FOLDER is not empty; go on with").search(text) for text in texts)
    assert not any(pattern("FOLDER is not full; go on with").search(text) for text in texts)
    assert not any(pattern("FOLDER FILE is not empty").search(text) for text in texts)


def test_every_entry_says_something():
    bodies = re.split(r"^#{2,3} .+$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    entries = [body.strip() for body in bodies[1:]]
    assert sum(not body for body in entries) == len(re.findall(r"^## ", PAGE.read_text(), re.M)) - 1


def test_troubleshooting_is_keyed_by_what_one_sees():
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert "(faq.md)" in text
    assert not [message for message in MESSAGES if f"**`{message}`**" in text]
