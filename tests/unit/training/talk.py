"""A tokenizer of single characters with the special tokens and a chat template of its own."""

from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL = ("<s>", "<|h|>", "<|/h|>", "<|eot|>", "<|end|>", "<|mask|>")
CHARACTERS = "\n 0123456789abcdefghijklmnopqrstuvwxyz+=?."
START, HEAD, BODY, TURN, END, MASK = range(6)

PLAIN = (
    "{% for m in messages %}{{ (bos_token if loop.first else '') + '<|h|>' + m['role'] + '<|/h|>' "
    "+ m['content'] | trim + '<|eot|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|h|>assistant<|/h|>' }}{% endif %}"
)
"""Start token, then head, role, body, content, end of turn, as LLaDA's."""
NEWLINES = PLAIN.replace("'<|eot|>' }}", "'<|eot|>\\n' }}")
"""A line break behind each turn, as SDAR's and Dream's."""
FORGETS = PLAIN.replace("m['content'] | trim", "(m['content'] if loop.last else 'seen')")
"""Rewrites earlier turns, as templates do that drop thoughts."""


def talker(template: str | None = PLAIN) -> Any:
    """The tokenizer; ids are the special tokens, then the characters."""
    vocabulary = {each: i for i, each in enumerate([*SPECIAL, *CHARACTERS])}
    backend = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens(list(SPECIAL))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="<|end|>", pad_token="<|end|>",
        mask_token="<|mask|>", additional_special_tokens=["<|h|>", "<|/h|>", "<|eot|>"],
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.chat_template = template
    return tokenizer


def said(role: str, content: str) -> dict[str, str]:
    """A message."""
    return {"role": role, "content": content}
