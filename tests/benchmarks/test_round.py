"""A rollout, a scoring and a round of the tiny model, each beside the plain way to do it.

The plain way is how research scripts usually do it (`dllmzoo.bench.plain`): logits of every
position at every step, float64 softmax over all of them, a loop over rows to commit, one forward
per view of whole sequences. The table of a group shows the ratio in parentheses.
"""

import copy

import pytest
import torch
from accelerate import Accelerator

from dllmzoo.bench import plain
from dllmzoo.models._load import build_model, load_tokenizer
from dllmzoo.records import Key
from dllmzoo.scoring import score
from dllmzoo.training.loop import train
from dllmzoo.training.method import Budget, Learner, Method
from dllmzoo.training.prompts import Codec
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES, SAMPLERS, SELECTORS, TASKS

TOKENIZER = load_tokenizer("characters:01234=")
CONFIG = {
    "d_model": 96, "n_layers": 3, "n_heads": 4, "mlp_hidden_size": 192, "max_sequence_length": 64,
}  # fmt: skip
TASK = TASKS.get("sudoku")(blanks=(4, 8))
N, STEPS = 16, 4
SAMPLER = SAMPLERS.get("low_confidence")(answer_length=N, steps=STEPS)
WAYS = ["ours", "plain"]


@pytest.fixture(scope="module")
def policy():
    return build_model("llada", CONFIG, TOKENIZER, 0)


@pytest.fixture(scope="module")
def codec(policy):
    return Codec(TOKENIZER, policy.mask_id, tuple(policy.stop_ids))


@pytest.fixture(scope="module")
def prompts(codec):
    """256 rows: 32 puzzles of eight samples."""
    return codec.prompts(TASK, TASK.draw(32, Key(0, 0, "prompts")), 8, answer_length=N)


def ours(policy, prompts):
    return SAMPLER(policy, prompts, Key(0, 0, "sample"))


def plain_rollout(policy, prompts):
    return plain.rollout(policy, prompts.tokens_BL, N, N, STEPS, 1.0)


@torch.no_grad()
def plain_scores(policy, tokens_BL, hide_BKL):
    return torch.stack([each for _, each in plain.scored(policy, tokens_BL, hide_BKL, 1.0)], 1)


@pytest.mark.parametrize("way", WAYS)
def test_rollout_of_256_rows(benchmark, policy, prompts, way):
    benchmark.group = "rollout of 256 rows"
    run = ours if way == "ours" else plain_rollout
    made = benchmark.pedantic(run, args=(policy, prompts), rounds=3, warmup_rounds=1)
    reveal_BL = made.reveal_BL if way == "ours" else made[1]
    assert all(int((reveal_BL == step).sum()) == 256 * 4 for step in range(STEPS))


@pytest.mark.parametrize("way", WAYS)
def test_scoring_two_states_of_256_rows(benchmark, policy, prompts, way):
    benchmark.group = "scoring 512 views"
    rollout = ours(policy, prompts)
    steps = SELECTORS.get("entropy")(steps=2)(rollout, Key(0, 0, "select"))
    views = LIKELIHOODS.get("denoising_steps")().plan(rollout, steps, Key(0, 0, "views"), 1)

    def run():
        if way == "ours":
            return score(policy, rollout, views, micro_batch=256).logprob_BKL
        return plain_scores(policy, rollout.tokens_BL, views.hide_BKL)

    found_BKL = benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    expected_BKL = score(policy, rollout, views, micro_batch=64).logprob_BKL
    found_BKL = torch.where(views.score_BKL, found_BKL, 0)
    torch.testing.assert_close(found_BKL, expected_BKL, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_training_round(benchmark, policy, codec, prompts, way):
    benchmark.group = "round of 256 samples, 2 states each"
    trained = copy.deepcopy(policy)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-4)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    if way == "plain":
        benchmark.pedantic(
            plain_round, args=(trained, optimizer, codec, prompts), rounds=3, warmup_rounds=1
        )
        return
    method = Method(
        TASK, SAMPLER, SELECTORS.get("entropy")(steps=2), LIKELIHOODS.get("denoising_steps")(),
        ADVANTAGES.get("stepwise_one_shot")(), LOSSES.get("clipped_surrogate")(kl="none"),
    )  # fmt: skip
    learner = Learner(trained, None, optimizer, scheduler, Accelerator(cpu=True), codec)
    budget = Budget(prompts=32, group_size=8, micro_batch=256)
    rounds = train(method, budget, learner, seed=0, rounds=range(9))
    benchmark.pedantic(lambda: next(rounds), rounds=3, warmup_rounds=1)


def plain_round(policy, optimizer, codec, prompts):
    """Rollout, guesses, rewards, old log-probs and one update, whole sequences throughout."""
    tokens_BL, reveal_BL = plain_rollout(policy.eval(), prompts)
    start_K1 = torch.arange(2).unsqueeze(1)
    hide_BKL = reveal_BL.unsqueeze(1) >= start_K1
    score_BKL = reveal_BL.unsqueeze(1) == start_K1
    old_BKL = plain_scores(policy, tokens_BL, hide_BKL)
    for hide_BL in hide_BKL.unbind(1):
        guess_BL = plain.guess(policy, tokens_BL, hide_BL)
        TASK.reward(codec.texts(guess_BL[:, -N:]), prompts.examples)
    reward_B = TASK.reward(codec.texts(tokens_BL[:, -N:]), prompts.examples).total_X
    reward_PG = reward_B.view(-1, 8)
    advantage_B = (reward_PG - reward_PG.mean(1, keepdim=True)).flatten()
    for k, new_BL in plain.scored(policy.train(), tokens_BL, hide_BKL, 1.0):
        log_ratio_BL = torch.where(score_BKL[:, k], new_BL - old_BKL[:, k], 0)
        (-(log_ratio_BL.sum(1).exp() * advantage_B) / 8).mean().backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
