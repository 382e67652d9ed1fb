"""Behaviours learned from public bug reports, D: resume, checkpoints and memory."""

import json

import pytest
import torch
from safetensors.torch import load_file

import dllmzoo
from dllmzoo.checks import load_checked
from dllmzoo.cli._app import run
from dllmzoo.errors import RecipeError, UsageError
from dllmzoo.models import _four_bits
from dllmzoo.models._load import load_model
from dllmzoo.training import loop
from dllmzoo.training.folder import RunFolder
from tests.runs import metrics, recipe, weights

TRAIN = {
    "rounds": 3, "prompts": 4, "group_size": 4, "micro_batch": 8, "rollout_batch": 8,
    "passes": 4, "save_every": 1,
}  # fmt: skip


def test_s25_twelve_updates_of_four_passes_resumed_after_six_are_those_of_one_run(tmp_path):
    """A kill inside the second round goes back to its start: no update twice, none missing."""
    list(dllmzoo.train(recipe(tmp_path / "whole", train=TRAIN)))

    class KilledError(Exception):
        pass

    updates, real = 0, loop.update

    def sixth(*args, **options):
        nonlocal updates
        real(*args, **options)
        updates += 1
        if updates == 6:
            raise KilledError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(loop, "update", sixth)
        list(dllmzoo.train(recipe(tmp_path / "cut", train=TRAIN)))
    list(dllmzoo.train(recipe(tmp_path / "cut", train=TRAIN), resume="auto"))
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    assert [row["round"] for row in metrics(tmp_path / "cut")] == [0, 1, 2, 3]
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


def test_s26_the_names_that_went_in_come_out(tmp_path):
    start = tmp_path / "start"
    model = recipe("x")["model"]
    list(dllmzoo.train(recipe(start, model=model, train=TRAIN | {"rounds": 1})))
    again = {"name": "llada", "weights": str(start / "final")}
    list(dllmzoo.train(recipe(tmp_path / "more", model=again, train=TRAIN | {"rounds": 1})))
    first, second = (
        load_file(folder / "final" / "model.safetensors") for folder in (start, tmp_path / "more")
    )
    assert list(first) == list(second)
    assert {k: (v.shape, v.dtype) for k, v in first.items()} == {
        k: (v.shape, v.dtype) for k, v in second.items()
    }
    configs = [
        json.loads((f / "final" / "config.json").read_text()) for f in (start, tmp_path / "more")
    ]
    assert configs[0] == configs[1]
    assert any(not torch.equal(first[k], second[k]) for k in first)
    assert load_model(tmp_path / "more").family == "llada"


def test_s27_names_of_another_family_adapt_nothing_in_silence(tmp_path):
    lora = {
        "targets": ["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "gate_proj"]
    }
    with pytest.raises(RecipeError) as caught:
        load_checked(recipe(tmp_path, model=recipe("x")["model"] | {"lora": lora}))
    said = str(caught.value)
    assert "no linear layer is called 'o_proj', 'down_proj', 'gate_proj'" in said
    assert "attn_out, ff_proj, up_proj, ff_out" in said


def test_s31_activation_checkpointing_is_a_switch_that_changes_nothing(tmp_path):
    model, train = recipe("x")["model"], TRAIN | {"rounds": 2, "passes": 1}
    for on in (False, True):
        switched = model | {"gradient_checkpointing": on}
        list(dllmzoo.train(recipe(tmp_path / str(on), model=switched, train=train)))
    for one, other in zip(metrics(tmp_path / "False"), metrics(tmp_path / "True"), strict=True):
        for key in ("loss", "grad_norm", "reward"):
            if isinstance(one.get(key), float):
                assert other[key] == pytest.approx(one[key], abs=1e-6), key


SHIPPED = {"weights": "llada-tiny-sudoku", "lora": {"rank": 2}}


def test_s28_a_base_in_four_bits_is_never_quietly_a_full_one(tmp_path, monkeypatch):
    monkeypatch.setattr(_four_bits, "find_spec", lambda name: None)
    four = recipe(tmp_path / "run", model=SHIPPED | {"quantize": "4bit"})
    with pytest.raises(UsageError, match=r"needs bitsandbytes: pip install 'dllmzoo\[quantize\]'"):
        next(dllmzoo.train(four))


def test_s29_a_run_its_adapter_and_the_merged_model_answer_alike(tmp_path, capsys):
    train = {"rounds": 1, "prompts": 2, "group_size": 2, "micro_batch": 8}
    folder, merged = tmp_path / "run", tmp_path / "merged"
    task = {"name": "sudoku", "prompt_style": "compact"}
    evaluate = {"examples": 6, "steps": 4}
    made = recipe(folder, model=SHIPPED, train=train, task=task, evaluate=evaluate)
    list(dllmzoo.train(made))
    assert run(["export", str(folder), str(merged), "--merge"]) == 0
    answers = []
    for what in (folder, folder / "final"):
        assert run(["eval", str(what)]) == 0, capsys.readouterr()
        newest = sorted((folder / "evaluations").glob("*.jsonl"))[-1]
        answers.append(newest.read_bytes())
    file = tmp_path / "merged.jsonl"
    words = [str(RunFolder(folder).recipe), "--output", str(file)]
    assert run(["eval", str(merged), *words]) == 0, capsys.readouterr()
    answers.append(file.read_bytes())
    assert answers[0].count(b"\n") == 6 and len(set(answers)) == 1
