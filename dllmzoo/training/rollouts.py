"""A round's experience as plain lines: what rollouts/ROUND.jsonl.gz holds."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor

from dllmzoo.records import Experience, Rewards
from dllmzoo.training.prompts import Codec
from dllmzoo.training.sampling import answers

OUTCOME_WORDS = ("value", "abstain", "error", "timeout")


def lines(seen: Experience, codec: Codec) -> list[dict[str, Any]]:
    """One mapping per sample; lists over answer slots are in slot order.

    Keys: `sample group prompt answer answer_ids tokens reveal entropy confidence logprob num_steps
    block_entropy reward components advantage` and, where the method has them, `steps` (each with
    its `start stop weight` and the one-shot `guesses` with their `reward`). `tokens` are the texts
    of single slots; `block_entropy` is of each step. Numbers are rounded to 6 digits.
    """
    rollout = seen.rollout
    texts = codec.texts(answers(rollout.tokens_BL, rollout))
    slots = {
        "answer_ids": rollout.tokens_BL,
        "reveal": rollout.reveal_BL,
        "entropy": rollout.entropy_BL,
        "confidence": rollout.confidence_BL,
        "logprob": rollout.logprob_BL,
    }
    columns = {name: _plain(answers(value, rollout)) for name, value in slots.items()}
    word = cache(lambda token: codec.tokenizer.decode([token], skip_special_tokens=False))
    columns["tokens"] = [[word(token) for token in ids] for ids in columns["answer_ids"]]
    columns["block_entropy"] = _plain(rollout.block_entropy_BT)
    advantage = _plain(seen.advantage_BA)
    start = rollout.tokens_BL.shape[1] - rollout.canvas
    made = []
    for row, text in enumerate(texts):
        ids = rollout.tokens_BL[row, :start][rollout.attend_BL[row, :start]]
        made.append(
            {
                "sample": int(rollout.sample_B[row]),
                "group": int(rollout.group_B[row]),
                "prompt": codec.tokenizer.decode(ids.tolist(), skip_special_tokens=False),
                "answer": text,
                **{name: values[row] for name, values in columns.items()},
                "num_steps": rollout.num_steps,
                "reward": _reward(seen.rewards, row),
                "components": _components(seen.rewards, row),
                "advantage": advantage[row],
                **_steps(seen, codec, row),
            }
        )
    return made


def _steps(seen: Experience, codec: Codec, row: int) -> dict[str, Any]:
    if seen.steps is None:
        return {}
    starts, stops = seen.steps.start_BK[row].tolist(), seen.steps.stop_BK[row].tolist()
    weights = _plain(seen.steps.weight_BK[row])
    steps = [
        {"start": start, "stop": stop, "weight": weight}
        for start, stop, weight in zip(starts, stops, weights, strict=True)
    ]
    if seen.guess_BKL is not None and seen.previews is not None:
        guesses = codec.texts(seen.guess_BKL[row][:, -seen.rollout.canvas :])
        each = len(guesses) // len(steps)
        for k, step in enumerate(steps):
            first = row * len(guesses) + k * each
            step["guesses"] = [
                {"text": guesses[k * each + n], "reward": _reward(seen.previews, first + n)}
                for n in range(each)
            ]
    return {"steps": steps}


def _reward(rewards: Rewards, x: int) -> float | None:
    return round(float(rewards.total_X[x]), 6) if bool(rewards.counted_X[x]) else None


def _components(rewards: Rewards, x: int) -> dict[str, Any]:
    found = {}
    for c, name in enumerate(rewards.names):
        outcome = int(rewards.outcome_XC[x, c])
        value = round(float(rewards.part_XC[x, c]), 6)
        found[name] = value if outcome == 0 else OUTCOME_WORDS[outcome]
    return found


def _plain(values: Tensor) -> Any:
    if values.is_floating_point():
        return _rounded(values.tolist())
    return values.tolist()


def _rounded(values: Any) -> Any:
    return [_rounded(v) for v in values] if isinstance(values, list) else round(values, 6)
