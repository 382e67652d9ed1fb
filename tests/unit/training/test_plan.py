"""The dry run against what a round really runs."""

import json

import pytest

import dllmzoo
from dllmzoo.models._load import load_tokenizer
from dllmzoo.recipe import load
from dllmzoo.training.plan import machine_speed, plan, views_of
from tests.runs import recipe

KL = {"name": "clipped_surrogate", "kl_coef": 0.1, "normaliser": "step"}
ELBO = {
    "selector": None, "likelihood": {"name": "elbo", "views": 3}, "advantage": "leave_one_out",
    "loss": "stable_drl",
}  # fmt: skip
TRAIN = recipe("x")["train"] | {"rounds": 1}
BLOCKS = {
    "model": {
        "name": "sdar", "tokenizer": "characters:01234=",
        "config": {
            "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 32, "block_size": 4,
            "max_position_embeddings": 64,
        },
    },
    "sampler": {"name": "block_diffusion", "answer_length": 16, "stop_at_end": False},
    "loss": KL | {"kl": "none"}, "evaluate": {"examples": 8},
}  # fmt: skip


def forecast(tmp_path, **changes):
    return plan(load(recipe(tmp_path, **changes)))


def test_rows_of_a_round_by_hand(tmp_path):
    # 16 samples; 4 denoising steps each; 2 chosen states scored and trained
    found = forecast(tmp_path)
    assert (found.samples, found.updates, found.rounds) == (16, 1, 4)
    assert (found.rollout_rows, found.train_rows) == (64, 32)
    # old only, since new = old in the first update; 8 + 4 + 4 calls of 8 rows
    no_kl = forecast(tmp_path, loss=KL | {"kl": "none"})
    assert no_kl.score_rows == 32 and no_kl.forwards == 8 + 4 + 4
    assert forecast(tmp_path, loss=KL).score_rows == 64  # and the reference
    # two passes of two minibatches: 3 of the 4 half rounds are scored afresh
    twice = TRAIN | {"passes": 2, "minibatches": 2}
    found = forecast(tmp_path, loss=KL, train=twice)
    assert found.score_rows == 32 + 32 + 48 and found.updates == 4 and found.train_rows == 64
    # a random plan a pass, each scored under the old policy
    found = forecast(tmp_path, **ELBO, train=TRAIN | {"passes": 2})
    assert found.score_rows == 2 * 48 + 48 and found.train_rows == 96
    found = forecast(tmp_path, stage="sft", train={"prompts": 8, "rounds": 3})
    assert (found.samples, found.rollout_rows, found.score_rows, found.train_rows) == (8, 0, 0, 8)


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": KL | {"kl": "none"}},
        {"loss": KL},
        {"loss": KL, "train": TRAIN | {"passes": 2, "minibatches": 2}},
        {"loss": KL | {"kl": "exact"}},
        ELBO,
        {"stage": "sft", "train": {"prompts": 8, "rounds": 1, "micro_batch": 8}},
        BLOCKS,
        BLOCKS | {"sampler": BLOCKS["sampler"] | {"cache": False}},
        BLOCKS | {"sampler": BLOCKS["sampler"] | {"steps_per_block": 2}},
        BLOCKS | {"stage": "sft", "train": {"prompts": 8, "rounds": 1, "micro_batch": 8}},
    ],
    ids=["no kl", "k3", "passes", "exact", "elbo", "sft", "blocks", "no cache", "steps", "bd3"],
)
def test_the_forecast_of_the_flops_is_near_what_is_counted(tmp_path, changes):
    changes = {"train": TRAIN} | changes
    found = forecast(tmp_path, **changes)
    rows = list(dllmzoo.train(recipe(tmp_path / "run", **changes)))
    # logits are counted as if every answer slot were scored
    assert rows[1]["flops"] <= found.flops <= 1.5 * rows[1]["flops"]


def test_rows_of_a_sampler_of_blocks_by_hand(tmp_path):
    # prompts of 17: four whole blocks of 4 and one token, answers 3 + 4 + 4 + 4 + 1 tokens;
    # a forward for the prompt, one a token, and one to store each block but the last
    assert forecast(tmp_path, **BLOCKS).rollout_rows == 16 * (1 + 16 + 4)
    two = BLOCKS | {"sampler": BLOCKS["sampler"] | {"steps_per_block": 2}}
    assert forecast(tmp_path, **two).rollout_rows == 16 * (1 + 9 + 4)
    whole = BLOCKS | {"sampler": BLOCKS["sampler"] | {"cache": False}}
    assert forecast(tmp_path, **whole).rollout_rows == 16 * 16
    assert forecast(tmp_path, **BLOCKS).flops < 0.6 * forecast(tmp_path, **whole).flops


def test_views_of_a_sample(tmp_path):
    assert views_of(load(recipe(tmp_path))) == 2
    assert views_of(load(recipe(tmp_path, selector="all"))) == 4
    assert views_of(load(recipe(tmp_path, **ELBO))) == 3


def test_the_table_names_every_quantity(tmp_path):
    labels = dict(forecast(tmp_path).rows())
    assert {"samples per round", "updates per round", "FLOPs per round", "rounds"} <= set(labels)
    json.dumps(labels)


def test_the_speed_of_the_machine_is_measured():
    assert machine_speed(64, 0.01) > 1e6


@pytest.mark.parametrize("family", ["llada", "dream", "sdar"])
def test_a_network_from_nothing_may_have_a_tokenizer_folder_of_its_own(tmp_path, family):
    load_tokenizer("characters:01234=").save_pretrained(tmp_path / "tokenizer")
    shape: dict[str, int] = {"max_sequence_length": 64}
    if family != "llada":
        shape = {name: n for name, n in BLOCKS["model"]["config"].items() if name != "block_size"}
    if family == "dream":
        shape["head_dim"], shape["num_attention_heads"] = 8, 2
    spelled = {"name": family, "tokenizer": "characters:01234=", "config": shape}
    beside = spelled | {"tokenizer": str(tmp_path / "tokenizer")}
    found = forecast(tmp_path, model=beside)
    assert found.flops == forecast(tmp_path, model=spelled).flops > 0
