"""How a programming problem is put to a model, and a right answer in that form."""

from __future__ import annotations

from typing import Literal

from dllmzoo.records import Example

CodePromptStyle = Literal["chat", "fenced", "text", "d1_eval"]
Messages = list[dict[str, str]]

TAGS = """\
You are an expert in Python. First think, writing down your steps between <reasoning> and \
</reasoning>. Then give the program between <answer> and </answer>, in one block that is fenced \
with ```python and ```. Each tag stands on a line of its own.
"""
SYSTEM = (
    "You write Python. Explain what you need to, and end your reply with one block that is fenced "
    "with ```python and ``` and holds the whole program."
)
PREFILL = "<reasoning>"


def asked_code(example: Example, style: CodePromptStyle) -> str | Messages:
    """The prompt of a problem, with its first test where nothing else names the function.

    Args:
        example: as `code_example` makes it.
        style: `chat`: a user message that asks for a reasoning and an answer block; `fenced`: a
            system turn that asks for one final fenced block; `text`: `chat` as plain text, for
            models without a chat template; `d1_eval`: `chat` with the answer begun by the prompt.
    """
    question = str(example["question"])
    if shown := example.get("shown"):
        question = f"{question}\nYour program must pass this test:\n```python\n{shown}\n```"
    if style == "fenced":
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    if style == "text":
        return f"{TAGS}\nQuestion: {question}\n"
    user = {"role": "user", "content": f"{TAGS}\n{question}"}
    return [user, {"role": "assistant", "content": PREFILL}] if style == "d1_eval" else [user]


def code_demonstration(solution: str, style: CodePromptStyle) -> str:
    """A right answer in the form that `asked_code` asks for; the data hold no reasoning."""
    block = f"```python\n{solution.strip()}\n```"
    if style == "fenced":
        return block
    opening = "\n" if style == "d1_eval" else "<reasoning>\n"  # the prompt ends in the tag itself
    return f"{opening}The program follows.\n</reasoning>\n<answer>\n{block}\n</answer>"
