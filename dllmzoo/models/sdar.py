"""SDAR: a block-causal transformer of the Qwen3 kind that reads the public checkpoints."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel
from transformers.modeling_layers import GradientCheckpointingLayer

from dllmzoo.errors import ModelError
from dllmzoo.models._block_cache import BlockCache
from dllmzoo.models._layers import RMSNorm, Slots, positions, rotary_angles, rotate
from dllmzoo.models._linear import Linear
from dllmzoo.models._pretrained import SlotOutput, attend_of
from dllmzoo.models._qwen import GatedMlp, QwenModel
from dllmzoo.models._sdar_config import SdarConfig
from dllmzoo.models._staircase import Context, Tokens, token_positions
from dllmzoo.models._streams import Streams, two_streams
from dllmzoo.models._tiles import Part, attend
from dllmzoo.reading import PerSlot
from dllmzoo.zoo import MODELS

IMPLEMENTATIONS = ("sdpa", "flex_attention")
"""What `attn_implementation` may be; both give the same numbers."""

END_OF_TURN = {151936: 151645}
"""Vocabulary size -> id of the public tokenizer's end-of-turn token."""


class SdarAttention(nn.Module):
    """Grouped-query attention; queries and keys are normalised per head, then rotated."""

    def __init__(self, config: SdarConfig, layer: int) -> None:
        super().__init__()
        width, head = config.hidden_size, config.head_dim
        heads, narrow = config.num_attention_heads, config.num_key_value_heads
        self.layer, self.head_width = layer, head
        self.grouped = heads != narrow
        self.q_proj = Linear(width, heads * head, bias=False)
        self.k_proj = Linear(width, narrow * head, bias=False)
        self.v_proj = Linear(width, narrow * head, bias=False)
        self.o_proj = Linear(heads * head, width, bias=False)
        self.q_norm = RMSNorm(head, config.rms_norm_eps)
        self.k_norm = RMSNorm(head, config.rms_norm_eps)

    def queries(self, h: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """(B, H, Q, E)."""
        return rotate(self.q_norm(self._heads(self.q_proj(h))).transpose(1, 2), angles)

    def keys_and_values(
        self, h_BLD: Tensor, angles: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """(B, H, L, E) each, H being the fewer heads of keys."""
        k_BHLE = rotate(self.k_norm(self._heads(self.k_proj(h_BLD))).transpose(1, 2), angles)
        return k_BHLE, self._heads(self.v_proj(h_BLD)).transpose(1, 2)

    def mix(self, q: Tensor, k_BHLE: Tensor, v_BHLE: Tensor, parts: tuple[Part, ...]) -> Tensor:
        """(B, Q, H*E): what the queries read, heads side by side."""
        return attend(q, k_BHLE, v_BHLE, parts, self.grouped).transpose(1, 2).flatten(2)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_width))


class SdarLayer(GradientCheckpointingLayer):
    """Pre-norm attention, then a gated MLP; module names are the public ones."""

    def __init__(self, config: SdarConfig, layer: int) -> None:
        super().__init__()
        self.self_attn = SdarAttention(config, layer)
        self.mlp = GatedMlp(config.hidden_size, config.intermediate_size)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self,
        x_BLD: Tensor,
        angles: tuple[Tensor, Tensor],
        parts: tuple[Part, ...],
        cache: BlockCache | None = None,
        slots: Slots | None = None,
        slot_angles: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Output of the layer: (B, L, D), or (S, D) of the slots that are wanted.

        Args:
            x_BLD: input, both streams after each other.
            angles: cos and sin of every position.
            parts: which queries read which keys.
            cache: keys and values before the input's own.
            slots: queries that are wanted; None = all.
            slot_angles: cos and sin of the packed slots, (B, 1, M, E/2).
        """
        attention, h_BLD = self.self_attn, self.input_layernorm(x_BLD)
        k_BHLE, v_BHLE = attention.keys_and_values(h_BLD, angles)
        if cache is not None:
            k_BHLE, v_BHLE = cache.read(attention.layer, k_BHLE, v_BHLE)
        if slots is None or slot_angles is None:
            x, q = x_BLD, attention.queries(h_BLD, angles)
        else:
            x = slots.take(x_BLD)
            q = attention.queries(slots.pack(slots.take(h_BLD)), slot_angles)
        read = attention.mix(q, k_BHLE, v_BHLE, parts)
        x = x + attention.o_proj(read if slots is None else slots.unpack(read))
        return x + self.mlp(self.post_attention_layernorm(x))


class SdarModel(nn.Module):
    """Holds the layers under the public name prefix `model.`."""

    def __init__(self, config: SdarConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            SdarLayer(config, layer) for layer in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


@MODELS.register("sdar")
class SDARForCausalLM(QwenModel):
    """SDAR (1.7B to 8B and any other size): attention in blocks, causal between them.

    Reads and writes the public format: config.json field names, tensor names, sharded or not,
    tied or not. A token attends to its own block and the blocks before it; the grid of blocks
    starts at the first real token of each row, whatever its padding. With `target_ids` a noised
    second stream is read beside the clean one in the same forward: its blocks see the clean blocks
    before them and themselves.

    References:
        SDAR, 2025 (arXiv:2510.06303); two streams: Arriola et al., 2025, BD3-LM
        (arXiv:2503.09573).
    """

    config: SdarConfig
    config_class = SdarConfig
    _supports_flex_attn = True
    _can_set_attn_implementation_cached_value = True
    _no_split_modules = ["SdarLayer"]  # noqa: RUF012

    family: ClassVar[str] = "sdar"
    end_of_turn: ClassVar[Mapping[int, int]] = END_OF_TURN

    def __init__(self, config: SdarConfig) -> None:
        super().__init__(config)
        self._check_implementation()
        with self.without_global_randomness():
            self.model = SdarModel(config)
            self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
            self.post_init()

    @property
    def block_size(self) -> int | None:
        """Tokens of a block, from the config at each call; None with full attention."""
        if problems := self.config.attention_problems():
            raise ModelError("the SDAR config was changed: " + "; ".join(problems))
        return self.config.block_size if self.config.attention == "block_causal" else None

    def new_cache(self, capacity: int) -> BlockCache:
        """An empty cache for `cache` of a forward, with room for `capacity` tokens a row."""
        return BlockCache(capacity)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        target_ids: Tensor | None = None,
        context: Context = "block_causal",
        logits_at: Tensor | None = None,
        columns_at: Tensor | None = None,
        per_slot: PerSlot | None = None,
        origin: Tensor | int = 0,
        document_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: BlockCache | None = None,
        store: bool = False,
        output_hidden_states: bool = False,
    ) -> SlotOutput:
        """Logits of every position, or of some; with two streams, of the noised one.

        Args:
            input_ids: int64 (B, L), the clean stream.
            attention_mask: (B, L), true or 1 = real token; None = all real.
            target_ids: int64 (B, L), the noised stream, under the same padding.
            context: attention inside the clean stream.
            logits_at: bool (B, L); only these slots go through the last MLP and the head, and
                only blocks that hold one go through the network in the noised stream.
            columns_at: int64 (B, M), the same slots by column, ascending, as many in every row.
            per_slot: applied to the logits of runs of wanted slots instead of returning them, see
                `dllmzoo.reading`; needs wanted slots.
            origin: position at which a block starts, (B, 1) or a number; 0 = the first real token.
            document_ids: int64 (B, L), documents packed in a row; positions restart with each.
            position_ids: int64 (B, L); None = real tokens before each slot.
            cache: finished blocks before `input_ids`, whose positions must then be given.
            store: keep the keys and values of this forward in the cache.
            output_hidden_states: also return the embedding, the output of every layer but the
                last, and the final norm's output.

        Returns:
            `.logits`: (B, L, V), or (S, V) row by row; position i predicts token i.
        """
        if columns_at is not None:
            logits_at = torch.zeros_like(input_ids, dtype=torch.bool).scatter(1, columns_at, True)
        streams = self._streams(
            input_ids, attend_of(attention_mask, input_ids), target_ids, context, logits_at,
            origin, document_ids, position_ids, cache,
        )  # fmt: skip
        out = self.read(streams, cache, per_slot, output_hidden_states=output_hidden_states)
        if cache is not None and store:
            cache.keep()
        return out

    def read(
        self, streams: Streams, cache: BlockCache | None = None, per_slot: PerSlot | None = None,
        *, output_hidden_states: bool = False,
    ) -> SlotOutput:  # fmt: skip
        """What `forward` returns, from streams whose masks may be any."""
        x = self.model.embed_tokens(streams.ids)
        angles = rotary_angles(
            streams.tokens.position, self.config.head_dim, self.config.rope_theta
        )
        *early, last = self.model.layers
        hidden = [x] if output_hidden_states else []
        parts = streams.parts() if early or streams.wanted is None else ()
        for layer in early:
            x = layer(x, angles, parts, cache)
            if output_hidden_states:
                hidden.append(x)
        if streams.wanted is None:
            x = last(x, angles, parts, cache)[:, streams.first :]
        else:
            slots = Slots.of(streams.wanted)
            x = last(x, angles, streams.parts_of(slots), cache, slots, slots.angles(angles))
        x = self.model.norm(x)
        return self.head_output(x, per_slot, (*hidden, x) if output_hidden_states else None)

    def _streams(
        self, input_ids: Tensor, attend_BL: Tensor | None, target_ids: Tensor | None,
        context: Context, logits_at: Tensor | None, origin: Tensor | int,
        document_ids: Tensor | None, position_ids: Tensor | None, cache: BlockCache | None,
    ) -> Streams:  # fmt: skip
        self._check_inputs(input_ids, target_ids, logits_at, document_ids, position_ids, cache)
        flex = self.config._attn_implementation == "flex_attention"
        position_BL = position_ids
        if position_BL is None:
            position_BL = positions(input_ids, attend_BL)
            if document_ids is not None:
                position_BL = token_positions(position_BL, document_ids)
        real_BL = torch.ones_like(position_BL, dtype=torch.bool) if attend_BL is None else attend_BL
        if position_ids is not None or position_BL.shape[1] > self.config.max_position_embeddings:
            self._check_length(position_BL, real_BL)
        size = self.block_size
        if size is None:  # one block holds everything
            size, origin = self.config.max_position_embeddings + 1, 0
        clean = Tokens.clean(position_BL, real_BL, size, origin=origin, document=document_ids)
        if target_ids is not None:
            return two_streams(input_ids, target_ids, clean, context, logits_at, flex)
        keys = clean
        if cache is not None:
            clean = clean.expand(len(input_ids))
            keys = cache.extend(clean)
        wanted = None if logits_at is None else logits_at.to(input_ids.device).bool()
        return Streams(input_ids, clean, keys, context, wanted, flex=flex)

    def _check_inputs(
        self, input_ids: Tensor, target_ids: Tensor | None, logits_at: Tensor | None,
        document_ids: Tensor | None, position_ids: Tensor | None, cache: BlockCache | None,
    ) -> None:  # fmt: skip
        """Refuse what would run and mean something else."""
        self._check_implementation()
        given = {
            "target_ids": target_ids, "logits_at": logits_at, "document_ids": document_ids,
            "position_ids": position_ids,
        }  # fmt: skip
        for name, value in given.items():
            if value is not None and value.shape != input_ids.shape:
                raise ModelError(
                    f"{name} has shape {tuple(value.shape)}, input_ids {tuple(input_ids.shape)}; "
                    f"give one number per token"
                )
        if cache is None:
            return
        if target_ids is not None:
            raise ModelError("a cache holds finished blocks of one stream: give no target_ids")
        if cache.used and position_ids is None:
            raise ModelError(
                "with a cache that holds tokens, position_ids must say where the new ones stand"
            )

    def _check_implementation(self) -> None:
        if (found := self.config._attn_implementation) not in IMPLEMENTATIONS:
            raise ModelError(
                f"attn_implementation is {found!r}; sdar has {' and '.join(IMPLEMENTATIONS)}"
            )

    def _check_length(self, position_BL: Tensor, real_BL: Tensor) -> None:
        limit = self.config.max_position_embeddings
        longest = int(torch.where(real_BL, position_BL, 0).max()) + 1 if real_BL.numel() else 0
        if longest > limit:
            raise ModelError(
                f"a sequence of {longest} tokens is longer than this model's "
                f"max_position_embeddings of {limit}; shorten prompts or answers"
            )


AutoConfig.register("sdar", SdarConfig, exist_ok=True)
AutoModel.register(SdarConfig, SDARForCausalLM, exist_ok=True)
