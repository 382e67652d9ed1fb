"""From words to runs: values between commas, combinations, names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllmzoo.errors import UsageError
from dllmzoo.lab.grid import grid, labels, parse_axes, split_values
from dllmzoo.lab.runs import NAME


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1e-4,2e-4", ("1e-4", "2e-4")),
        ("[5,8],[6,8]", ("[5,8]", "[6,8]")),
        ("[5,8]", ("[5,8]",)),
        ("{name: x, cap: 2},{name: y}", ("{name: x, cap: 2}", "{name: y}")),
        ("'a,b',c", ("'a,b'", "c")),
        ('"a\\",b",c', ('"a\\",b"', "c")),
        ("'it''s, so',d", ("'it''s, so'", "d")),
        ("{s: 'x, y'},z", ("{s: 'x, y'}", "z")),
        ("it's,me", ("it's", "me")),
        ("a, b ,c", ("a", "b", "c")),
        ("[[1,2],[3]],4", ("[[1,2],[3]]", "4")),
        ("[1,2", ("[1,2",)),
        ("'never,closed", ("'never,closed",)),
        ("", ("",)),
    ],
)  # fmt: skip
def test_brackets_and_quotes_keep_their_commas(text, values):
    assert split_values(text) == values


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=3), min_size=1, max_size=4))
def test_lists_joined_by_commas_come_apart_again(lists):
    words = [str(each).replace(" ", "") for each in lists]
    assert split_values(",".join(words)) == tuple(words)


def test_axes_keep_the_order_given():
    assert parse_axes(["b=1,2", "a=x"]) == {"b": ("1", "2"), "a": ("x",)}
    assert parse_axes(["selector="]) == {"selector": ("",)}


@pytest.mark.parametrize(
    ("word", "said"),
    [("seed", "changes nothing"), ("=3", "changes nothing"), ("a=1,,2", "empty value"),
     ("a=1,", "empty value"), ("a=1,1", "the same value twice"), ("output=x", "--output")],
)  # fmt: skip
def test_words_that_make_no_axis_are_refused(word, said):
    with pytest.raises(UsageError, match=said):
        parse_axes([word])


def test_a_key_given_twice_is_refused():
    with pytest.raises(UsageError, match="a is given twice; write its values with commas: a=1,2"):
        parse_axes(["a=1", "a=2"])


def test_every_combination_is_an_arm_and_seeds_vary_fastest():
    arms = grid(["one.yaml", "two"], {"optimizer.lr": ("1e-4", "1e-3"), "task.blanks": ("4",)}, 2)
    assert [arm.name for arm in arms[:3]] == [
        "one,lr=1e-4,seed=0", "one,lr=1e-4,seed=1", "one,lr=1e-3,seed=0",
    ]  # fmt: skip
    assert len(arms) == 2 * 2 * 2
    assert arms[0].overrides == ("optimizer.lr=1e-4", "task.blanks=4", "seed=0")
    assert arms[-1].recipe == "two" and arms[-1].name == "two,lr=1e-3,seed=1"


def test_keys_with_the_same_last_word_are_written_out():
    arms = grid(["r"], {"loss.x": ("1", "2"), "task.x": ("3", "4")}, None)
    assert arms[0].name == "r,loss.x=1,task.x=3"


def test_names_are_fit_for_folders_and_differ():
    values = ("[4, 5]", "4-5", "x" * 90, "x" * 91)
    names = [arm.name for arm in grid(["r"], {"task.blanks": values}, None)]
    assert len(set(names)) == 4
    assert all(NAME.fullmatch(name) for name in names)
    (plain, _) = (arm.name for arm in grid(["r"], {"task.blanks": ("[4,5]", "[5,6]")}, None))
    assert plain == "r,blanks=4-5"
    assert [arm.name for arm in grid(["r"], {"x": ("-1", "1")}, None)] == ["r,x=-1", "r,x=1"]


def test_seeds_are_set_in_one_way():
    assert [a.name for a in grid(["r"], {"seed": ("7",)}, None)] == ["r,seed=7"]
    with pytest.raises(UsageError, match="give one of them"):
        grid(["r"], {"seed": ("7",)}, 2)
    with pytest.raises(UsageError, match="1 or more"):
        grid(["r"], {}, 0)


def test_recipes_of_one_file_name_are_told_apart_by_their_folders():
    assert labels(["a/x.yaml", "b/x.yml", "llada_8b/y"]) == ["a-x", "b-x", "y"]
    with pytest.raises(UsageError, match="a is given twice"):
        labels(["a", "a"])
