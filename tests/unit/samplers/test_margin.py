from dllmzoo.zoo import SAMPLERS
from tests.unit.samplers.toy import EOS, KEY, answer, prompts, table

Margin = SAMPLERS.get("margin")


def greedy(policy, **options):
    return Margin(**{"answer_length": 3, "temperature": 0.0} | options)(policy, prompts([1]), KEY)


def test_the_clearest_decision_goes_first():
    # leads: .6 - .35 = .25, .4 - .1 = .3, .5 - .45 = .05
    rollout = greedy(table({0: 0.6, 1: 0.35}, {2: 0.4, 3: 0.1}, {4: 0.5, 5: 0.45}))
    assert answer(rollout.reveal_BL, rollout).tolist() == [[1, 0, 2]]
    assert answer(rollout.tokens_BL, rollout).tolist() == [[0, 2, 4]]


def test_the_order_does_not_look_at_the_drawn_token():
    class Second:
        def token(self, logits_SV, temperature, at):
            return logits_SV.topk(2, dim=-1).indices[:, 1]

    policy = table({0: 0.6, 1: 0.35}, {2: 0.4, 3: 0.1}, {4: 0.5, 5: 0.45})
    rollout = Margin(answer_length=3)(policy, prompts([1]), KEY, Second())
    assert answer(rollout.tokens_BL, rollout).tolist() == [[1, 3, 5]]
    assert answer(rollout.reveal_BL, rollout).tolist() == [[1, 0, 2]]


def test_blocks_come_first():
    rollout = greedy(table({0: 0.5}, {1: 0.6}, {2: 0.9}), block_length=2, steps=2)
    assert answer(rollout.reveal_BL, rollout).tolist() == [[0, 0, 1]]


def test_a_held_back_end_token_goes_last_however_clear():
    rollout = greedy(table({EOS: 0.98}, {1: 0.4}, {2: 0.3}), end_rule="confidence_inf")
    assert answer(rollout.tokens_BL, rollout).tolist() == [[EOS, 1, 2]]
    assert answer(rollout.reveal_BL, rollout)[0, 0] == 2


def test_the_released_name_is_an_alias():
    assert SAMPLERS.get("topk_margin") is Margin
