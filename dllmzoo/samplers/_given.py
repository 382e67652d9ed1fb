"""Answers that come with the prompts."""

from __future__ import annotations

from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.records import Prompts


def given_answers(prompts: Prompts, answer_length: int, sampler: str, method: str) -> Tensor:
    """answer_BN of the prompts, which must have the sampler's length.

    Args:
        prompts: what the sampler was called with.
        answer_length: N.
        sampler: its name, for messages.
        method: of a task, that gives the texts.

    Raises:
        UsageError: no answers were given, or those of another length.
    """
    if prompts.answer_BN is None:
        raise UsageError(
            f"sampler {sampler} needs an answer with every prompt (`Prompts.answer_BN`), and there "
            f"is none; use a task that has the method `{method}`"
        )
    if prompts.answer_BN.shape[1] != answer_length:
        raise UsageError(
            f"the given answers have {prompts.answer_BN.shape[1]} tokens, and the answer_length "
            f"of sampler {sampler} is {answer_length}; use one length for both"
        )
    return prompts.answer_BN
