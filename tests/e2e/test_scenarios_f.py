"""Behaviours learned from public bug reports, F: recipes, plug-ins and logging."""

import json
import os
import re
import socket
import subprocess
import sys

import pytest
import yaml

import dllmzoo
from dllmzoo import catalogue
from dllmzoo.checks import load_checked
from dllmzoo.cli._app import run
from dllmzoo.errors import RecipeError
from dllmzoo.recipe import load
from dllmzoo.recipe.renamed import RENAMED
from dllmzoo.zoo import LOSSES
from tests.runs import metrics, recipe, weights

PLUGIN = '''
from dataclasses import dataclass
from dllmzoo import LOSSES
from dllmzoo.losses.policy_gradient import PolicyGradient

@LOSSES.register("of_my_own")
@dataclass(frozen=True)
class OfMyOwn(PolicyGradient):
    """A loss that no file of the package has."""
'''


def problems(changes, tmp_path):
    with pytest.raises(RecipeError) as caught:
        load_checked(recipe(tmp_path / "run", **changes))
    return str(caught.value)


def test_s46_and_s47_values_are_what_they_look_like(tmp_path):
    file = tmp_path / "r.yaml"
    text = yaml.safe_dump(recipe(tmp_path / "run", optimizer={"lr": 0}))
    file.write_text(text.replace("lr: 0", "lr: 1e-5"))
    assert load(file).optimizer.lr == 1e-5
    tokenizer = load(file, ["model.tokenizer=characters:01234=+"]).model.tokenizer
    assert tokenizer == "characters:01234=+"
    file.write_text(text.replace("lr: 0", "lr: '1e-5'"))
    with pytest.raises(RecipeError, match=r"r\.yaml:\d+:\d+: optimizer\.lr: expected"):
        load(file)


def test_s48_an_unknown_name_is_answered(tmp_path):
    said = problems({"sampler": {"name": "low_confidance", "answer_length": 16}}, tmp_path)
    assert "'low_confidence'" in said and "block_diffusion" in said
    assert "must be imported first: list its file under `plugins:`" in said


@pytest.mark.slow  # two processes that import torch and transformers
def test_s49_a_plug_in_is_the_same_in_one_process_and_in_two(tmp_path):
    (tmp_path / "my_parts.py").write_text(PLUGIN)
    own = {"plugins": ["./my_parts.py"], "loss": {"name": "of_my_own"}}
    train = {"rounds": 2, "prompts": 4, "group_size": 4, "micro_batch": 8}
    for name in ("one", "two"):
        content = recipe(tmp_path / name, train=train, **own)
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    with LOSSES.temporarily("of_my_own"):
        list(dllmzoo.train(tmp_path / "one.yaml"))
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launch += ["--master-port", str(29900 + os.getpid() % 90)]
    done = subprocess.run(
        [*launch, "-m", "dllmzoo", "train", str(tmp_path / "two.yaml")],
        env={**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for one, two in zip(metrics(tmp_path / "one"), metrics(tmp_path / "two"), strict=True):
        assert two.get("loss") == pytest.approx(one.get("loss"), abs=1e-5)
    assert json.loads((tmp_path / "two" / "manifest.json").read_text())["machine"]["processes"] == 2


def test_s51_another_part_has_options_of_its_own(tmp_path):
    base = recipe(tmp_path / "run") | {"selector": {"name": "entropy", "steps": 3}}
    changed = load(base, ["selector=random"])
    assert changed.selector == type(changed.selector)()
    assert any("dropped" in notice for notice in changed.notices)
    assert load(base, ["selector=entropy"]).selector.steps == 3


@pytest.mark.parametrize("key", sorted(RENAMED))
def test_s52_a_key_of_another_project_is_answered_with_ours(tmp_path, key):
    section, _, name = key.partition(".")
    content = recipe(tmp_path / "run")
    if not name:
        content[section] = 1
    else:
        content.setdefault(section, {})
        if isinstance(content[section], str):
            content[section] = {"name": content[section]}
        content[section] = {**content[section], name: 1}
    with pytest.raises(RecipeError) as caught:
        load(content)
    said, ours = str(caught.value), RENAMED[key].split(":")[0].split(" and ")[0]
    idle = "leave it out" in said and "model.config.block_size" in said  # a part without blocks
    assert ours in said or (idle and "block" in key)


def test_s53_nothing_is_logged_over_a_network_unless_it_is_asked_for(tmp_path, monkeypatch):
    for name, file in catalogue.recipes().items():
        assert load(file).train.trackers == (), name

    def refuse(*_):
        raise AssertionError("a run without trackers opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    train = {"rounds": 1, "prompts": 2, "group_size": 2, "micro_batch": 8}
    list(dllmzoo.train(recipe(tmp_path / "run", train=train)))
    assert len(metrics(tmp_path / "run")) == 2


def test_s54_a_run_is_not_written_over(tmp_path):
    train = {"rounds": 1, "prompts": 2, "group_size": 2, "micro_batch": 8}
    list(dllmzoo.train(recipe(tmp_path / "run", train=train)))
    kept = weights(tmp_path / "run")
    with pytest.raises(dllmzoo.errors.UsageError, match="is not empty; go on with"):
        dllmzoo.train(recipe(tmp_path / "run", train=train, seed=4))
    assert weights(tmp_path / "run") == kept


def test_s55_a_run_is_watched_in_one_page_with_the_credit_of_each_step(tmp_path):
    train = {"rounds": 1, "prompts": 2, "group_size": 4, "micro_batch": 8, "log_rollouts": 1}
    list(dllmzoo.train(recipe(tmp_path / "run", train=train)))
    assert run(["report", str(tmp_path / "run"), "--output", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    from_elsewhere = r"<(?:script|link|img|iframe)[^>]*\b(?:src|href)=[\"'](?!data:|#)"
    assert re.findall(from_elsewhere, page) == []
    data = page.partition('id="data">')[2].partition("</script>")[0]
    traces = json.loads(data)["runs"][0]["traces"]
    assert traces
    for trace in traces:
        assert isinstance(trace["reward"], float) and len(trace["entropy"]) == 16
        assert sorted(set(trace["reveal"])) == [0, 1, 2, 3], "when each slot was written"
        assert len(trace["steps"]) == len(trace["advantage"]) == 2, "the credit of each step"
        assert all(isinstance(s["guesses"][0]["reward"], float) for s in trace["steps"])
