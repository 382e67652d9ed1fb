"""Before any update every ratio is 1, and no split of the work changes a gradient."""

import functools

import pytest
import torch
from torch import Tensor

from dllmzoo.laws import inputs
from dllmzoo.laws.case import Case
from dllmzoo.laws.models import tiny
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.records import Rollout, Steps, Units, Views, take
from dllmzoo.scoring import replay, score
from dllmzoo.zoo import LIKELIHOODS, LOSSES, MODELS, SAMPLERS, SELECTORS

SPLITS = [(micro, parts) for micro in (1, 2, 4, 8) for parts in (1, 2, 4)]
NUM_PASSES = 3
Clipped = LOSSES.get("clipped_surrogate")


def families(name: str, *, toy: bool = True) -> list[str]:
    """Networks that a likelihood is tried with: of blocks where it needs them."""
    blocks = getattr(LIKELIHOODS.get(name)(), "needs_blocks", False)
    toys = ["toy of blocks" if blocks else "toy"] if toy else []
    return [*toys, *(["sdar"] if blocks else ["llada", "dream"])]


PAIRS = [(name, family) for name in LIKELIHOODS.names() for family in families(name)]
MODELS_OF = [(name, family) for name in LIKELIHOODS.names() for family in families(name, toy=False)]


@functools.cache
def policy(family: str) -> torch.nn.Module:
    """A random network: the toy one, or a tiny one of a model family.

    Both in float64, since one float32 step of a total of 20 nats is 2e-6 already.
    """
    if family.startswith("toy"):
        return ToyDenoiser(5, 3 if family == "toy of blocks" else None).double()
    return tiny(MODELS.get(family), Case(5)).double()


@functools.cache
def sampled(family: str) -> tuple[Rollout, Steps]:
    """Eight answers, four of each of two prompts of unlike length, and all their steps."""
    words_PL = torch.tensor([[1, 2, 3, 4, 1], [0, 0, 4, 2, 3]]).repeat_interleave(4, 0)
    attend_PL = torch.arange(5) >= torch.tensor([0, 2]).repeat_interleave(4).unsqueeze(1)
    prompts = inputs.Prompts(
        words_PL, attend_PL, torch.arange(2).repeat_interleave(4), torch.arange(8), [{}] * 8
    )
    sampler = SAMPLERS.get("low_confidence")(
        answer_length=6, block_length=3, steps=4, record_drafts=True
    )  # fmt: skip
    rollout = sampler(policy(family), prompts, Case(1).key("sample"))
    return rollout, SELECTORS.get("all")()(rollout, Case(1).key("select"))


def planned(name: str, family: str, pass_: int) -> tuple[Rollout, Views]:
    rollout, steps = sampled(family)
    likelihood = LIKELIHOODS.get(name)()
    chosen = steps if likelihood.uses_steps else None
    return rollout, likelihood.plan(rollout, chosen, Case(1).key("views", pass_), NUM_PASSES)


def loss_gradient(name: str, logprob_BKL: Tensor, views: Views, rollout: Rollout) -> Tensor:
    """Gradient of a loss off policy at the log-probs: old is a little below new."""
    likelihood = LIKELIHOODS.get(name)()
    advantage_BU = Case(3).normal("advantage", len(logprob_BKL), 1).expand(views.size_BU.shape)
    leaf_BKL = logprob_BKL.clone().requires_grad_()
    new = likelihood.pool(leaf_BKL, views, rollout, advantage_BU)
    old = inputs.estimate(new.ratio_BU.detach() - 0.05)
    scalar, _ = Clipped(kl_coef=0.1)(new, old, old, advantage_BU, Units.of(views, rollout))
    return torch.autograd.grad(scalar, leaf_BKL)[0]


def parameter_gradient(model: torch.nn.Module) -> Tensor:
    grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    return torch.cat(grads)


@pytest.mark.parametrize("pass_", range(NUM_PASSES))
@pytest.mark.parametrize(("name", "family"), PAIRS)
def test_the_first_ratio_is_1_for_every_split(name, family, pass_):
    rollout, views = planned(name, family, pass_)
    likelihood = LIKELIHOODS.get(name)()
    assert likelihood.shares_masks, "the default shares masks"
    old = score(policy(family), rollout, views, micro_batch=64).logprob_BKL
    for micro_batch, parts in SPLITS:
        for rows in torch.arange(8).chunk(parts):
            part, seen = take(views, rows), take(rollout, rows)
            new = score(policy(family), seen, part, micro_batch=micro_batch).logprob_BKL
            advantage_BU = torch.ones_like(part.size_BU)
            ratio_BU = (
                likelihood.pool(new, part, seen, advantage_BU).ratio_BU
                - likelihood.pool(old[rows], part, seen, advantage_BU).ratio_BU
            ).exp()
            torch.testing.assert_close(ratio_BU, torch.ones_like(ratio_BU), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "family"), PAIRS)
def test_the_first_ratio_is_1_to_the_bit_with_the_same_micro_batches(name, family):
    rollout, views = planned(name, family, 0)
    first, second = (
        score(policy(family), rollout, views, micro_batch=4).logprob_BKL for _ in range(2)
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize(("name", "family"), PAIRS)
def test_the_gradient_is_the_same_for_every_micro_batch(name, family):
    rollout, views = planned(name, family, 0)
    model = policy(family)
    logprob_BKL = score(model, rollout, views, micro_batch=64).logprob_BKL
    grad_BKL = loss_gradient(name, logprob_BKL, views, rollout)
    found = {}
    for micro_batch in (1, 2, 4, 8, 64):
        replayed = replay(model, rollout, views, grad_BKL, micro_batch=micro_batch)
        torch.testing.assert_close(replayed * views.score_BKL, logprob_BKL, rtol=1e-5, atol=1e-5)
        found[micro_batch] = parameter_gradient(model)
    for micro_batch, grad in found.items():
        torch.testing.assert_close(grad, found[64], rtol=1e-4, atol=1e-6, msg=str(micro_batch))


@pytest.mark.parametrize("name", LIKELIHOODS.names())
def test_replaying_the_leaf_is_differentiating_through(name):
    family = families(name)[0]
    rollout, views = planned(name, family, 0)
    model, likelihood = policy(family), LIKELIHOODS.get(name)()
    logprob_BKL = score(model, rollout, views, micro_batch=64).logprob_BKL
    replay(model, rollout, views, loss_gradient(name, logprob_BKL, views, rollout), micro_batch=3)
    replayed = parameter_gradient(model)

    B, K, L = views.score_BKL.shape
    final_BKL = rollout.tokens_BL.unsqueeze(1).expand(B, K, L)
    shown_BKL = final_BKL if views.shown_BKL is None else views.shown_BKL
    tokens_BKL = final_BKL if views.target_BKL is None else views.target_BKL
    noised = shown_BKL.masked_fill(views.hide_BKL, model.mask_id).flatten(0, 1)
    attend = rollout.attend_BL.repeat_interleave(K, 0)
    if views.layout == "full":
        out = model(noised, attend)
    else:
        out = model(shown_BKL.flatten(0, 1), attend, target_ids=noised, context=views.context)
    logits_BKLV = out.logits.view(B, K, L, -1) / views.temperature
    direct_BKL = logits_BKLV.log_softmax(-1).gather(3, tokens_BKL.unsqueeze(3)).squeeze(3)
    direct_BKL = torch.where(views.score_BKL, direct_BKL, 0)
    advantage_BU = Case(3).normal("advantage", B, 1).expand(views.size_BU.shape)
    new = likelihood.pool(direct_BKL, views, rollout, advantage_BU)
    old = inputs.estimate(new.ratio_BU.detach() - 0.05)
    scalar, _ = Clipped(kl_coef=0.1)(new, old, old, advantage_BU, Units.of(views, rollout))
    scalar.backward()
    torch.testing.assert_close(replayed, parameter_gradient(model), rtol=1e-4, atol=1e-6)


def test_masks_that_are_not_shared_move_the_first_ratio():
    rollout, _ = sampled("toy")
    likelihood = LIKELIHOODS.get("elbo")(shares_masks=False)
    assert not likelihood.shares_masks
    ratios = []
    for purpose in ("views", "old_views"):
        views = likelihood.plan(rollout, None, Case(1).key(purpose), 1)
        logprob_BKL = score(policy("toy"), rollout, views, micro_batch=64).logprob_BKL
        ratios.append(likelihood.pool(logprob_BKL, views, rollout, torch.ones(8, 1)).ratio_BU)
    assert (ratios[0] - ratios[1]).abs().min() > 1e-4


@pytest.mark.parametrize(("name", "family"), MODELS_OF)
def test_a_row_scores_the_same_alone_in_a_batch_and_behind_padding(name, family):
    rollout, views = planned(name, family, 0)
    together = score(policy(family), rollout, views, micro_batch=64).logprob_BKL
    wide = inputs.padded(rollout, 3)
    likelihood = LIKELIHOODS.get(name)()
    steps = sampled(family)[1] if likelihood.uses_steps else None
    wide_views = likelihood.plan(wide, steps, Case(1).key("views", 0), NUM_PASSES)
    behind = score(policy(family), wide, wide_views, micro_batch=5).logprob_BKL[..., 3:]
    torch.testing.assert_close(behind, together, rtol=1e-5, atol=1e-5)
    for b in range(8):
        row = torch.tensor([b])
        alone = score(policy(family), take(rollout, row), take(views, row), micro_batch=1)
        torch.testing.assert_close(alone.logprob_BKL, together[row], rtol=1e-5, atol=1e-5)
