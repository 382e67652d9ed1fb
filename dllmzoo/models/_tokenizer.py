"""A tokenizer of single characters, for small models whose whole language is a few symbols."""

from __future__ import annotations

from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dllmzoo.errors import ModelError, UsageError

SPECIAL: dict[str, Any] = {
    "pad_token": "[PAD]",
    "eos_token": "[EOS]",
    "mask_token": "[MASK]",
    "clean_up_tokenization_spaces": False,
}


class CharacterTokenizer(PreTrainedTokenizerFast):
    """One token per character; a character it does not know is an error, never dropped.

    Saved as a plain fast tokenizer, so that every other tool loads it; there an unknown character
    fails too, without its name.
    """

    def _encode_plus(self, text: Any = None, text_pair: Any = None, *args: Any, **kwargs: Any):
        """Encode after a look at every character."""
        for each in (text, text_pair):
            self._check(each)
        return super()._encode_plus(text, text_pair, *args, **kwargs)

    def apply_chat_template(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: there is no chat format of so few symbols."""
        raise ModelError(
            f"this tokenizer knows only the characters {self.characters!r} and no chat format; use "
            f"plain prompts (`prompt_style: compact`) or a model with a chat template"
        )

    @property
    def characters(self) -> str:
        """The characters it knows, in the order of their ids."""
        return self.init_kwargs["characters"]

    def save_pretrained(self, *args: Any, **kwargs: Any) -> Any:
        """Write a folder of the plain class, which every tool has."""
        plain = PreTrainedTokenizerFast(tokenizer_object=self.backend_tokenizer, **self._described)
        return plain.save_pretrained(*args, **kwargs)

    @property
    def _described(self) -> dict[str, Any]:
        return SPECIAL | {"characters": self.characters}

    def _check(self, text: Any) -> None:
        if isinstance(text, list | tuple):
            for each in text:
                self._check(each)
        elif isinstance(text, str):
            plain = text
            for special in self.all_special_tokens:
                plain = plain.replace(special, "")
            unknown = sorted(set(plain) - set(self.characters))
            if unknown:
                raise ModelError(
                    f"this tokenizer knows the characters {self.characters!r}, not "
                    f"{', '.join(map(repr, unknown))} (in {text[:40]!r}); build one with them: "
                    f"`tokenizer: characters:{self.characters}{''.join(unknown)}`"
                )


def character_tokenizer(characters: str) -> CharacterTokenizer:
    """A tokenizer whose ids are the characters in their order, then padding, end and mask.

    Args:
        characters: every character that prompts and answers may hold, each once.
    """
    if not characters:
        raise UsageError("a character tokenizer needs characters, `characters:01234=`")
    if twice := sorted({each for each in characters if characters.count(each) > 1}):
        raise UsageError(f"`characters:{characters}` names {twice[0]!r} twice; write each once")
    special = [SPECIAL[name] for name in ("pad_token", "eos_token", "mask_token")]
    vocabulary = {each: i for i, each in enumerate([*characters, *special])}
    backend = Tokenizer(models.WordLevel(vocab=vocabulary))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    return CharacterTokenizer(tokenizer_object=backend, **SPECIAL, characters=characters)
