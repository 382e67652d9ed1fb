"""The loop without a network: one noisy update, and a bandit that feeds its own noise."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from dllmzoo.lab.stability.arms import CLAIMED, Exponent, loss_of
from dllmzoo.lab.stability.measure import quantile
from dllmzoo.lab.statistics import mean_interval
from dllmzoo.recipe.build import build
from dllmzoo.records import Estimate, Key, Units

SUM: Exponent = "sum"


@dataclass(frozen=True)
class Bandit:
    """A softmax policy over actions with fixed rewards, trained on noisy ratios.

    Every policy samples a group of actions, credits them against the group's mean reward and
    makes `passes` updates with Adam. The log-ratio that the loss sees is the true one plus normal
    noise: of each sample with deviation `noise + growth * sqrt(KL(old, new))`, and of the whole
    group with deviation `shared_noise`. With `growth` above 0 this is the loop itself: noise moves
    the policy, and the moved policy is noisier.

    Args:
        actions: their rewards are spread evenly over [0, 1].
        size: G.
        rounds: of sampling.
        passes: updates a round.
        lr: of Adam, betas 0.9 and 0.99, as in the recipe.
        noise: nats.
        growth: nats of noise per square root of a nat of KL.
        shared_noise: nats.
        policies: independent repetitions.
        seed: of all of them.
    """

    actions: int = 16
    size: int = 8
    rounds: int = 50
    passes: int = 4
    lr: float = 0.02
    noise: float = 0.0
    growth: float = 0.0
    shared_noise: float = 0.0
    policies: int = 200
    seed: int = 0


UPDATES: tuple[tuple[float, float], ...] = ((1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (0.3, 2.0))
"""Own and shared noise, nats, of the single updates."""

BANDITS: dict[str, Bandit] = {
    "true ratios": Bandit(),
    "noise of each sample": Bandit(noise=2.0),
    "noise of the group": Bandit(shared_noise=2.0),
    "noise that grows with drift": Bandit(growth=60.0),
}
"""Name -> bandit of the tables."""


def play_all() -> dict[str, Any]:
    """Every arm of the claim on every toy, as plain values; seconds."""
    return {
        "updates": [
            {"noise": own, "shared_noise": shared, "arm": arm, **one_update(arm, own, shared)}
            for own, shared in UPDATES
            for arm in CLAIMED
        ],
        "bandits": [
            {"bandit": name, "settings": asdict(bandit), "arm": arm, **play(arm, bandit)}
            for name, bandit in BANDITS.items()
            for arm in CLAIMED
        ],
    }


def weights(arm: str, log_ratio_PG: Tensor, advantage_PG: Tensor) -> Tensor:
    """By how much the loss of an arm multiplies each sample's score gradient, A included.

    The gradient of a group is the sum over its samples of these weights times the gradients of
    their log-probs.
    """
    P, G = log_ratio_PG.shape
    score_B1 = torch.zeros(P * G, 1, dtype=torch.float64, requires_grad=True)
    one_B1 = torch.ones(P * G, 1, dtype=torch.float64)
    group_B = torch.arange(P).repeat_interleave(G)
    sizes = dict.fromkeys(("tokens", "scored", "sequences", "nonzero", "rows", "units"), P * G)
    units = Units(
        one_B1 > 0, one_B1, one_B1, torch.zeros(P * G, 1, dtype=torch.int64), group_B,
        torch.ones(P * G, dtype=torch.int64), 1, {**sizes, "groups": P, "parents": 0},
        torch.arange(P * G),
    )  # fmt: skip
    old = Estimate(-log_ratio_PG.reshape(-1, 1), -log_ratio_PG.reshape(-1, 1))
    value, _ = _loss(arm)(
        Estimate(score_B1, score_B1), old, None, advantage_PG.reshape(-1, 1), units
    )
    (grad_B1,) = torch.autograd.grad(value, score_B1)
    return -P * grad_B1.view(P, G)


@cache
def _loss(arm: str) -> Any:
    return build("loss", loss_of(arm, SUM))


def one_update(
    arm: str, noise: float, shared_noise: float = 0.0, *, groups: int = 2000, seed: int = 0
) -> dict[str, float | None]:
    """The norm of one update of a group under noise: its mean, 99.9 % quantile and maximum.

    16 samples a group, advantages of +1 and -1 in turn, score gradients of length 1 in random
    directions of 64 dimensions, true ratios of 1: a norm above 1 is more than any sample's own
    gradient. `scale_std` is the deviation over groups of the log of S, the mean clipped ratio.

    Args:
        arm: a name of `RIVALS`.
        noise: deviation of each log-ratio, nats.
        shared_noise: deviation of what the log-ratios of a group share, nats.
        groups: independent repetitions.
        seed: of them.
    """
    G, width = 16, 64
    generator = Key(seed, 0, "one update").generator()
    score_PGD = torch.randn(groups, G, width, generator=generator, dtype=torch.float64)
    score_PGD = score_PGD / score_PGD.norm(dim=2, keepdim=True)
    log_ratio_PG = _noise(generator, (groups, G), noise, shared_noise)
    sign_PG = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(groups, G // 2)
    weight_PG = weights(arm, log_ratio_PG, sign_PG)
    norm_P = torch.einsum("pg,pgd->pd", weight_PG, score_PGD).norm(dim=1)
    scale_P = weight_PG.abs().sum(1)
    norms = norm_P.tolist()
    return {
        "mean": float(norm_P.mean()),
        "q999": quantile(norms, 0.999),
        "largest": max(norms),
        "scale_std": float(scale_P.clamp(min=1e-30).log().std()),
    }


def play(arm: str, bandit: Bandit) -> dict[str, float | None]:
    """Train the policies of a bandit; where they end, and how unevenly they got there.

    Returns:
        `reward`: mean over policies of the expected reward at the end, with its 95 % interval
        `reward_low`, `reward_high`; `largest`: the largest gradient norm of all; `jump`: mean
        change of the log of the gradient norm from one update to the next; `kl`: mean KL of the
        last update of a round.
    """
    P, V, G = bandit.policies, bandit.actions, bandit.size
    reward_V = torch.linspace(0, 1, V, dtype=torch.float64)
    logit_PV = torch.zeros(P, V, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logit_PV], lr=bandit.lr, betas=(0.9, 0.99))
    norms, moved = [], []
    kl_P = torch.zeros(P, dtype=torch.float64)
    for round in range(bandit.rounds):
        key = Key(bandit.seed, round, "bandit")
        generator = key.generator()
        old_PV = logit_PV.detach().log_softmax(1)
        action_PG = torch.multinomial(old_PV.exp(), G, replacement=True, generator=generator)
        gain_PG = reward_V[action_PG]
        advantage_PG = gain_PG - gain_PG.mean(1, keepdim=True)
        for _ in range(bandit.passes):
            new_PV = logit_PV.log_softmax(1)
            kl_P = (old_PV.exp() * (old_PV - new_PV.detach())).sum(1).clamp(min=0)
            noise_P1 = bandit.noise + bandit.growth * kl_P.sqrt().unsqueeze(1)
            ratio_PG = (new_PV.detach() - old_PV).gather(1, action_PG)
            ratio_PG = ratio_PG + _noise(generator, (P, G), 1.0, 0.0) * noise_P1
            ratio_PG = ratio_PG + _noise(generator, (P, G), 0.0, bandit.shared_noise)
            weight_PG = weights(arm, ratio_PG, advantage_PG)
            optimizer.zero_grad()
            (-(weight_PG * new_PV.gather(1, action_PG)).sum()).backward()
            assert logit_PV.grad is not None
            norms.append(logit_PV.grad.norm(dim=1))
            optimizer.step()
        moved.append(kl_P)
    norm_UP = torch.stack(norms)
    end_P = logit_PV.detach().softmax(1) @ reward_V
    end = mean_interval(end_P.tolist())
    return {
        "reward": end.value,
        "reward_low": end.low,
        "reward_high": end.high,
        "largest": float(norm_UP.max()),
        "jump": float(norm_UP.clamp(min=1e-12).log().diff(dim=0).abs().mean()),
        "kl": float(torch.stack(moved).mean()),
    }


def _noise(generator: torch.Generator, shape: tuple[int, int], own: float, shared: float) -> Tensor:
    """Normal numbers of each entry, plus some that a row shares."""
    each = torch.randn(shape, generator=generator, dtype=torch.float64)
    row = torch.randn(shape[0], 1, generator=generator, dtype=torch.float64)
    return own * each + shared * row
