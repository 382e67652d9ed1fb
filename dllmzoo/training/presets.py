"""Evaluation protocols of published work by name, as one table; imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dllmzoo.errors import UsageError


@dataclass(frozen=True)
class Preset:
    """How somebody evaluated, down to every option of the sampler.

    Args:
        source: where it is written down.
        sampler: the component and all of its options but those that follow from the length.
        steps_per_token: denoising steps for each token of the answer.
        temperature: of the answers; 0 = greedy.
        task: task -> its options: how it asks and how answers are read.
    """

    source: str
    sampler: Mapping[str, Any]
    steps_per_token: float
    temperature: float = 0.0
    task: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def steps(self, length: int) -> int:
        """Denoising steps of an answer of `length` tokens.

        Example:
            >>> PRESETS["d1"].steps(256)
            128
        """
        return max(int(length * self.steps_per_token), 1)


PRESETS = {
    "d1": Preset(
        source=(
            "the evaluation scripts released with d1 (arXiv:2504.12216), which EGSPO's release "
            "uses too; answer lengths 128, 256 and 512"
        ),
        sampler={
            "name": "low_confidence", "block_length": 32, "cfg_scale": 0.0, "threshold": None,
            "end_rule": "none", "stop_at_end": False, "commits": "linear", "record_drafts": False,
            "end_damping": None, "cache": None,
        },
        steps_per_token=0.5,
        task={
            "gsm8k": {"prompt_style": "d1_eval", "box": "first"},
            "math500": {"prompt_style": "d1_eval"},
            "aime24": {"prompt_style": "d1_eval"},
            "countdown": {"prompt_style": "d1_eval", "parser": "d1_eval"},
            "sudoku": {"prompt_style": "d1_eval", "parser": "d1"},
        },
    ),
}  # fmt: skip
"""The protocols by name."""


def preset(name: str) -> Preset:
    """The protocol of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in PRESETS:
        raise UsageError(f"there is no preset {name!r}; there are: {', '.join(PRESETS)}")
    return PRESETS[name]
