"""Several documents in one row: positions restart with each, and none attends to another."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.errors import TaskError, UsageError
from dllmzoo.records import Rollout, Views


@dataclass(frozen=True)
class Packed(Rollout):
    """Rows that hold one document or more.

    Args:
        document_BL: int64, 1 for the tokens of a row's first document, 2 for the next, ...; 0 under
            padding.
    """

    document_BL: Tensor | None = None

    @property
    def block_BL(self) -> Tensor:
        """Number of each column's block, int64; the grid restarts with each document."""
        assert self.document_BL is not None and self.block_size is not None
        place_BL = places(self.document_BL)
        starts_BL = self.attend_BL & (place_BL % self.block_size == 0)
        return torch.where(self.attend_BL, starts_BL.long().cumsum(1) - 1, -1)


def pack(rollout: Rollout, views: Views, length: int) -> tuple[Packed, Views]:
    """The same documents and the same one view of each, in fewer rows.

    A document goes into the first row that has room; the longest ones first, those of equal length
    in their order. Rows without a target are left out. The loss is the same: only columns move.

    Args:
        rollout: one document a row.
        views: K = 1.
        length: most tokens of a row.

    Raises:
        TaskError: a document alone is longer.
    """
    size_B = rollout.attend_BL.sum(1)
    kept = views.score_BKL.flatten(1).any(1).nonzero()[:, 0]
    order = kept[size_B[kept].argsort(descending=True, stable=True)].tolist()
    rows: list[list[int]] = []
    room: list[int] = []
    for document in order:
        size = int(size_B[document])
        if size > length:
            raise TaskError(
                f"a prompt and its answer have {size} tokens, and a packed row {length}; raise "
                f"sft.pack, or drop such rows: sampler.answer_length and sft.too_long: drop"
            )
        place = next((i for i, free in enumerate(room) if free >= size), len(rows))
        if place == len(rows):
            rows.append([])
            room.append(length)
        rows[place].append(document)
        room[place] -= size
    if not rows:  # a process without a target still needs a row
        rows = [[0]]
    from_B, from_L, document_BL = _columns(rollout.attend_BL, rows)
    there_BL = document_BL > 0

    def moved(value_BL: Tensor) -> Tensor:
        return torch.where(there_BL, value_BL[from_B, from_L], 0).to(value_BL.dtype)

    first_B = torch.tensor([row[0] for row in rows], device=from_B.device)
    changes: dict[str, Any] = {each.name: getattr(rollout, each.name) for each in fields(rollout)}
    changes |= {
        field.name: moved(getattr(rollout, field.name))
        for field in fields(rollout)
        if field.name.endswith("_BL") and getattr(rollout, field.name) is not None
    }
    changes |= {
        "group_B": rollout.group_B[first_B],
        "sample_B": rollout.sample_B[first_B],
        "examples": [rollout.examples[row[0]] for row in rows],
        "block_entropy_BT": rollout.block_entropy_BT[first_B],
    }
    packed = Packed(**changes, document_BL=document_BL)
    one_B1 = torch.ones(len(rows), 1, device=from_B.device)
    return packed, replace(
        views,
        hide_BKL=moved(views.hide_BKL[:, 0]).unsqueeze(1),
        score_BKL=moved(views.score_BKL[:, 0]).unsqueeze(1),
        weight_BKL=moved(views.weight_BKL[:, 0]).unsqueeze(1),
        unit_BKL=moved(views.unit_BKL[:, 0]).unsqueeze(1),
        size_BU=one_B1, weight_BU=one_B1, column_BU=torch.zeros_like(one_B1, dtype=torch.long),
    )  # fmt: skip


def places(document_BL: Tensor) -> Tensor:
    """Tokens before each one in its document, int64 (B, L); of documents without gaps."""
    column_BL = torch.arange(document_BL.shape[1], device=document_BL.device).expand_as(document_BL)
    new_BL = document_BL != document_BL.roll(1, 1)
    new_BL[:, :1] = True
    return column_BL - torch.where(new_BL, column_BL, 0).cummax(1).values


def as_read(rollout: Rollout) -> Rollout:
    """What `ByDocument` reads: the padding mask counts documents; other rollouts as they are."""
    if isinstance(rollout, Packed) and rollout.document_BL is not None:
        return replace(rollout, attend_BL=rollout.document_BL)
    return rollout


class ByDocument:
    """A network that is told of documents by a padding mask that counts them."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    @classmethod
    def of(cls, policy: Any, network: Any) -> ByDocument:
        """The wrapped policy.

        Args:
            policy: as the processes share it.
            network: without that wrapping.

        Raises:
            UsageError: it cannot keep documents apart.
        """
        network = getattr(network, "get_base_model", lambda: network)()
        if "document_ids" not in inspect.signature(network.forward).parameters:
            family = getattr(network, "family", type(network).__name__)
            raise UsageError(
                f"sft.pack puts several documents into a row, and {family} has no mask that keeps "
                f"them apart: each would read the others. Use sft.pack: null with sft.tail: batch, "
                f"which fills rows up to the longest answer of the batch only"
            )
        return cls(policy)

    def __call__(self, input_ids: Tensor, document_ids: Tensor, **options: Any) -> Any:
        """The network's output; padding is where no document is."""
        return self.policy(input_ids, document_ids > 0, document_ids=document_ids, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)


def _columns(attend_BL: Tensor, rows: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Row and column that each packed column is taken from, and its document; (R, L) each."""
    real = [attend_BL[document].nonzero()[:, 0].cpu() for document in range(len(attend_BL))]
    width = max(sum(len(real[document]) for document in row) for row in rows)
    found = torch.zeros(3, len(rows), width, dtype=torch.long)
    for i, row in enumerate(rows):
        end = 0
        for number, document in enumerate(row, start=1):
            start, end = end, end + len(real[document])
            found[0, i, start:end] = document
            found[1, i, start:end] = real[document]
            found[2, i, start:end] = number
    from_B, from_L, document_BL = found.to(attend_BL.device)
    return from_B, from_L, document_BL
