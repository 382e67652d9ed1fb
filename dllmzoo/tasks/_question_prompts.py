r"""How a question is put to a model: with tags, with a box, as text, or as d1 evaluates."""

from __future__ import annotations

from typing import Literal

PromptStyle = Literal["chat", "boxed", "text", "d1_eval"]
Messages = list[dict[str, str]]

TAGS = """\
First think, writing down your steps between <reasoning> and </reasoning>. Then give the result \
between <answer> and </answer>. Each tag stands on a line of its own.
"""
TAGGED_BOX = (
    TAGS
    + r"""You are an expert in mathematics: work step by step. Between the answer tags put \
the final result, and nothing else, into \boxed{}.
""".replace("\\\n", "")
)
BOX = "Work step by step and put the final result into \\boxed{}."
PREFILL = "<reasoning>"


def asked(question: str, style: PromptStyle, *, formula: bool) -> str | Messages:
    r"""The prompt of a question.

    Args:
        question: as in the data.
        style: `chat`: a user message that asks for a reasoning and an answer block; `boxed`: the
            question and a request to box the result; `text`: `chat` as plain text, for models
            without a chat template; `d1_eval`: asks for a boxed result inside the answer block and
            begins the answer with the opening reasoning tag, as an assistant message to be
            continued.
        formula: whether `chat` and `text` ask for a box inside the answer block too.
    """
    if style == "boxed":
        return [{"role": "user", "content": f"{question}\n{BOX}"}]
    request = TAGGED_BOX if formula or style == "d1_eval" else TAGS
    if style == "text":
        return f"{request}\nQuestion: {question}\n"
    user = {"role": "user", "content": f"{request}\n{question}"}
    return [user, {"role": "assistant", "content": PREFILL}] if style == "d1_eval" else [user]


def demonstration(reasoning: str, result: str, style: PromptStyle, *, formula: bool) -> str:
    r"""A right answer in the form that `asked` asks for.

    Args:
        reasoning: the solution, without its result.
        result: LaTeX or a number.
        style: of the prompt.
        formula: as for `asked`.
    """
    if style == "boxed":
        return f"{reasoning}\n\\boxed{{{result}}}"
    inside = f"\\boxed{{{result}}}" if formula or style == "d1_eval" else result
    opening = "\n" if style == "d1_eval" else "<reasoning>\n"  # the prompt ends in the tag itself
    return f"{opening}{reasoning}\n</reasoning>\n<answer>\n{inside}\n</answer>"
