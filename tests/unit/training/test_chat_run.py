"""A whole run on conversations: a tokenizer with a template, a tiny network, the command line."""

import json
from pathlib import Path

import pytest

from dllmzoo.cli._app import run
from dllmzoo.models._load import load_tokenizer
from tests.unit.training.talk import MASK, PLAIN, said, talker

RECIPE = """\
format: 1
title: A tiny network on conversations
stage: sft
seed: 0
model:
  name: {family}
  config: {config}
  tokenizer: talker
task: {{name: chat, file: talk.jsonl, test_share: 0.2}}
sampler: {{name: low_confidence, answer_length: 8, block_length: 8, steps: 4}}
optimizer: {{lr: 1e-2}}
train: {{rounds: 30, prompts: 8, micro_batch: 8}}
sft: {{tail: {tail}, too_long: drop, pack: {pack}}}
evaluate: {{examples: 4, floor: null}}
output: run
"""
LLADA = "{d_model: 32, n_layers: 1, n_heads: 2, mlp_hidden_size: 64, max_sequence_length: 96}"
SDAR = (
    "{hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1, "
    "head_dim: 16, intermediate_size: 64, max_position_embeddings: 96, block_size: 4}"
)


@pytest.mark.parametrize(
    ("family", "config", "tail", "pack"),
    [("llada", LLADA, "batch", "null"), ("sdar", SDAR, "end", "160")],
)
def test_a_run_on_conversations_learns_and_counts_what_it_leaves_out(
    tmp_path, monkeypatch, family, config, tail, pack
):
    monkeypatch.chdir(tmp_path)
    talker().save_pretrained("talker")
    Path("talker/config.json").write_text(json.dumps({"model_type": family, "mask_token_id": MASK}))
    rows = [
        {"messages": [said("user", f"{i}?"), said("assistant", f"{i}."), said("user", "sure?"),
                      said("assistant", "a very long answer" if i == 7 else "yes")]}
        for i in range(24)
    ]  # fmt: skip
    Path("talk.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = RECIPE.format(family=family, config=config, tail=tail, pack=pack)
    Path("chat.yaml").write_text(text)
    assert run(["train", "chat.yaml", "--quiet"]) == 0
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    first, last = (sum(line["loss"] for line in part) / 5 for part in (steps[:5], steps[-5:]))
    assert last < 0.7 * first
    # 38 or so rows are trained on, 240 are drawn: the long one comes several times, if not held out
    assert 0 <= sum(line["dropped"] for line in steps) <= 7
    assert {"eval/exact_match", "eval/word_f1"} <= set(lines[-1])
    assert load_tokenizer("run/final").chat_template == PLAIN
