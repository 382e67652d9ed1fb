"""Ids that config, tokenizer and policy must share, and texts that must come back as they were."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

from dllmzoo.errors import TaskError
from dllmzoo.training.chat import split
from dllmzoo.training.preflight._verdict import Subject, Verdict

PROBE = [{"role": "user", "content": "What is 1 + 1?"}]
PUBLISHED = "use the tokenizer that was published with these weights"


def mask_id(subject: Subject) -> Verdict:
    """One id for the mask: of the config, the tokenizer, the policy and the codec."""
    policy, tokenizer = subject.policy, subject.tokenizer
    config = getattr(policy, "config", None)
    ids = {
        "config": getattr(config, "mask_token_id", policy.mask_id),
        "tokenizer": tokenizer.mask_token_id,
        "policy": policy.mask_id,
        "codec": subject.codec.mask_id,
    }
    name, number = "mask id", policy.mask_id
    if len(set(ids.values())) > 1:
        said = ", ".join(f"{who} {number}" for who, number in ids.items())
        return Verdict(name, "failed", f"it is not one id: {said}", PUBLISHED)
    spelled = tokenizer.convert_ids_to_tokens(number)
    if not isinstance(spelled, str):
        return Verdict(name, "failed", f"the tokenizer has no token of the id {number}", PUBLISHED)
    for problem in _mask_problems(subject, number, spelled, config):
        return Verdict(name, "failed", problem, PUBLISHED)
    return Verdict(name, "ok", f"{number}, {spelled!r} in the tokenizer, config and policy agree")


def _mask_problems(subject: Subject, number: int, spelled: str, config: Any) -> Iterator[str]:
    known = getattr(config, "known_ids", {}).get("mask_token_id", number)
    if known != number:
        yield f"it is {number}, and the public vocabulary of this size has it at {known}"
    if number in subject.policy.stop_ids:
        yield f"{number} also ends answers, so a masked slot would be an end"
    read = list(subject.tokenizer(spelled, add_special_tokens=False)["input_ids"])
    if read != [number]:
        yield f"the tokenizer reads {spelled!r} as {read}: it is no special token there"
    rows = getattr(config, "num_embeddings", None) or getattr(config, "vocab_size", None)
    if isinstance(rows, int) and number >= rows:
        yield f"it is {number}, and the network has {rows} embeddings"


def tokenizer(subject: Subject) -> Verdict:
    """End tokens, and texts of the task that come back as they were."""
    name, found = "tokenizer", subject.tokenizer
    stops, eos = subject.policy.stop_ids, found.eos_token_id
    size = len(found)
    assert subject.canvases, "refuses ids that the network does not have"
    if outside := [number for number in stops if number >= size]:
        return Verdict(
            name, "failed",
            f"the end token {outside[0]} is none of the tokenizer's {size} tokens", PUBLISHED,
        )  # fmt: skip
    if eos is not None and eos not in stops:
        return Verdict(
            name, "failed",
            f"its end token {eos} does not end answers, which end at "
            f"{', '.join(map(str, stops)) or 'nothing'}",
            "write it as eos_token_id into config.json (a list may hold several), or "
            + PUBLISHED,
        )  # fmt: skip
    changed = []
    for text in _texts(subject):
        ids = list(found(text, add_special_tokens=False)["input_ids"])
        back = found.decode(ids, skip_special_tokens=False)
        if back == text:
            continue
        if _plain(back) != _plain(text):
            return Verdict(
                name, "failed",
                f"{text[:40]!r} comes back as {back[:40]!r}, so rewards would read another text",
                "use a tokenizer that knows every character of the task",
            )  # fmt: skip
        changed.append(text)
    ends = f"answers end at {', '.join(map(str, stops))}" if stops else "no token ends an answer"
    note = f"; spacing of {len(changed)} texts changes on the way" if changed else ""
    return Verdict(name, "ok", f"texts of the task come back, {ends}{note}")


def _texts(subject: Subject) -> list[str]:
    prompts = [subject.recipe.task.prompt(example) for example in subject.examples]
    spoken = [part["content"] for p in prompts if not isinstance(p, str) for part in p]
    return [*(p for p in prompts if isinstance(p, str)), *spoken, *subject.answers]


def _plain(text: str) -> str:
    """A text without spacing and without differences that Unicode holds for one."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def chat_template(subject: Subject) -> Verdict:
    """A chat prompt has one start token if the model has any, and is what its text says."""
    name, found = "chat template", subject.tokenizer
    template = getattr(found, "chat_template", None)
    if not template:
        return Verdict(name, "skipped", "the tokenizer has none, prompts must be plain text")
    answers = subject.answers if subject.recipe.stage == "sft" else []
    try:
        for example, answer in zip(subject.examples, answers, strict=False):
            prompt = subject.recipe.task.prompt(example)
            if not isinstance(prompt, str):
                split(found, prompt, answer)
        ids = subject.codec.prompt_ids(PROBE)
    except TaskError as error:
        what, _, remedy = str(error).rpartition("; ")
        return Verdict(name, "failed", what or remedy, remedy if what else "")
    start = found.bos_token_id
    if start is None:
        return Verdict(name, "ok", "the model has no start token, and none is added")
    count, own = ids.count(start), list(found("1")["input_ids"])[:1] == [start]
    written = "bos_token" in str(template) or str(found.bos_token) in str(template)
    wanted = int(written or own)
    if count != wanted:
        return Verdict(
            name, "failed",
            f"a chat prompt begins with {count} start tokens {found.bos_token!r}, the model was "
            f"trained with {wanted}",
            "mend chat_template in tokenizer_config.json: it must write the start token once",
        )  # fmt: skip
    return Verdict(name, "ok", f"{count} start token in a chat prompt of {len(ids)} tokens")
