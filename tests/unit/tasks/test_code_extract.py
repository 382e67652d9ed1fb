"""Which program a text answers with."""

import pytest

from dllmzoo.tasks._code_extract import extracted, fenced_released, is_program, tree

ONE, TWO = "def f():\n    return 1\n", "def f():\n    return 2\n"


def fenced(code, language="python"):
    return f"```{language}\n{code}```"


@pytest.mark.parametrize(
    ("text", "code", "way"),
    [
        (f"<answer>\n{fenced(ONE)}\n</answer>", ONE, "tag_fenced"),
        (f"{fenced(TWO)}\n<answer>{fenced(ONE)}</answer>\n{fenced(TWO)}", ONE, "tag_fenced"),
        (f"{fenced(TWO)}\n<answer>\n{fenced(ONE)}\n</answer>\n{fenced(TWO)}", ONE, "tag_fenced"),
        (f"<answer>\n{fenced(TWO)}\nbetter:\n{fenced(ONE)}\n</answer>", ONE, "tag_fenced"),
        (f"<answer>\n{fenced(ONE)}\nIt prints:\n{fenced('1', 'text')}\n</answer>", ONE,
         "tag_fenced"),
        (f"First {fenced(TWO)} then\n{fenced(ONE)}", ONE, "fenced"),
        (f"so:\n{fenced(ONE, '')}\n", ONE, "fenced"),
        (f"so:\n{fenced(ONE, 'Python')}\n", ONE, "fenced"),
        (f"  ```py\n{ONE}  ```", ONE, "fenced"),
        (f"<answer>{ONE}</answer>", ONE, "whole"), (ONE, ONE, "whole"),
        ("no program", None, "nothing"), ("hello", None, "nothing"), ("", None, "nothing"),
        (f"cut off: ```python\n{ONE}", None, "nothing"),
        ("<answer>42</answer>", None, "nothing"),
    ],
)  # fmt: skip
def test_the_first_way_that_is_there_counts(text, code, way):
    assert extracted(text) == (code, way)


def test_a_body_goes_on_from_a_signature():
    assert extracted("    return 1\n", "def f():\n") == ("    return 1\n", "whole")
    assert extracted("    return 1\n") == (None, "nothing")


def test_texts_that_would_break_a_parser_are_no_programs():
    for text in ("(" * 10_000, "-" * 100_000 + "1", "x = 1\0", "f(" * 500, "[" * 150 + "]" * 150):
        assert isinstance(is_program(text), bool)
    assert tree("x = '\\d'") is not None, "an odd escape is a warning, not an error"
    assert tree("x = 1\n" * 50_000) is None, "too long"


def test_the_released_format_gives_half_for_a_block_that_does_not_parse():
    assert fenced_released(fenced(ONE)) == 1.0
    assert fenced_released(fenced("def f(\n")) == 0.5
    assert fenced_released(ONE) == fenced_released("") == 0.0
