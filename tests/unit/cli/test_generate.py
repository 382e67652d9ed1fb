"""`dllmzoo generate`: prompts in, answers out, with the trace of how they were denoised."""

import io
import json
import shutil
from pathlib import Path

import pytest

from dllmzoo.cli import generate


def test_the_answer_alone_is_printed(cli, tiny_run):
    done = cli("generate", tiny_run, "1200340021004300=")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 1


def test_without_a_prompt_a_held_out_example_is_answered(cli, tiny_run):
    done = cli("generate", tiny_run)
    assert done.code == 0, done.err
    assert done.out.startswith("> ") and done.out.splitlines()[0].endswith("=")


def test_several_prompts_are_told_apart(cli, tiny_run):
    lines = cli("generate", tiny_run, "12=", "2100=").out.splitlines()
    assert lines[0] == "> 12=" and lines[2] == "> 2100="


def test_the_trace_shows_every_step(cli, tiny_run):
    words = ("generate", tiny_run, "12=", "--trace", "--steps", 3, "--length", 4)
    words += ("--set", "sampler.block_length=4")
    done = cli(*words, "--json")
    answer = json.loads(done.out)[0]
    assert [step["step"] for step in answer["trace"]] == [0, 1, 2]
    # 4 slots in 3 steps: 2 of them at the first step, then 1 and 1
    hidden = [step["canvas"].count("_") for step in answer["trace"]]
    assert hidden == [2, 1, 0]
    text = cli(*words).out
    assert text.splitlines()[0].startswith("step 0  ")
    assert len(text.splitlines()) == 4


def test_a_seed_repeats_an_answer_and_another_one_changes_it(cli, tiny_run):
    words = ("generate", tiny_run, "12=", "12=", "--temperature", 1, "--json")
    first, again, other = (
        json.loads(cli(*words, "--seed", seed).out) for seed in (1, 1, 2)
    )  # fmt: skip
    assert first == again != other
    assert first[0]["text"] != first[1]["text"]


def test_a_change_reaches_the_sampler(cli, tiny_run):
    words = ("generate", tiny_run, "12=", "--trace", "--json", "--set", "sampler.steps=16")
    assert len(json.loads(cli(*words).out)[0]["trace"]) == 16


def test_a_model_alone_can_answer(cli, tiny_run, tmp_path, monkeypatch):
    shutil.copytree(tiny_run / "final", tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    assert cli("generate", "model", "12=", "--length", 4).code == 0
    done = cli("generate", "model")
    assert done.code == 2 and "model is no run" in done.err


def test_prompts_come_from_standard_input(cli, tiny_run, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("12=\n21=\n"))
    rows = json.loads(cli("generate", tiny_run, "-", "--json").out)
    assert [row["prompt"] for row in rows] == ["12=", "21="]


@pytest.mark.parametrize("prompt", ["", "-"])
def test_an_empty_prompt_is_refused(cli, tiny_run, monkeypatch, prompt):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    done = cli("generate", tiny_run, prompt)
    assert done.code == 2 and "a prompt is empty" in done.err


def test_a_prompt_the_tokenizer_cannot_read_is_an_error(cli, tiny_run):
    done = cli("generate", tiny_run, "hello")
    assert done.code == 2 and "Traceback" not in done.err and "'h'" in done.err


def test_options_out_of_range_are_refused(cli, tiny_run):
    assert cli("generate", tiny_run, "12=", "--temperature", -1).code == 2
    done = cli("generate", tiny_run, "12=", "--length", 8)
    assert done.code == 2 and "block_length 16 is longer than answer_length 8" in done.err


def test_the_trace_is_read_off_the_rollout():
    import torch

    from dllmzoo.laws.inputs import played

    class Words:
        class tokenizer:
            decode = staticmethod(lambda ids: "abcdefg"[ids[0]])

    rollout = played(torch.tensor([[0, 1, 2]]), torch.tensor([[2, 0, 2]]), num_steps=4)
    assert generate.trace_of(rollout, Words) == [(0, "_b_"), (2, "abc")]
    assert Path(generate.__file__).exists()
