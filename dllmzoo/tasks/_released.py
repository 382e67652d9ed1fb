"""The rewards that d1 and ESPO released for GSM8K and MATH, faults included, for comparisons."""

from __future__ import annotations

import re

from dllmzoo.tasks._math_form import released_form

_STRICT = re.compile("^<reasoning>\n.*?\n</reasoning>\n<answer>\n.*?\n</answer>\n$")
_LOOSE = re.compile(r"<reasoning>.*?</reasoning>\s*<answer>.*?</answer>")
_ESPO = (
    re.compile(r"The answer is (-?[0-9.,]+)."),
    re.compile(r"#### (-?[0-9.,]+)"),
)
BOX, SPACED_BOX = "\\boxed{", "\\boxed "


def tag_text(text: str) -> str:
    """What d1 takes for the answer: behind the last opening tag, the whole text without one."""
    return text.split("<answer>")[-1].split("</answer>")[0].strip()


def correctness(text: str, gold: str) -> float:
    """2 if the answer tag holds the very string of the right answer, else 0."""
    return 2.0 if tag_text(text) == gold else 0.0


def all_digits(text: str) -> float:
    """0.5 if the answer tag holds digits and nothing else."""
    return 0.5 if tag_text(text).isdigit() else 0.0


def strict_format(text: str) -> float:
    """0.5 for one line of reasoning and one of answer, tags on lines of their own."""
    return 0.5 if _STRICT.match(text) else 0.0


def soft_format(text: str) -> float:
    """0.5 if the text begins with both blocks, each without a line break."""
    return 0.5 if _LOOSE.match(text) else 0.0


def tag_counts(text: str, charged_after: str = "\n</answer>\n") -> float:
    """Four tags of 0.125 each, minus 0.001 for each character where it should not be.

    The third tag pays for what follows `charged_after`, and for the whole text if that is
    missing; SPG's copy charges from the opening tag on.
    """
    score = 0.125 * (text.count("<reasoning>\n") == 1)
    score += 0.125 * (text.count("\n</reasoning>\n") == 1)
    if text.count("\n<answer>\n") == 1:
        score += 0.125 - 0.001 * len(text.split(charged_after)[-1])
    if text.count("\n</answer>") == 1:
        score += 0.125 - 0.001 * (len(text.split("\n</answer>")[-1]) - 1)
    return score


def spg_tag_counts(text: str) -> float:
    """`tag_counts` in SPG's copy, which charges every character of the answer."""
    return tag_counts(text, charged_after="\n<answer>\n")


def espo_correctness(text: str, gold: str) -> float:
    """1 if "The answer is", else "####", else the last integer, is the string of the answer."""
    for pattern in _ESPO:
        if found := pattern.search(text):
            return float(found[1].strip() == gold)
    integers = re.findall(r"-?[0-9]+", text)
    return float(bool(integers) and integers[-1] == gold)


def math_correctness(text: str, gold_solution: str) -> float:
    """2 if the last box and the one of the solution are spelled alike, else 0."""
    return 2.0 if _alike(_unboxed(text), _unboxed(gold_solution)) else 0.0


def boxed_and_answer_tags(text: str) -> float:
    """0.75 with an answer tag, 0.25 without: a backspace and `oxed` is looked for as the box."""
    if "<answer>" not in text:
        return 0.5 if "\boxed" in text else 0.25
    inside = text.split("<answer>")[1].split("</answer>")[0]
    return 1.0 if "\boxed" in inside else 0.75


def _alike(answer: str, gold: str) -> bool:
    try:
        return released_form(answer) == released_form(gold)
    except ValueError:
        return answer == gold


def _unboxed(text: str) -> str:
    """The content of the last box as the released code finds it; the text itself without one."""
    if SPACED_BOX in text:
        return text.split(SPACED_BOX)[-1].split("$")[0]
    start = text.rfind("\\boxed")
    start = text.rfind("\\fbox") if start < 0 else start
    if start < 0:
        return text
    depth = 0
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if text[end] == "}" and depth == 0:
            found = text[start : end + 1]
            return found[len(BOX) : -1] if found.startswith(BOX) else found
    return text
