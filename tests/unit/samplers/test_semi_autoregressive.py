import itertools
from dataclasses import dataclass

import pytest
import torch

from dllmzoo.samplers._semi_autoregressive import SemiAutoregressive
from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import EOS, EOT, KEY, MASK, ToyPolicy, answer, prompts, table

LowConfidence = SAMPLERS.get("low_confidence")

ORDERED = ({0: 0.5}, {1: 0.8}, {2: 0.3}, {3: 0.6})
"""Slots 0 to 3 choose tokens 0 to 3; order of confidence: slot 1, 3, 0, 2."""


def greedy(policy, batch=None, **options):
    sampler = LowConfidence(temperature=0.0, **options)
    return sampler(policy, prompts([1, 2]) if batch is None else batch, KEY)


class Uneven:
    """Commits 3, nothing and 1 of four tokens."""

    def commits(self, num_masked, steps):
        assert (num_masked, steps) == (4, 3)
        return [3, 0, 1]


def test_the_record_around_the_answer_is_empty():
    rollout = greedy(table(*ORDERED), prompts([1, 2], [3]), answer_length=4, steps=2)
    assert rollout.tokens_BL[:, :2].tolist() == [[1, 2], [EOS, 3]]
    assert rollout.attend_BL.tolist() == [[True] * 6, [False] + [True] * 5]
    assert rollout.answer_BL.tolist() == [[False] * 2 + [True] * 4] * 2
    assert rollout.reveal_BL[:, :2].tolist() == [[-1, -1]] * 2
    for name in ("logprob_BL", "entropy_BL", "confidence_BL"):
        assert (getattr(rollout, name)[:, :2] == 0).all()
    assert rollout.num_steps == 2
    assert rollout.temperature == 1.0
    assert [example["row"] for example in rollout.examples] == [[1, 2], [3]]


@pytest.mark.parametrize("text", [[1, MASK], [MASK, 2]])
def test_a_mask_token_in_the_prompt_stays(text):
    rollout = greedy(table(*ORDERED), prompts(text), answer_length=4)
    assert rollout.tokens_BL[0, :2].tolist() == text
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, 1, 2, 3]]


def test_uneven_steps_keep_their_index_and_empty_ones_cost_nothing():
    policy = table(*ORDERED)
    rollout = greedy(policy, answer_length=4, steps=3, commits=Uneven())
    assert answer(rollout.reveal_BL, rollout).tolist() == [[0, 0, 2, 0]]
    assert policy.rows == rollout.forwards == 2
    assert rollout.block_entropy_BT[0, 1] == 0
    assert (rollout.block_entropy_BT[0, [0, 2]] > 0).all()


def test_s11_odd_numbers_of_steps_and_blocks_fill_every_slot_once():
    policy = ToyPolicy()
    rollout = greedy(policy, answer_length=20, block_length=8, steps=7)
    reveal_N = answer(rollout.reveal_BL, rollout)[0]
    assert reveal_N.bincount().tolist() == [3, 3, 2, 4, 4, 2, 2]
    assert reveal_N[:8].max() < reveal_N[8:16].min() <= reveal_N[8:16].max() < reveal_N[16:].min()
    assert not (rollout.tokens_BL == MASK).any()
    assert len(policy.calls) == 7

    rollout = greedy(policy, answer_length=20, block_length=8, steps=50)
    assert rollout.num_steps == 50
    assert rollout.forwards == 20
    assert (answer(rollout.reveal_BL, rollout) >= 0).all()


def test_only_masked_slots_of_the_active_block_go_through_the_head():
    policy = ToyPolicy()
    greedy(policy, prompts([1, 2], [3]), answer_length=6, block_length=4, steps=4)
    # steps 2 + 2; the blocks hold 4 and 2 slots: 4, 2 and 2, 1 masked before each step
    assert [call.at.sum(1).tolist() for call in policy.calls] == [[4, 4], [2, 2], [2, 2], [1, 1]]
    assert all((call.tokens[call.at] == MASK).all() for call in policy.calls)
    assert all(not call.at[:, :2].any() for call in policy.calls)


def test_a_schedule_shapes_the_commits():
    # still masked of 8 after step i of 4: 8 cos(pi i / 8) = 7.4, 5.7, 3.1, 0
    rollout = greedy(ToyPolicy(), answer_length=8, steps=4, commits="cosine")
    assert answer(rollout.reveal_BL, rollout)[0].bincount().tolist() == [1, 2, 2, 3]


def test_an_end_token_stops_nothing_by_default():
    rollout = greedy(
        table({EOS: 0.9}, {1: 0.5}, {2: 0.6}, {EOT: 0.5}), answer_length=4, block_length=2
    )
    assert answer(rollout.tokens_BL, rollout).tolist() == [[EOS, 1, 2, EOT]]
    assert answer(rollout.reveal_BL, rollout).tolist() == [[0, 1, 2, 3]]
    assert answer(rollout.valid_BL, rollout).tolist() == [[True, False, False, False]]


@pytest.mark.parametrize("how", [{"steps": 6}, {"threshold": 1.0}])
def test_a_row_can_stop_after_the_block_with_its_end_token(how):
    policy = table({0: 0.5}, {1: 0.5}, {2: 0.6}, {EOT: 0.5}, {4: 0.5}, {5: 0.5})
    rollout = greedy(policy, answer_length=6, block_length=2, stop_at_end=True, **how)
    # block 2 of slots 2, 3 holds the end token: slots 4, 5 are filled and never committed
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, 1, 2, EOT, EOS, EOS]]
    assert answer(rollout.reveal_BL, rollout).tolist() == [[0, 1, 2, 3, -1, -1]]
    assert answer(rollout.valid_BL, rollout).tolist() == [[True] * 4 + [False] * 2]
    for name in ("logprob_BL", "entropy_BL", "confidence_BL"):
        assert (answer(getattr(rollout, name), rollout)[0, 4:] == 0).all()
    assert policy.rows == rollout.forwards == 4
    assert (rollout.block_entropy_BT[0, 4:] == 0).all()
    assert rollout.hidden_before(torch.tensor([[3]]))[0, 0, -3:].all()


def test_a_block_is_finished_before_its_end_token_stops_the_row():
    policy = table({EOS: 0.9}, {1: 0.5}, {2: 0.4}, {3: 0.5})
    rollout = greedy(policy, answer_length=4, block_length=3, stop_at_end=True)
    assert answer(rollout.tokens_BL, rollout).tolist() == [[EOS, 1, 2, EOS]]
    assert answer(rollout.reveal_BL, rollout).tolist() == [[0, 1, 2, -1]]


def test_stopped_rows_leave_the_others_running():
    options = dict(answer_length=8, block_length=2, temperature=1.0, stop_at_end=True)
    texts = [[i % 7] for i in range(24)]
    together = LowConfidence(**options)(ToyPolicy(), prompts(*texts), KEY)
    stopped_B = (answer(together.reveal_BL, together) < 0).any(1)
    assert 0 < stopped_B.sum() < 24
    never = LowConfidence(**options | {"stop_at_end": False})(ToyPolicy(), prompts(*texts), KEY)
    done_BL = together.reveal_BL >= 0
    assert torch.equal(together.tokens_BL[done_BL], never.tokens_BL[done_BL])
    assert torch.equal(together.valid_BL, never.valid_BL)
    assert together.forwards == (together.block_entropy_BT > 0).sum() < never.forwards


def test_guidance_masks_the_prompt_but_not_the_padding_and_costs_double():
    policy = ToyPolicy()
    rollout = greedy(policy, prompts([1, 2, 3], [4]), answer_length=2, steps=2, cfg_scale=0.5)
    first = policy.calls[0]
    assert first.tokens[:, :3].tolist() == [
        [1, 2, 3], [EOS, EOS, 4], [MASK, MASK, MASK], [EOS, EOS, MASK],
    ]  # fmt: skip
    assert torch.equal(first.attend[2:], first.attend[:2])
    assert rollout.forwards == 8
    assert rollout.sampler.num_forwards == 4


@pytest.mark.parametrize("options", [{}, {"cfg_scale": 1.0}, {"temperature": 0.8}])
def test_s1_padding_and_neighbours_change_nothing(options):
    sampler = LowConfidence(**{"answer_length": 8, "block_length": 4, "temperature": 0.0} | options)
    short, long = [1, 2, 3], [4, 5, 6, 0, 1, 2, 3, 4, 5]
    both = sampler(ToyPolicy(), prompts(short, long, samples=[11, 12]), KEY)  # pad id = end id
    turned = sampler(ToyPolicy(), prompts(long, short, samples=[12, 11]), KEY)
    alone = sampler(ToyPolicy(), prompts(short, samples=[11]), KEY)
    wide = sampler(ToyPolicy(), prompts(short, samples=[11], width=12), KEY)
    for name in ("tokens_BL", "reveal_BL"):
        expected = answer(getattr(alone, name), alone)[0]
        assert torch.equal(answer(getattr(both, name), both)[0], expected)
        assert torch.equal(answer(getattr(turned, name), turned)[1], expected)
        assert torch.equal(answer(getattr(wide, name), wide)[0], expected)
    torch.testing.assert_close(
        answer(both.logprob_BL, both)[0], answer(alone.logprob_BL, alone)[0], atol=1e-5, rtol=0
    )


def test_s3_a_prompt_may_hold_end_tokens_that_are_real():
    # the pad id is an end token: only the mask tells padding from text
    real = greedy(ToyPolicy(), prompts([EOS, EOS, 1]), answer_length=4)
    padded = greedy(ToyPolicy(), prompts([1], width=3), answer_length=4)
    assert torch.equal(real.tokens_BL[:, :3], padded.tokens_BL[:, :3])
    assert real.attend_BL.all()
    assert not torch.equal(real.entropy_BL, padded.entropy_BL)
    assert answer(real.valid_BL, real)[0, 0]


@pytest.mark.parametrize("size", [1, 4, 16])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_s4_the_split_into_batches_changes_nothing(size, temperature):
    sampler = LowConfidence(answer_length=6, block_length=3, steps=4, temperature=temperature)
    texts = [[i % 7, (3 * i) % 5] for i in range(16)]
    whole = sampler(ToyPolicy(), prompts(*texts), KEY)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1)).tolist()
    for start in range(0, 16, size):
        rows = order[start : start + size]
        part = sampler(ToyPolicy(), prompts(*[texts[i] for i in rows], samples=rows), KEY)
        assert torch.equal(part.tokens_BL, whole.tokens_BL[rows])
        assert torch.equal(part.reveal_BL, whole.reveal_BL[rows])
        torch.testing.assert_close(part.logprob_BL, whole.logprob_BL[rows])


def test_samples_of_one_prompt_differ_and_greedy_ones_do_not():
    batch = prompts(*[[1, 2]] * 12)
    sampled = LowConfidence(answer_length=6)(ToyPolicy(scale=1.0), batch, KEY)
    assert sampled.tokens_BL.unique(dim=0).shape[0] > 6
    assert greedy(ToyPolicy(), batch, answer_length=6).tokens_BL.unique(dim=0).shape[0] == 1


def test_greedy_sampling_draws_no_number():
    class NoKey:
        def __getattr__(self, name):
            raise AssertionError("greedy sampling asked its key for a number")

    LowConfidence(answer_length=4, temperature=0.0)(table(*ORDERED), prompts([1]), NoKey())


def test_the_global_generator_is_not_touched():
    before = torch.random.get_rng_state()
    LowConfidence(answer_length=4)(table(*ORDERED), prompts([1]), KEY)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_nothing_carries_a_gradient():
    policy = ToyPolicy()
    policy.head.requires_grad_()
    rollout = LowConfidence(answer_length=4)(policy, prompts([1]), KEY)
    assert not rollout.logprob_BL.requires_grad
    assert not rollout.logprob_BL.is_inference()


RECORDED = [
    {},
    {"temperature": 0.0},
    {"temperature": 0.6, "block_length": 3},
    {"cfg_scale": 0.7},
    {"end_rule": "logits_inf"},
    {"end_rule": "confidence_inf"},
    {"stop_at_end": True, "block_length": 2, "steps": 4},
]
THRESHOLD = {"threshold": 0.4, "steps": None, "block_length": 4}


@pytest.mark.parametrize(
    ("order", "options"),
    [
        *itertools.product(["low_confidence", "random_order"], RECORDED),
        ("low_confidence", THRESHOLD),
    ],
)
def test_what_was_recorded_can_be_computed_again(order, options):
    policy = ToyPolicy()
    sampler = SAMPLERS.get(order)(**{"answer_length": 7, "steps": 4} | options)
    rollout = sampler(policy, prompts([1, 2, 3], [4], [5, 0]), KEY)
    L, N = rollout.tokens_BL.shape[1], sampler.answer_length
    block_L = (torch.arange(L) - (L - N)) // (sampler.block_length or N)
    seen_BL = torch.zeros_like(rollout.answer_BL)
    for step in range(rollout.num_steps):
        hide_BL = rollout.hidden_before(torch.full((3, 1), step)).squeeze(1)
        now_BL = rollout.reveal_BL == step
        logits_BLV = recomputed(policy, rollout, hide_BL, sampler)
        law_BLV = (logits_BLV / rollout.temperature).index_fill(2, torch.tensor(MASK), -torch.inf)
        logprob_BL = law_BLV.log_softmax(2).gather(2, rollout.tokens_BL.unsqueeze(2)).squeeze(2)
        torch.testing.assert_close(
            rollout.logprob_BL[now_BL], logprob_BL[now_BL].float(), atol=1e-6, rtol=1e-6
        )
        prob_BLV = logits_BLV.softmax(2)
        entropy_BL = torch.special.entr(prob_BLV).sum(2).float()
        torch.testing.assert_close(rollout.entropy_BL[now_BL], entropy_BL[now_BL])
        if sampler.end_rule != "confidence_inf":
            prob_BL = prob_BLV.gather(2, rollout.tokens_BL.unsqueeze(2)).squeeze(2).float()
            torch.testing.assert_close(rollout.confidence_BL[now_BL], prob_BL[now_BL])
        for b in range(3):
            active_L = (
                hide_BL[b] & (block_L == block_L[now_BL[b]].max()) if now_BL[b].any() else None
            )
            mean = entropy_BL[b, active_L].mean() if active_L is not None else torch.tensor(0.0)
            torch.testing.assert_close(rollout.block_entropy_BT[b, step], mean)
        seen_BL |= now_BL
    assert torch.equal(seen_BL, rollout.reveal_BL >= 0)


def recomputed(policy, rollout, hide_BL, sampler):
    """Guided logits of the state, with the end rule, from whole forwards."""
    tokens_BL = rollout.tokens_BL.masked_fill(hide_BL, MASK)
    logits_BLV = policy(tokens_BL, rollout.attend_BL).logits
    if sampler.cfg_scale:
        prompt_BL = rollout.attend_BL & ~rollout.answer_BL
        blind_BLV = policy(tokens_BL.masked_fill(prompt_BL, MASK), rollout.attend_BL).logits
        logits_BLV = blind_BLV + (sampler.cfg_scale + 1) * (logits_BLV - blind_BLV)
    if sampler.end_rule == "logits_inf":
        logits_BLV = logits_BLV.index_fill(2, torch.tensor(EOS), -torch.inf)
    return logits_BLV


def test_costs_are_known_before_sampling():
    assert LowConfidence(answer_length=16, steps=4).num_forwards == 4
    assert LowConfidence(answer_length=16).num_steps == 16
    assert LowConfidence(answer_length=20, block_length=8, steps=50).num_forwards == 20
    assert LowConfidence(answer_length=16, steps=4, cfg_scale=1.5).num_forwards == 8
    assert LowConfidence(answer_length=16, threshold=0.9).num_forwards == 16


def test_no_prompts_give_no_answers():
    empty = torch.zeros(0, 3, dtype=torch.int64)
    batch = type(prompts([1]))(empty, empty.bool(), empty[:, 0], empty[:, 0], [])
    rollout = LowConfidence(answer_length=4)(table(*ORDERED), batch, KEY)
    assert rollout.tokens_BL.shape == (0, 7)
    assert rollout.forwards == 0


def test_an_empty_prompt_is_answered():
    rollout = greedy(table(*ORDERED), prompts([]), answer_length=4)
    assert rollout.tokens_BL.tolist() == [[0, 1, 2, 3]]


def test_a_policy_without_stop_tokens_answers_unless_a_rule_needs_one():
    policy = table(*ORDERED)
    policy.stop_ids = ()
    assert greedy(policy, answer_length=4).valid_BL[:, 2:].all()
    for options in ({"end_rule": "logits_inf"}, {"stop_at_end": True}):
        with pytest.raises(ValueError, match="the policy has no stop_ids; use end_rule: none"):
            greedy(policy, answer_length=4, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"answer_length": 20, "block_length": 64}, "use block_length: 20 .* or answer_length: 64"),
        ({"answer_length": 20, "block_length": 8, "steps": 2}, "use steps: 3 or block_length: 10"),
        ({"steps": 8, "threshold": 0.9}, "steps 8 has no meaning with threshold 0.9"),
        ({"answer_length": 0}, "greater than or equal to 1"),
        ({"block_length": 0}, "greater than or equal to 1"),
        ({"steps": 0}, "greater than or equal to 1"),
        ({"temperature": -0.1}, "greater than or equal to 0"),
        ({"temperature": float("inf")}, "finite number"),
        ({"cfg_scale": -1.0}, "greater than or equal to 0"),
        ({"threshold": 1.1}, "less than or equal to 1"),
        ({"threshold": -0.1}, "greater than or equal to 0"),
        ({"end_rule": "never"}, "'none', 'logits_inf' or 'confidence_inf'"),
        ({"stop_at_end": 1}, "valid boolean"),
        ({"commits": "lineer"}, "linear"),
        ({"step": 4}, "Unexpected keyword"),
    ],
)
def test_settings_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LowConfidence(**options)


def test_prompts_of_two_shapes_are_refused():
    batch = prompts([1, 2])
    wrong = type(batch)(batch.tokens_BL, batch.attend_BL[:, 1:], *list(vars(batch).values())[2:])
    with pytest.raises(ValueError, match="L is 2 in tokens_BL but 1 in attend_BL"):
        greedy(table(*ORDERED), wrong, answer_length=4)


def test_an_order_of_ones_own_takes_a_few_lines():
    @dataclass(frozen=True)
    class Margin(SemiAutoregressive):
        """The largest gap between the two likeliest tokens first."""

        def certainty(self, prob_SV, token_S, noise, at):
            return prob_SV.topk(2).values.diff(dim=1).abs().squeeze(1)

    with SAMPLERS.temporarily("margin", Margin):
        sampler = SAMPLERS.get("margin")(answer_length=3, temperature=0.0)
        info = SAMPLERS.describe("margin")
    # gaps 0.1, 0.3, 0.2; by confidence slot 0 would go first
    policy = table({0: 0.5, 1: 0.4}, {2: 0.4, 3: 0.1}, {4: 0.45, 5: 0.25})
    rollout = sampler(policy, prompts([1]), KEY)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[2, 0, 1]]
    torch.testing.assert_close(
        answer(rollout.confidence_BL, rollout), torch.tensor([[0.5, 0.4, 0.45]])
    )
    assert all(parameter.meaning for parameter in info.parameters)
    with pytest.raises(ValueError, match="use block_length: 3"):
        type(sampler)(answer_length=3, block_length=5)
