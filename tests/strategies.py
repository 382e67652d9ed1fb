"""Random and hand-made inputs: the only place of the tests that makes them.

Shapes are those of `dllmzoo.records`. The strategies draw a seed and a size; the numbers are the
same ones that `dllmzoo.laws` gives to third parties.
"""

from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from dllmzoo.laws import inputs
from dllmzoo.laws.case import Case
from dllmzoo.laws.network import ToyDenoiser
from dllmzoo.laws.toy import TableDenoiser
from dllmzoo.records import Estimate, Prompts, Rollout, Steps, Units

rewards = st.floats(-10, 10, allow_nan=False, width=32)
seeds = st.integers(0, 2**31 - 1)


def cases(max_size: int = 6) -> st.SearchStrategy[Case]:
    """A case of a law: a seed and a bound on every size."""
    return st.builds(Case, seed=seeds, size=st.integers(0, max_size))


def rollouts(*, min_steps: int = 1, complete: bool = True) -> st.SearchStrategy[Rollout]:
    """Random rollouts; see `dllmzoo.laws.inputs.rollout`."""
    return cases().map(lambda case: inputs.rollout(case, min_steps=min_steps, complete=complete))


def prompt_rows() -> st.SearchStrategy[Prompts]:
    """Ragged, left-padded prompts."""
    return cases().map(inputs.prompts)


def toy_policies(block_size: int | None = None) -> st.SearchStrategy[ToyDenoiser]:
    """Random small attention networks over the toy vocabulary."""
    return st.builds(ToyDenoiser, seed=seeds, block_size=st.just(block_size))


def table_policies(slots: int = 3) -> st.SearchStrategy[TableDenoiser]:
    """Random enumerable policies."""
    return st.builds(TableDenoiser, slots=st.just(slots), seed=seeds)


@st.composite
def scored_groups(draw, max_groups: int = 4, max_samples: int = 6) -> tuple[Tensor, Tensor, int]:
    """(reward_B, reward_BK, G) with B = P*G rows ordered (p g)."""
    P, G = draw(st.integers(1, max_groups)), draw(st.integers(2, max_samples))
    K = draw(st.integers(1, 5))
    reward_B = torch.tensor(draw(st.lists(rewards, min_size=P * G, max_size=P * G)))
    reward_BK = torch.tensor(draw(st.lists(rewards, min_size=P * G * K, max_size=P * G * K)))
    return reward_B, reward_BK.view(P * G, K), G


def credit(
    advantage: Any, reward_B: Tensor, reward_BK: Tensor | None, G: int, *, round: int = 0,
    counted_B: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """advantage_BA of an advantage estimate, from bare numbers.

    Args:
        advantage: the component.
        reward_B: final rewards, rows ordered (p g).
        reward_BK: rewards of the guesses before the k-th chosen step; None = none are made.
        G: samples of a prompt.
        round: outer iteration.
        counted_B: False = the final reward abstained.
    """
    B = len(reward_B)
    K = 1 if reward_BK is None else reward_BK.shape[1]
    rollout = played([[0] * K] * B, [list(range(K))] * B, group_size=G)
    previews = None if reward_BK is None else inputs.rewards(reward_BK.reshape(-1))
    finals = inputs.rewards(reward_B, counted_B)
    return advantage(finals, previews, inputs.every_step(rollout), rollout, round)


def played(
    tokens: Sequence[Sequence[int]], reveal: Sequence[Sequence[int]], *,
    entropy: Sequence[Sequence[float]] | None = None, **settings: Any,
) -> Rollout:  # fmt: skip
    """A hand-made rollout: answers, the step that committed each slot, entropies in nats.

    One word of prompt stands before each answer; end token 5, mask token 6. `settings` are those
    of `dllmzoo.laws.inputs.played`: group_size, num_steps, block_entropy_BT, temperature, start.
    """
    entropy_BN = None if entropy is None else torch.tensor(entropy)
    return inputs.played(
        torch.tensor(tokens), torch.tensor(reveal), entropy_BN=entropy_BN, **settings
    )


def chosen(
    start: Sequence[Sequence[int]], weight: Sequence[Sequence[float]] | None = None
) -> Steps:
    """Single denoising steps in a selector's order; weight 1 unless given."""
    start_BK = torch.tensor(start)
    weight_BK = torch.ones(start_BK.shape) if weight is None else torch.tensor(weight)
    return Steps(start_BK, start_BK + 1, weight_BK.float())


def estimate(value: Tensor | Sequence[Any], exact_kl: Tensor | None = None) -> Estimate:
    """Total nats of units: a (B, U) tensor, or a list of B numbers, one unit per row."""
    value_BU = value if isinstance(value, Tensor) else torch.tensor(value)
    value_BU = value_BU.unsqueeze(1) if value_BU.ndim == 1 else value_BU
    return inputs.estimate(value_BU, exact_kl)


def units(rows: int, count: int = 1, **facts: Any) -> Units:
    """Facts of `rows` sequences of `count` units; see `dllmzoo.laws.inputs.units`."""
    return inputs.units(rows, count, **facts)
