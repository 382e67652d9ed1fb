"""Likelihoods of block models against enumerated orders, separate passes and the sampler."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.laws import inputs, toy
from dllmzoo.laws.case import Case
from dllmzoo.records import Units, take
from dllmzoo.scoring import replay, score
from dllmzoo.zoo import LIKELIHOODS, LOSSES, SELECTORS
from tests.block_policies import EXACT, KEY, NETWORKS, answered, network, sampled, value
from tests.scripted import script
from tests.strategies import cases

BlockElbo, ExactBlock = LIKELIHOODS.get("block_elbo"), LIKELIHOODS.get("exact_block")
Elbo, Exact = LIKELIHOODS.get("elbo"), LIKELIHOODS.get("exact")
Steps = LIKELIHOODS.get("denoising_steps")


def every_draw(block_size: int, cells: int, length: int) -> tuple[Tensor, Tensor]:
    """Middles of cells of [0, 1) times all orders in a block: (B,), and (B, L) by place."""
    orders = torch.tensor(list(itertools.permutations(range(block_size)))).double() / block_size
    middle = (torch.arange(cells, dtype=torch.float64) + 0.5) / cells
    place = torch.arange(length) % block_size
    return middle.repeat_interleave(len(orders)), orders[:, place].repeat(cells, 1)


# prompt, answer, block size: the prompt ends at a block or inside one, the last block is whole or
# not
SHAPES = [(2, 4, 2), (1, 5, 2), (3, 5, 3), (4, 6, 3), (5, 6, 4), (4, 4, 4), (0, 4, 4), (2, 3, 4)]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("prompt", "answer", "block_size"), SHAPES)
def test_the_mean_over_masks_is_the_mean_over_orders_inside_blocks(
    name, prompt, answer, block_size
):
    policy = network(name, block_size)
    one = answered(prompt, answer, block_size)
    orders = toy.block_orders(one)
    with torch.no_grad():
        chain = toy.chain_logprob(policy, orders)
    exact = value(ExactBlock(), policy, one)[0, 0]
    torch.testing.assert_close(exact, chain.mean(), **EXACT)
    # a size of m slots changes at multiples of 1 / m: 12 cells for m up to 4
    drawn_B, order_BL = every_draw(block_size, 12, prompt + answer)
    many = answered(prompt, answer, block_size, rows=len(drawn_B))
    found = value(BlockElbo(views=1), policy, many, script(size=drawn_B, subset=order_BL))
    torch.testing.assert_close(found.mean(), chain.mean(), **EXACT)
    likeliest = value(ExactBlock(of="loglikelihood"), policy, one)[0, 0]
    expected = chain.logsumexp(0) - math.log(len(chain))
    torch.testing.assert_close(likeliest, expected, **EXACT)
    assert exact <= likeliest + 1e-12


@pytest.mark.parametrize("spacing", ["stratified", "strided"])
@pytest.mark.parametrize("views", [1, 2, 3])
def test_spaced_sizes_average_to_the_exact_block_elbo(spacing, views):
    policy = network("toy", 2)
    one = answered(1, 5, 2)
    # blocks of 1, 2 and 2 slots are 3 cells a view; sizes change at multiples of 1 / (2 * 3 views)
    drawn_B, order_BL = every_draw(2, 2 * 3 * views, 6)
    turns = torch.arange(views).double() / views
    drawn_B, turn_B = drawn_B.repeat(views), turns.repeat_interleave(len(drawn_B))
    many = answered(1, 5, 2, rows=len(drawn_B))
    key = script(size=drawn_B, subset=order_BL.repeat(views, 1), turn=turn_B)
    for unit in ("sequence", "view"):
        found = value(BlockElbo(views=views, spacing=spacing, unit=unit), policy, many, key)
        each = found.mean(0)  # of each view, where views are units
        expected = value(ExactBlock(), policy, one)[0, 0]
        torch.testing.assert_close(each, expected.expand_as(each), **EXACT)


@pytest.mark.parametrize("name", NETWORKS)
def test_blocks_of_one_token_are_autoregressive(name):
    policy, rollout = network(name, 1), answered(3, 6, 1, pad=2)
    with torch.no_grad():
        expected = toy.chain_logprob(policy, rollout)  # left to right, the rest masked
    for likelihood in (BlockElbo(), ExactBlock(), ExactBlock(of="loglikelihood")):
        torch.testing.assert_close(value(likelihood, policy, rollout)[:, 0], expected, **EXACT)
    steps = inputs.every_step(rollout)
    dual = Steps(layout="dual_stream")
    views = dual.plan(rollout, steps, KEY, 1)
    assert views.score_BKL.shape[1] == 1  # one pass for the whole answer
    found = value(dual, policy, rollout, steps=steps)
    torch.testing.assert_close(found.sum(1), expected, **EXACT)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("block_size", [8, 11])
def test_one_block_is_the_likelihood_of_full_attention(name, block_size):
    policy, rollout = network(name, block_size), answered(3, 5, block_size)
    for of in ("elbo", "loglikelihood"):
        if block_size <= 8:
            found = value(ExactBlock(of=of), policy, rollout)
            torch.testing.assert_close(found, value(Exact(of=of), policy, rollout), **EXACT)
    numbers = torch.tensor([[0.3, 0.1, 0.9, 0.6, 0.2, 0.7, 0.4, 0.8]])
    size_B = torch.tensor([0.5])
    found = value(BlockElbo(views=1), policy, rollout, script(size=size_B, subset=numbers))
    expected = value(Elbo(views=1), policy, rollout, script(size=size_B, view0=numbers))
    torch.testing.assert_close(found, expected, **EXACT)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=15, deadline=None)
@given(case=cases())
def test_one_pass_is_one_pass_for_each_block(name, dtype, case):
    size = case.integer("block", 1, 5)
    policy = network(name, size).to(dtype)
    source = inputs.rollout(case)
    rollout = replace(source, block_size=size)
    part = case.among("part", (BlockElbo(views=2), BlockElbo(tail="score_tail"), ExactBlock()))
    views = part.plan(rollout, None, case.key("views"), 1)
    found = score(policy, rollout, views, micro_batch=7).logprob_BKL
    block_BKL = rollout.block_BL.unsqueeze(1)
    total = torch.zeros_like(found)
    for block in range(int(block_BKL.max()) + 1):
        alone = replace(
            views, layout="full", hide_BKL=views.hide_BKL & (block_BKL == block),
            score_BKL=views.score_BKL & (block_BKL == block),
        )  # fmt: skip
        total += score(policy, rollout, alone, micro_batch=64).logprob_BKL
    policy.double()
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(found, total, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    "part",
    [BlockElbo(), BlockElbo(views=3, spacing="strided", unit="view", tail="pad_end"), ExactBlock(),
     ExactBlock(of="loglikelihood", tail="score_tail"), Steps(layout="dual_stream"),
     Steps(layout="dual_stream", unit="slot", only_valid=True)],
)  # fmt: skip
def test_the_first_ratio_is_1_and_no_split_of_the_work_changes_a_gradient(name, part):
    policy, case = network(name, 3), Case(3, size=6)
    rollout = sampled(policy, case, answer_length=7)
    steps = SELECTORS.get("all")()(rollout, KEY) if part.uses_steps else None
    views = part.plan(rollout, steps, KEY, 1)
    advantage_BU = case.normal("advantage", len(views.size_BU), 1).expand(views.size_BU.shape)
    old = score(policy, rollout, views, micro_batch=4).logprob_BKL
    again = score(policy, rollout, views, micro_batch=4).logprob_BKL
    assert torch.equal(old, again)
    leaf_BKL = old.clone().requires_grad_()
    new = part.pool(leaf_BKL, views, rollout, advantage_BU)
    ratio_BU = (new.ratio_BU - part.pool(old, views, rollout, advantage_BU).ratio_BU).exp()
    assert torch.equal(ratio_BU, torch.ones_like(ratio_BU))  # to the bit
    unit = "sequence" if part.unit == "sequence" else "token"
    loss = LOSSES.get("clipped_surrogate")(kl="none", normaliser=unit)
    facts = Units.of(views, rollout)
    scalar, _ = loss(new, inputs.estimate(new.ratio_BU.detach() - 0.05), None, advantage_BU, facts)
    (grad_BKL,) = torch.autograd.grad(scalar, leaf_BKL)
    found = []
    for micro_batch in (1, 3, 64):
        replayed = replay(policy, rollout, views, grad_BKL, micro_batch=micro_batch)
        torch.testing.assert_close(replayed * views.score_BKL, old, **EXACT)
        grads = [p.grad.flatten() for p in policy.parameters() if p.grad is not None]
        found.append(torch.cat(grads))
        policy.zero_grad()
    for grad in found[1:]:
        torch.testing.assert_close(grad, found[0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("part", [BlockElbo(), ExactBlock(of="loglikelihood"), Steps()])
def test_a_row_scores_the_same_alone_and_behind_padding(name, part):
    if isinstance(part, Steps):
        part = replace(part, layout="dual_stream")
    policy = network(name, 3)
    rollout = sampled(policy, Case(3, size=6), answer_length=7)
    wide = inputs.padded(rollout, 4)
    steps = inputs.every_step(rollout) if part.uses_steps else None
    together = value(part, policy, rollout, steps=steps)
    torch.testing.assert_close(value(part, policy, wide, steps=steps), together, **EXACT)
    for b in range(len(together)):
        row = torch.tensor([b])
        mine = None if steps is None else take(steps, row)
        alone = value(part, policy, take(rollout, row), steps=mine, micro_batch=1)
        torch.testing.assert_close(alone, together[row], **EXACT)


def test_a_sample_that_does_not_count_scores_nothing():
    policy = network("toy", 2)
    rollout = answered(1, 5, 2, rows=3)
    counted_B = torch.tensor([True, False, True])
    for part in (BlockElbo(), ExactBlock(), ExactBlock(of="loglikelihood")):
        views = part.plan(rollout, None, KEY, 1)
        silent = replace(views, score_BKL=views.score_BKL & counted_B.view(-1, 1, 1))
        logprob_BKL = score(policy, rollout, silent, micro_batch=8).logprob_BKL
        total_BU = part.pool(logprob_BKL, silent, rollout, torch.ones(3, 1)).score_BU
        assert total_BU[1] == 0 and not silent.live_BU[1].any()
        torch.testing.assert_close(total_BU[0::2], value(part, policy, rollout)[0::2], **EXACT)


@pytest.mark.parametrize("part", [BlockElbo(), ExactBlock(), Steps(layout="dual_stream")])
def test_a_network_without_blocks_is_refused_with_what_to_do(part):
    rollout = replace(answered(1, 3, 2), block_size=None)
    with pytest.raises(UsageError, match=r"attends to everything; use a block model .*, or "):
        part.plan(rollout, inputs.every_step(rollout), KEY, 1)
