"""The enumerable toy: a free table of logits over two tokens, and a random reward per answer."""

from __future__ import annotations

from typing import ClassVar

import torch

from dllmzoo.lab.estimators.lattice import Lattice
from dllmzoo.lab.estimators.options import Options
from dllmzoo.lab.estimators.world import World, nearby
from dllmzoo.laws.toy import TableDenoiser, answers
from dllmzoo.records import Key


class Table(TableDenoiser):
    """A table that says its precision, as models do."""

    dtype: ClassVar[torch.dtype] = torch.float64


def table_world(options: Options, policy: Table | None = None) -> World:
    """All answers of a table of `options.slots` slots; rewards are standard normal, keyed.

    Args:
        options: slots, seed, scale and shift.
        policy: a table of that many slots to use in place of the random one.
    """
    n = options.slots
    old = Table(n, options.seed, options.scale) if policy is None else policy
    answer_XN = answers(n)
    tokens_XL = torch.cat([torch.zeros(len(answer_XN), 1, dtype=torch.long), answer_XN], 1)
    open_L = torch.arange(n + 1) > 0
    generator = Key(options.seed, 0, "lab/rewards").generator()
    reward_X = torch.randn(len(answer_XN), generator=generator, dtype=torch.float64)

    def truth_of(policy: Table) -> Lattice:
        return Lattice.of(policy, tokens_XL, open_L)

    truth = truth_of(old)
    prob_X = truth.loglikelihood_X.exp()
    new, new_truth = nearby(old, truth_of, truth, prob_X, options.shift, options.seed)
    return World(
        f"table of {n} slots, logits of standard deviation {options.scale:g}, seed {options.seed}",
        old, new, tokens_XL, open_L, n, prob_X, reward_X, truth, new_truth,
        (f"all {len(answer_XN)} answers; log-likelihood, ELBO and gradient are exact",),
    )  # fmt: skip
