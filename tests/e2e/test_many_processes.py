"""Runs on several processes: the numbers of one, whatever each of them holds."""

import json

import pytest
import torch
from safetensors.torch import load_file

import dllmzoo
from dllmzoo.models._load import load_model
from dllmzoo.training.export import save_policy
from tests.processes import FSDP, ZERO, train_all
from tests.runs import metrics, recipe
from tests.unit.training.small import TOKENIZER, network

TRAIN = {
    "rounds": 3, "prompts": 4, "group_size": 4, "micro_batch": 7, "rollout_batch": 6,
    "save_every": 2, "minibatches": 2, "passes": 2, "log_drift": True,
}  # fmt: skip
LORA = {"preset": "all-linear", "rank": 2, "alpha": 4.0}
KL = {"name": "clipped_surrogate", "kl_coef": 0.1, "normaliser": "step"}
BLOCKS = {
    "name": "sdar", "tokenizer": "characters:01234=",
    "config": {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8,
        "num_key_value_heads": 1, "intermediate_size": 32, "block_size": 4,
        "max_position_embeddings": 64, "tie_word_embeddings": True,
    },
}  # fmt: skip
MODEL = recipe("x")["model"]
RUNS = {
    "plain": {},
    "reference": {"loss": KL, "model": MODEL | {"gradient_checkpointing": True}},
    "adapters": {"loss": KL | {"kl": "exact"}, "model": {"name": "llada", "lora": LORA}},
    "blocks": {
        "model": BLOCKS,
        "sampler": {
            "name": "block_diffusion",
            "answer_length": 16,
            "remask": "dynamic",
            "threshold": 0.22,
        },
        "train": TRAIN | {"prompts": 2},
    },
    "sft": {"stage": "sft", "train": {"rounds": 4, "prompts": 8, "micro_batch": 3}},
}
"""A run of each kind that runs the network differently."""
SHARDED = tuple(RUNS)
COPIED = ("plain", "sft")


def job(folder, name, **others):
    changes = {"train": TRAIN, "evaluate": {"examples": 9, "batch": 2, "steps": 4}} | RUNS[name]
    if name == "adapters":
        changes["model"] = changes["model"] | {"weights": str(folder.parents[1] / "base")}
    return {"recipe": recipe(folder, **changes), **others}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Every run on one process, and on two and four."""
    folder = tmp_path_factory.mktemp("runs")
    save_policy(folder / "base", network().float(), TOKENIZER)
    for name in RUNS:
        list(dllmzoo.train(job(folder / "one" / name, name)["recipe"]))
    jobs = [job(folder / "copied" / name, name) for name in COPIED]
    jobs += [job(folder / "sharded" / name, name, environment=FSDP) for name in SHARDED]
    jobs.append(job(folder / "zero" / "reference", "reference", environment=ZERO))
    offloaded = FSDP | {"FSDP_OFFLOAD_PARAMS": "true"}
    jobs.append(job(folder / "offloaded" / "sft", "sft", environment=offloaded))
    # the checkpoint of one process, taken up by shards, and theirs by one process
    again = job(folder / "taken up" / "plain", "plain", environment=FSDP, resume="auto")
    half = again["recipe"] | {"train": TRAIN | {"rounds": 2}}
    list(dllmzoo.train(half))
    train_all(folder, 2, [*jobs, again])
    train_all(folder, 4, [job(folder / "four" / "plain", "plain")])
    return folder


def same(one, other):
    """Whether two runs had the same losses, and end in the same weights."""
    rows, others = metrics(one), metrics(other)
    assert [row["round"] for row in rows] == [row["round"] for row in others]
    for row, second in zip(rows, others, strict=True):
        assert row.keys() ^ second.keys() <= {name for name in (*row, *second) if "eval/" in name}
        for name in row.keys() & {"loss", "reward", "entropy", "rollout/solved_rate", "drift"}:
            assert second[name] == pytest.approx(row[name], abs=1e-5), name
        for name in row.keys() & second.keys():
            if name.startswith("eval/") or name in ("flops", "lr"):
                assert second[name] == pytest.approx(row[name], rel=1e-6), name
        if "grad_norm" in row:
            assert second["grad_norm"] == pytest.approx(row["grad_norm"], rel=1e-3)
    adapted = (one / "final" / "adapter_model.safetensors").exists()
    file = "adapter_model.safetensors" if adapted else "model.safetensors"
    weights, second = load_file(one / "final" / file), load_file(other / "final" / file)
    assert weights.keys() == second.keys()
    for name, value in weights.items():
        torch.testing.assert_close(second[name], value, atol=1e-4, rtol=0)
    return True


@pytest.mark.slow  # six processes that import torch and transformers, shared by this file
@pytest.mark.parametrize("name", COPIED)
def test_two_processes_that_hold_the_whole_network_compute_what_one_does(runs, name):
    assert same(runs / "one" / name, runs / "copied" / name)
    manifest = json.loads((runs / "copied" / name / "manifest.json").read_text())
    assert manifest["machine"]["processes"] == 2


@pytest.mark.slow  # see above
def test_four_processes_compute_what_one_does(runs):
    assert same(runs / "one" / "plain", runs / "four" / "plain")


@pytest.mark.slow  # see above
@pytest.mark.parametrize("name", SHARDED)
def test_two_processes_that_share_the_parameters_compute_what_one_does(runs, name):
    folder = runs / "sharded" / name
    assert same(runs / "one" / name, folder)
    last = sorted((folder / "checkpoints").iterdir())[-1]
    assert sorted(file.name for file in (last / "shards").glob("*.distcp")) == [
        "__0_0.distcp", "__1_0.distcp",
    ]  # fmt: skip
    config = json.loads((runs / "one" / name / "manifest.json").read_text())
    assert json.loads((folder / "manifest.json").read_text())["parameters"] == config["parameters"]


@pytest.mark.slow  # see above
def test_shards_in_main_memory_compute_what_one_process_does(runs):
    assert same(runs / "one" / "sft", runs / "offloaded" / "sft")


@pytest.mark.slow  # see above
def test_the_second_stage_of_zero_computes_what_one_process_does(runs):
    assert same(runs / "one" / "reference", runs / "zero" / "reference")


@pytest.mark.slow  # see above
@pytest.mark.parametrize("name", ["plain", "adapters", "blocks"])
def test_the_folder_that_shards_leave_loads_alone(runs, name):
    config = "adapter_config.json" if name == "adapters" else "config.json"
    folders = [runs / kind / name / "final" for kind in ("one", "sharded")]
    one, sharded = (json.loads((folder / config).read_text()) for folder in folders)
    assert one == sharded
    tokens = torch.tensor([[1, 2, 3, 4]])
    logits = [load_model(folder)(tokens).logits for folder in folders]
    torch.testing.assert_close(logits[1], logits[0], atol=1e-3, rtol=0)


@pytest.mark.slow  # see above
def test_shards_take_up_the_checkpoint_of_one_process(runs):
    assert same(runs / "one" / "plain", runs / "taken up" / "plain")


@pytest.mark.slow  # see above
def test_one_process_takes_up_the_checkpoint_of_shards(runs):
    folder = runs / "offloaded" / "sft"
    changes = {"train": RUNS["sft"]["train"] | {"rounds": 6}}
    longer = job(folder, "sft")["recipe"] | changes
    whole = job(runs / "longer" / "sft", "sft")["recipe"] | changes
    list(dllmzoo.train(whole))
    list(dllmzoo.train(longer, resume="auto"))
    for row, other in zip(metrics(runs / "longer" / "sft"), metrics(folder), strict=True):
        assert other.get("loss") == pytest.approx(row.get("loss"), abs=1e-5)
