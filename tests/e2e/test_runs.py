"""A run from start to end: what it writes, how it stops, how it goes on."""

import gzip
import json
import signal
from itertools import islice

import pytest
import torch
import yaml
from safetensors.torch import load_file

import dllmzoo
from dllmzoo.errors import HealthError, Interrupted, RunError, UsageError
from dllmzoo.models._load import load_model
from dllmzoo.training.summary import summary
from tests.runs import metrics, recipe, same_numbers, weights


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One whole run, shared by the tests that only look at it."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    rows = list(dllmzoo.train(recipe(folder)))
    return folder, rows


def test_every_round_is_one_row_and_the_edges_are_evaluated(finished):
    folder, rows = finished
    assert [row["round"] for row in rows] == [0, 1, 2, 3, 4]
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    assert "eval/solved_rate" in rows[0] and "eval/solved_rate" in rows[-1]
    assert "eval/solved_rate" not in rows[2]
    assert rows[-1]["eval/solved_rate_low"] <= rows[-1]["eval/solved_rate"]
    assert rows[1]["ratio"] == 1.0


def test_the_run_folder_holds_what_the_docs_say(finished):
    folder, _ = finished
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "recipe.resolved.yaml", "manifest.json", "metrics.jsonl", "rollouts", "checkpoints",
        "final", "evaluations.json",
    }  # fmt: skip
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["seed"] == 3 and len(manifest["data"]) == 64
    assert manifest["finished"]["round"] == 4
    assert yaml.safe_load((folder / "recipe.resolved.yaml").read_text())["format"] == 1
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [
        "round-000002", "round-000004",
    ]  # fmt: skip


def test_rollouts_are_logged_with_steps_guesses_and_advantages(finished):
    folder, _ = finished
    with gzip.open(folder / "rollouts" / "000002.jsonl.gz", "rt") as file:
        lines = [json.loads(line) for line in file]
    assert [line["sample"] for line in lines] == list(range(16))
    line = lines[5]
    assert len(line["answer_ids"]) == len(line["reveal"]) == len(line["entropy"]) == 16
    assert len(line["prompt"]) == 17 and line["group"] == 1
    assert len(line["steps"]) == len(line["advantage"]) == 2
    assert set(line["steps"][0]["guesses"][0]) == {"text", "reward"}
    assert set(line["components"]) == {"cells_released"}


def test_the_final_folder_loads_keeps_public_names_and_round_trips(finished, tmp_path):
    folder, _ = finished
    model = load_model(folder / "final")
    saved = load_file(folder / "final" / "model.safetensors")
    assert "model.transformer.blocks.0.ff_proj.weight" in saved
    assert all(torch.equal(model.state_dict()[name], value) for name, value in saved.items())
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == weights(folder)
    last = load_file(folder / "checkpoints" / "round-000004" / "weights.safetensors")
    assert all(torch.equal(saved[name], value) for name, value in last.items())


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(finished, tmp_path):
    folder, rows = finished
    again = list(dllmzoo.train(recipe(tmp_path / "again")))
    assert [same_numbers(row) for row in again] == [same_numbers(row) for row in rows]
    assert weights(tmp_path / "again") == weights(folder)
    other = list(islice(dllmzoo.train(recipe(tmp_path / "other", seed=4)), 2))
    assert other[1]["reward"] != rows[1]["reward"] or other[1]["loss"] != rows[1]["loss"]


@pytest.mark.parametrize("rows_before_close", [1, 2, 4])
def test_closing_the_generator_saves_and_resume_gives_the_same_bits(
    finished, tmp_path, rows_before_close
):
    folder, _ = finished
    run = dllmzoo.train(recipe(tmp_path / "cut"))
    for _ in range(rows_before_close):
        next(run)
    run.close()
    assert not (tmp_path / "cut" / "final").exists()
    list(dllmzoo.train(recipe(tmp_path / "cut"), resume="auto"))
    assert metrics(tmp_path / "cut") == metrics(folder)
    assert weights(tmp_path / "cut") == weights(folder)


def test_a_torn_line_and_rows_after_the_checkpoint_are_cut_away(finished, tmp_path):
    folder, _ = finished
    run = dllmzoo.train(recipe(tmp_path / "cut"))
    list(islice(run, 4))  # rows 0 to 3; the checkpoint is of round 2
    del run  # closes it: a checkpoint of round 3 appears; a killed run would not have it
    checkpoints = tmp_path / "cut" / "checkpoints"
    for file in (checkpoints / "round-000003").iterdir():
        file.unlink()
    (checkpoints / "round-000003").rmdir()
    with (tmp_path / "cut" / "metrics.jsonl").open("a") as file:
        file.write('{"round": 4, "rew')
    list(dllmzoo.train(recipe(tmp_path / "cut"), resume="auto"))
    assert metrics(tmp_path / "cut") == metrics(folder)
    assert weights(tmp_path / "cut") == weights(folder)


def test_a_folder_with_a_run_is_refused_unless_told(finished):
    folder, _ = finished
    with pytest.raises(UsageError, match="is not empty; go on with `--resume auto`"):
        dllmzoo.train(recipe(folder))


def test_a_folder_that_is_no_run_is_never_cleared(tmp_path):
    (tmp_path / "thesis.txt").write_text("three years")
    with pytest.raises(UsageError, match="not a run folder"):
        list(dllmzoo.train(recipe(tmp_path), overwrite=True))
    assert (tmp_path / "thesis.txt").read_text() == "three years"


def test_a_finished_run_has_nothing_to_do(finished, caplog):
    folder, _ = finished
    with caplog.at_level("INFO", "dllmzoo"):
        assert list(dllmzoo.train(recipe(folder), resume="auto")) == []
    assert "is finished" in caplog.text


def test_resuming_where_nothing_was_run_starts_over(tmp_path):
    rows = list(dllmzoo.train(recipe(tmp_path / "new"), ["train.rounds=1"], resume="auto"))
    assert [row["round"] for row in rows] == [0, 1]


def test_resume_refuses_another_recipe_but_takes_more_rounds(finished, tmp_path):
    folder, _ = finished
    list(dllmzoo.train(recipe(tmp_path / "a"), ["train.rounds=2"]))
    with pytest.raises(RunError, match=r"optimizer\.lr"):
        list(dllmzoo.train(recipe(tmp_path / "a"), ["optimizer.lr=0.5"], resume="auto"))
    list(dllmzoo.train(recipe(tmp_path / "a"), resume="auto"))
    assert weights(tmp_path / "a") == weights(folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_finishes_the_round_and_saves(tmp_path, number):
    run = dllmzoo.train(recipe(tmp_path / "run"))
    list(islice(run, 2))
    signal.raise_signal(number)
    assert next(run)["round"] == 2
    with pytest.raises(Interrupted, match=f"{number.name} after round 2.*--resume auto") as caught:
        next(run)
    assert caught.value.exit_code == 130
    assert (tmp_path / "run" / "checkpoints" / "round-000002").is_dir()


def test_a_second_signal_stops_at_once(tmp_path):
    run = dllmzoo.train(recipe(tmp_path / "run"))
    list(islice(run, 2))
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    run.close()


NAN_LOSS = '''
"""A loss that breaks in its third update."""
from dataclasses import dataclass
from typing import ClassVar
from dllmzoo import LOSSES

CALLS = []

@LOSSES.register("breaks")
@dataclass(frozen=True)
class Breaks:
    """Fine twice, then not a number."""
    clip_low: float = 0.2
    units: ClassVar[frozenset] = frozenset({"step"})
    needs_old: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = False
    needs_exact_kl: ClassVar[bool] = False

    def __call__(self, new, old, reference, advantage_BU, units):
        CALLS.append(1)
        scale = float("nan") if len(CALLS) > 2 else 1.0
        return units.mean(-advantage_BU * new.score_BU * scale, "unit"), {}
'''


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_last_checkpoint(tmp_path):
    (tmp_path / "breaks.py").write_text(NAN_LOSS)
    broken = recipe(tmp_path / "run", loss="breaks", plugins=[str(tmp_path / "breaks.py")])
    with (
        dllmzoo.LOSSES.temporarily("breaks"),
        pytest.raises(HealthError, match=r"not applied.*round-000002") as caught,
    ):
        list(dllmzoo.train(broken))
    assert caught.value.exit_code == 3
    assert not (tmp_path / "run" / "final").exists()


def test_the_table_of_a_resumed_run_is_of_its_new_end_on_the_examples_both_know(tmp_path):
    list(dllmzoo.train(recipe(tmp_path / "run"), ["train.rounds=1"]))
    more = ["train.rounds=2", "evaluate.examples=12", "evaluate.steps=2"]
    list(dllmzoo.train(recipe(tmp_path / "run"), more, resume="auto"))
    known = json.loads((tmp_path / "run" / "evaluations.json").read_text())
    assert list(known["end"]) == ["2"] and len(known["end"]["2"]) == 12
    assert [(row.label, row.steps, row.gain) for row in summary(tmp_path / "run")] == [
        ("base", "4", None), ("trained", "2", None),
    ]  # fmt: skip


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    base = load_model_folder(tmp_path / "base")
    parts = recipe(tmp_path / "run", model={"name": "llada", "weights": str(base)})
    policy = load_model(base)
    run = dllmzoo.train(parts, policy=policy)
    list(islice(run, 2))
    with torch.no_grad():
        next(policy.parameters())[0] = torch.nan
    with pytest.raises(HealthError, match="not finite after round 1"):
        run.close()
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_max_minutes_ends_the_run_as_if_finished(tmp_path):
    rows = list(dllmzoo.train(recipe(tmp_path / "short"), ["train.max_minutes=0.0001"]))
    assert [row["round"] for row in rows] == [0, 1]
    assert "eval/solved_rate" in rows[-1] and (tmp_path / "short" / "final").is_dir()


@pytest.mark.parametrize("loss", ["kl: k3", "kl: exact", "kl: k1"])
def test_lora_trains_against_its_own_base_and_its_final_folder_loads(tmp_path, loss):
    base = load_model_folder(tmp_path / "base")
    lora = {"name": "llada", "weights": str(base), "lora": {"rank": 2, "alpha": 4}}
    kl = {"name": "clipped_surrogate", "kl_coef": 0.1, "normaliser": "step", **yaml.safe_load(loss)}
    rows = list(dllmzoo.train(recipe(tmp_path / "lora", model=lora, loss=kl)))
    assert rows[1]["kl"] == 0.0 and rows[-1]["kl"] != 0.0
    model = load_model(tmp_path / "lora" / "final")
    assert (tmp_path / "lora" / "final" / "adapter_config.json").exists()
    untouched = load_model(base).state_dict()
    kept = model.get_base_model().state_dict()
    name = "model.transformer.blocks.0.q_proj"
    assert torch.equal(kept[f"{name}.base_layer.weight"], untouched[f"{name}.weight"])


def load_model_folder(folder):
    """A random base on disk, as a model without rounds would leave it."""
    list(islice(dllmzoo.train(recipe(folder / "run"), ["train.rounds=1"]), 3))
    return folder / "run" / "final"


def test_supervised_training_lowers_its_loss_and_resumes_to_the_same_bits(tmp_path):
    changes = {
        "stage": "sft",
        "train": {"rounds": 30, "prompts": 16, "micro_batch": 16, "save_every": 10},
        "optimizer": {"lr": 1e-2},
    }
    rows = list(dllmzoo.train(recipe(tmp_path / "whole", **changes)))
    assert sum(r["loss"] for r in rows[-5:]) < sum(r["loss"] for r in rows[1:6])
    run = dllmzoo.train(recipe(tmp_path / "cut", **changes))
    list(islice(run, 14))
    run.close()
    list(dllmzoo.train(recipe(tmp_path / "cut", **changes), resume="auto"))
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


def test_built_parts_and_a_model_in_memory_train_without_yaml(tmp_path):
    base = load_model_folder(tmp_path / "base")
    parts = recipe(tmp_path / "parts")
    parts["loss"] = dllmzoo.LOSSES.get("stable_drl")()
    parts["likelihood"] = dllmzoo.LIKELIHOODS.get("elbo")(views=2)
    parts["advantage"] = dllmzoo.ADVANTAGES.get("leave_one_out")()
    del parts["selector"]
    parts["model"] = {"name": "llada", "weights": str(base)}
    rows = list(dllmzoo.train(parts, policy=load_model(base)))
    assert rows[-1]["round"] == 4 and rows[1]["ratio"] == 1.0
