"""The JSON Schema says what the reader accepts."""

import json

import pytest

from dllmzoo.recipe.document import read
from dllmzoo.recipe.packaged import recipes
from dllmzoo.recipe.recipe import KEYS
from dllmzoo.recipe.schema import json_schema
from tests.unit.recipe.json_check import fits
from tests.unit.recipe.small_parts import recipe


@pytest.fixture(scope="module")
def schema():
    return json_schema()


def test_it_is_json_of_the_draft_that_editors_read(schema):
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert tuple(schema["properties"]) == KEYS


@pytest.mark.parametrize("name", recipes())
def test_every_shipped_recipe_fits(schema, name):
    assert fits(read(recipes()[name]).plain(), schema, schema)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"loss": "clip_alias", "selector": None, "model": "llada"},
        {"loss": {"name": "clip", "length": [1, 2], "clip_high": None, "shares": {"a": 1.5}}},
        {"likelihood": {"name": "scorer", "schedule": "curve", "more": [{"name": "curve"}]}},
        {"likelihood": {"name": "scorer", "schedule": {"name": "curve", "power": 2}}},
        {"model": {"name": "llada", "lora": {"rank": 3, "preset": "mlp"}}},
        {"stage": "sft", "likelihood": None, "sft": {"schedule": "linear", "min_mask": 0.1}},
        {"task": {"name": "records", "prompt": "q", "answer_column": None}},
        {
            "optimizer": {"betas": [0.5, 0.6]},
            "evaluate": {"also_steps": [2, 4]},
            "smoke": {"a.b": 1},
        },
    ],
)
def test_what_loads_fits(schema, changes):
    assert fits(recipe(**changes), schema, schema)


@pytest.mark.parametrize(
    "changes",
    [
        {"lerning_rate": 1},
        {"format": 2},
        {"stage": "rll"},
        {"seed": -1},
        {"loss": "clipp"},
        {"loss": "plainn"},
        {"loss": {"clip_low": 1}},
        {"loss": {"name": "clip", "clip_lo": 1}},
        {"loss": {"name": "clip", "clip_low": -1}},
        {"loss": {"name": "clip", "clip_low": "half"}},
        {"loss": {"name": "clip", "pair": [1]}},
        {"loss": {"name": "clip", "kl": "k4"}},
        {"likelihood": {"name": "scorer", "schedule": {"name": "curve", "power": 0}}},
        {"likelihood": {"name": "scorer", "schedule": "curvy"}},
        {"model": {"name": "llada", "lora": {"r": 3}}},
        {"model": {"name": "llda"}},
        {"train": {"rounds": 0}},
        {"optimizer": {"betas": [0.5, 1]}},
    ],
)
def test_what_does_not_load_does_not_fit(schema, changes):
    assert not fits(recipe(**changes), schema, schema)


def test_a_stage_needs_its_parts(schema):
    without = {key: value for key, value in recipe().items() if key != "loss"}
    assert not fits(without, schema, schema)
    assert fits({**without, "stage": "sft"}, schema, schema)


def test_options_carry_their_meaning_default_and_range(schema):
    (clip,) = [o for o in schema["$defs"]["loss"]["anyOf"][1]["oneOf"] if o["title"] == "clip"]
    assert clip["description"] == "A small loss."
    low = clip["properties"]["clip_low"]
    assert low["description"] == "how far down."
    assert low["default"] == 0.2
    assert {"type": "number", "minimum": 0} in low["anyOf"]
    assert "alpha / rank" in schema["$defs"]["Lora"]["properties"]["alpha"]["description"]


def test_a_component_with_a_required_option_is_no_bare_name(schema):
    (plain,) = [o for o in schema["$defs"]["loss"]["anyOf"][1]["oneOf"] if o["title"] == "plain"]
    assert plain["required"] == ["name"]
    assert "clip" in schema["$defs"]["loss"]["anyOf"][0]["enum"]
