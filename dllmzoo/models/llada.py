"""LLaDA: a bidirectional Llama-like transformer that reads the public checkpoints."""

from collections.abc import Mapping
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel
from transformers.modeling_layers import GradientCheckpointingLayer

from dllmzoo.errors import ModelError
from dllmzoo.models._canvas_cache import CanvasCache, Keep, Window
from dllmzoo.models._layers import (
    RMSNorm,
    Slots,
    gated,
    key_mask,
    positions,
    rotary_angles,
    rotate,
)
from dllmzoo.models._linear import Linear, linear
from dllmzoo.models._llada_config import LLaDAConfig
from dllmzoo.models._pretrained import (
    SlotOutput,
    ZooModel,
    attend_of,
    refuse_second_stream,
    wanted_slots,
)
from dllmzoo.reading import PerSlot
from dllmzoo.zoo import MODELS

END_OF_TURN = {126464: 126348}
"""Vocabulary size -> id of the public tokenizer's end-of-turn token."""

DEPTH = "residual_depth"
"""Attribute of layers that write back into the residual stream: the index of their block."""


class LLaDABlock(GradientCheckpointingLayer):
    """Pre-norm attention over all real tokens, then a gated MLP; module names are the public ones.

    `ff_proj` is the gate, `up_proj` the value, `ff_out` the way back.
    """

    def __init__(self, config: LLaDAConfig, depth: int) -> None:
        super().__init__()
        width, mlp, head = config.d_model, config.mlp_width, config.head_width
        self.head_width = head
        self.full_precision = config.rope_full_precision
        self.grouped = config.num_kv_heads != config.n_heads
        self.attn_norm = RMSNorm(width, config.rms_norm_eps)
        self.q_proj = Linear(width, width, bias=False)
        self.k_proj = Linear(width, config.num_kv_heads * head, bias=False)
        self.v_proj = Linear(width, config.num_kv_heads * head, bias=False)
        self.attn_out = Linear(width, width, bias=False)
        self.ff_norm = RMSNorm(width, config.rms_norm_eps)
        self.ff_proj = Linear(width, mlp, bias=False)
        self.up_proj = Linear(width, mlp, bias=False)
        self.ff_out = Linear(mlp, width, bias=False)
        for back in (self.attn_out, self.ff_out):
            setattr(back, DEPTH, depth)

    def forward(
        self,
        x_BLD: Tensor,
        angles: tuple[Tensor, Tensor],
        mask: Tensor | None = None,
        slots: Slots | None = None,
        slot_angles: tuple[Tensor, Tensor] | None = None,
        keep: Keep | None = None,
    ) -> Tensor:
        """Output of the block: (B, L, D), or (S, D) of the slots that are wanted.

        Args:
            x_BLD: input.
            angles: cos and sin of every position.
            mask: bool (B, 1, 1, L), keys that may be attended; None = all.
            slots: queries that are wanted; None = all.
            slot_angles: cos and sin of the packed slots, (B, 1, M, E/2).
            keep: makes of the input's keys and values those that are attended.
        """
        h_BLD = self.attn_norm(x_BLD)
        k_BHLE = rotate(self._heads(self.k_proj(h_BLD)), angles, self.full_precision)
        v_BHLE = self._heads(self.v_proj(h_BLD))
        if keep is not None:
            k_BHLE, v_BHLE = keep(k_BHLE, v_BHLE)
        if slots is None or slot_angles is None:
            x, q = x_BLD, self.q_proj(h_BLD)
        else:
            x, q = slots.take(x_BLD), slots.pack(self.q_proj(slots.take(h_BLD)))
            angles = slot_angles
        q_BHLE = rotate(self._heads(q), angles, self.full_precision)
        mixed_BHLE = F.scaled_dot_product_attention(
            q_BHLE, k_BHLE, v_BHLE, attn_mask=mask, enable_gqa=self.grouped
        )
        mixed = mixed_BHLE.transpose(1, 2).flatten(2)
        x = x + self.attn_out(mixed if slots is None else slots.unpack(mixed))
        h = self.ff_norm(x)
        return x + self.ff_out(gated(self.ff_proj(h), self.up_proj(h)))

    def _heads(self, x_BLD: Tensor) -> Tensor:
        """(B, L, H*E) -> (B, H, L, E)."""
        return x_BLD.unflatten(-1, (-1, self.head_width)).transpose(1, 2)


class LLaDATransformer(nn.Module):
    """Holds the layers under the public name prefix `model.transformer.`."""

    def __init__(self, config: LLaDAConfig) -> None:
        super().__init__()
        layers: dict[str, nn.Module] = {
            "wte": nn.Embedding(config.num_embeddings, config.d_model),
            "blocks": nn.ModuleList(LLaDABlock(config, depth) for depth in range(config.n_layers)),
            "ln_f": RMSNorm(config.d_model, config.rms_norm_eps),
        }
        if not config.weight_tying:
            layers["ff_out"] = Linear(config.d_model, config.num_embeddings, bias=False)
        self.transformer = nn.ModuleDict(layers)


def _in_blocks(*names: str) -> str:
    """Expression over full module names: these layers of every block, never the head."""
    return rf".*\.blocks\.\d+\.(?:{'|'.join(names)})"


@MODELS.register("llada")
class LLaDAModelLM(ZooModel):
    """LLaDA (8B Base and Instruct, 1.5, and any size): bidirectional, logits aligned.

    Reads and writes the public format: config.json field names, tensor names, sharded or not.
    Padding is a key mask and nothing else: attention is never causal, positions count real
    tokens, and a row does not depend on its neighbours.

    References:
        Nie et al., 2025, Large Language Diffusion Models (arXiv:2502.09992).
    """

    config: LLaDAConfig
    config_class = LLaDAConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _no_split_modules = ["LLaDABlock"]  # noqa: RUF012

    family: ClassVar[str] = "llada"
    end_of_turn: ClassVar[Mapping[int, int]] = END_OF_TURN
    lora_targets: ClassVar[Mapping[str, str]] = {
        "attention": _in_blocks("q_proj", "k_proj", "v_proj", "attn_out"),
        "mlp": _in_blocks("ff_proj", "up_proj", "ff_out"),
        "all-linear": _in_blocks(
            "q_proj", "k_proj", "v_proj", "attn_out", "ff_proj", "up_proj", "ff_out"
        ),
        "qkv_up": _in_blocks("q_proj", "k_proj", "v_proj", "up_proj"),
    }
    block_size: ClassVar[int | None] = None

    def __init__(self, config: LLaDAConfig) -> None:
        super().__init__(config)
        with self.without_global_randomness():
            self.model = LLaDATransformer(config)
            self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Fresh weights by `init_fn` of the config; norms start at 1."""
        if not isinstance(module, nn.Linear | nn.Embedding):
            return
        if self.config.init_fn == "normal":
            nn.init.normal_(module.weight, std=self.config.init_std)
            return
        if self.config.init_fn != "mitchell":
            raise ModelError(
                f"init_fn is {self.config.init_fn!r}, fresh weights need `mitchell` or `normal`"
            )
        depth = getattr(module, DEPTH, None)
        fan_in = module.weight.shape[1]
        std = (fan_in if depth is None else 2 * (depth + 1) * fan_in) ** -0.5
        nn.init.trunc_normal_(module.weight, std=std, a=-3 * std, b=3 * std)

    def get_input_embeddings(self) -> nn.Embedding:
        """The token embedding."""
        return self.model.transformer["wte"]  # type: ignore[return-value]

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token embedding."""
        self.model.transformer["wte"] = value

    def get_output_embeddings(self) -> nn.Module | None:
        """The head; None where it is the embedding."""
        return None if self.config.weight_tying else self.model.transformer["ff_out"]

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """Replace the head."""
        self.model.transformer["ff_out"] = new_embeddings

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
            logits_at: bool (B, L); only these slots go through the last MLP and the head.
            columns_at: int64 (B, M), the same slots by column, ascending, as many in every row.
            per_slot: applied to the logits of runs of wanted slots instead of returning them, see
                `dllmzoo.reading`; needs wanted slots.
            canvas_cache: stores keys and values, or has those of the columns that do not run.
            columns: a run of columns that holds every wanted slot; only these go through the
                network, which reads the others from the cache. None = all.
            output_hidden_states: also return the embedding, the output of every block but the
                last, and the final norm's output, each (B, L, D) (the last one (S, D) with
                `logits_at`).

        Returns:
            `.logits`: (B, L, V), or (S, V) row by row; position i predicts token i.
        """
        refuse_second_stream(self.family, target_ids)
        attend_BL = attend_of(attention_mask, input_ids)
        self._check_length(input_ids, attend_BL)
        window = Window(input_ids, columns, canvas_cache, logits_at, columns_at)
        layers = self.model.transformer
        x = layers["wte"](window.ids_BL)
        angles = rotary_angles(
            window.of(positions(input_ids, attend_BL)), self.config.head_width,
            self.config.rope_theta,
        )  # fmt: skip
        mask = None if attend_BL is None else key_mask(attend_BL)
        slots = wanted_slots(window.logits_at, window.columns_at, window.ids_BL, x.device)
        slot_angles = None if slots is None else slots.angles(angles)
        *early, last = layers["blocks"].children()
        *keeps, keep = window.keeps(len(early) + 1)
        hidden = [x] if output_hidden_states else []
        for block, kept in zip(early, keeps, strict=True):
            x = block(x, angles, mask, keep=kept)
            if output_hidden_states:
                hidden.append(x)
        x = layers["ln_f"](last(x, angles, mask, slots, slot_angles, keep))
        return self.head_output(x, per_slot, (*hidden, x) if output_hidden_states else None)

    def head(self, x: Tensor) -> Tensor:
        """Logits of normed hidden states."""
        if self.config.weight_tying:
            return linear(x, self.get_input_embeddings().weight)
        return self.model.transformer["ff_out"](x)  # type: ignore[operator]

    def _check_length(self, input_ids: Tensor, attend_BL: Tensor | None) -> None:
        limit, length = self.config.max_sequence_length, input_ids.shape[1]
        if length > limit and attend_BL is not None:
            length = int(attend_BL.sum(1).max())
        if length > limit:
            raise ModelError(
                f"a sequence of {length} tokens is longer than this model's "
                f"max_sequence_length of {limit}; shorten prompts or answers"
            )


AutoConfig.register("llada", LLaDAConfig, exist_ok=True)
AutoModel.register(LLaDAConfig, LLaDAModelLM, exist_ok=True)
