"""From a node to a component: messages, places, nested parts, plain classes."""

import pytest
from pydantic import ValidationError

import dllmzoo
from dllmzoo.errors import RecipeError, UsageError
from dllmzoo.recipe.build import build
from dllmzoo.recipe.document import parse
from dllmzoo.zoo import LOSSES
from tests.unit.recipe.small_parts import Clip, Curve


def problems(kind, node):
    if isinstance(node, str) and "\n" in node:
        node = parse(node, name="r.yaml").value[kind]
    with pytest.raises(RecipeError) as caught:
        build(kind, node)
    return caught.value.problems


def one(kind, node):
    (problem,) = problems(kind, node)
    return problem


def test_a_name_a_mapping_a_node_and_an_object_build_the_same():
    text = "loss: {name: clip, clip_low: 0.2}\n"
    from_node = build("loss", parse(text, "r.yaml").value["loss"])
    assert build("loss", "clip") == build("loss", {"name": "clip"}) == from_node
    assert build("loss", "clip_alias") == from_node
    assert build("loss", from_node) is from_node
    assert dllmzoo.build is build


def test_all_problems_of_a_node_are_reported_with_their_places():
    text = "loss:\n  name: clip\n  clip_lo: 0.2\n  clip_high: half\n"
    unknown, wrong = problems("loss", text)
    assert unknown.where == "r.yaml:3:3"
    assert "did you mean 'clip_low'" in unknown.hint
    assert unknown.message == "unknown option 'clip_lo'"
    assert unknown.path == "loss.clip_lo"
    assert wrong.where == "r.yaml:4:3"
    assert wrong.message == "expected float, got 'half'"


@pytest.mark.parametrize(
    ("option", "message", "hint"),
    [
        ("clip_low: -1", "must be >= 0, got -1", ""),
        ("clip_low: true", "expected float, got true", ""),
        ("clip_low: '0.5'", "expected float, got '0.5'", "remove the quotes"),
        ("clip_low: [1]", "expected float, got [1]", ""),
        ("clip_low: .nan", "expected a number, got nan", ""),
        ("kl: k4", "expected one of none, k3, exact, got 'k4'", "did you mean 'k3'?"),
        ("kl: 3", "expected one of none, k3, exact, got 3", ""),
        ("pair: [1]", "item 2 is missing", ""),
        ("pair: [1, 2, 3]", "expected at most 2 items, got 3", ""),
        ("pair: 1", "expected list, got 1", "write [1]"),
        ("length: x", "expected int or list of int, got 'x'", ""),
        ("length: [1, b]", "expected int or list of int, got [1, 'b']", ""),
        ("shares: 3", "expected mapping, got 3", ""),
        ("exact: yes", "expected bool, got 'yes'", "write true or false"),
        ("exact: 1", "expected bool, got 1", ""),
        ("exact: null", "expected bool, got null", "remove the key to take the default"),
        ("label: 3", "expected str, got 3", 'write "3" if the text is meant'),
    ],
)
def test_messages_say_what_was_expected_and_what_came(option, message, hint):
    problem = one("loss", f"loss:\n  name: clip\n  {option}\n")
    assert (problem.where, problem.message, problem.hint) == ("r.yaml:3:3", message, hint)


def test_a_float_that_is_whole_is_no_int():
    problem = one("sampler", "sampler:\n  name: writer\n  steps: 8.0\n")
    assert (problem.message, problem.hint) == ("expected int, got 8.0", "write 8")


def test_an_int_is_a_float_and_null_is_no_bound():
    loss = build("loss", {"name": "clip", "clip_low": 1, "clip_high": None})
    assert loss.clip_low == 1.0
    assert isinstance(loss.clip_low, float)
    assert loss.clip_high is None


def test_values_inside_values_have_their_own_place():
    text = "loss:\n  name: clip\n  shares: {a: 1, b: x}\n  pair: [0.5,\n    y]\n"
    inner, item = problems("loss", text)
    assert (inner.where, inner.path) == ("r.yaml:3:18", "loss.shares.b")
    assert (item.where, item.path) == ("r.yaml:5:5", "loss.pair[1]")


def test_names_of_other_projects_are_answered_with_ours():
    problem = one("sampler", "sampler:\n  name: writer\n  gen_length: 8\n")
    assert problem.message == "'gen_length' is called sampler.answer_length here"
    assert problem.hint == "write sampler.answer_length"
    assert (
        "did you mean sampler.answer_length?"
        in one("sampler", {"name": "writer", "gen_lenth": 1}).hint
    )


def test_an_option_glued_to_its_value_is_answered_with_the_missing_space():
    problem = one("sampler", "sampler: {name: writer, answer_length:8}\n")
    assert problem.message == "'answer_length:8' is one word: YAML needs a space behind the colon"
    assert problem.hint == "write answer_length: 8"
    assert one("sampler", {"name": "writer", "name:other": None}).hint == "write name: other"
    assert "unknown option 'zzz:8'" in one("sampler", {"name": "writer", "zzz:8": None}).message


def test_an_option_without_likeness_lists_what_there_is():
    assert one("selector", {"name": "chooser", "zzz": 1}).hint == "chooser takes steps"
    assert one("advantage", {"name": "centred", "zzz": 1}).hint == "centred takes no options"


def test_a_components_own_words_stand_at_the_option_they_name():
    text = "sampler:\n  name: writer\n  answer_length: 4\n  steps: 9\n"
    problem = one("sampler", text)
    assert (problem.where, problem.path) == ("r.yaml:4:3", "sampler.steps")
    assert problem.message == "steps 9 are more than answer_length 4"
    problem = one("sampler", "sampler:\n  {name: writer, answer_length: 2}\n")
    assert problem.path == "sampler.answer_length"


def test_an_unknown_name_is_answered_with_the_nearest():
    problem = one("loss", "loss:\n  name: clipp\n  clip_low: -3\n")
    assert (problem.where, problem.path) == ("r.yaml:2:3", "loss.name")
    assert problem.message == "no loss named 'clipp'"
    assert problem.hint.startswith("did you mean 'clip'")
    assert "plugins:" in problem.hint


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"clip_low": 1}, "the loss has no name"),
        ({}, "the loss has no name"),
        ({"name": 3}, "expected the name of a loss, got 3"),
        ({"name": None}, "expected the name of a loss, got null"),
        (3, "expected the name of a loss, got 3"),
        (None, "expected the name of a loss, got null"),
        (["clip"], "expected the name of a loss, got ['clip']"),
        (Clip, "expected an object, got the class Clip"),
    ],
)
def test_what_names_no_component_is_refused(node, message):
    problem = one("loss", node)
    assert problem.message == message
    assert problem.hint


def test_a_kind_must_exist():
    with pytest.raises(UsageError, match="no kind of component 'looss'"):
        build("looss", "clip")


def test_nested_parts_are_built_by_name_mapping_or_object():
    curve = build("schedule", {"name": "curve", "power": 2.0})
    assert build("likelihood", "scorer").schedule == build("schedule", "curve")
    made = build("likelihood", {"name": "scorer", "schedule": {"name": "curve", "power": 2}})
    assert made.schedule == curve
    made = build("likelihood", {"name": "scorer", "schedule": curve, "more": ["curve", curve]})
    assert made.schedule is curve
    assert made.more[1] is curve


def test_problems_of_nested_parts_keep_their_places():
    text = (
        "likelihood:\n  name: scorer\n  unitt: x\n  schedule:\n    name: curve\n    power: 0\n"
        "    pow: 1\n  more: [curve, curv,\n    {name: curve, power: x}]\n"
    )
    found = problems("likelihood", text)
    assert [(problem.where, problem.path) for problem in found] == [
        ("r.yaml:3:3", "likelihood.unitt"),
        ("r.yaml:6:5", "likelihood.schedule.power"),
        ("r.yaml:7:5", "likelihood.schedule.pow"),
        ("r.yaml:8:17", "likelihood.more[1]"),
        ("r.yaml:9:19", "likelihood.more[2].power"),
    ]
    assert found[1].message == "must be > 0, got 0"
    assert found[3].message == "no schedule named 'curv'"


def test_a_python_call_builds_nested_parts_too():
    scorer = type(build("likelihood", "scorer"))
    assert isinstance(scorer(schedule="curve").schedule, Curve)
    assert scorer(schedule={"name": "curve", "power": 3}).schedule.power == 3
    assert hash(scorer()) == hash(scorer())
    with pytest.raises(ValidationError, match="no schedule named 'curvy'"):
        scorer(schedule="curvy")


def test_a_plain_class_is_a_component_as_well():
    assert build("loss", {"name": "plain", "size": 3, "tilt": 0.5}).tilt == 0.5
    missing, unknown = problems("loss", "loss:\n  name: plain\n  tilted: 2\n")
    assert (missing.path, missing.message) == ("loss.size", "is missing")
    assert unknown.where == "r.yaml:3:3"
    assert "did you mean 'tilt'?" in unknown.hint
    wrong = one("loss", {"name": "plain", "size": 1, "tilt": -1})
    assert wrong.message == "plain cannot be made: tilt must be at least 0"


def test_a_component_that_fails_in_its_constructor_is_named():
    class Broken:
        def __init__(self) -> None:
            raise KeyError("inside")

    with LOSSES.temporarily("broken", Broken):
        assert one("loss", "broken").message == "broken cannot be made: KeyError: 'inside'"


def test_an_untrained_model_is_built_from_its_config():
    model = build("model", {"name": "llada", "d_model": 16, "n_layers": 1, "n_heads": 2,
                            "vocab_size": 9, "mask_token_id": 8})  # fmt: skip
    assert model.config.d_model == 16
    assert "load_model" in one("model", {"name": "llada", "weights": "x"}).hint
