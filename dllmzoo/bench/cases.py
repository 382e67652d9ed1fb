"""The catalogue of benchmarks: what is compared with what. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dllmzoo.errors import UsageError

OURS, PLAIN = "ours", "plain"


@dataclass(frozen=True)
class Case:
    """One benchmark.

    Args:
        name: on the command line.
        summary: what is measured.
        module: of `dllmzoo.bench` that makes its work.
        ways: to do it; with `growth`, points `NAME=NUMBER` of one way.
        baseline: the way that the others are compared with.
        scaled: what was measured less often than it stands for; empty = nothing.
        ours_dtype: of ours, whatever the baseline's is.
        growth: ways are points of a line; a power law is fitted.
        memory: peak memory says something.
        usual: measured if no cases are named.
    """

    name: str
    summary: str
    module: str
    ways: tuple[str, ...] = (OURS, PLAIN)
    baseline: str = PLAIN
    scaled: str = ""
    ours_dtype: str | None = None
    growth: bool = False
    memory: bool = True
    usual: bool = True

    def dtype(self, way: str, asked: str) -> str:
        """Of the weights in a way."""
        return self.ours_dtype if self.ours_dtype and way == OURS else asked


_STEPS = "denoising steps spread evenly stand for all of the rollout"
_ROUND = f"rollout: {_STEPS}; plain: a few states stand for all K"

CASES: Sequence[Case] = (
    Case("forward", "one forward of the batch, the head at one block against all", "rollouts"),
    Case("rollout", "sampled rollout, record included", "rollouts", scaled=_STEPS),
    Case("rollout_greedy", "greedy rollout, the same tokens", "rollouts", scaled=_STEPS),
    Case(
        "rollout_bf16", "sampled rollout with a bfloat16 network against float32", "rollouts",
        scaled=_STEPS, ours_dtype="bfloat16",
    ),
    Case(
        "rollout_stored", "as rollout; plain also stores full-vocabulary log-probs", "rollouts",
        scaled=_STEPS, usual=False,
    ),
    Case("score", "first update of a round: old log-probs of K states, then gradient", "scores"),
    Case("score_again", "later update: ours scores a leaf first, plain has no need to", "scores"),
    Case("score_elbo", "one view with the whole answer hidden, and its gradient", "scores"),
    Case("round", "a round of EGSPO-SA", "rounds", scaled=_ROUND),
    Case("round_bf16", "the same, rollouts in bfloat16", "rounds", scaled=_ROUND),
    Case(
        "sdar_rollout", "rollout in blocks, with the exact cache against whole rows", "blocks",
        ways=("cached", "uncached"), baseline="uncached",
        scaled="blocks spread evenly over the answer stand for all of it",
    ),
    Case(
        "elbo_one_pass", "block ELBO in one pass over two streams", "blocks",
        ways=("one_pass", "cached", "uncached"), baseline="uncached",
    ),
    Case(
        "growth_states", "score and gradient of K states, two sequences", "growth",
        ways=("K=4", "K=8", "K=16", "K=32"), baseline="K=4", growth=True,
    ),
    Case(
        "growth_batch", "score and gradient of one state of B sequences", "growth",
        ways=("B=4", "B=8", "B=16", "B=32"), baseline="B=4", growth=True,
    ),
    Case(
        "growth_length", "SDAR rollout with the cache, answers of N tokens", "growth",
        ways=("N=1", "N=2", "N=4", "N=8"), baseline="N=1", growth=True,
        scaled="N in units of the shortest; blocks spread evenly stand for all",
    ),
    Case(
        "startup", "start of the command line", "growth",
        ways=("help", "list"), baseline="help", memory=False,
    ),
)  # fmt: skip

GROUPS = {"growth": ("growth_states", "growth_batch", "growth_length", "startup")}
"""Names that stand for several cases."""


def chosen(names: Sequence[str]) -> list[Case]:
    """The cases of these names, in the order of the catalogue; of none, the usual ones.

    Raises:
        UsageError: there is no such case.
    """
    known = {case.name: case for case in CASES}
    wanted: set[str] = set()
    for name in names:
        if name not in known and name not in GROUPS:
            raise UsageError(
                f"there is no benchmark {name!r}; there are {', '.join([*known, *GROUPS])}"
            )
        wanted.update(GROUPS.get(name, (name,)))
    return [case for case in CASES if (case.name in wanted if names else case.usual)]
