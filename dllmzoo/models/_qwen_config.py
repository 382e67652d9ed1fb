"""The config fields of families that stem from Qwen: every value that we do not build refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from transformers import PreTrainedConfig

from dllmzoo.errors import ModelError

ABSENT = ("rope_scaling", "rope_parameters")
"""Fields that would change the rotary embedding and that no public checkpoint sets."""

COUNTS = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings",
)  # fmt: skip


class QwenConfig(PreTrainedConfig):
    """Base of configs under Qwen's field names: what they read, check and write alike.

    Raises:
        ModelError: lists every field whose value is not built here.
    """

    title: ClassVar[str]
    """The family's name in messages."""
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]]
    """Fields with the values that the public checkpoints have; the first is the default."""
    needed: ClassVar[tuple[str, ...]]
    """Fields that a checkpoint must state: a default would silently be another network."""
    public_ids: ClassVar[Mapping[int, Mapping[str, int]]]
    """Vocabulary size -> ids of the public tokenizer, by field."""

    vocab_size: int

    def settle(self, own: Mapping[str, Any], others: Mapping[str, Any]) -> None:
        """Set every field, then check it: the whole of a family's constructor.

        Args:
            own: the fields that the family gives a meaning.
            others: the fixed ones and unknown ones, which are kept.
        """
        fixed = {name: others.get(name, allowed[0]) for name, allowed in self.fixed.items()}
        foreign = [f"{n} is {v!r}, must be null" for n in ABSENT if (v := others.get(n))]
        kept = {n: v for n, v in others.items() if n not in self.fixed and n not in ABSENT}
        super().__init__(**kept)
        for name, value in {**own, **fixed}.items():
            setattr(self, name, value)
        if problems := [*foreign, *self.problems()]:
            raise ModelError(
                f"this {self.title} config describes a network that is not built here:\n  "
                + "\n  ".join(problems)
            )

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Read a checkpoint's config; a field that shapes the network must be written there."""
        if missing := [name for name in cls.needed if name not in config_dict]:
            raise ModelError(
                f"the {cls.title} config lacks {', '.join(missing)}; write them into config.json: "
                f"a default would be a guess about the checkpoint"
            )
        fields = dict(config_dict)
        fields.pop("attn_implementation", None)  # of the published program, not of the network
        return super().from_dict(fields, **kwargs)

    @property
    def num_embeddings(self) -> int:
        """V: rows of the embedding, columns of the logits."""
        return self.vocab_size

    @property
    def known_ids(self) -> Mapping[str, int]:
        """Ids that a public vocabulary of this size fixes, by field."""
        return self.public_ids.get(self.vocab_size, {})

    def to_diff_dict(self) -> dict[str, Any]:
        """What config.json will hold: the public fields, where the dtype is `torch_dtype`."""
        found = {**super().to_diff_dict(), "rope_scaling": None}
        dtype = found.pop("dtype", None)
        return found if dtype is None else found | {"torch_dtype": dtype}

    def problems(self) -> list[str]:
        """One line for each value that this family does not build."""
        found = [
            f"{name} is {getattr(self, name)!r}, must be {' or '.join(map(repr, allowed))}"
            for name, allowed in self.fixed.items()
            if not any(getattr(self, name) == each for each in allowed)
        ]
        found += [
            f"{name} is {getattr(self, name)!r}, must be a whole number >= 1"
            for name in COUNTS
            if not is_count(getattr(self, name))
        ]
        found += [
            f"{name} is {getattr(self, name)!r}, must be a number > 0"
            for name in ("rope_theta", "rms_norm_eps")
            if not isinstance(getattr(self, name), int | float) or getattr(self, name) <= 0
        ]
        if not isinstance(self.tie_word_embeddings, bool):
            found.append(
                f"tie_word_embeddings is {self.tie_word_embeddings!r}, must be true or false"
            )
        return found or self.misfits()

    def misfits(self) -> list[str]:
        """One line for each field that does not fit the others, each being possible by itself."""
        found, heads, narrow = [], self.num_attention_heads, self.num_key_value_heads
        if self.head_dim % 2:
            found.append(f"head_dim is {self.head_dim}, must be even")
        if heads % narrow:
            found.append(
                f"num_key_value_heads is {narrow}, must divide num_attention_heads ({heads})"
            )
        for name in ("mask_token_id", "eos_token_id", "pad_token_id"):
            value = getattr(self, name)
            ids = value if isinstance(value, list | tuple) else [value]
            if value is not None and not all(
                isinstance(each, int) and 0 <= each < self.vocab_size for each in ids
            ):
                found.append(f"{name} is {value!r}, must be an id from 0 to {self.vocab_size - 1}")
        return found


def is_count(value: Any) -> bool:
    """Whether it is a whole number >= 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
