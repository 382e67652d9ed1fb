"""Laws of the recipe reader: what is dumped reads back, and every place is true."""

import math

from hypothesis import given
from hypothesis import strategies as st

from dllmzoo.errors import RecipeError
from dllmzoo.recipe.document import Node, dump, parse

texts = st.text(max_size=12) | st.sampled_from(
    ["no", "on", "yes", "~", "null", "", " ", "1e-5", "012", "0x1f", "1_000", "2026-01-01", "<<",
     "=", "- a", "a: b", "# c", "a #b", ".inf", "-", "?", "!x", "&x", "*x", "a\nb", "x" * 200,
     "1:30"]
)  # fmt: skip
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple) | st.dictionaries(texts, inner, max_size=4)
    ),
    max_leaves=12,
)


def types(value):
    """A value with its types made visible: 1, 1.0 and True are equal in Python."""
    if isinstance(value, dict):
        return {key: types(child) for key, child in value.items()}
    if isinstance(value, tuple):
        return tuple(map(types, value))
    return type(value).__name__, value


@given(value=st.dictionaries(texts, values, max_size=4))
def test_what_is_dumped_reads_back_with_the_same_types(value):
    assert types(parse(dump(value), "x.yaml").plain()) == types(value)


@given(value=st.dictionaries(texts, values, max_size=4))
def test_dump_of_what_was_loaded_is_the_same_text(value):
    text = dump(value)
    assert dump(parse(text, "x.yaml").plain()) == text


@given(value=st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), values, max_size=4))
def test_every_key_stands_where_its_node_says(value):
    text = dump(value)
    lines = text.split("\n")
    for key, node in parse(text, "x.yaml").children.items():
        rest = lines[node.key_line - 1][node.key_column - 1 :]
        assert rest.lstrip("'\"").startswith(key)
        assert node.where == f"x.yaml:{node.key_line}:{node.key_column}"


@given(value=st.dictionaries(texts, values, max_size=4))
def test_a_python_value_and_its_text_give_the_same_tree(value):
    assert Node.of(value).plain() == parse(dump(value), "x.yaml").plain()


@given(text=st.text(max_size=60) | st.text("ab:[]{},&*!|>'\"#-? \n\t%@<", max_size=40))
def test_any_text_is_read_or_refused_with_a_place(text):
    try:
        parse(text, "x.yaml")
    except RecipeError as error:
        assert error.problems
        assert all(problem.where.startswith("x.yaml") for problem in error.problems)


def test_not_a_number_survives():
    assert math.isnan(parse(dump({"a": math.nan}), "x.yaml").plain()["a"])
