"""`key=value`: parsing, merging, and switching a part."""

import pytest

from dllmzoo.errors import RecipeError
from dllmzoo.recipe import load
from dllmzoo.recipe.document import Node
from dllmzoo.recipe.overrides import apply, parse_overrides
from dllmzoo.recipe.recipe import Recipe
from tests.unit.recipe.small_parts import recipe


def changed(tree, *overrides):
    found: list = []
    node, notices = apply(Node.of(tree), parse_overrides(overrides, found), found)
    assert not found
    return node.plain(), notices


def problems(*overrides, source=None):
    with pytest.raises(RecipeError) as caught:
        load(source or recipe(), overrides)
    return caught.value.problems


def test_values_are_yaml_and_only_the_first_equals_sign_splits():
    plain, _ = changed(
        {"optimizer": {"lr": 1}, "model": {"name": "llada"}},
        "title=a=b", "optimizer.betas=[0.9,0.99]", "optimizer.lr=1e-5", "model.lora.rank=8",
        "output=", "seed=012", "stage='sft'", "plugins=[a, b]",
    )  # fmt: skip
    assert plain["title"] == "a=b"
    assert plain["optimizer"] == {"lr": 1e-5, "betas": (0.9, 0.99)}
    assert plain["model"] == {"name": "llada", "lora": {"rank": 8}}
    assert plain["output"] is None
    assert (plain["seed"], plain["stage"], plain["plugins"]) == (12, "sft", ("a", "b"))


def test_another_component_drops_the_options_of_the_one_before_and_says_so():
    plain, notices = changed(recipe(), "loss=share")
    assert plain["loss"] == {"name": "share"}
    assert notices == [
        "loss: name changed from clip to share: its 2 options were dropped: clip_low, clip_high"
    ]
    plain, notices = changed(recipe(), "selector.name=uniform")
    assert plain["selector"] == {"name": "uniform"}
    assert notices == [
        "selector: name changed from chooser to uniform: its 1 option was dropped: steps"
    ]
    # what the command sets itself is not lost
    plain, notices = changed(recipe(), "selector=uniform", "selector.steps=2")
    assert plain["selector"] == {"name": "uniform", "steps": 2} and notices == []
    _, notices = changed(recipe(), "loss.clip_low=0.3", "loss=share")
    assert notices == ["loss: name changed from clip to share: its 1 option was dropped: clip_high"]
    assert changed(recipe(), "loss={name: share, clip_high: 3}")[0]["loss"] == {
        "name": "share",
        "clip_high": 3,
    }


def test_the_same_component_keeps_its_options():
    for name in ("clip", "clip_alias"):
        plain, notices = changed(recipe(), f"loss={name}")
        assert plain["loss"] == {"name": name, "clip_low": 0.1, "clip_high": 0.3}
        assert notices == []
    plain, _ = changed(recipe(), "loss={name: clip, clip_low: 1}")
    assert plain["loss"] == {"name": "clip", "clip_low": 1, "clip_high": 0.3}


def test_names_come_before_options_whatever_the_order():
    plain, _ = changed(recipe(), "loss.clip_high=2", "loss=share")
    assert plain["loss"] == {"name": "share", "clip_high": 2}
    plain, _ = changed(recipe(), "loss.clip_high=2", "loss.name=share", "loss.clip_high=3")
    assert plain["loss"] == {"name": "share", "clip_high": 3}


def test_an_option_opens_a_part_that_is_only_a_name():
    plain, _ = changed(recipe(), "likelihood.unit=slot", "likelihood.schedule.power=2")
    assert plain["likelihood"] == {"name": "scorer", "unit": "slot", "schedule": {"power": 2}}
    plain, _ = changed(recipe(likelihood={"name": "scorer", "schedule": "curve"}),
                       "likelihood.schedule.power=2")  # fmt: skip
    assert plain["likelihood"]["schedule"] == {"name": "curve", "power": 2}


def test_mappings_join_sections_and_replace_below():
    tree = recipe(task={"name": "sums", "rewards": {"right": 1.0}})
    plain, _ = changed(tree, "train={rounds: 9}", "task={rewards: {short: 2}}")
    assert plain["train"] == {"rounds": 9, "prompts": 4, "group_size": 2}
    assert plain["task"] == {"name": "sums", "rewards": {"short": 2}}
    plain, _ = changed(tree, "task.rewards.short=2")
    assert plain["task"]["rewards"] == {"right": 1.0, "short": 2}


def test_null_takes_a_part_out():
    plain, notices = changed(recipe(), "selector=null")
    assert plain["selector"] is None
    assert notices == []
    assert load(recipe(likelihood="bound"), ["selector=null"]).selector is None


def test_options_of_a_built_part_can_be_changed():
    built = load(recipe())
    changed_loss = load({**recipe(), "loss": built.loss}, ["loss.clip_low=0.4"]).loss
    assert (changed_loss.clip_low, changed_loss.clip_high) == (0.4, 0.3)
    again = load(built, ["train.rounds=7", "likelihood.unit=slot"])
    assert isinstance(again, Recipe)
    assert (again.train.rounds, again.train.prompts) == (7, 4)
    assert again.likelihood.unit == "slot"


def test_a_mapping_of_dotted_keys_works_too():
    assert load(recipe(), {"train.rounds": 5, "loss.pair": [0, 2]}).loss.pair == (0.0, 2.0)


@pytest.mark.parametrize(
    ("override", "where", "message"),
    [
        ("loss.clip_low", "override loss.clip_low", "expected key=value"),
        ("=3", "override ", "'' is not the name of a key"),
        (
            "loss..clip_low=3",
            "override loss..clip_low",
            "'loss..clip_low' is not the name of a key",
        ),
        ("train.rounds.x=3", "override train.rounds.x", "train.rounds is 3, which has no keys"),
        ("loss.clip_low=[", "override loss.clip_low", "not YAML"),
        ("loss.clip_low=half", "override loss.clip_low", "expected float, got 'half'"),
        ("loss={name: share, zzz: 1}", "override loss", "unknown option 'zzz'"),
        ("lerning_rate=1e-5", "override lerning_rate", "unknown option 'lerning_rate'"),
        ("sampler.gen_length=3", "override sampler.gen_length", "is called sampler.answer_length"),
        ("sampler=writr", "override sampler", "no sampler named 'writr'"),
        ("train.pair={a: 1, a: 2}", "override train.pair", "duplicate key 'a'"),
    ],
)
def test_a_bad_override_stands_at_itself(override, where, message):
    found = problems(override)
    assert found[0].where == where
    assert message in found[0].message


def test_an_unknown_key_at_the_top_is_answered_with_the_nearest():
    assert "did you mean 'output'?" in problems("outptu=x")[0].hint
    assert "did you mean optimizer.lr?" in problems("lerning_rate=1e-5")[0].hint


def test_overrides_and_the_file_are_reported_together(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("seed: -1\n")
    found = problems("train.rounds=0", source=path)
    assert found[0].where == f"{path}:1:1"
    assert found[-1].where == "override train.rounds"
