"""From reward functions to one `Rewards` record: outcomes told apart, totals always finite."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import torch

from dllmzoo.errors import TaskError
from dllmzoo.records import ABSTAIN, ERROR, TIMEOUT, VALUE, Example, Rewards

OnError = Literal["raise", "zero", "abstain"]
RewardFunction = Callable[[Sequence[str], Sequence[Example]], Iterable[Any]]
Entry = tuple[float, int, object]
"""Value (0 without one), outcome, and what the function gave."""

LARGEST = torch.finfo(torch.float32).max


class MissingColumnError(TaskError, KeyError):
    """A reward reads a column that the data do not have; names the column and the data."""

    __str__ = Exception.__str__


class Row(dict[str, Any]):
    """An example as reward functions see it: a column it lacks is named with its data source."""

    def __init__(self, example: Example, source: str) -> None:
        """A copy, so that no function can change what the next one reads."""
        super().__init__(example)
        self.source = source

    def __missing__(self, column: str) -> Any:
        raise MissingColumnError(
            f"a reward reads the column {column!r}, which {self.source} does not have; "
            f"there are: {', '.join(map(str, self))}"
        )


def score(
    functions: Mapping[str, RewardFunction],
    weights: Mapping[str, float],
    texts: Sequence[str],
    examples: Sequence[Example],
    on_error: OnError = "raise",
    source: str = "the data",
) -> Rewards:
    """Rewards of X texts; text x answers example x.

    A function is called once with all texts and returns one entry for each: a number; None, it
    abstains; an exception object, it failed (`TimeoutError`: it ran out of time). NaN, infinity and
    what is no number are errors. If the call itself raises, the function is called again with
    one text at a time, so that only the texts to blame are errors.

    What counts: an abstaining component is left out of its text's sum; a text is counted if a
    component of nonzero weight has a value. A timeout and, under `on_error: zero`, an error add 0
    to the sum. Under `abstain` a text with either is not counted at all, because its total is not
    known; components of weight 0 never decide.

    Args:
        functions: by component name; those in `weights` are called.
        weights: component -> weight of its reward in the total, in the order of the record.
        texts: X answers.
        examples: their X examples.
        on_error: `raise` stops at the first error, `zero` and `abstain` go on; errors and
            timeouts stay visible in `outcome_XC`.
        source: the data, for messages.

    Raises:
        TaskError: a function returns another number of entries, reads a missing column, or
            (under `raise`) fails; a total is too large for float32.
    """
    if len(texts) != len(examples):
        raise TaskError(f"{len(texts)} texts but {len(examples)} examples: one example a text")
    rows = [Row(example, source) for example in examples]
    entries = [_entries(name, functions[name], texts, rows, on_error) for name in weights]
    shape = (len(weights), len(texts))
    value_CX = [[value for value, _, _ in column] for column in entries]
    outcome_CX = [[outcome for _, outcome, _ in column] for column in entries]
    part_XC = torch.tensor(value_CX, dtype=torch.float64).view(shape).T.contiguous()
    outcome_XC = torch.tensor(outcome_CX, dtype=torch.int8).view(shape).T.contiguous()

    weight_C = torch.tensor(list(weights.values()), dtype=torch.float64)
    matters_XC = (weight_C != 0).expand_as(outcome_XC)
    failed_XC = (outcome_XC == ERROR) | (outcome_XC == TIMEOUT)
    counted_X = ((outcome_XC != ABSTAIN) & matters_XC).any(1)
    if on_error == "abstain":
        counted_X &= ~(failed_XC & matters_XC).any(1)
    total_X = torch.where(counted_X, part_XC @ weight_C, 0).float()
    if not bool(total_X.isfinite().all()):
        x = int((~total_X.isfinite()).nonzero()[0])
        raise TaskError(
            f"the weighted sum of the rewards of text {x} does not fit into float32: "
            f"{dict(zip(weights, part_XC[x].tolist(), strict=True))}; lower the weights"
        )
    return Rewards(total_X, part_XC.float(), tuple(weights), counted_X, outcome_XC)


def _entries(
    name: str,
    function: RewardFunction,
    texts: Sequence[str],
    rows: Sequence[Row],
    on_error: OnError,
) -> list[Entry]:
    if not texts:
        return []
    try:
        given = _call(name, function, texts, rows)
    except TaskError:
        raise
    except (Exception, SystemExit) as error:
        given = [_alone(name, function, text, row) for text, row in zip(texts, rows, strict=True)]
        if on_error == "raise" and not any(isinstance(one, Exception) for one in given):
            raise TaskError(
                f"the reward {name!r} raises {_said(error)} when it is called with "
                f"{len(texts)} texts together, but not with any of them alone"
            ) from error
    entries = [_judged(one) for one in given]
    if on_error == "raise":
        for x, (_, outcome, cause) in enumerate(entries):
            if outcome == ERROR:
                _stop(name, x, texts[x], cause)
    return entries


def _call(
    name: str, function: RewardFunction, texts: Sequence[str], rows: Sequence[Row]
) -> list[Any]:
    """What the function gives, as a list with one entry per text."""
    given = function(list(texts), list(rows))
    unordered = isinstance(given, str | bytes | Mapping | set | frozenset)
    if unordered or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise TaskError(
            f"the reward {name!r} returned one {type(given).__name__} for {len(texts)} texts; "
            f"it must return a list with one entry per text"
        )
    entries = list(given)
    if len(entries) != len(texts):
        raise TaskError(
            f"the reward {name!r} returned {len(entries)} values for {len(texts)} texts; "
            f"it must return one per text"
        )
    return entries


def _alone(name: str, function: RewardFunction, text: str, row: Row) -> Any:
    try:
        return _call(name, function, [text], [row])[0]
    except TaskError:
        raise
    except Exception as error:
        return error
    except SystemExit as error:
        return RuntimeError(f"it called exit({error.code})")


def _judged(given: Any) -> Entry:
    """The value and outcome that one entry stands for."""
    if given is None:
        return 0.0, ABSTAIN, given
    if isinstance(given, TimeoutError):
        return 0.0, TIMEOUT, given
    number = _number(given)
    if number is None or not abs(number) <= LARGEST:
        return 0.0, ERROR, given
    return number, VALUE, given


def _number(given: Any) -> float | None:
    """The float a number, a numpy scalar or a 0-dim tensor stands for; None for anything else."""
    if getattr(given, "ndim", None) == 0 and hasattr(given, "item"):
        given = given.item()
    if not isinstance(given, Real | Decimal):
        return None
    try:
        return float(given)
    except (ArithmeticError, ValueError):
        return math.nan


def _stop(name: str, x: int, text: str, cause: object) -> None:
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    hint = "set task.on_error to zero or abstain to go on and count such errors"
    if isinstance(cause, Exception):
        raise TaskError(
            f"the reward {name!r} fails on text {x} ({shown!r}): {_said(cause)}; {hint}"
        ) from cause
    raise TaskError(
        f"the reward {name!r} returned {cause!r} for text {x} ({shown!r}), which is not a "
        f"finite number; return None to abstain, or {hint}"
    )


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def checked_weights(
    weights: Mapping[str, float], known: Collection[str], hint: str = ""
) -> dict[str, float]:
    """The weights of a task, if every name is known and some weight is not 0.

    Raises:
        ValueError: an unknown name (suggests the nearest), a weight that is not finite, or
            nothing but zeros.
    """
    for name, weight in weights.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"no reward named {name!r}.{guess} There are: {', '.join(sorted(known))}.{hint}"
            )
        if not math.isfinite(weight):
            raise ValueError(f"the weight of the reward {name!r} is {weight}; it must be finite")
    if not any(weights.values()):
        raise ValueError("no reward has a weight other than 0, so there is nothing to learn")
    return dict(weights)
