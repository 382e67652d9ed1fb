"""A zoo of small components, so that tests of recipes do not depend on the real ones."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from dllmzoo.recipe.part import Part
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES, SAMPLERS, SCHEDULES, SELECTORS, TASKS


def not_called(*_: Any) -> Any:
    """Of a part that is only checked."""
    raise AssertionError("no part of the small zoo is run")


@dataclass(frozen=True)
class Curve:
    """A small schedule."""

    power: Annotated[float, Field(gt=0)] = 1.0


@dataclass(frozen=True)
class Writer:
    """A small sampler."""

    answer_length: Annotated[int, Field(ge=1)] = 8
    steps: Annotated[int, Field(ge=1)] = 4
    temperature: Annotated[float, Field(ge=0)] = 1.0

    records_steps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.steps > self.answer_length:
            raise ValueError(f"steps {self.steps} are more than answer_length {self.answer_length}")

    @property
    def num_steps(self) -> int:
        return self.steps

    __call__: ClassVar[Any] = not_called


@dataclass(frozen=True)
class Chooser:
    """A small selector."""

    steps: Annotated[int, Field(ge=1)] = 2

    __call__: ClassVar[Any] = not_called


@dataclass(frozen=True)
class Scorer:
    """A small likelihood of chosen steps."""

    unit: Literal["step", "slot", "sequence"] = "step"
    schedule: Annotated[Any, Part("schedule")] = "curve"
    more: tuple[Annotated[Any, Part("schedule")], ...] = ()

    uses_steps: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    random: ClassVar[bool] = False
    shares_masks: ClassVar[bool] = True
    num_forwards: ClassVar[int | None] = None
    plan: ClassVar[Any] = not_called
    pool: ClassVar[Any] = not_called


@dataclass(frozen=True)
class Bound:
    """A small likelihood of whole sequences."""

    views: Annotated[int, Field(ge=1)] = 2

    uses_steps: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    unit: ClassVar[str] = "sequence"
    random: ClassVar[bool] = True
    shares_masks: ClassVar[bool] = True
    num_forwards: ClassVar[int | None] = 2
    plan: ClassVar[Any] = not_called
    pool: ClassVar[Any] = not_called


@dataclass(frozen=True)
class Centred:
    """A small advantage."""

    needs_previews: ClassVar[bool] = False
    per_step: ClassVar[bool] = False
    needs_group: ClassVar[bool] = True
    __call__: ClassVar[Any] = not_called


@dataclass(frozen=True)
class Stepwise:
    """A small advantage of steps."""

    weight: Annotated[float, Field(ge=0)] = 0.5

    needs_previews: ClassVar[bool] = True
    per_step: ClassVar[bool] = True
    needs_group: ClassVar[bool] = True
    __call__: ClassVar[Any] = not_called


@dataclass(frozen=True)
class Clip:
    """A small loss.

    Args:
        clip_low: how far down.
        clip_high: how far up.
        kl: kind of KL.
        kl_coef: weight of the KL.
        length: one or several lengths.
        shares: by name.
    """

    clip_low: Annotated[float, Field(ge=0)] | None = 0.2
    clip_high: Annotated[float, Field(ge=0)] | None = 0.5
    kl: Literal["none", "k3", "exact"] = "none"
    kl_coef: Annotated[float, Field(ge=0)] = 0.0
    length: int | tuple[int, ...] = 3
    pair: tuple[float, float] = (0.0, 1.0)
    shares: dict[str, float] = field(default_factory=dict)
    exact: bool = False
    label: str = ""

    units: ClassVar[frozenset[str]] = frozenset({"step", "slot", "sequence"})
    needs_old: ClassVar[bool] = True
    __call__: ClassVar[Any] = not_called

    @property
    def needs_reference(self) -> bool:
        return self.kl != "none" and self.kl_coef > 0

    @property
    def needs_exact_kl(self) -> bool:
        return self.kl == "exact" and self.kl_coef > 0


@dataclass(frozen=True)
class Share:
    """A small loss of whole sequences."""

    clip_high: float | None = 5.0

    units: ClassVar[frozenset[str]] = frozenset({"sequence"})
    needs_old: ClassVar[bool] = True
    needs_reference: ClassVar[bool] = False
    needs_exact_kl: ClassVar[bool] = False
    __call__: ClassVar[Any] = not_called


class Plain:
    """A loss that is no dataclass."""

    def __init__(self, size: int, tilt: float = 0.0) -> None:
        if tilt < 0:
            raise ValueError("tilt must be at least 0")
        self.size, self.tilt = size, tilt


@dataclass(frozen=True)
class Sums:
    """A small task."""

    file: str | None = None
    rewards: dict[str, float] = field(default_factory=lambda: {"right": 1.0})
    chat: bool = False

    primary: ClassVar[str] = "solved_rate"
    draw: ClassVar[Any] = not_called
    answer: ClassVar[Any] = not_called
    reward: ClassVar[Any] = not_called
    metrics: ClassVar[Any] = not_called

    def test(self, num: int) -> list[dict[str, str]]:
        return [{"question": "1+1="}][:num]

    def prompt(self, example: dict[str, str]) -> Any:
        question = example["question"]
        return [{"role": "user", "content": question}] if self.chat else question

    def check(self) -> list[str]:
        return [] if self.file is None else [f"the file {self.file} is not there"]


SMALL: dict[Any, dict[str, tuple[type, tuple[str, ...]]]] = {
    SCHEDULES: {"curve": (Curve, ())},
    SAMPLERS: {"writer": (Writer, ())},
    SELECTORS: {"chooser": (Chooser, ())},
    LIKELIHOODS: {"scorer": (Scorer, ()), "bound": (Bound, ())},
    ADVANTAGES: {"centred": (Centred, ()), "stepwise_small": (Stepwise, ())},
    LOSSES: {"clip": (Clip, ("clip_alias",)), "share": (Share, ()), "plain": (Plain, ())},
    TASKS: {"sums": (Sums, ())},
}


@contextmanager
def small_zoo() -> Iterator[None]:
    """The components above, registered inside the block."""
    with ExitStack() as stack:
        for registry, parts in SMALL.items():
            stack.enter_context(registry.temporarily("nothing"))
            for name, (cls, aliases) in parts.items():
                registry.register(name, aliases=aliases)(cls)
        yield


RECIPE: dict[str, Any] = {
    "model": {"name": "llada", "weights": "llada-8b-instruct"},
    "task": {"name": "sums"},
    "sampler": {"name": "writer", "answer_length": 8, "steps": 4},
    "selector": {"name": "chooser", "steps": 2},
    "likelihood": "scorer",
    "advantage": "centred",
    "loss": {"name": "clip", "clip_low": 0.1, "clip_high": 0.3},
    "train": {"rounds": 3, "prompts": 4, "group_size": 2},
}
"""A recipe that has no problem."""


def recipe(**changes: Any) -> dict[str, Any]:
    """The recipe above with some keys replaced."""
    return {**RECIPE, **changes}
