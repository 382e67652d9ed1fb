import torch

from dllmzoo.records import Key, Prompts
from dllmzoo.samplers._alike import alike
from dllmzoo.samplers.block_diffusion import BlockDiffusion
from tests.unit.training.small import network


def test_rows_are_alike_by_their_real_tokens():
    tokens_BL = torch.tensor([[7, 1, 2], [0, 5, 5], [3, 1, 2], [0, 5, 5], [7, 1, 2]])
    attend_BL = torch.tensor([[0, 1, 1], [1, 1, 1], [0, 1, 1], [0, 1, 1], [1, 1, 1]]).bool()
    first_U, which_B = alike(tokens_BL, attend_BL, torch.zeros(5, dtype=torch.int64))
    assert first_U.tolist() == [0, 1, 3, 4]  # what stands under padding says nothing
    assert which_B.tolist() == [0, 1, 0, 2, 3]
    first_U, which_B = alike(tokens_BL, attend_BL, torch.tensor([0, 0, 1, 1, 1]))
    assert first_U.tolist() == [0, 1, 2, 3, 4] == which_B.tolist()


def test_the_samples_of_a_prompt_share_the_forward_of_its_prompt():
    policy = network(family="sdar")  # blocks of two
    tokens_BL = torch.tensor([[1, 2, 3, 4]] * 3 + [[4, 3, 2, 1]] * 3)
    rows = [torch.arange(6) // 3, torch.arange(6)]
    prompts = Prompts(tokens_BL, torch.ones_like(tokens_BL).bool(), *rows, [None] * 6)
    key = Key(0, 0, "sample")
    shared = BlockDiffusion(answer_length=4, stop_at_end=False)(policy, prompts, key)
    plain = BlockDiffusion(answer_length=4, stop_at_end=False, cache=False)(policy, prompts, key)
    assert shared.reads[0] == (2, 4, 4, 0)
    assert torch.equal(shared.tokens_BL, plain.tokens_BL)
    torch.testing.assert_close(shared.logprob_BL, plain.logprob_BL, rtol=1e-6, atol=1e-6)
