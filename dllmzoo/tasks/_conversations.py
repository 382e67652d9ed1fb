"""Conversations in the usual `messages` form, cut into what is asked and what is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from dllmzoo.records import Example

Messages = list[dict[str, str]]
Turns = Literal["each", "last"]

ROLES = ("system", "user", "assistant")


def conversation(given: Any) -> Messages:
    """A conversation with nothing but role and content.

    Args:
        given: a list of messages, or its JSON text. A content may be a list of text parts.

    Raises:
        ValueError: it is none, or nothing in it can be imitated.
    """
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise ValueError(f"its messages are text that is no JSON: {error}") from error
    if not isinstance(given, Sequence) or not all(isinstance(turn, Mapping) for turn in given):
        raise ValueError("its messages are no list of {role, content}")
    turns = [_turn(number, turn) for number, turn in enumerate(given, start=1)]
    for number, (turn, after) in enumerate(pairwise(turns), start=2):
        if turn["role"] == after["role"] == "assistant":
            raise ValueError(f"turn {number} is the second of the assistant in a row; join them")
    if not any(turn["role"] == "assistant" for turn in turns[1:]):
        raise ValueError("the assistant answers nothing in it")
    return turns


def demonstrations(turns: Messages, which: Turns) -> list[Example]:
    """Rows `prompt` (all before an answer) and `answer`, in the order of the conversation.

    What the assistant says first, before anybody asked, is no answer; what follows the last answer
    is left out.
    """
    places = [i for i, turn in enumerate(turns) if turn["role"] == "assistant" and i > 0]
    chosen = places if which == "each" else places[-1:]
    return [{"prompt": turns[:i], "answer": turns[i]["content"]} for i in chosen]


def opening(turns: Messages) -> str:
    """What the conversation starts with, up to the first answer: names it for a split."""
    first = next(i for i, turn in enumerate(turns) if turn["role"] == "assistant" and i > 0)
    return json.dumps(turns[:first], sort_keys=True, ensure_ascii=False)


def _turn(number: int, turn: Mapping[str, Any]) -> dict[str, str]:
    role, content = turn.get("role"), turn.get("content")
    if role not in ROLES:
        raise ValueError(f"turn {number} has the role {role!r}; roles are {', '.join(ROLES)}")
    if turn.get("tool_calls"):
        raise ValueError(f"turn {number} calls tools, which no model here is taught")
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = [part.get("text") if isinstance(part, Mapping) else None for part in content]
        if not all(isinstance(part, str) for part in parts):
            raise ValueError(f"turn {number} has parts that are no text")
        content = "".join(map(str, parts))
    if not isinstance(content, str) or (role != "system" and not content.strip()):
        raise ValueError(f"turn {number} ({role}) has no text")
    return {"role": role, "content": content}
