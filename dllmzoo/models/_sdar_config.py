"""The public config.json of SDAR: every field kept, every value that we do not build refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from transformers import PreTrainedConfig

from dllmzoo.errors import ModelError

log = logging.getLogger("dllmzoo")

FIXED: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "attention_bias": (False,),
    "attention_dropout": (0.0,),
    "use_sliding_window": (False, None),
    "sliding_window": (None,),
}
"""Fields with the values that the public checkpoints have; the first is the default."""

ABSENT = ("rope_scaling", "rope_parameters")
"""Fields that would change the rotary embedding and that no public checkpoint sets."""

COUNTS = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings",
)  # fmt: skip

NEEDED = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings", "rope_theta",
    "rms_norm_eps", "tie_word_embeddings",
)  # fmt: skip
"""Fields that a checkpoint must state: a class default would silently be another network."""

KNOWN_IDS = {151936: {"mask_token_id": 151669}}
"""Vocabulary size -> ids of the public tokenizer."""

USUAL = {"block_size": 4, "mask_token_id": 151669}
"""Fields that some published copies lack, with the values of the others."""


class SdarConfig(PreTrainedConfig):
    """Shape and token ids of an SDAR network, under the public field names.

    Args:
        hidden_size: width D.
        intermediate_size: width of the gated MLP.
        num_hidden_layers: blocks of layers, >= 1.
        num_attention_heads: query heads H.
        num_key_value_heads: key and value heads, a divisor of H.
        head_dim: width of a head, even; not tied to D / H.
        vocab_size: rows of the embedding and of the head.
        max_position_embeddings: longest sequence in tokens; a longer one is an error.
        rope_theta: base of the rotary frequencies, > 0.
        rms_norm_eps: > 0.
        tie_word_embeddings: the head is the embedding.
        block_size: tokens of a block of block-causal attention, >= 1; read at each call.
        attention: `block_causal`, or `full` for plain bidirectional attention; read at each call.
        mask_token_id: id of the mask token.
        eos_token_id: id, or ids, that end an answer.
        pad_token_id: id written under padding; padding is never recognised by it.
        initializer_range: standard deviation of fresh weights.
        use_cache: kept as written.
        **others: the further public fields (see `FIXED`) and unknown ones, which are kept.

    Raises:
        ModelError: lists every field whose value is not built here.
    """

    model_type = "sdar"
    attribute_map = {"max_sequence_length": "max_position_embeddings"}  # noqa: RUF012
    fixed_fields: ClassVar[tuple[str, ...]] = tuple(FIXED)

    def __init__(
        self,
        hidden_size: int = 96,
        intermediate_size: int = 256,
        num_hidden_layers: int = 3,
        num_attention_heads: int = 4,
        num_key_value_heads: int = 2,
        head_dim: int = 24,
        vocab_size: int = 128,
        max_position_embeddings: int = 4096,
        rope_theta: float = 1e6,
        rms_norm_eps: float = 1e-6,
        tie_word_embeddings: bool = False,
        block_size: int = 4,
        attention: str = "block_causal",
        mask_token_id: int | None = None,
        eos_token_id: int | list[int] | None = None,
        pad_token_id: int | None = None,
        initializer_range: float = 0.02,
        use_cache: bool = False,
        **others: Any,
    ) -> None:
        fixed = {name: others.pop(name, allowed[0]) for name, allowed in FIXED.items()}
        foreign = [f"{n} is {v!r}, must be null" for n in ABSENT if (v := others.pop(n, None))]
        super().__init__(**others)
        self.hidden_size, self.intermediate_size = hidden_size, intermediate_size
        self.num_hidden_layers, self.num_attention_heads = num_hidden_layers, num_attention_heads
        self.num_key_value_heads, self.head_dim = num_key_value_heads, head_dim
        self.vocab_size, self.max_position_embeddings = vocab_size, max_position_embeddings
        self.rope_theta, self.rms_norm_eps = rope_theta, rms_norm_eps
        self.tie_word_embeddings = tie_word_embeddings
        self.block_size, self.attention = block_size, attention
        self.mask_token_id, self.eos_token_id = mask_token_id, eos_token_id
        self.pad_token_id = pad_token_id
        self.initializer_range, self.use_cache = initializer_range, use_cache
        for name, value in fixed.items():
            setattr(self, name, value)
        if problems := [*foreign, *self.problems()]:
            raise ModelError(
                "this SDAR config describes a network that is not built here:\n  "
                + "\n  ".join(problems)
            )

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Read a checkpoint's config; a field that shapes the network must be written there."""
        if missing := [name for name in NEEDED if name not in config_dict]:
            raise ModelError(
                f"the SDAR config lacks {', '.join(missing)}; write them into config.json: a "
                f"default would be a guess about the checkpoint"
            )
        absent = {n: v for n, v in USUAL.items() if config_dict.get(n) is None}
        if absent and config_dict["vocab_size"] not in KNOWN_IDS:
            absent.pop("mask_token_id", None)
        if absent:
            said = ", ".join(f"{name} {value}" for name, value in absent.items())
            log.info("config.json lacks %s; taken as in the other public copies: %s",
                     " and ".join(absent), said)  # fmt: skip
        fields = {**config_dict, **absent}
        fields.pop("attn_implementation", None)  # of the published program, not of the network
        return super().from_dict(fields, **kwargs)

    @property
    def num_embeddings(self) -> int:
        """V: rows of the embedding, columns of the logits."""
        return self.vocab_size

    @property
    def known_ids(self) -> Mapping[str, int]:
        """Ids that a public vocabulary of this size fixes, by field."""
        return KNOWN_IDS.get(self.vocab_size, {})

    def to_diff_dict(self) -> dict[str, Any]:
        """What config.json will hold: the public fields, where the dtype is `torch_dtype`."""
        found = {**super().to_diff_dict(), "rope_scaling": None}
        dtype = found.pop("dtype", None)
        return found if dtype is None else found | {"torch_dtype": dtype}

    def problems(self) -> list[str]:
        """One line for each value that this family does not build."""
        found = [
            f"{name} is {getattr(self, name)!r}, must be {' or '.join(map(repr, allowed))}"
            for name, allowed in FIXED.items()
            if not any(getattr(self, name) == each for each in allowed)
        ]
        found += [
            f"{name} is {getattr(self, name)!r}, must be a whole number >= 1"
            for name in COUNTS
            if not _count(getattr(self, name))
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
        return [*found, *self.attention_problems()] or self._misfits()

    def attention_problems(self) -> list[str]:
        """One line each for a `block_size` and an `attention` that cannot be; read at each call."""
        found = []
        if not _count(self.block_size):
            found.append(f"block_size is {self.block_size!r}, must be a whole number >= 1")
        if self.attention not in ("block_causal", "full"):
            found.append(f"attention is {self.attention!r}, must be 'block_causal' or 'full'")
        return found

    def _misfits(self) -> list[str]:
        """Fields that do not fit each other."""
        found = []
        if self.head_dim % 2:
            found.append(f"head_dim is {self.head_dim}, must be even")
        if self.num_attention_heads % self.num_key_value_heads:
            found.append(
                f"num_key_value_heads is {self.num_key_value_heads}, must divide "
                f"num_attention_heads ({self.num_attention_heads})"
            )
        for name in ("mask_token_id", "eos_token_id", "pad_token_id"):
            value = getattr(self, name)
            ids = value if isinstance(value, list | tuple) else [value]
            if value is not None and not all(
                isinstance(each, int) and 0 <= each < self.vocab_size for each in ids
            ):
                found.append(f"{name} is {value!r}, must be an id from 0 to {self.vocab_size - 1}")
        return found


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
