"""The rows that every estimator is measured on, and what their gradients should be."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from dllmzoo.lab.estimators.options import Options
from dllmzoo.lab.estimators.results import Gradient
from dllmzoo.lab.estimators.statistics import gradient_errors
from dllmzoo.lab.estimators.truth_gradient import exact_estimates, exact_gradient
from dllmzoo.lab.estimators.world import World
from dllmzoo.records import Key

LEAST_NORM = 1e-9
"""A gradient shorter than this has no direction."""


class Bench:
    """Trajectories of the old policy, the same for every estimator."""

    def __init__(self, world: World, options: Options) -> None:
        """Draw them."""
        self.world, self.options = world, options
        self.path = path = world.draw(options.num_draws, Key(options.seed, 0, "lab/rows"))
        self.index_B = path.index_B
        self.rollout = world.rollout(path)
        self.advantage_B = world.advantage_X[self.index_B]
        self.group, self.estimates = options.group, options.num_estimates

    def key(self, purpose: str) -> Key:
        """The key of a plan."""
        return Key(self.options.seed, 0, purpose)

    @cached_property
    def gradient(self) -> Tensor | None:
        """The exact policy gradient; None where it is not known or all rewards are equal."""
        world = self.world
        wanted = {"gradients", "selection"} & set(self.options.measures)
        if not (wanted and world.exact and world.reward_X is not None):
            return None
        exact = exact_gradient(world)
        return exact if float(exact.norm()) > LEAST_NORM else None

    @cached_property
    def share(self) -> Tensor:
        """How often each answer stands in each estimate, of all its answers: (estimates, X)."""
        used, X = self.estimates * self.group, len(self.world.prob_X)
        place = torch.arange(used) // self.group * X + self.index_B[:used]
        count = torch.bincount(place, minlength=self.estimates * X).view(-1, X)
        return count.double() / self.group

    @cached_property
    def controls(self) -> Tensor:
        """What each estimate would be with the exact gradients of its answers."""
        return exact_estimates(self.world, self.share * self.world.advantage_X)

    @cached_property
    def exact_score(self) -> Gradient | None:
        """Errors of those: only the draw of answers is random in them."""
        if self.gradient is None or "gradients" not in self.options.measures:
            return None
        return gradient_errors(self.controls, self.controls, self.gradient)
