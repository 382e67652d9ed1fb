"""YAML 1.2 scalars, places, and every way a text can be refused."""

import math

import pytest

from dllmzoo.errors import RecipeError
from dllmzoo.recipe.document import Node, dump, parse, read, survey


def problems(text, name="r.yaml"):
    with pytest.raises(RecipeError) as caught:
        parse(text, name)
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("-1.5e+3", -1500.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("0", 0),
        ("-3", -3),
        ("+3", 3),
        ("012", 12),
        ("0x10", 16),
        ("0xfF", 255),
        ("0o17", 15),
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("y", "y"),
        ("true", True),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("~", None),
        ("Null", None),
        ("", None),
        ("1_000", "1_000"),
        ("2026-01-01", "2026-01-01"),
        ("12:30", "12:30"),
        ("0b11", "0b11"),
        ("-0x10", "-0x10"),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("'1e-5'", "1e-5"),
        ('"no"', "no"),
        ("1e", "1e"),
        ("e5", "e5"),
        ("[1, [2.0, x]]", (1, (2.0, "x"))),
        ("{a: {b: []}}", {"a": {"b": ()}}),
        ("|\n  two\n  lines\n", "two\nlines\n"),
        ("! 3", "3"),
    ],
)
def test_scalars_follow_yaml_1_2(text, value):
    found = parse(f"key: {text}", "r.yaml").plain()["key"]
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_a_float():
    assert math.isnan(parse("key: .NaN", "r.yaml").plain()["key"])


def test_keys_and_values_know_their_places():
    tree = parse("a: 1\nloss:\n  name: clip\n  betas: [0.9,\n    0.99]\n", "r.yaml")
    betas = tree.value["loss"].value["betas"]
    assert (betas.key_line, betas.key_column) == (4, 3)
    assert (betas.line, betas.column) == (4, 10)
    assert betas.where == "r.yaml:4:3"
    assert betas.value[1].where == "r.yaml:5:5"
    assert tree.where == "r.yaml:1:1"
    assert tree.find("loss", "betas", 1) is betas.value[1]
    assert tree.find("loss", "nothing", 1) is tree.value["loss"]


def test_a_byte_order_mark_and_windows_lines_change_nothing(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    tree = read(path)
    assert tree.plain() == {"a": 1, "b": 2}
    assert tree.value["b"].where == f"{path}:2:1"


def test_every_bad_key_of_a_text_is_reported():
    text = "a: 1\na: 2\n<<: {x: 1}\n3: x\nnull: y\n[b]: z\ngood: 1\n  \n"
    found = problems(text)
    assert [problem.where for problem in found] == [f"r.yaml:{line}:1" for line in range(2, 7)]
    assert found[0].message == "duplicate key 'a'"
    assert "r.yaml:1:1" in found[0].hint
    assert "merge keys" in found[1].message
    assert found[2].message == "the key 3 is not a text"
    assert found[2].hint == 'write "3"'
    assert survey(text, "r.yaml")[0].plain() == {"a": 1, "good": 1}


def test_nested_duplicates_have_their_path():
    (found,) = problems("loss:\n  kl: none\n  kl: k3\n")
    assert (found.where, found.path) == ("r.yaml:3:3", "loss.kl")


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", "r.yaml", "is empty"),
        ("# only a comment\n", "r.yaml", "is empty"),
        ("a: 1\n---\nb: 2\n", "r.yaml:2:1", "a second document"),
        ("a:\n\t- b\n", "r.yaml:2:1", "cannot start any token"),
        ("a: [1", "r.yaml:1:6", "expected ',' or ']'"),
        ("a: b: c\n", "r.yaml:1:5", "mapping values are not allowed"),
        ("a: 'x", "r.yaml:1:6", "unexpected end of stream"),
        ("a: 1\nb: \x00\n", "r.yaml:2:4", "is not allowed in YAML"),
        ("a: &x [*x]", "r.yaml:1:8", "inside its own anchor"),
        ("a: *y", "r.yaml:1:4", "no anchor before it"),
        ("a: !!python/object:os.system 1", "r.yaml:1:4", "the tag !!python/object:os.system"),
        ("a: !!str 3", "r.yaml:1:4", "the tag !!str is not read"),
        ("a: " + "9" * 5000, "r.yaml:1:4", "too many digits"),
        ("%YAML 3.0\n---\na: 1", "r.yaml:1:1", "incompatible YAML document"),
        ("a: 1\n...\nb", "r.yaml:3:1", "expected '<document start>'"),
        ("[" * 100_000, "r.yaml:1:52", "more than 50 levels"),
        ("a: " + "{b: " * 60 + "}" * 60, "r.yaml:1:201", "more than 50 levels"),
    ],
)
def test_a_text_that_is_no_document_gives_one_problem(text, where, words):
    (found,) = problems(text)
    assert found.where == where
    assert words in found.message


def test_hints_say_what_to_do_about_syntax():
    assert problems("a:\n\t- b\n")[0].hint == "indent with spaces, not with tabs"
    assert problems("a: [1")[0].hint == "a bracket is not closed"


def test_aliases_are_filled_in_but_not_without_end():
    assert parse("a: &x {b: 1}\nc: *x\n", "r.yaml").plain() == {"a": {"b": 1}, "c": {"b": 1}}
    lines = ["a0: &a0 [1, 1]"] + [f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}]" for i in range(1, 9)]
    (found,) = problems("\n".join(lines))
    assert "100000 values" in found.message


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        (b"a: 1\nb: \xff\n", ":2:4", "is not UTF-8 text"),
        (b"\xff\xfea\x00", ":1:1", "is not UTF-8 text"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", ":1:1", "is not UTF-8 text"),
        (b"a: \x01", ":1:4", "is not allowed in YAML"),
        (b"", "", "is empty"),
    ],
)
def test_bytes_that_are_no_recipe_are_refused(tmp_path, data, where, message):
    path = tmp_path / "r.yaml"
    path.write_bytes(data)
    with pytest.raises(RecipeError) as caught:
        read(path)
    (found,) = caught.value.problems
    assert found.where == f"{path}{where}"
    assert message in found.message


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(RecipeError, match="there is no such file"):
        read(tmp_path / "nothing.yaml")
    with pytest.raises(RecipeError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(RecipeError, match="cannot be read"):
        read("a\0b")


def test_python_values_become_trees():
    thing = object()
    tree = Node.of({"a": [1, {"b": thing}]})
    assert tree.plain() == {"a": (1, {"b": thing})}
    assert tree.find("a", 1, "b").where == "recipe"
    with pytest.raises(RecipeError, match="the key 1 is not a text"):
        Node.of({1: 2})
    endless: dict = {}
    endless["a"] = endless
    with pytest.raises(RecipeError, match="50 levels"):
        Node.of(endless)


def test_dump_writes_one_key_a_line_and_short_lists_in_one():
    plain = {"lr": 1e-5, "betas": (0.9, 0.99), "task": {"name": "no", "file": None, "n": "012"}}
    assert dump(plain) == (
        "lr: 1e-05\nbetas: [0.9, 0.99]\ntask:\n  name: 'no'\n  file: null\n  n: '012'\n"
    )
