"""`dllmzoo check` and `dllmzoo schema`: all problems with their places, before anything runs."""

import json
from pathlib import Path

from dllmzoo.zoo import SELECTORS

SIX_MISTAKES = """\
format: 1
stage: rl
seed: -1
model: {name: llada, config: {d_model: 16}, tokenizer: "characters:01234="}
task: {name: sudoko}
sampler: {name: low_confidence, answer_length: 16, stepz: 4}
likelihood: {name: mean_field}
advantage: {name: group_relative}
loss: {name: clipped_surrogate, clip_lo: 0.1, clip_high: half}
optimizer: {lerning_rate: 1e-5}
"""

PLUGIN = '''
from dataclasses import dataclass
from dllmzoo import SELECTORS
from dllmzoo.selectors.uniform import Uniform

@SELECTORS.register("stranger")
@dataclass(frozen=True)
class Stranger(Uniform):
    """Steps that nobody expects."""
'''


def test_a_right_recipe_is_ok(cli, recipe):
    done = cli("check", recipe)
    assert (done.code, done.out, done.err) == (0, "tiny.yaml: ok\n", "")


def test_six_mistakes_are_six_problems_with_line_and_column(cli, recipe):
    Path("bad.yaml").write_text(SIX_MISTAKES)
    done = cli("check", "bad.yaml")
    assert done.code == 2
    places = [line.split(": ")[:2] for line in done.out.splitlines() if not line.startswith(" ")]
    assert places == [
        ["bad.yaml:3:1", "seed"],
        ["bad.yaml:5:8", "task.name"],
        ["bad.yaml:6:52", "sampler.stepz"],
        ["bad.yaml:9:33", "loss.clip_lo"],
        ["bad.yaml:9:47", "loss.clip_high"],
        ["bad.yaml:10:13", "optimizer.lerning_rate"],
    ]
    assert "did you mean 'sudoku'" in done.out and "did you mean 'clip_low'" in done.out
    assert done.err == "6 problems in 1 of 1 recipe\n"


def test_every_recipe_is_checked_whatever_the_others_are(cli, recipe):
    Path("bad.yaml").write_text(SIX_MISTAKES)
    done = cli("check", "bad.yaml", recipe, "not_there")
    assert done.code == 2
    assert "tiny.yaml: ok" in done.out
    assert "not_there: there is no such file" in done.out
    assert done.err == "7 problems in 2 of 3 recipes\n"


def test_changes_are_checked_with_the_recipe(cli, recipe):
    done = cli("check", recipe, "loss.clip_low=-1", "train.rounds=3")
    assert done.code == 2
    assert "override loss.clip_low" in done.out


def test_parts_that_do_not_fit_together_are_problems(cli, recipe):
    done = cli("check", recipe, "train.group_size=1")
    assert done.code == 2
    assert "group" in done.out


def test_a_dropped_option_is_told(cli, recipe):
    done = cli("check", recipe, "likelihood=mean_field", "selector=null",
               "loss={name: stable_drl}", "likelihood.unit=sequence")  # fmt: skip
    assert done.code == 0, done.out
    assert "tiny.yaml: note: " in done.out and "dropped: kl" in done.out


def test_without_a_recipe_there_is_nothing_to_check(cli):
    done = cli("check", "loss.clip_low=1")
    assert done.code == 2
    assert "name at least one recipe" in done.err


def test_plugins_of_the_command_line_are_known_to_the_recipe(cli, recipe):
    Path("my_parts.py").write_text(PLUGIN)
    with SELECTORS.temporarily("stranger"):
        words = ("selector.name=stranger", "selector.steps=2", "--plugin", "my_parts.py")
        done = cli("check", recipe, *words)
        assert done.code == 0, done.out


def test_json_holds_every_problem(cli, recipe):
    Path("bad.yaml").write_text(SIX_MISTAKES)
    done = cli("check", "bad.yaml", recipe, "--json")
    assert done.code == 2
    found = json.loads(done.out)
    assert found["tiny.yaml"] == [] and len(found["bad.yaml"]) == 6
    assert found["bad.yaml"][0]["where"] == "bad.yaml:3:1"


def test_the_smoke_block_can_be_checked(cli, recipe):
    assert cli("check", recipe, "--smoke").code == 0


def test_a_file_whose_name_looks_like_a_change_is_a_recipe(cli, recipe):
    Path("a=b.yaml").write_text(recipe.read_text())
    assert cli("check", "a=b.yaml").out == "a=b.yaml: ok\n"


def test_the_preflight_says_what_it_proved_of_the_loaded_network(cli, recipe):
    done = cli("check", recipe, "--preflight")
    assert done.code == 0, done.out
    lines = done.out.splitlines()
    assert lines[-1] == "tiny.yaml: ok"
    proven = [line.split(": ")[3:5] for line in lines[:-1]]
    assert ["mask id", "ok"] in proven and ["logit alignment", "undecided"] in proven
    assert len(proven) == 8


def test_the_preflight_gives_every_failure_at_once(cli, recipe, monkeypatch):
    from dllmzoo.training.preflight import Verdict, _checks

    broken = {
        "mask id": lambda _: Verdict("mask id", "failed", "it is not one id", "use another"),
        "memory": lambda _: Verdict("memory", "failed", "too much"),
        "first ratio": lambda _: Verdict("first ratio", "ok", "1"),
    }
    monkeypatch.setattr(_checks, "CHECKS", broken)
    done = cli("check", recipe, "--preflight")
    assert done.code == 2
    assert "tiny.yaml:5:1: model: mask id: it is not one id\n    use another" in done.out
    assert "model: memory: too much" in done.out
    assert "preflight: first ratio: ok: 1" in done.out
    assert done.err == "2 problems in 1 of 1 recipe\n"


def test_the_preflight_of_what_cannot_be_loaded_is_a_problem(cli, recipe):
    words = ("model.config=null", "model.tokenizer=null", "model.weights=owner/not-here")
    done = cli("check", recipe, "--preflight", *words)
    assert done.code == 2
    assert "is not on this machine and cannot be fetched" in done.out


def test_a_recipe_with_mistakes_is_not_loaded(cli, recipe):
    Path("bad.yaml").write_text(SIX_MISTAKES)
    done = cli("check", "bad.yaml", "--preflight")
    assert done.err == "6 problems in 1 of 1 recipe\n" and "preflight" not in done.out


def test_the_schema_is_json_that_knows_the_components(cli):
    schema = json.loads(cli("schema").out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "clipped_surrogate" in json.dumps(schema)


def test_the_schema_can_be_written_to_a_file(cli, recipe):
    done = cli("schema", "--output", "schema.json")
    assert "wrote schema.json" in done.out and "$schema=schema.json" in done.out
    assert json.loads(Path("schema.json").read_text())["type"] == "object"
    assert cli("schema", "-o", "no/such/folder/x.json").code == 2
