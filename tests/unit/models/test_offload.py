"""A frozen copy in main memory: the same numbers, its weights never written."""

import pytest
import torch

from dllmzoo.models._lora import FrozenCopy, reference_policy
from dllmzoo.models._offload import blocks_in_main_memory
from dllmzoo.models._sharded import blocks
from tests.unit.training.small import network

CPU = torch.device("cpu")
TOKENS = torch.tensor([[1, 2, 3, 0, 4, 2]])


@pytest.mark.parametrize("family", ["llada", "sdar"])
def test_a_copy_whose_blocks_visit_gives_the_logits_of_the_start(family):
    policy = network(family=family)
    plain = reference_policy(policy, "copy")
    away = reference_policy(policy, "copy", CPU)
    assert isinstance(away, FrozenCopy) and away.mask_id == policy.mask_id
    before = plain(TOKENS).logits
    with torch.no_grad():
        next(policy.parameters()).add_(1.0)
    assert torch.equal(away(TOKENS).logits, before)
    assert not any(parameter.requires_grad for parameter in away.model.parameters())


def test_blocks_are_copies_while_they_run_and_at_home_before_and_after():
    policy = network().requires_grad_(False)
    homes = [p.data_ptr() for block in blocks(policy) for p in block.parameters()]
    others = {id(p) for p in policy.parameters()} - {
        id(p) for block in blocks(policy) for p in block.parameters()
    }
    blocks_in_main_memory(policy, CPU)
    seen = []
    first = blocks(policy)[0]
    first.register_forward_pre_hook(
        lambda block, _: seen.extend(p.data_ptr() for p in block.parameters())
    )
    policy(TOKENS)
    count = len(list(first.parameters()))
    assert len(seen) == count and not set(seen) & set(homes)
    assert [p.data_ptr() for block in blocks(policy) for p in block.parameters()] == homes
    assert len(others) == 3  # embedding, last norm, head


def test_a_block_goes_home_when_its_forward_fails():
    policy = network().requires_grad_(False)
    homes = [p.data_ptr() for p in blocks(policy)[0].parameters()]
    blocks_in_main_memory(policy, CPU)
    with pytest.raises((TypeError, AttributeError)):
        blocks(policy)[0]("no tensor", None, None)
    assert [p.data_ptr() for p in blocks(policy)[0].parameters()] == homes
