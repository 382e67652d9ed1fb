"""Prompts of like length run together."""

from dataclasses import replace

import torch

from dllmzoo.records import Key, Rollout, take
from dllmzoo.training.lengths import narrowed, widened
from dllmzoo.training.sampling import draw, sample
from tests.unit.training.small import budget, learner, method


class Widths:
    """A sampler that remembers how wide its prompts were."""

    def __init__(self, sampler):
        self.sampler, self.widths = sampler, []

    def __getattr__(self, name):
        return getattr(self.sampler, name)

    def __call__(self, policy, prompts, key):
        self.widths.append(prompts.tokens_BL.shape[1])
        return self.sampler(policy, prompts, key)


def test_batches_are_as_wide_as_their_longest_prompt_and_answers_stay_the_same():
    parts, made = method(), learner()
    prompts = draw(parts, budget(rollout_batch=4), made, Key(0, 3, "prompts"))
    length_B = prompts.attend_BL.sum(1)
    assert length_B.tolist() == sorted(length_B.tolist(), reverse=True)  # two to six tokens
    assert length_B.unique().numel() > 1
    sampler = Widths(parts.sampler)
    split = sample(sampler, made.policy, prompts, Key(0, 3, "sample"), batch=4)
    assert sampler.widths == length_B.view(-1, 4).amax(1).tolist()
    whole = parts.sampler(made.policy, prompts, Key(0, 3, "sample"))
    for name in ("tokens_BL", "attend_BL", "answer_BL", "valid_BL", "reveal_BL"):
        assert torch.equal(getattr(split, name), getattr(whole, name)), name
    for name in ("logprob_BL", "entropy_BL", "confidence_BL"):
        torch.testing.assert_close(getattr(split, name), getattr(whole, name))


def test_prompts_keep_their_names_in_whatever_order():
    made, parts = learner(), method()
    in_turn = draw(parts, budget(), made, Key(0, 3, "prompts"))
    by_length = draw(parts, budget(rollout_batch=4), made, Key(0, 3, "prompts"))
    assert in_turn.group_B.tolist() == [g for g in range(4) for _ in range(4)]
    assert by_length.group_B.tolist() != in_turn.group_B.tolist()
    for name in range(4):
        (mine,), (theirs,) = (
            {each["text"] for g, each in zip(p.group_B.tolist(), p.examples, strict=True)
             if g == name}
            for p in (in_turn, by_length)
        )  # fmt: skip
        assert mine == theirs
    assert by_length.sample_B.sort().values.tolist() == list(range(16))


def test_what_never_ran_is_not_counted():
    made, parts = learner(), method()
    prompts = draw(parts, budget(), made, Key(0, 3, "prompts"))
    short = int(prompts.attend_BL.sum(1).min())
    rows = take(prompts, (prompts.attend_BL.sum(1) == short).nonzero()[:, 0])
    thin = narrowed(rows)
    assert thin.tokens_BL.shape[1] == short < rows.tokens_BL.shape[1]
    rollout = widened(parts.sampler(made.policy, thin, Key(0, 3, "sample")), rows)
    assert isinstance(rollout, Rollout)
    ran = len(rows.tokens_BL) * 3  # six answer slots, three steps
    assert rollout.reads == ((ran, short + 6, short + 6, ran * 3),)
    assert narrowed(thin) is thin and widened(rollout, rows) is rollout


def test_padding_inside_a_row_is_kept():
    made, parts = learner(), method()
    prompts = draw(parts, budget(), made, Key(0, 3, "prompts"))
    first = prompts.attend_BL.clone()
    first[:, 0] = True
    assert narrowed(replace(prompts, attend_BL=first)).tokens_BL.shape == prompts.tokens_BL.shape


def test_the_widest_batch_is_counted_beside_narrower_ones():
    made, parts = learner(), method()
    prompts = draw(parts, budget(rollout_batch=4), made, Key(0, 3, "prompts"))
    rollout = sample(parts.sampler, made.policy, prompts, Key(0, 3, "sample"), batch=4)
    assert len({length for _, length, _, _ in rollout.reads}) > 1
    assert sum(rows for rows, *_ in rollout.reads) == rollout.forwards
