"""Who is compared: recipes that can be, and the rounds that give each the same compute."""

from __future__ import annotations

import fnmatch
import glob
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllmzoo.errors import RunError, UsageError
from dllmzoo.lab.grid import labels
from dllmzoo.lab.runs import Arm, Outcome, Say, check_arms, run_arms

if TYPE_CHECKING:
    from dllmzoo.recipe import Recipe

WILD = "*?["
TOLERANCE = 0.05
"""Share by which a forecast of FLOPs may be off before the measured number replaces it."""
PROBE = (
    "train.rounds=2", "train.max_minutes=null", "train.save_every=null", "train.log_rollouts=null",
    "evaluate.every=null", "evaluate.examples=2", "evaluate.also_steps=[]",
)  # fmt: skip
"""Changes to a recipe whose first rounds are only counted."""


@dataclass(frozen=True)
class Contestant:
    """One recipe of a comparison.

    Args:
        label: short name, used for its runs.
        source: file or packaged name.
        overrides: changes to it.
        recipe: loaded.
        planned: FLOPs of a round by forecast.
        measured: FLOPs of a round, mean of its first rounds.
    """

    label: str
    source: str
    overrides: tuple[str, ...]
    recipe: Recipe
    planned: float = 0.0
    measured: float = 0.0

    @property
    def samples(self) -> int:
        """Answers of a round."""
        return self.recipe.train.prompts * self.recipe.train.group_size

    @property
    def corrected(self) -> bool:
        """Whether the forecast is too far off to be used."""
        return abs(self.planned / self.measured - 1) > TOLERANCE

    @property
    def flops(self) -> float:
        """FLOPs of a round: the forecast, or the measurement where that is far off."""
        return self.measured if self.corrected else self.planned

    def rounds(self, budget: float) -> int:
        """Rounds that spend a budget of FLOPs, to the nearest; at least 1."""
        return max(round(budget / self.flops), 1)

    def arm(self, name: str, *changes: str) -> Arm:
        """A run of this recipe; `changes` come after the user's."""
        return Arm(name, self.source, (*self.overrides, *changes))


def find_recipes(words: Iterable[str], say: Say | None = None) -> tuple[str, ...]:
    """Recipes by file, by packaged name, or by a pattern over either.

    A pattern finds files; where it finds none, packaged recipes of that name. What a pattern
    finds that is no reinforcement learning (`stage: sft`) is left out, and so are recipes that
    start from another base than most: their scores are not of the same thing.

    Args:
        words: files, names and patterns.
        say: told which recipes of another base are left out.

    Raises:
        UsageError: a pattern finds nothing.
    """
    from dllmzoo.recipe.packaged import recipes

    found: dict[str, None] = {}
    for word in words:
        if not any(char in word for char in WILD) or Path(word).is_file():
            found[word] = None
            continue
        files = [name for name in sorted(glob.glob(word)) if name.endswith((".yaml", ".yml"))]
        inner = word.removeprefix("recipes/").removesuffix(".yaml")
        packaged = [
            name for name in recipes()
            if fnmatch.fnmatchcase(name, inner) and name.count("/") == inner.count("/")
        ]  # fmt: skip
        matched = _of_one_base(files or packaged, say or (lambda text: None))
        if not matched:
            raise UsageError(f"{word!r} finds no recipe; `dllmzoo list recipes` names the packaged")
        found |= dict.fromkeys(matched)
    return tuple(found)


def _of_one_base(names: Sequence[str], say: Say) -> list[str]:
    """The recipes of reinforcement learning that start from the weights that most start from."""
    from dllmzoo.recipe import load

    loaded = {name: load(name) for name in names}
    base = {name: each.model.weights for name, each in loaded.items() if each.stage == "rl"}
    most = [weights for weights, _ in Counter(base.values()).most_common(1)]
    others = [name for name, weights in base.items() if [weights] != most]
    if others:
        say(f"left out, not trained from {most[0]}: {', '.join(others)}")
    return [name for name in base if name not in others]


def contestants(recipes: Sequence[str], overrides: Sequence[str], folder: Path) -> list[Contestant]:
    """The recipes, loaded, once they are fit to be compared.

    Raises:
        RecipeError: all problems of all recipes.
        UsageError: they are not all reinforcement learning, or not evaluated alike.
    """
    named = dict(zip(labels(recipes), recipes, strict=True))
    arms = [Arm(label, source, tuple(overrides)) for label, source in named.items()]
    loaded = check_arms(arms, folder)
    found = [Contestant(arm.name, arm.recipe, arm.overrides, loaded[arm.name]) for arm in arms]
    _refuse_unlike(found)
    return found


def decoder(recipe: Recipe) -> Any:
    """The sampler of the evaluations."""
    from dllmzoo.training.evaluate import evaluator

    return evaluator(recipe)


def main_steps(recipe: Recipe) -> int:
    """Denoising steps of the main evaluation."""
    from dllmzoo.training.evaluate import steps_field

    sampler = decoder(recipe)
    own = getattr(sampler, steps_field(sampler), None)
    return recipe.evaluate.steps or own or sampler.num_steps


def _refuse_unlike(found: Sequence[Contestant]) -> None:
    """Raise if scores of the recipes would not be of the same thing."""
    supervised = [each.label for each in found if each.recipe.stage != "rl"]
    if supervised:
        raise UsageError(f"{', '.join(supervised)} is no reinforcement learning (stage: sft)")
    facts: dict[str, Any] = {
        "the main metric of the task": lambda recipe: recipe.task.primary,
        "evaluate.examples": lambda recipe: recipe.evaluate.examples,
        "evaluate.steps": main_steps,
        "the held-out examples": lambda recipe: json.dumps(
            [dict(example) for example in recipe.task.test(recipe.evaluate.examples)], default=str
        ),
        "model.weights": lambda recipe: recipe.model.weights,
    }
    unlike = []
    for name, fact in facts.items():
        groups: dict[Any, list[str]] = {}
        for each in found:
            groups.setdefault(fact(each.recipe), []).append(each.label)
        if len(groups) > 1:
            short = name != "the held-out examples"
            parts = [
                f"  {value if short else 'one set'}: {', '.join(names)}"
                for value, names in groups.items()
            ]
            unlike += [f"{name} differs:", *parts]
    if unlike:
        raise UsageError(
            "the recipes cannot be compared\n" + "\n".join(unlike)
            + "\ngive all of them the same with key=value, or compare them apart"
        )  # fmt: skip


def probed(found: Sequence[Contestant], folder: Path, jobs: int, say: Say) -> list[Contestant]:
    """The contestants with the FLOPs of their rounds, forecast and measured in two rounds each.

    Raises:
        RunError: a recipe does not get through its first rounds.
    """
    from dllmzoo.training.plan import plan

    outcomes = run_arms([each.arm(each.label, *PROBE) for each in found], folder, jobs)
    known = [
        replace(each, measured=_flops_of_a_round(outcome), planned=plan(each.recipe).flops)
        for each, outcome in zip(found, outcomes, strict=True)
    ]
    off = [each.label for each in known if each.corrected]
    if off:
        say(
            f"the forecast of a round's FLOPs is more than {TOLERANCE:.0%} off for "
            f"{', '.join(off)}: the measured number sets their rounds"
        )
    return known


def _flops_of_a_round(outcome: Outcome) -> float:
    found = [row["flops"] for row in outcome.rows if row.get("flops")]
    if not found:
        raise RunError(
            f"{outcome.arm.name} does not get through a round: {outcome.message or 'no FLOPs'}"
        )
    return sum(found) / len(found)
