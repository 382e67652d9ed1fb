"""Behaviours learned from public bug reports, C: likelihoods, ratios and losses."""

import inspect
import re
from dataclasses import replace

import pytest
import torch

from dllmzoo.cli._app import run
from dllmzoo.models._lora import FrozenCopy
from dllmzoo.recipe import load
from dllmzoo.records import Key, Normaliser
from dllmzoo.scoring import score
from dllmzoo.training.loop import collect
from dllmzoo.training.meter import Meter
from dllmzoo.training.update import update
from dllmzoo.zoo import LIKELIHOODS, LOSSES
from tests.unit.training.small import budget, learner, network
from tests.unit.training.test_every_recipe import RECIPES, parts


@pytest.mark.parametrize("name", RECIPES)
def test_s19_a_small_update_makes_better_answers_likelier(name):
    """The credit-weighted change of what the loss trains is positive, for every method."""
    method, loss = parts(name), parts(name).loss
    made = learner(network(family=load(name).model.name), lr=1e-3)
    made = replace(made, reference=FrozenCopy(made.policy))
    counts = budget(prompts=8, group_size=getattr(method.sampler, "group_size", None) or 4)
    meter = Meter(made.accelerator, counts.micro_batch)
    seen = collect(method, counts, made, meter, 0, 0)
    views = seen.views[0]
    advantage_BU = views.credit(seen.advantage_BA)

    def trained():
        now = score(made.policy.eval(), seen.rollout, views, micro_batch=64).logprob_BKL
        estimate = method.likelihood.pool(now, views, seen.rollout, advantage_BU)
        return estimate.score_BU if getattr(loss, "uses_score", True) else estimate.ratio_BU

    before = trained()
    rows = torch.arange(len(seen.rollout.tokens_BL))
    update(method, counts, made, meter, seen, Key(0, 0, "loss/0"), rows, fresh=True)
    gain_BU = torch.where(views.live_BU, trained() - before, 0)
    assert advantage_BU.abs().sum() > 0
    assert float((advantage_BU * gain_BU).sum()) > 0
    assert not torch.isnan(gain_BU).any()


def test_s20_what_divides_a_loss_is_an_option_and_printed(tmp_path, capsys):
    for name in LOSSES.names():
        options = inspect.signature(LOSSES.get(name)).parameters
        if "normaliser" in options:
            said = str(options["normaliser"].annotation)
            assert "Normaliser" in said or "Literal" in said, name
    assert set(Normaliser.__args__) >= {"token", "sequence", "fixed", "step", "group"}
    assert run(["train", "egspo_sudoku", "--print-config", f"output={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^  normaliser: \w+$", printed, re.M)
    assert re.search(r"^  length_norm: \w+$", printed, re.M)
    assert run(["train", "egspo_sudoku", "loss.normaliser=group", "--dry-run"]) == 0
    planned = " ".join(capsys.readouterr().out.split())
    assert re.search(r"the loss is divided by normaliser: group; length_norm: \w+", planned)


@pytest.mark.parametrize("name", LIKELIHOODS.names())
def test_s24_the_card_of_a_likelihood_says_what_it_estimates_and_what_it_costs(name):
    text = inspect.getdoc(LIKELIHOODS.get(name)) or ""
    assert re.search(r"\bforward|\bviews? |\bCosts?\b|\bpass(es)?\b", text, re.I), "what it costs"
    assert re.search(r"bias|exact|bound|surrogate|estimate|approximat", text, re.I), (
        "how far it is off"
    )
    if LIKELIHOODS.get(name).random:
        assert re.search(r"varian|random|draw|nois", text, re.I), "where its variance comes from"
