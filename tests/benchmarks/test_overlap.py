"""What goes on beside the model: slow rewards and large checkpoints, each beside its plain way.

A reward here waits as one that a sandbox or a server gives: each text takes a fixed time, without
a core of ours. The plain way is to judge all answers when they are sampled, and to train on when a
checkpoint is complete. The table of a group shows the ratio in parentheses. A checkpoint is timed
by how long training stands still: what its writing takes from training depends on idle cores.
"""

import itertools
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from accelerate import Accelerator

from dllmzoo.models._load import build_model, load_tokenizer
from dllmzoo.training.checkpoint import State
from dllmzoo.training.loop import train
from dllmzoo.training.method import Budget, Learner, Method
from dllmzoo.training.prompts import Codec
from dllmzoo.training.saving import Saver
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES, SAMPLERS, SELECTORS, TASKS

TOKENIZER = load_tokenizer("characters:01234=")
SMALL = {
    "d_model": 96, "n_layers": 3, "n_heads": 4, "mlp_hidden_size": 192, "max_sequence_length": 64,
}  # fmt: skip
LARGE = SMALL | {"d_model": 512, "n_layers": 8, "mlp_hidden_size": 2048}
"""A checkpoint of 0.4 GB with AdamW's moments."""
PER_TEXT = 0.004
WAYS = ["beside", "plain"]


@dataclass(frozen=True)
class Slow:
    """A task whose rewards take their time."""

    task: Any
    overlaps: bool
    primary: ClassVar[str] = "solved_rate"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def reward(self, texts: Any, examples: Any) -> Any:
        time.sleep(PER_TEXT * len(texts))
        return self.task.reward(texts, examples)


def method_of(task: Any) -> Method:
    return Method(
        task, SAMPLERS.get("low_confidence")(answer_length=16, steps=4),
        SELECTORS.get("entropy")(steps=2), LIKELIHOODS.get("denoising_steps")(),
        ADVANTAGES.get("group_relative")(), LOSSES.get("clipped_surrogate")(kl="none"),
    )  # fmt: skip


def learner_of(config: dict[str, Any]) -> Learner:
    policy = build_model("llada", config, TOKENIZER, 0)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    codec = Codec(TOKENIZER, policy.mask_id, tuple(policy.stop_ids))
    return Learner(policy, None, optimizer, scheduler, Accelerator(cpu=True), codec)


@pytest.mark.parametrize("way", WAYS)
def test_a_round_with_slow_rewards(benchmark, way):
    benchmark.group = "round of 128 answers that take 0.5 s to judge, in batches of 16"
    task = Slow(TASKS.get("sudoku")(blanks=(4, 8)), overlaps=way == "beside")
    budget = Budget(prompts=16, group_size=8, micro_batch=256, rollout_batch=16)
    rounds = train(method_of(task), budget, learner_of(SMALL), seed=0, rounds=range(99))
    rows = []
    benchmark.pedantic(lambda: rows.append(next(rounds)[1].row()), rounds=5, warmup_rounds=1)
    waited = sum(row.get("time/reward_wait", 0.0) for row in rows) / len(rows)
    judged = sum(row["time/reward"] for row in rows) / len(rows)
    benchmark.extra_info |= {"seconds waited": waited, "seconds judged in the loop": judged}
    assert judged > 0.5 if way == "plain" else judged + waited < 0.5


@pytest.mark.parametrize("way", WAYS)
def test_how_long_training_stands_still_for_a_checkpoint(benchmark, tmp_path, way):
    benchmark.group = "save of 0.4 GB between rounds of four answers"
    learner = learner_of(LARGE)
    budget = Budget(prompts=2, group_size=2, micro_batch=8)
    method = method_of(TASKS.get("sudoku")(blanks=(4, 8)))
    rounds = train(method, budget, learner, seed=0, rounds=range(99))
    number = itertools.count(1)

    def trained():  # not timed: the write goes on meanwhile
        next(rounds)
        return (), {}

    with Saver(tmp_path, learner, keep_last=1, behind=way == "beside") as saver:
        benchmark.pedantic(
            lambda: saver.save(State(next(number)), now=False), setup=trained, rounds=5,
            warmup_rounds=1,
        )  # fmt: skip
        saver.wait()
    size = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert 0.3e9 < size < 0.5e9, "one checkpoint, complete"
