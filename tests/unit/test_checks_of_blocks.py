"""Parts that work in the network's blocks, and networks without: each rule broken once."""

import json

import pytest

from dllmzoo.checks import check
from dllmzoo.recipe import load
from dllmzoo.recipe.recipe import attempt
from tests.unit.models.tiny import small_sdar

SHAPE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 16}  # fmt: skip
ELBO = "block_elbo"
STEPS = {"name": "denoising_steps", "layout": "dual_stream"}
LOW = {"name": "low_confidence", "answer_length": 16, "steps": 16}


def recipe(sampler="block_diffusion", likelihood=ELBO, *, family="sdar", weights=None, **config):
    """A recipe on Sudoku whose network is built from nothing, or has the given weights."""
    sampler = {"name": sampler, "answer_length": 16} if isinstance(sampler, str) else dict(sampler)
    likelihood = {"name": likelihood} if isinstance(likelihood, str) else dict(likelihood)
    model = {"name": family, "weights": weights}
    if weights is None:
        shape = SHAPE | config if family == "sdar" else {"d_model": 8, "n_layers": 1, "n_heads": 2}
        model |= {"tokenizer": "characters:01234=", "config": shape}
    selector = {"name": "all"} if likelihood["name"] == "denoising_steps" else None
    return {
        "title": "t", "stage": "rl", "model": model, "output": "runs/t",
        "task": {"name": "sudoku", "prompt_style": "compact"},
        "sampler": sampler, "likelihood": likelihood, "selector": selector,
        "advantage": {"name": "group_relative"}, "train": {"prompts": 2, "group_size": 2},
        "loss": {"name": "clipped_surrogate", "kl": "none"},
    }  # fmt: skip


def found(*parts, **settings):
    return check(load(recipe(*parts, **settings)))


def one(*parts, **settings):
    (problem,) = found(*parts, **settings)
    return problem


@pytest.mark.parametrize("likelihood", [ELBO, "exact_block", STEPS, "elbo"])
def test_a_block_network_has_what_parts_need(likelihood):
    assert found(likelihood=likelihood) == []


def test_a_likelihood_of_blocks_needs_a_network_that_has_some():
    problem = one(LOW, family="llada")
    assert problem.path == "likelihood"
    assert problem.message == (
        "likelihood block_elbo works in the blocks of the network's attention, and the family "
        "llada has none"
    )
    assert problem.hint == "use model.name: sdar with weights of that family, or likelihood elbo"
    assert one(LOW, "exact_block", family="llada").path == "likelihood"


def test_full_attention_has_no_blocks():
    likelihood, sampler = sorted(found(attention="full"), key=lambda each: each.path)
    assert (likelihood.path, sampler.path) == ("likelihood", "sampler")
    assert likelihood.message.endswith("and this network's attention is full")
    assert likelihood.hint == "use model.config.attention: block_causal, or likelihood elbo"
    assert sampler.hint.endswith("or a sampler for any network, such as low_confidence")


def test_a_layout_of_blocks_is_asked_back_at_its_own_key():
    problem = one(LOW, STEPS, family="llada")
    assert problem.path == "likelihood.layout"
    assert problem.hint.endswith("or layout: full")
    assert found(LOW, {**STEPS, "layout": "full"}, family="llada") == []


def test_a_sampler_of_blocks_is_looked_at_in_evaluation_and_supervised_training_too():
    plain = recipe(LOW, "elbo", family="llada")
    plain["evaluate"] = {"sampler": {"name": "block_diffusion", "answer_length": 16}}
    (problem,) = check(load(plain))
    assert problem.path == "evaluate.sampler"
    taught = recipe(family="llada") | {"stage": "sft"}
    assert [each.path for each in check(load(taught))] == ["sampler"]


def test_weights_say_whether_they_have_blocks(tmp_path):
    known = small_sdar(attention="full")
    (tmp_path / "config.json").write_text(json.dumps(known))
    problem = one(LOW, weights=str(tmp_path))
    assert problem.hint == (
        "use weights whose config.json has attention: block_causal, or likelihood elbo"
    )
    (tmp_path / "config.json").write_text(json.dumps({**known, "attention": "block_causal"}))
    assert found(weights=str(tmp_path)) == []
    assert found(weights="sdar-8b-chat") == []
    assert found(weights="owner/name") == []  # a hub id is not looked up


def test_blocks_that_are_too_large_are_not_enumerated():
    problem = one(likelihood="exact_block", block_size=9)
    assert problem.path == "likelihood"
    assert "at most 8 tokens, and those of the network have 9: 2^9 - 1" in problem.message
    assert "block_elbo" in problem.hint
    assert found(likelihood="exact_block", block_size=8) == []
    assert found(likelihood=ELBO, block_size=32) == []


def test_steps_in_two_streams_need_a_sampler_that_finishes_blocks():
    problem = one(LOW, STEPS, block_size=4)
    assert problem.path == "likelihood.layout"
    assert problem.message.endswith("low_confidence fills 16 slots in any order, the network's "
                                    "blocks having 4")  # fmt: skip
    assert problem.hint == "use sampler: block_diffusion, or layout: full"
    again = {"name": "running_confidence", "answer_length": 16, "steps": 4, "block_length": 4}
    assert "masks tokens again" in one(again, STEPS, block_size=4).message
    aligned = load(recipe({**LOW, "block_length": 4}, STEPS, block_size=4))
    assert check(aligned) == check(aligned) == []
    (notice,) = aligned.notices
    assert "a prompt that ends inside a block" in notice
    in_order = load(recipe({**LOW, "block_length": 1}, STEPS, block_size=4))
    assert check(in_order) == [] and not in_order.notices


@pytest.mark.parametrize("name", [ELBO, "exact_block"])
def test_another_context_than_the_sampler_saw_is_noticed(name):
    loaded = load(recipe(likelihood={"name": name, "context": "token_causal"}))
    assert check(loaded) == check(loaded) == []
    (notice,) = loaded.notices
    assert notice.startswith("likelihood.context token_causal")
    plain = load(recipe(likelihood=name))
    assert check(plain) == [] and not plain.notices


@pytest.mark.parametrize("key", ["sampler", "likelihood"])
def test_a_block_size_of_a_part_is_the_models(key):
    written = recipe()
    written[key]["block_size"] = 4
    _, (problem,) = attempt(written)
    assert problem.path == f"{key}.block_size"
    assert "blocks are those of the network's attention" in problem.message
    assert "model.config.block_size" in problem.hint


@pytest.mark.parametrize(
    ("name", "said", "hint"),
    [
        ("block_length", "blocks are those of the network's attention", "model.config.block_size"),
        ("steps", "it counts the steps of a block", "write sampler.steps_per_block"),
        ("num_steps", "it counts the steps of a block", "write sampler.steps_per_block"),
    ],
)
def test_what_other_samplers_count_over_the_whole_answer_is_explained(name, said, hint):
    written = recipe()
    written["sampler"][name] = 4
    _, (problem,) = attempt(written)
    assert said in problem.message and hint in problem.hint


@pytest.mark.parametrize("key", ["sampler", "likelihood"])
def test_where_there_is_a_block_length_the_hint_names_both(key):
    written = recipe(LOW, "elbo")
    written[key]["block_size"] = 4
    _, (problem,) = attempt(written)
    assert problem.hint == (
        f"write {key}.block_length; that of the network's attention is model.config.block_size, "
        f"or in its config.json"
    )


def test_a_block_size_beside_the_config_belongs_into_it():
    written = recipe()
    written["model"]["block_size"] = 4
    _, (problem,) = attempt(written)
    assert problem.path == "model.block_size"
    assert "model.config.block_size" in problem.hint


def test_the_parts_of_ebpo_go_together():
    ebpo = recipe(likelihood={"name": "ebpo", "views": 16, "spacing": "strided"})
    ebpo["loss"] |= {"clip_low": 0.2, "clip_high": 0.2, "length_norm": "none"}
    ebpo["loss"]["normaliser"] = "sequence"
    assert check(load(ebpo)) == []


def test_the_evaluation_of_a_block_sampler_takes_steps_of_a_block():
    written = recipe() | {"evaluate": {"steps": 2, "also_steps": [1, 4]}}
    assert check(load(written)) == []


def test_more_steps_than_a_block_has_tokens_are_refused_wherever_they_stand():
    sampler = {"name": "block_diffusion", "answer_length": 16, "steps_per_block": 5}
    written = recipe(sampler, block_size=4) | {"evaluate": {"steps": 6, "also_steps": [2, 7]}}
    said = {each.path: each.message for each in check(load(written))}
    assert said == {
        "sampler.steps_per_block": "5 steps for a block, and the network's blocks have 4 tokens",
        "evaluate.steps": "6 steps for a block, and the network's blocks have 4 tokens",
        "evaluate.also_steps": "7 steps for a block, and the network's blocks have 4 tokens",
    }
    written = recipe(LOW, "elbo", block_size=4) | {"evaluate": {"steps": 16}}  # of the answer
    assert check(load(written)) == []
