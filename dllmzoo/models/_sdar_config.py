"""The public config.json of SDAR: every field kept, every value that we do not build refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from dllmzoo.models._qwen_config import QwenConfig, is_count

log = logging.getLogger("dllmzoo")

USUAL = {"block_size": 4, "mask_token_id": 151669}
"""Fields that some published copies lack, with the values of the others."""


class SdarConfig(QwenConfig):
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
        **others: the further public fields (see `fixed`) and unknown ones, which are kept.

    Raises:
        ModelError: lists every field whose value is not built here.
    """

    model_type = "sdar"
    attribute_map = {"max_sequence_length": "max_position_embeddings"}  # noqa: RUF012
    title: ClassVar[str] = "SDAR"
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "hidden_act": ("silu",),
        "attention_bias": (False,),
        "attention_dropout": (0.0,),
        "use_sliding_window": (False, None),
        "sliding_window": (None,),
    }
    fixed_fields: ClassVar[tuple[str, ...]] = tuple(fixed)
    needed: ClassVar[tuple[str, ...]] = (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings", "rope_theta",
        "rms_norm_eps", "tie_word_embeddings",
    )  # fmt: skip
    public_ids: ClassVar[Mapping[int, Mapping[str, int]]] = {151936: {"mask_token_id": 151669}}

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
        own = {name: value for name, value in locals().items() if name not in ("self", "others")}
        self.settle(own, others)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Read a checkpoint's config; a field that shapes the network must be written there."""
        absent = {n: v for n, v in USUAL.items() if config_dict.get(n) is None}
        if absent and config_dict.get("vocab_size") not in cls.public_ids:
            absent.pop("mask_token_id", None)
        if absent:
            said = ", ".join(f"{name} {value}" for name, value in absent.items())
            log.info("config.json lacks %s; taken as in the other public copies: %s",
                     " and ".join(absent), said)  # fmt: skip
        return super().from_dict({**config_dict, **absent}, **kwargs)

    def problems(self) -> list[str]:
        """One line for each value that this family does not build."""
        return [*super().problems(), *self.attention_problems()]

    def attention_problems(self) -> list[str]:
        """One line each for a `block_size` and an `attention` that cannot be; read at each call."""
        found = []
        if not is_count(self.block_size):
            found.append(f"block_size is {self.block_size!r}, must be a whole number >= 1")
        if self.attention not in ("block_causal", "full"):
            found.append(f"attention is {self.attention!r}, must be 'block_causal' or 'full'")
        return found
