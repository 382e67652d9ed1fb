"""A rollout, a scoring and a round of the tiny model, each beside the plain way to do it.

The plain way is how research scripts usually do it: logits of every position at every step, float64
softmax over all of them, a loop over rows to commit, one forward per view of whole sequences. The
table of a group shows the ratio in parentheses.
"""

import copy

import pytest
import torch
from accelerate import Accelerator

from dllmzoo.models._load import build_model, load_tokenizer
from dllmzoo.records import Key, Steps
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
SAMPLER = SAMPLERS.get("low_confidence")(answer_length=16, steps=4)
N, STEPS = 16, 4
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


@torch.no_grad()
def plain_rollout(policy, prompts):
    """Tokens, and the step of each answer slot, as a script would make them."""
    B = len(prompts.tokens_BL)
    answer_BN = torch.full((B, N), policy.mask_id)
    tokens_BL = torch.cat([prompts.tokens_BL, answer_BN], 1)
    attend_BL = torch.ones_like(tokens_BL, dtype=torch.bool)
    reveal_BL = torch.full_like(tokens_BL, -1)
    for step in range(STEPS):
        logits_BLV = policy(tokens_BL, attend_BL).logits.double()
        logits_BLV[..., policy.mask_id] = -torch.inf
        gumbel_BLV = -torch.rand_like(logits_BLV).log()
        drawn_BL = (logits_BLV.exp() / gumbel_BLV).argmax(-1)
        prob_BL = logits_BLV.softmax(-1).gather(2, drawn_BL.unsqueeze(2)).squeeze(2)
        hidden_BL = tokens_BL == policy.mask_id
        prob_BL = prob_BL.masked_fill(~hidden_BL, -torch.inf)
        for row in range(B):
            slots = prob_BL[row].topk(N // STEPS).indices
            tokens_BL[row, slots] = drawn_BL[row, slots]
            reveal_BL[row, slots] = step
    return tokens_BL, reveal_BL


def plain_logprobs(policy, tokens_BL, hide_BKL):
    """Log-probs of every position in every view, one forward of all rows for each view."""
    found = []
    for hide_BL in hide_BKL.unbind(1):
        logits_BLV = policy(tokens_BL.masked_fill(hide_BL, policy.mask_id)).logits
        logprob_BLV = logits_BLV.double().log_softmax(-1)
        found.append(logprob_BLV.gather(2, tokens_BL.unsqueeze(2)).squeeze(2))
    return torch.stack(found, 1)


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

    @torch.no_grad()
    def run():
        if way == "ours":
            return score(policy, rollout, views, micro_batch=256).logprob_BKL
        return plain_logprobs(policy, rollout.tokens_BL, views.hide_BKL)

    found_BKL = benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    expected_BKL = score(policy, rollout, views, micro_batch=64).logprob_BKL
    found_BKL = torch.where(views.score_BKL, found_BKL, 0).float()
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
    start_BK = torch.tensor([[0, 1]]).expand(len(tokens_BL), 2)
    steps = Steps(start_BK, start_BK + 1, torch.ones(start_BK.shape))
    hide_BKL = reveal_BL.unsqueeze(1) >= steps.start_BK.unsqueeze(2)
    score_BKL = reveal_BL.unsqueeze(1) == steps.start_BK.unsqueeze(2)
    with torch.no_grad():
        old_BKL = plain_logprobs(policy, tokens_BL, hide_BKL)
        for hide_BL in hide_BKL.unbind(1):
            logits_BLV = policy(tokens_BL.masked_fill(hide_BL, policy.mask_id)).logits
            guess_BL = torch.where(hide_BL, logits_BLV.argmax(-1), tokens_BL)
            TASK.reward(codec.texts(guess_BL[:, -N:]), prompts.examples)
    reward_B = TASK.reward(codec.texts(tokens_BL[:, -N:]), prompts.examples).total_X
    reward_PG = reward_B.view(-1, 8)
    advantage_B = (reward_PG - reward_PG.mean(1, keepdim=True)).view(-1, 1)
    new_BKL = plain_logprobs(policy.train(), tokens_BL, hide_BKL)
    ratio_BK = (torch.where(score_BKL, new_BKL - old_BKL, 0)).sum(2).exp()
    (-(ratio_BK * advantage_B) / 4).mean().backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
