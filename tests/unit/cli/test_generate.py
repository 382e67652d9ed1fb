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


INFILL = ("--set", "sampler=infill", "--set", "sampler.answer_length=16")


def test_blanks_of_a_text_are_filled_and_the_rest_stays(cli, tiny_run):
    text = "12=[MASK]34[MASK]"
    done = cli("generate", tiny_run, text, *INFILL, "--json", "--trace")
    assert done.code == 0, done.err
    answer = json.loads(done.out)[0]
    assert answer["prompt"] == "12=" and answer["text"].startswith("12=")
    canvases = [step["canvas"] for step in answer["trace"]]
    assert len(canvases) == 2 and canvases[0].count("_") == 1 and "34" in canvases[0]


def test_a_text_may_start_with_a_blank(cli, tiny_run):
    done = cli("generate", tiny_run, "[MASK]=", *INFILL, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)[0]["prompt"] == ""


def test_a_held_out_example_is_filled_in(cli, tiny_run):
    done = cli("generate", tiny_run, *INFILL, "--steps", 2, "--trace")
    assert done.code == 0, done.err
    puzzle = done.out.splitlines()[0].removeprefix("> ").removesuffix("=")
    first = done.out.splitlines()[1].split()[-1]
    assert first.count("_") == (puzzle.count("0")) // 2


def test_a_text_without_blanks_is_refused(cli, tiny_run):
    done = cli("generate", tiny_run, "12=", *INFILL)
    assert done.code == 2
    assert "has none; write [MASK] for each token to fill in" in done.err


def test_stored_answers_generate_nothing(cli, tiny_run):
    done = cli("generate", tiny_run, "12=", "--set", "sampler=stored")
    assert done.code == 2 and "hands out answers of the data" in done.err


def test_the_sampler_of_evaluations_answers_unless_the_other_is_changed(cli, tiny_run):
    words = ("generate", tiny_run, "12=", "--trace", "--json")
    own = ("--set", "evaluate.sampler={name: entropy, answer_length: 16, steps: 2}")
    assert len(json.loads(cli(*words, *own).out)[0]["trace"]) == 2
    other = ("--set", "sampler.steps=8")
    assert len(json.loads(cli(*words, *own, *other).out)[0]["trace"]) == 8


def test_the_trace_of_a_remasking_sampler_shows_its_states(cli, tiny_run):
    words = ("--set", "sampler=running_confidence", "--set", "sampler.answer_length=16")
    done = cli("generate", tiny_run, "12=", *words, "--steps", 4, "--trace", "--json")
    hidden = [step["canvas"].count("_") for step in json.loads(done.out)[0]["trace"]]
    assert hidden[-1] == 0 and set(hidden) <= {12, 8, 4, 0}


def page_of(file: Path) -> dict:
    text = file.read_text().partition('id="data">')[2].partition("</script>")[0]
    return json.loads(text)["runs"][0]


def test_a_trace_page_holds_every_answer_with_a_guess_before_each_step(cli, tiny_run, tmp_path):
    done = cli("generate", tiny_run, "--trace", tmp_path / "out.html", "--steps", 8)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 2 and "step 0" not in done.out
    (trace,) = page_of(tmp_path / "out.html")["traces"]
    assert trace["task"] == "sudoku" and len(trace["tokens"]) == 16 and trace["num_steps"] == 8
    assert [type(guess["reward"]) for guess in trace["guesses"]] == [float] * 8
    # the recipe's selector keeps 2 steps; the guesses before them are those of the same states
    assert len(trace["steps"]) == 2
    for step in trace["steps"]:
        assert step["guesses"] == [trace["guesses"][step["start"]]]
    # greedy: what the last step writes is the likeliest token of every slot that was left
    assert trace["guesses"][7]["text"] == trace["answer"]


def test_prompts_of_ones_own_have_no_reward(cli, tiny_run, tmp_path):
    done = cli("generate", tiny_run, "12=", "21=", f"--trace={tmp_path / 'out.html'}", "--json")
    assert done.code == 0, done.err
    assert "trace" not in json.loads(done.out)[0]
    first, second = page_of(tmp_path / "out.html")["traces"]
    assert first["reward"] is None and second["prompt"] == "21="
    assert first["guesses"][0]["reward"] is None


def test_a_sampler_that_masks_again_writes_its_states(cli, tiny_run, tmp_path):
    words = ("--set", "sampler=running_confidence", "--set", "sampler.answer_length=16")
    file = tmp_path / "out.html"
    done = cli("generate", tiny_run, "12=", *words, "--steps", 4, "--trace", file)
    assert done.code == 0, done.err
    (trace,) = page_of(file)["traces"]
    state = {}
    for step in trace["writes"]:
        state |= dict(step)
    assert [state[n] for n in range(16)] == trace["tokens"]


def test_a_page_in_no_folder_is_refused_before_anything_is_generated(cli, tiny_run, tmp_path):
    done = cli("generate", tiny_run, "12=", "--trace", tmp_path / "none" / "out.html")
    assert done.code == 2 and "there is no folder" in done.err


def test_a_change_that_no_answer_depends_on_is_refused(cli, tiny_run):
    done = cli("generate", tiny_run, "12=", "--set", "model.weights=elsewhere")
    assert done.code == 2
    assert "model.weights=elsewhere would change nothing" in done.err
    assert cli("generate", tiny_run, "12=", "--set", "sampler.steps=2").code == 0


def test_a_page_that_cannot_be_written_is_said(cli, tiny_run, tmp_path):
    (tmp_path / "page.html").mkdir()
    done = cli("generate", tiny_run, "12=", "--trace", tmp_path / "page.html")
    assert done.code == 2 and "page.html cannot be written" in done.err


def test_what_a_sampler_cannot_take_is_said_in_plain_words(cli, tiny_run):
    done = cli("generate", tiny_run, "12=", "--set", "sampler.block_length=4", "--length", 40)
    assert done.code == 2
    assert "the sampler cannot take temperature, answer_length so: " in done.err
    assert "Value error" not in done.err and ": :" not in done.err
