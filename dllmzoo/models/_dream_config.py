"""The public config.json of Dream, read and written under its field names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dllmzoo.models._qwen_config import QwenConfig, is_count


class DreamConfig(QwenConfig):
    """Shape and token ids of a Dream network; the defaults are those of Dream-7B.

    Args:
        hidden_size: width D, a multiple of the heads.
        intermediate_size: width of the gated MLP.
        num_hidden_layers: blocks of layers, >= 1.
        num_attention_heads: query heads H.
        num_key_value_heads: key and value heads, a divisor of H.
        head_dim: D / H, even; null = D / H, which public copies leave out.
        vocab_size: rows of the embedding and of the head.
        max_position_embeddings: longest sequence in tokens; a longer one is an error.
        rope_theta: base of the rotary frequencies, > 0.
        rms_norm_eps: > 0.
        tie_word_embeddings: the head is the embedding.
        mask_token_id: id of the mask token.
        eos_token_id: id, or ids, that end an answer.
        pad_token_id: id written under padding; padding is never recognised by it.
        initializer_range: standard deviation of fresh weights.
        use_cache: kept as written; nothing is ever cached.
        **others: the further public fields (see `fixed`) and unknown ones, which are kept.

    Raises:
        ModelError: lists every field whose value is not built here.
    """

    model_type = "Dream"
    attribute_map = {"max_sequence_length": "max_position_embeddings"}  # noqa: RUF012
    title: ClassVar[str] = "Dream"
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "hidden_act": ("silu",),
        "attention_dropout": (0.0,),
        "use_sliding_window": (False, None),
    }
    fixed_fields: ClassVar[tuple[str, ...]] = tuple(fixed)
    needed: ClassVar[tuple[str, ...]] = (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "vocab_size", "max_position_embeddings", "rope_theta",
        "rms_norm_eps", "tie_word_embeddings", "mask_token_id",
    )  # fmt: skip
    public_ids: ClassVar[Mapping[int, Mapping[str, int]]] = {152064: {"mask_token_id": 151666}}

    def __init__(
        self,
        hidden_size: int = 3584,
        intermediate_size: int = 18944,
        num_hidden_layers: int = 28,
        num_attention_heads: int = 28,
        num_key_value_heads: int = 4,
        head_dim: int | None = None,
        vocab_size: int = 152064,
        max_position_embeddings: int = 131072,
        rope_theta: float = 1e6,
        rms_norm_eps: float = 1e-6,
        tie_word_embeddings: bool = False,
        mask_token_id: int | None = 151666,
        eos_token_id: int | list[int] | None = 151643,
        pad_token_id: int | None = 151643,
        initializer_range: float = 0.02,
        use_cache: bool = False,
        **others: Any,
    ) -> None:
        own = {name: value for name, value in locals().items() if name not in ("self", "others")}
        if head_dim is None and is_count(num_attention_heads) and is_count(hidden_size):
            own["head_dim"] = hidden_size // num_attention_heads
        self.settle(own, others)

    def problems(self) -> list[str]:
        """One line for each value that this family does not build."""
        found = super().problems()
        if (bias := getattr(self, "attention_bias", True)) not in (True, None):
            found.append(f"attention_bias is {bias!r}, must be true: q, k and v have a bias here")
        return found

    def misfits(self) -> list[str]:
        """One line for each field that does not fit the others."""
        found = super().misfits()
        if self.head_dim * self.num_attention_heads != self.hidden_size:
            found.append(
                f"head_dim is {self.head_dim}, must be hidden_size / num_attention_heads "
                f"({self.hidden_size} / {self.num_attention_heads})"
            )
        return found
