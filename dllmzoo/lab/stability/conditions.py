"""What the rivals are put through: noisy masks, many updates, injected noise, wide clips."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dllmzoo.lab.runs import Arm
from dllmzoo.lab.stability.arms import CLAIMED, Exponent, loss_of

RECIPE = "stable_drl_sudoku"
"""The shipped recipe whose model, task, learning rate, betas and cap every run takes over.

Its likelihood is replaced by a plain ELBO, whose score and ratio are one tensor.
"""

UPDATES = 72
"""Optimiser updates of a run."""

EVALUATIONS = 9
"""Evaluations of a run, besides the one before training."""

SETTING = (
    "train.prompts=16", "train.log_drift=true", "train.save_every=null", "train.log_rollouts=null",
    "optimizer.schedule=constant", "optimizer.max_grad_norm=null", "evaluate.examples=256",
    "evaluate.also_steps=[]", "evaluate.floor=null",
)  # fmt: skip
"""Changes common to all runs: short, never rescued by norm clipping, never stopped as collapsed."""


INFLATED = {"scale": 10.0}
"""What `base` multiplies the log-ratio per token by, so that ratios reach the 1e5 of the paper."""


@dataclass(frozen=True)
class Condition:
    """One way of making the importance ratio noisy, or not.

    Args:
        name: as `--conditions` takes it.
        title: one line.
        arms: run in the full grid.
        seeds: of each arm in the full grid.
        masks: whether the old policy is scored on masks of its own or on those of the new one.
        exponent: of the log-ratio.
        passes: inner updates on the samples of a round.
        views: K, masks of an estimate.
        updates: of a run.
        clip: of the arms with a cap, as distances from 1; None = the recipe's.
        noise: options of the loss `perturbed`; none = as estimated.
        changes: further changes to the recipe.
        only: arms that the condition changes at all; None = every one.
    """

    name: str
    title: str
    arms: tuple[str, ...] = CLAIMED
    seeds: int = 3
    masks: Literal["independent", "shared"] = "independent"
    exponent: Exponent = "token"
    passes: int = 4
    views: int = 2
    updates: int = UPDATES
    clip: tuple[float | None, float | None] | None = None
    noise: Mapping[str, float] = field(default_factory=lambda: INFLATED)
    changes: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None

    def run(self, arm: str, seed: int, changes: tuple[str, ...] = ()) -> Arm:
        """One run; `changes` are made last."""
        rounds = max(self.updates // self.passes, 1)
        shares = self.masks == "shared"
        likelihood = {"name": "elbo", "views": self.views, "shares_masks": shares}
        loss = loss_of(arm, self.exponent, self.clip, self.noise)
        mine = (
            f"seed={seed}", f"train.rounds={rounds}", f"train.passes={self.passes}",
            f"evaluate.every={max(rounds // EVALUATIONS, 1)}",
            "likelihood=null", f"likelihood={json.dumps(likelihood)}",  # drops the recipe's options
            f"loss={json.dumps(loss)}",
        )  # fmt: skip
        return Arm(
            run_name(self.name, arm, seed), RECIPE, (*SETTING, *mine, *self.changes, *changes)
        )


def run_name(condition: str, arm: str, seed: int) -> str:
    """Name of a run: its folder."""
    return f"{condition}.{arm}.{seed}"


CAPPED = ("clip_only", "stable_drl")
"""Arms with a cap to move."""

ENDS = ("grpo", "stable_drl")
"""The two ends of the claim, where the halves would cost more than they tell."""


def _clean(name: str, title: str, **options: object) -> Condition:
    """A condition on ratios that carry no estimation noise: what is injected is all there is."""
    noise = options.pop("noise", {})
    return Condition(name, title, masks="shared", noise=noise, **options)  # type: ignore[arg-type]


_ALL = (
    Condition(
        "base",
        "masks of their own for new and old policy, log-ratio per token times 10, 2 masks, "
        "4 updates a round",
        arms=(*CLAIMED, "policy_gradient"),
        seeds=5,
    ),
    _clean(
        "clean",
        "control: masks shared by new and old policy, log-ratio per token",
        arms=ENDS,
        seeds=5,
    ),
    Condition("token", "as base, log-ratio per token (the released code)", noise={}),
    Condition("sum", "as base, log-ratio summed over the answer", exponent="sum", noise={}),
    Condition("passes-1", "as base, 1 update a round", arms=ENDS, passes=1),
    Condition("passes-2", "as base, 2 updates a round", arms=ENDS, seeds=2, passes=2),
    Condition("passes-8", "as base, 8 updates a round", passes=8),
    Condition("views-1", "as base, 1 mask", views=1),
    Condition(
        "views-8", "as base, 8 masks, half the updates", arms=ENDS, views=8, updates=UPDATES // 2
    ),
    _clean(
        "noise-1", "as clean, log-ratio + N(0, 1) for each answer", arms=ENDS, seeds=2,
        noise={"noise": 1.0},
    ),
    _clean("noise-3", "as clean, log-ratio + N(0, 3^2) for each answer", noise={"noise": 3.0}),
    _clean(
        "shared-2", "as clean, log-ratio + N(0, 2^2) for each group of answers",
        noise={"shared_noise": 2.0},
    ),
    _clean(
        "spikes", "as clean, 5 in 100 ratios times 1e5",
        noise={"spike_share": 0.05, "spike_factor": 1e5},
    ),
    Condition(
        "eps-1", "as base, clip from 0 to 2", arms=("stable_drl",), seeds=2, clip=(1.0, 1.0),
        only=CAPPED,
    ),
    Condition(
        "cap-5", "as base, clip at 5 (the released code)", arms=("stable_drl",), seeds=2,
        clip=(None, 4.0), only=CAPPED,
    ),
    Condition(
        "eps-100", "as base, clip at 101", arms=("stable_drl",), clip=(100.0, 100.0), only=CAPPED
    ),
    Condition(
        "eps-1000", "as base, clip at 1001", arms=("stable_drl",), clip=(1000.0, 1000.0),
        only=CAPPED,
    ),
    Condition(
        "norm-clip", "as base, gradients scaled down to a norm of 0.2", arms=ENDS,
        changes=("optimizer.max_grad_norm=0.2",),
    ),
    Condition(
        "rate-2", "as base, twice the learning rate", arms=("stable_drl",),
        changes=("optimizer.lr=1e-4",),
    ),
    _clean(
        "clean-rate-2", "as clean, twice the learning rate", arms=("grpo",),
        changes=("optimizer.lr=1e-4",),
    ),
)  # fmt: skip

CONDITIONS: dict[str, Condition] = {condition.name: condition for condition in _ALL}
"""Name -> condition, in the order of the tables. `eps-5` is `base`: the recipe's cap."""
