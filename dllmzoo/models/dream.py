"""Dream: a bidirectional transformer of the Qwen2.5 kind that reads the public checkpoints."""

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel
from transformers.modeling_layers import GradientCheckpointingLayer

from dllmzoo.errors import ModelError
from dllmzoo.models._canvas_cache import CanvasCache, Keep, Window
from dllmzoo.models._dream_config import DreamConfig
from dllmzoo.models._layers import (
    RMSNorm,
    Slots,
    column_before,
    key_mask,
    positions,
    rotary_angles,
    rotate,
)
from dllmzoo.models._linear import Linear
from dllmzoo.models._pretrained import (
    SlotOutput,
    attend_of,
    refuse_second_stream,
    wanted_slots,
)
from dllmzoo.models._qwen import GatedMlp, QwenModel
from dllmzoo.reading import PerSlot
from dllmzoo.zoo import MODELS

END_OF_TURN = {152064: 151645}
"""Vocabulary size -> id of the public tokenizer's end-of-turn token."""


class DreamAttention(nn.Module):
    """Grouped-query attention over all real tokens; queries, keys and values have a bias."""

    def __init__(self, config: DreamConfig) -> None:
        super().__init__()
        width, head = config.hidden_size, config.head_dim
        narrow = config.num_key_value_heads * head
        self.head_width, self.grouped = head, narrow != width
        self.q_proj = Linear(width, width)
        self.k_proj = Linear(width, narrow)
        self.v_proj = Linear(width, narrow)
        self.o_proj = Linear(width, width, bias=False)

    def forward(
        self,
        h_BLD: Tensor,
        angles: tuple[Tensor, Tensor],
        mask: Tensor | None,
        slots: Slots | None,
        slot_angles: tuple[Tensor, Tensor] | None,
        keep: Keep | None,
    ) -> Tensor:
        """(B, L, D), or (S, D) of the wanted slots; arguments as of `DreamLayer`."""
        k_BHLE = rotate(self._heads(self.k_proj(h_BLD)), angles)
        v_BHLE = self._heads(self.v_proj(h_BLD))
        if keep is not None:
            k_BHLE, v_BHLE = keep(k_BHLE, v_BHLE)
        if slots is None or slot_angles is None:
            q_BHLE = rotate(self._heads(self.q_proj(h_BLD)), angles)
        else:
            q = slots.pack(self.q_proj(slots.take(h_BLD)))
            q_BHLE = rotate(self._heads(q), slot_angles)
        read_BHLE = F.scaled_dot_product_attention(
            q_BHLE, k_BHLE, v_BHLE, attn_mask=mask, enable_gqa=self.grouped
        )
        read = read_BHLE.transpose(1, 2).flatten(2)
        return self.o_proj(read if slots is None else slots.unpack(read))

    def _heads(self, x_BLD: Tensor) -> Tensor:
        """(B, L, H*E) -> (B, H, L, E)."""
        return x_BLD.unflatten(-1, (-1, self.head_width)).transpose(1, 2)


class DreamLayer(GradientCheckpointingLayer):
    """Pre-norm attention, then a gated MLP; module names are the public ones."""

    def __init__(self, config: DreamConfig) -> None:
        super().__init__()
        self.self_attn = DreamAttention(config)
        self.mlp = GatedMlp(config.hidden_size, config.intermediate_size)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self,
        x_BLD: Tensor,
        angles: tuple[Tensor, Tensor],
        mask: Tensor | None = None,
        slots: Slots | None = None,
        slot_angles: tuple[Tensor, Tensor] | None = None,
        keep: Keep | None = None,
    ) -> Tensor:
        """Output of the layer: (B, L, D), or (S, D) of the slots that are wanted.

        Args:
            x_BLD: input.
            angles: cos and sin of every position.
            mask: bool (B, 1, 1, L), keys that may be attended; None = all.
            slots: queries that are wanted; None = all.
            slot_angles: cos and sin of the packed slots, (B, 1, M, E/2).
            keep: makes of the input's keys and values those that are attended.
        """
        x = x_BLD if slots is None else slots.take(x_BLD)
        h_BLD = self.input_layernorm(x_BLD)
        x = x + self.self_attn(h_BLD, angles, mask, slots, slot_angles, keep)
        return x + self.mlp(self.post_attention_layernorm(x))


class DreamTransformer(nn.Module):
    """Holds the layers under the public name prefix `model.`."""

    def __init__(self, config: DreamConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DreamLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


@MODELS.register("dream")
class DreamModel(QwenModel):
    """Dream (7B Base and Instruct, DiffuCoder, any size): bidirectional, its logits set right.

    Reads and writes the public format: config.json field names, tensor names, sharded or not,
    tied or not. The head was trained to predict the next token, so what it says at a position is
    about the one behind it; `forward` hands out the logits of a token at its own position. The
    first real token of a row, which has none before it, keeps what the head says there. Padding is
    a key mask and nothing else: attention is never causal and positions count real tokens.

    References:
        Ye et al., 2025, Dream 7B (arXiv:2508.15487). Differs from the released program in: logits
        are aligned here and not by every caller; padding masks keys only; the embedding of the
        padding token, which is the end token, gets a gradient like any other.
    """

    config: DreamConfig
    config_class = DreamConfig
    _no_split_modules = ["DreamLayer"]  # noqa: RUF012

    family: ClassVar[str] = "dream"
    shifted_head: ClassVar[bool] = True
    end_of_turn: ClassVar[Mapping[int, int]] = END_OF_TURN
    block_size: ClassVar[int | None] = None

    def __init__(self, config: DreamConfig) -> None:
        super().__init__(config)
        with self.without_global_randomness():
            self.model = DreamTransformer(config)
            self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
            self.post_init()

    def new_canvas_cache(self, rows: int) -> CanvasCache:
        """An empty store for `canvas_cache` of forwards of `rows` rows; see there what it costs."""
        return CanvasCache(rows)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        target_ids: Tensor | None = None,
        context: str = "block_causal",
        logits_at: Tensor | None = None,
        columns_at: Tensor | None = None,
        per_slot: PerSlot | None = None,
        canvas_cache: CanvasCache | None = None,
        columns: slice | None = None,
        output_hidden_states: bool = False,
    ) -> SlotOutput:
        """Logits of every position, or of some.

        Args:
            input_ids: int64 (B, L).
            attention_mask: (B, L), true or 1 = real token; None = all real.
            target_ids: refused: one stream only.
            context: read by families with two streams.
            logits_at: bool (B, L); only what predicts these slots goes through the last MLP and
                the head.
            columns_at: int64 (B, M), the same slots by column, ascending, as many in every row.
            per_slot: applied to the logits of runs of wanted slots instead of returning them, see
                `dllmzoo.reading`; needs wanted slots.
            canvas_cache: stores keys and values, or has those of the columns that do not run.
            columns: a run of columns that holds every wanted slot; only these go through the
                network, with the one before them, from which the head predicts the first; the
                others are read from the cache. None = all.
            output_hidden_states: also return the embedding, the output of every layer but the
                last, and the final norm's output, each (B, L, D) and where the network computed
                it; the last one (S, D) with `logits_at`, in the order of the logits.

        Returns:
            `.logits`: (B, L, V), or (S, V) row by row; position i predicts token i.
        """
        refuse_second_stream(self.family, target_ids)
        attend_BL = attend_of(attention_mask, input_ids)
        self._check_length(input_ids, attend_BL)
        margin = int(self.shifted_head)
        window = Window(input_ids, columns, canvas_cache, logits_at, columns_at, margin=margin)
        x = self.model.embed_tokens(window.ids_BL)
        position_BL = window.of(positions(input_ids, attend_BL))
        angles = rotary_angles(position_BL, self.config.head_dim, self.config.rope_theta)
        mask = None if attend_BL is None else key_mask(attend_BL)
        source_BL = None
        if self.shifted_head:
            source_BL = window.of(column_before(input_ids, attend_BL)) - window.run.start
        slots = wanted_slots(window.logits_at, window.columns_at, window.ids_BL, x.device)
        if slots is not None and source_BL is not None:
            slots = slots.moved(source_BL)
        slot_angles = None if slots is None else slots.angles(angles)
        *early, last = self.model.layers
        *keeps, keep = window.keeps(len(early) + 1)
        hidden = [x] if output_hidden_states else []
        for layer, kept in zip(early, keeps, strict=True):
            x = layer(x, angles, mask, keep=kept)
            if output_hidden_states:
                hidden.append(x)
        x = self.model.norm(last(x, angles, mask, slots, slot_angles, keep))
        hidden.append(x)
        if slots is None and source_BL is not None:
            x = torch.take_along_dim(x, source_BL.unsqueeze(2), dim=1)
        return self.head_output(x, per_slot, tuple(hidden) if output_hidden_states else None)

    def _check_length(self, input_ids: Tensor, attend_BL: Tensor | None) -> None:
        limit, length = self.config.max_position_embeddings, input_ids.shape[1]
        if length > limit and attend_BL is not None:
            length = int(attend_BL.sum(1).max())
        if length > limit:
            raise ModelError(
                f"a sequence of {length} tokens is longer than this model's "
                f"max_position_embeddings of {limit}; shorten prompts or answers"
            )


AutoConfig.register("Dream", DreamConfig, exist_ok=True)
AutoModel.register(DreamConfig, DreamModel, exist_ok=True)
