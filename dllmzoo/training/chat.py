"""A demonstration in chat messages as tokens: the prompt as it is asked, and the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dllmzoo.errors import TaskError

Messages = list[dict[str, str]]


def render(tokenizer: Any, messages: Messages, *, opened: bool) -> str:
    """Messages through the tokenizer's chat template.

    Args:
        tokenizer: has one.
        messages: a last one of the assistant is left open where the answer is to follow.
        opened: whether the answer is to follow.

    Raises:
        TaskError: there is no template, or it refuses these messages.
    """
    if not getattr(tokenizer, "chat_template", None):
        raise TaskError(
            "the task asks in chat messages, but this tokenizer has no chat template; "
            "set `task.prompt_style` to plain text or use the tokenizer of an instruct model"
        )
    begun = opened and messages[-1]["role"] == "assistant"  # a prompt may begin the answer
    try:
        return tokenizer.apply_chat_template(
            messages, add_generation_prompt=opened and not begun, continue_final_message=begun,
            tokenize=False,
        )  # fmt: skip
    except Exception as error:
        roles = ", ".join(message["role"] for message in messages)
        raise TaskError(
            f"the tokenizer's chat template refuses messages of {roles}: {error}"
        ) from error


def split(tokenizer: Any, prompt: Messages, answer: str) -> tuple[str, str]:
    """Text of the prompt, and of the answer with all that ends its turn.

    The prompt is what is asked when the model answers by itself, so the template must write the
    whole conversation as the prompt and something behind it.

    Args:
        tokenizer: has a chat template.
        prompt: messages; a last one of the assistant begins the answer.
        answer: what follows.

    Raises:
        TaskError: the template changes what stands before the answer.
    """
    asked = render(tokenizer, prompt, opened=True)
    begun = prompt[-1]["content"] if prompt[-1]["role"] == "assistant" else ""
    before = prompt[:-1] if begun else prompt
    whole = render(
        tokenizer, [*before, {"role": "assistant", "content": begun + answer}], opened=False
    )
    if whole.startswith(asked):
        return asked, whole[len(asked) :]
    same = next(
        (i for i, (a, b) in enumerate(zip(asked, whole, strict=False)) if a != b),
        min(len(asked), len(whole)),
    )
    raise TaskError(
        f"the chat template writes a conversation otherwise once it is answered: from character "
        f"{same} on the prompt is {_shown(asked, same)} and the whole {_shown(whole, same)}. A "
        f"model trained on the one is asked the other; use a tokenizer whose template only adds "
        f"the answer"
    )


def without_rest(tokenizer: Any, ids: list[int], stop_ids: Sequence[int]) -> list[int]:
    """An answer up to its last end token, where nothing but white space follows it."""
    last = max((i for i, token in enumerate(ids) if token in stop_ids), default=None)
    if last is None or tokenizer.decode(ids[last + 1 :]).strip():
        return ids
    return ids[: last + 1]


def _shown(text: str, first: int) -> str:
    return repr(text[first : first + 40])
