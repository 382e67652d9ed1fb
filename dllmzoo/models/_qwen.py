"""What the networks of families that stem from Qwen share: gated MLP, public names, weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from dllmzoo.models._layers import gated
from dllmzoo.models._linear import Linear
from dllmzoo.models._pretrained import ZooModel

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")


class GatedMlp(nn.Module):
    """Gated MLP under its public names, without biases."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = Linear(width, inner, bias=False)
        self.up_proj = Linear(width, inner, bias=False)
        self.down_proj = Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """down(silu(gate x) * up x)."""
        return self.down_proj(gated(self.gate_proj(x), self.up_proj(x)))


def _in_layers(*names: str) -> str:
    """Expression over full module names: these layers of every block, never the head."""
    return rf".*\.layers\.\d+\.(?:self_attn|mlp)\.(?:{'|'.join(names)})"


LORA_TARGETS: Mapping[str, str] = {
    "attention": _in_layers(*ATTENTION),
    "mlp": _in_layers(*MLP),
    "all-linear": _in_layers(*ATTENTION, *MLP),
}
"""Preset -> expression over full module names."""


class QwenModel(ZooModel):
    """A network with `model.embed_tokens`, `model.layers`, `model.norm` and `lm_head`."""

    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012

    lora_targets: ClassVar[Mapping[str, str]] = LORA_TARGETS
    model: Any
    lm_head: nn.Module

    def head(self, x: Tensor) -> Tensor:
        """Logits of normed hidden states."""
        return self.lm_head(x)

    def _init_weights(self, module: nn.Module) -> None:
        """Fresh weights: normal with the config's `initializer_range`; norms 1, biases 0."""
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def get_input_embeddings(self) -> nn.Embedding:
        """The token embedding."""
        return self.model.embed_tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token embedding."""
        self.model.embed_tokens = value

    def get_output_embeddings(self) -> nn.Module:
        """The head."""
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """Replace the head."""
        self.lm_head = new_embeddings
