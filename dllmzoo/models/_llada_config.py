"""The public config.json of LLaDA: every field kept, every value that we do not build refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from transformers import PreTrainedConfig

from dllmzoo.errors import ModelError

FIXED: Mapping[str, tuple[Any, ...]] = {
    "block_type": ("llama",),
    "block_group_size": (1,),
    "layer_norm_type": ("rms",),
    "layer_norm_with_affine": (True,),
    "activation_type": ("silu",),
    "rope": (True,),
    "alibi": (False,),
    "multi_query_attention": (None, False),
    "scale_logits": (False,),
    "input_emb_norm": (False,),
    "attention_layer_norm": (False,),
    "include_bias": (False,),
    "include_qkv_bias": (False, None),
    "bias_for_layer_norm": (False, None),
    "attention_dropout": (0.0,),
    "embedding_dropout": (0.0,),
    "residual_dropout": (0.0,),
}
"""Fields with the values that the public checkpoints have; the first is the default."""

HINTS = {"multi_query_attention": "; write n_kv_heads: 1 instead"}

COUNTS = ("d_model", "n_layers", "n_heads", "vocab_size", "max_sequence_length")
OPTIONAL_COUNTS = ("n_kv_heads", "mlp_hidden_size", "embedding_size")

ABSENT = ("clip_qkv", "rope_scaling", "sliding_window")
"""Fields that would change the network and that no public checkpoint sets."""

NEEDED = (
    "d_model",
    "n_layers",
    "n_heads",
    "vocab_size",
    "max_sequence_length",
    "rope_theta",
    "rms_norm_eps",
    "weight_tying",
    "mask_token_id",
)
"""Fields that a checkpoint must state: a class default would silently be another network."""

KNOWN_IDS = {126464: {"mask_token_id": 126336, "eos_token_id": 126081}}
"""Vocabulary size -> ids of the public tokenizer."""


class LLaDAConfig(PreTrainedConfig):
    """Shape and token ids of a LLaDA network, under the public field names.

    Args:
        d_model: width, a multiple of `n_heads`.
        n_layers: blocks, >= 1.
        n_heads: query heads; the head width `d_model / n_heads` must be even.
        n_kv_heads: key and value heads, a divisor of `n_heads`; None = `n_heads`.
        mlp_hidden_size: width of the gated MLP; None = `mlp_ratio * d_model`.
        mlp_ratio: read only without `mlp_hidden_size`.
        vocab_size: tokens of the tokenizer.
        embedding_size: rows of the embedding and of the head, >= `vocab_size`; None = equal.
        max_sequence_length: longest sequence in tokens; a longer one is an error.
        rope_theta: base of the rotary frequencies, > 0.
        rope_full_precision: rotate queries and keys in float32.
        rms_norm_eps: > 0.
        weight_tying: the head is the embedding.
        mask_token_id: id of the mask token.
        eos_token_id: id, or ids, that end an answer.
        pad_token_id: id written under padding; padding is never recognised by it.
        init_fn: law of fresh weights, `mitchell` (truncated normal of standard deviation
            1/sqrt(fan-in), smaller in deeper residual outputs) or `normal` (`init_std`).
        init_std: standard deviation of `init_fn: normal`.
        use_cache: kept as written; nothing is ever cached.
        **others: the further public fields (see `FIXED`) and unknown ones, which are kept.

    Raises:
        ModelError: lists every field whose value is not built here.
    """

    model_type = "llada"
    attribute_map: ClassVar[dict[str, str]] = {
        "hidden_size": "d_model",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "num_key_value_heads": "n_kv_heads",
        "intermediate_size": "mlp_hidden_size",
        "max_position_embeddings": "max_sequence_length",
        "tie_word_embeddings": "weight_tying",
    }

    def __init__(
        self,
        d_model: int = 96,
        n_layers: int = 3,
        n_heads: int = 4,
        n_kv_heads: int | None = None,
        mlp_hidden_size: int | None = None,
        mlp_ratio: float = 4,
        vocab_size: int = 128,
        embedding_size: int | None = None,
        max_sequence_length: int = 4096,
        rope_theta: float = 500000.0,
        rope_full_precision: bool = True,
        rms_norm_eps: float = 1e-5,
        weight_tying: bool = False,
        mask_token_id: int | None = None,
        eos_token_id: int | list[int] | None = None,
        pad_token_id: int | None = None,
        init_fn: str = "mitchell",
        init_std: float = 0.02,
        use_cache: bool = False,
        **others: Any,
    ) -> None:
        others.pop("tie_word_embeddings", None)  # `weight_tying` says it
        fixed = {name: others.pop(name, allowed[0]) for name, allowed in FIXED.items()}
        foreign = {name: others.pop(name) for name in ABSENT if others.get(name) is not None}
        super().__init__(**others)
        self.d_model, self.n_layers = d_model, n_layers
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.mlp_hidden_size, self.mlp_ratio = mlp_hidden_size, mlp_ratio
        self.vocab_size, self.embedding_size = vocab_size, embedding_size
        self.max_sequence_length = max_sequence_length
        self.rope_theta, self.rope_full_precision = rope_theta, rope_full_precision
        self.rms_norm_eps, self.weight_tying = rms_norm_eps, weight_tying
        self.mask_token_id, self.eos_token_id = mask_token_id, eos_token_id
        self.pad_token_id = pad_token_id
        self.init_fn, self.init_std, self.use_cache = init_fn, init_std, use_cache
        for name, value in fixed.items():
            setattr(self, name, value)
        if problems := [
            *(f"{name} is {value!r}, must be absent" for name, value in foreign.items()),
            *self.problems(),
        ]:
            raise ModelError(
                "this LLaDA config describes a network that is not built here:\n  "
                + "\n  ".join(problems)
            )

    fixed_fields: ClassVar[tuple[str, ...]] = tuple(FIXED)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """Read a checkpoint's config; a field that shapes the network must be written there."""
        missing = [name for name in NEEDED if name not in config_dict]
        if config_dict.get("mlp_hidden_size") is None and "mlp_ratio" not in config_dict:
            missing.append("mlp_hidden_size")
        if missing:
            raise ModelError(
                f"the LLaDA config lacks {', '.join(missing)}; write them into config.json: "
                f"a default would be a guess about the checkpoint"
            )
        return super().from_dict(config_dict, **kwargs)

    @property
    def num_kv_heads(self) -> int:
        """Key and value heads."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def head_width(self) -> int:
        """E."""
        return self.d_model // self.n_heads

    @property
    def mlp_width(self) -> int:
        """Width of the gated MLP."""
        if self.mlp_hidden_size is not None:
            return self.mlp_hidden_size
        return int(self.mlp_ratio * self.d_model)

    @property
    def num_embeddings(self) -> int:
        """V: rows of the embedding, columns of the logits."""
        return self.vocab_size if self.embedding_size is None else self.embedding_size

    @property
    def known_ids(self) -> Mapping[str, int]:
        """Ids that a public vocabulary of this size fixes, by field."""
        return KNOWN_IDS.get(self.vocab_size, {})

    def to_diff_dict(self) -> dict[str, Any]:
        """What config.json will hold: the public fields, where the dtype is `torch_dtype`."""
        found = super().to_diff_dict()
        dtype = found.pop("dtype", None)
        return found if dtype is None else found | {"torch_dtype": dtype}

    def problems(self) -> list[str]:
        """One line for each value that this family does not build."""
        found = [
            f"{name} is {getattr(self, name)!r}, must be {' or '.join(map(repr, allowed))}"
            + HINTS.get(name, "")
            for name, allowed in FIXED.items()
            if not _among(getattr(self, name), allowed)
        ]
        return found + self._value_problems() + self._shape_problems() + self._token_problems()

    def _value_problems(self) -> list[str]:
        """Fields that are not of their type or range, each for itself."""
        wrong = [
            f"{name} is {value!r}, must be a whole number >= 1"
            for name in COUNTS
            if not _count(value := getattr(self, name))
        ]
        wrong += [
            f"{name} is {value!r}, must be null or a whole number >= 1"
            for name in OPTIONAL_COUNTS
            if (value := getattr(self, name)) is not None and not _count(value)
        ]
        wrong += [
            f"{name} is {value!r}, must be a number > 0"
            for name in ("rope_theta", "rms_norm_eps", "mlp_ratio", "init_std")
            if not _number(value := getattr(self, name)) or value <= 0
        ]
        return wrong + [
            f"{name} is {value!r}, must be true or false"
            for name in ("weight_tying", "rope_full_precision")
            if not isinstance(value := getattr(self, name), bool)
        ]

    def _shape_problems(self) -> list[str]:
        """Fields that do not fit each other."""
        wrong = []
        if _count(self.n_heads) and _count(self.d_model) and self.d_model % (2 * self.n_heads):
            wrong.append(
                f"d_model / n_heads is {self.d_model} / {self.n_heads}, must be whole and even"
            )
        if _count(self.n_heads) and _count(self.num_kv_heads):
            if self.n_heads % self.num_kv_heads:
                wrong.append(
                    f"n_kv_heads is {self.n_kv_heads}, must divide n_heads ({self.n_heads})"
                )
            if self.multi_query_attention is False and self.num_kv_heads != self.n_heads:
                wrong.append(
                    f"multi_query_attention is False, so n_kv_heads must be n_heads "
                    f"({self.n_heads}), not {self.n_kv_heads}; write null for grouped heads"
                )
        if (
            _count(self.vocab_size)
            and _count(self.num_embeddings)
            and self.num_embeddings < self.vocab_size
        ):
            wrong.append(
                f"embedding_size is {self.embedding_size}, must be at least vocab_size "
                f"({self.vocab_size})"
            )
        return wrong

    def _token_problems(self) -> list[str]:
        """Ids outside the embedding."""
        if not _count(self.num_embeddings):
            return []
        size = self.num_embeddings
        wrong = []
        for name in ("mask_token_id", "eos_token_id", "pad_token_id"):
            value = getattr(self, name)
            ids = value if isinstance(value, list | tuple) else [value]
            if value is not None and not all(_index(each) and each < size for each in ids):
                wrong.append(f"{name} is {value!r}, must be an id from 0 to {size - 1}")
        return wrong


def _among(value: Any, allowed: tuple[Any, ...]) -> bool:
    """Equality that tells True from 1, and lets 0 stand for 0.0."""
    return any(
        value == each and isinstance(value, bool) == isinstance(each, bool) for each in allowed
    )


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _count(value: Any) -> bool:
    return _index(value) and value >= 1
