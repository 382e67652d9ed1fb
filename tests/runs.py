"""A run of seconds: the smallest recipe that uses every part, and how runs are compared."""

import json
from pathlib import Path
from typing import Any

MACHINE = ("time", "per_second", "memory")


def recipe(output: Path, **changes: Any) -> dict[str, Any]:
    """EGSPO-SA on a random network of two narrow layers; `changes` replace whole sections."""
    base = {
        "title": "a run of seconds",
        "stage": "rl",
        "seed": 3,
        "model": {
            "name": "llada",
            "tokenizer": "characters:01234=",
            "config": {
                "d_model": 16,
                "n_layers": 2,
                "n_heads": 2,
                "mlp_hidden_size": 32,
                "max_sequence_length": 64,
            },
        },
        "task": {"name": "sudoku", "blanks": [4, 6], "rewards": {"cells_released": 1.0}},
        "sampler": {"name": "low_confidence", "answer_length": 16, "steps": 4, "temperature": 1.0},
        "selector": {"name": "entropy", "steps": 2},
        "likelihood": "denoising_steps",
        "advantage": {"name": "stepwise_one_shot", "weight": 0.5},
        "loss": {"name": "clipped_surrogate", "clip_low": 0.2, "normaliser": "step"},
        "optimizer": {"lr": 1e-3, "warmup": 2},
        "train": {
            "rounds": 4,
            "prompts": 4,
            "group_size": 4,
            "micro_batch": 8,
            "rollout_batch": 8,
            "save_every": 2,
            "log_rollouts": 2,
        },
        "evaluate": {"examples": 8, "steps": 4},
        "output": str(output),
    }
    return base | changes


def same_numbers(row: dict[str, Any]) -> dict[str, Any]:
    """A metrics row without the fields that measure the machine."""
    return {k: v for k, v in row.items() if not any(word in k for word in MACHINE)}


def metrics(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without the fields that measure the machine."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [same_numbers(json.loads(line)) for line in lines]


def weights(folder: Path) -> bytes:
    """The bytes of the final weights."""
    return (folder / "final" / "model.safetensors").read_bytes()
