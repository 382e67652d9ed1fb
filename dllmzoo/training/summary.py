"""The final table: start, end, and start before its careless stage, on the same examples."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dllmzoo.training.evaluate import evaluate, evaluator, greedy, paired, wilson
from dllmzoo.training.folder import RunFolder
from dllmzoo.training.prompts import Codec


@dataclass(frozen=True)
class Row:
    """One line of the final table; rates in [0, 1].

    Args:
        label: what was evaluated.
        steps: denoising steps.
        rate: the primary metric.
        low, high: its 95 % interval.
        gain: difference to the base on the same examples, or None for the base itself.
        gain_low, gain_high: the 95 % interval of the difference; None where no example changed.
        examples: how many were answered: fewer than asked for where there are no more.
    """

    label: str
    steps: str
    rate: float
    low: float
    high: float
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    examples: int = 0


def summary(path: Path | str) -> list[Row]:
    """The rows of a finished run, for each number of steps that was evaluated.

    The weights before the careless stage are evaluated here, the first time, on the same
    examples, if the card of the base names them.
    """
    folder = RunFolder(Path(path))
    file = folder.path / "evaluations.json"
    if not file.exists():
        return []
    known: dict[str, dict[str, list[int]]] = json.loads(file.read_text())
    before = _before(folder, list(known["start"])) if "before" not in known else None
    if before:
        from dllmzoo.training.files import write_json

        known["before"] = before
        write_json(file, known)
    rows = []
    for steps, base in known["start"].items():
        for when, label in (
            ("before", "base before its careless stage"), ("start", "base"), ("end", "trained"),
        ):  # fmt: skip
            if when in known and steps in known[when]:
                rows.append(
                    _row(label, steps, known[when][steps], None if when == "start" else base)
                )
    later = {
        steps: hits for steps, hits in known.get("end", {}).items() if steps not in known["start"]
    }
    return rows + [_row("trained", steps, hits, None) for steps, hits in later.items()]


def _row(label: str, steps: str, hits: list[int], base: list[int] | None) -> Row:
    low, high = wilson(sum(hits), len(hits))
    row = Row(label, steps, sum(hits) / max(len(hits), 1), low, high, examples=len(hits))
    if base is None:
        return row
    gain, gain_low, gain_high = paired([bool(b) for b in base], [bool(h) for h in hits])
    if gain_low == gain_high:  # no example changed, which says nothing of how far others would
        return replace(row, gain=gain)
    return replace(row, gain=gain, gain_low=gain_low, gain_high=gain_high)


def _before(folder: RunFolder, step_counts: list[str]) -> dict[str, list[int]] | None:
    """Outcomes of the weights that the base's card names as its state before careless training."""
    from dllmzoo.catalogue import weights_card
    from dllmzoo.models._load import load_model, load_tokenizer
    from dllmzoo.recipe import load

    recipe: Any = load(folder.recipe)
    card = weights_card(recipe.model.weights) if recipe.model.weights else None
    if card is None or card.before is None:
        return None
    policy = load_model(card.before)
    codec = Codec(load_tokenizer(card.before), policy.mask_id, tuple(policy.stop_ids))
    examples = recipe.task.test(recipe.evaluate.examples)
    outcomes = {}
    for steps in step_counts:
        sampler = greedy(evaluator(recipe), None if steps == "None" else int(steps))
        result = evaluate(
            policy, codec, recipe.task, sampler, examples=examples, batch=recipe.evaluate.batch
        )
        outcomes[steps] = [int(hit) for hit in result.solved]
    return outcomes
