"""A recipe written out: round trip and differences."""

import json
from dataclasses import dataclass, replace

from dllmzoo.recipe import difference, dump, load, resolved
from dllmzoo.recipe.recipe import KEYS
from dllmzoo.zoo import LOSSES
from tests.unit.recipe.small_parts import Share, recipe


def test_every_default_is_written_out():
    plain = resolved(load(recipe()))
    assert list(plain) == list(KEYS)
    assert plain["format"] == 1
    assert plain["likelihood"] == {
        "name": "scorer", "unit": "step", "schedule": {"name": "curve", "power": 1.0}, "more": [],
    }  # fmt: skip
    assert plain["optimizer"]["betas"] == [0.9, 0.99]
    assert plain["sft"]["schedule"] == {"name": "linear"}
    assert plain["model"]["lora"] is None
    json.dumps(plain)


def test_what_is_written_loads_to_an_equal_recipe(tmp_path):
    made = load(recipe(
        model={"weights": "w", "lora": {"rank": 2, "targets": ["a"]}}, title="no", method="a-b",
        loss={"name": "clip_alias", "length": [1, 2], "shares": {"a": 1}, "clip_high": None},
        likelihood={"name": "scorer", "schedule": {"name": "curve", "power": 2}, "more": ["curve"]},
        smoke={"train": {"rounds": 1}}, selector=None, output="runs/x", seed=3,
    ))  # fmt: skip
    assert load(resolved(made)) == made
    path = tmp_path / "recipe.resolved.yaml"
    path.write_text(dump(resolved(made)))
    again = load(path)
    assert again == made
    assert resolved(again) == resolved(made)
    assert difference(again, made) == []


def test_plug_ins_are_written_so_that_another_folder_finds_them(tmp_path):
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "r.yaml").write_text(dump(resolved(load(recipe()))).replace(
        "plugins: []", "plugins: [./mine.py]"))  # fmt: skip
    made = load(tmp_path / "r.yaml")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "r.yaml").write_text(dump(resolved(made)))
    assert load(tmp_path / "run" / "r.yaml") == made


def test_a_component_that_is_no_dataclass_is_written_as_it_was():
    made = load(recipe(loss={"name": "plain", "size": 3}))
    assert resolved(made)["loss"] == {"name": "plain", "size": 3}


def test_an_object_of_an_unregistered_class_is_named_after_it():
    @dataclass(frozen=True)
    class Mine:
        size: int = 2

    assert resolved(load(recipe(loss=Mine())))["loss"] == {"name": "Mine", "size": 2}
    with LOSSES.temporarily("mine", Mine):
        made = LOSSES.get("mine")()
        assert resolved(load(recipe(loss=made)))["loss"] == {"name": "mine", "size": 2}


def test_difference_lists_dotted_keys():
    made = load(recipe())
    assert difference(made, load(recipe(title="other", method="x", smoke={"seed": 1}))) == []
    other = load(recipe(selector=None), ["loss.clip_low=0.5", "train.rounds=4", "loss.pair=[0,2]"])
    assert difference(made, other) == ["selector", "loss.clip_low", "loss.pair", "train.rounds"]
    assert difference(made, load(recipe(loss="share"))) == ["loss.name"]
    assert difference(made, replace(made, loss=Share())) == ["loss.name"]
    nested = load(recipe(likelihood={"name": "scorer", "schedule": {"name": "curve", "power": 2}}))
    assert difference(made, nested) == ["likelihood.schedule.power"]
    with_lora = load(recipe(model={"weights": "llada-8b-instruct", "lora": {}}))
    assert difference(made, with_lora) == ["model.lora"]
    assert difference(made, replace(made, plugins=("/a/b.py",))) == ["plugins"]
    assert (
        difference(replace(made, plugins=("/c/b.py",)), replace(made, plugins=("/a/b.py",))) == []
    )
