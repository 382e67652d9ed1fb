"""A small attention network that obeys the policy protocol: what the laws sample and score with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dllmzoo.laws.inputs import END_ID, MASK_ID, VOCABULARY
from dllmzoo.records import Key


@dataclass(frozen=True)
class ToyOutput:
    """Logits as a model returns them: (B, L, V), or (S, V) of the wanted slots."""

    logits: Tensor


class ToyDenoiser(nn.Module):
    """Two shared attention layers with positions, a padding mask and, if asked, blocks.

    The result of a row does not depend on padding or on its neighbours; with `block_size` a slot
    sees its own block and those before it, and the noised stream of `target_ids` sees the clean
    blocks before its own.

    Args:
        seed: of the weights; the global generator is not touched.
        block_size: tokens of a block, counted from the first real token; None = bidirectional.
        dtype: of the weights.
        scale: standard deviation of the weights; larger makes more certain answers.
    """

    def __init__(
        self, seed: int = 0, block_size: int | None = None, dtype: torch.dtype = torch.float32,
        scale: float = 0.5,
    ) -> None:  # fmt: skip
        """Random weights."""
        super().__init__()
        self.mask_id, self.stop_ids, self.block_size = MASK_ID, (END_ID,), block_size
        width, longest = 12, 512
        generator = Key(seed, 0, "law/weights").generator()

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter((scale * torch.randn(shape, generator=generator)).to(dtype))

        self.embedding, self.position = weight(VOCABULARY, width), weight(longest, width)
        self.query, self.key = weight(width, width), weight(width, width)
        self.value, self.head = weight(width, width), weight(width, VOCABULARY)

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return self.head.dtype

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, *,
        target_ids: Tensor | None = None, context: str = "block_causal",
        logits_at: Tensor | None = None,
    ) -> ToyOutput:  # fmt: skip
        """Aligned logits: position i predicts token i."""
        real_BL = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        real_BL = real_BL.bool()
        at_BL = (real_BL.long().cumsum(1) - 1).clamp(min=0)
        block_BL = torch.zeros_like(at_BL) if self.block_size is None else at_BL // self.block_size
        tokens, see = input_ids, block_BL.unsqueeze(2) >= block_BL.unsqueeze(1)
        if target_ids is not None:
            if context == "token_causal":
                see = at_BL.unsqueeze(2) >= at_BL.unsqueeze(1)
            own = block_BL.unsqueeze(2) == block_BL.unsqueeze(1)
            before = block_BL.unsqueeze(2) > block_BL.unsqueeze(1)
            clean = torch.cat([see, torch.zeros_like(see)], 2)
            see = torch.cat([clean, torch.cat([before, own], 2)], 1)
            tokens = torch.cat([input_ids, target_ids], 1)
            at_BL, real_BL = at_BL.repeat(1, 2), real_BL.repeat(1, 2)
        see = see & real_BL.unsqueeze(1) | torch.eye(tokens.shape[1], dtype=torch.bool)
        x_BLD = self.embedding[tokens] + self.position[at_BL]
        for _ in range(2):
            fit = (x_BLD @ self.query) @ (x_BLD @ self.key).transpose(1, 2) / 3.5
            share = fit.masked_fill(~see, -torch.inf).softmax(-1)
            x_BLD = x_BLD + torch.tanh(share @ (x_BLD @ self.value))
        x_BLD = x_BLD[:, -input_ids.shape[1] :]
        return ToyOutput((x_BLD if logits_at is None else x_BLD[logits_at]) @ self.head)
