"""What the networks of families that stem from Qwen share: the gated MLP and public layer names."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from dllmzoo.models._layers import gated

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")


class GatedMlp(nn.Module):
    """Gated MLP under its public names, without biases."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

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
