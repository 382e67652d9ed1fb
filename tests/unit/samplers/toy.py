"""Small policies whose answers are known, for the tests of samplers."""

from types import SimpleNamespace

import torch
from torch import Tensor

from dllmzoo.records import Key, Prompts

KEY = Key(seed=3, round=0, purpose="sample")
MASK, EOS, EOT = 9, 7, 8
VOCABULARY = 10


class ToyPolicy:
    """A bidirectional net in float64: a row depends on neither its neighbours nor its padding.

    Remembers the inputs of every forward in `calls`.
    """

    mask_id, stop_ids, block_size = MASK, (EOS, EOT), None

    def __init__(self, seed: int = 0, scale: float = 2.0):
        self.calls: list[SimpleNamespace] = []
        g = torch.Generator().manual_seed(seed)

        def weight(*shape):
            return torch.randn(*shape, generator=g, dtype=torch.float64)

        self.token, self.place = weight(VOCABULARY, 8), weight(64, 8)
        self.near, self.head = weight(64), scale * weight(8, VOCABULARY) / 8**0.5

    def __call__(self, input_ids, attention_mask=None, *, logits_at=None):
        attend_BL = attention_mask
        place_BL = (attend_BL.long().cumsum(1) - 1).clamp(min=0)
        distance_BLL = (place_BL.unsqueeze(1) - place_BL.unsqueeze(2)).abs()
        weight_BLL = torch.where(attend_BL.unsqueeze(1), self.near[distance_BLL], 0)
        x_BLD = self.token[input_ids]
        h_BLD = torch.tanh(x_BLD + self.place[place_BL] + weight_BLL @ x_BLD / 3)
        self.calls.append(SimpleNamespace(tokens=input_ids, attend=attend_BL, at=logits_at))
        logits_BLV = h_BLD @ self.head
        return SimpleNamespace(logits=logits_BLV if logits_at is None else logits_BLV[logits_at])


class TablePolicy:
    """Logits of answer slot n are row n of a table, whatever the input."""

    mask_id, stop_ids, block_size = MASK, (EOS, EOT), None

    def __init__(self, logits_NV: Tensor):
        self.logits_NV = logits_NV
        self.rows = 0

    def __call__(self, input_ids, attention_mask=None, *, logits_at):
        self.rows += len(input_ids)
        slot_S = logits_at.nonzero()[:, 1] - (input_ids.shape[1] - len(self.logits_NV))
        return SimpleNamespace(logits=self.logits_NV[slot_S])


def table(*rows: dict[int, float]) -> TablePolicy:
    """`table({2: 0.6, 3: 0.3}, ...)`: probabilities of some tokens, the rest shared evenly."""
    prob_NV = torch.zeros(len(rows), VOCABULARY)
    for row_V, given in zip(prob_NV, rows, strict=True):
        row_V[:] = (1 - sum(given.values())) / (VOCABULARY - len(given))
        for token, prob in given.items():
            row_V[token] = prob
    return TablePolicy(prob_NV.log())


def prompts(*rows: list[int], samples: list[int] | None = None, width: int = 0) -> Prompts:
    """Left-padded prompts; whatever stands under the padding must not matter."""
    width = max(width, *map(len, rows))
    tokens_BL = torch.full((len(rows), width), EOS)
    attend_BL = torch.zeros(len(rows), width, dtype=torch.bool)
    for b, row in enumerate(rows):
        tokens_BL[b, width - len(row) :] = torch.tensor(row, dtype=torch.int64)
        attend_BL[b, width - len(row) :] = True
    sample_B = torch.tensor(samples if samples is not None else range(len(rows)))
    return Prompts(tokens_BL, attend_BL, sample_B.clone(), sample_B, [{"row": row} for row in rows])


def answer(value_BL: Tensor, rollout) -> Tensor:
    """The answer's part of a tensor over prompt and answer, (B, N)."""
    return value_BL[rollout.answer_BL].view(len(value_BL), -1)
