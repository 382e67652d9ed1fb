"""Keys and values of a whole canvas, so that a forward computes some of its columns only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from dllmzoo.errors import ModelError, UsageError

Keep = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Fresh keys and values of a layer -> those that its queries read, both (B, H, ., E)."""


class CanvasCache:
    """What a bidirectional network made of a canvas, read again while the canvas changes.

    A forward of all columns stores the keys and values of every layer. A forward of some columns
    puts theirs in place of the stored ones and reads the others as they are, though each of them
    would be another by now: with every token that is written all keys and values change. So this is
    an approximation, unlike the cache of networks whose attention goes by blocks.

    What a forward of all rows and columns makes is kept as it is, without a copy. Memory: keys and
    values of every column in every layer; for a forward of some of the rows a copy of theirs, one
    layer at a time.

    Args:
        rows: B, rows of the canvas.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.ran = 0
        """Columns that the last forward ran."""
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._row_R: Tensor | None = None

    def of(self, row_R: Tensor) -> CanvasCache:
        """The same store, for a forward of the rows of these numbers."""
        part = CanvasCache(self.rows)
        part._layers, part._row_R = self._layers, row_R
        return part

    def layer(self, number: int, columns: slice | None) -> Keep:
        """What a layer of that number is given; `columns` are those that run, None = all."""
        if columns is None:
            return partial(self._store, number)
        return partial(self._renew, number, columns)

    def _store(self, number: int, k_RHLE: Tensor, v_RHLE: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the keys and values of every column of the rows."""
        row_R = self._checked_rows(k_RHLE, v_RHLE)
        if row_R is None:
            self._layers[number] = k_RHLE, v_RHLE
            return k_RHLE, v_RHLE
        if number not in self._layers:
            shape = (self.rows, *k_RHLE.shape[1:])
            self._layers[number] = k_RHLE.new_empty(shape), v_RHLE.new_empty(shape)
        for held_BHLE, fresh_RHLE in zip(self._layers[number], (k_RHLE, v_RHLE), strict=True):
            held_BHLE[row_R] = fresh_RHLE
        return k_RHLE, v_RHLE

    def _renew(
        self, number: int, columns: slice, k_RHLE: Tensor, v_RHLE: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keys and values of every column of the rows, those of `columns` the given ones."""
        row_R = self._checked_rows(k_RHLE, v_RHLE)
        if number not in self._layers:
            raise UsageError(
                "the canvas cache is empty; run a forward without columns first, which fills it"
            )
        read = []
        for held_BHLE, fresh_RHLE in zip(self._layers[number], (k_RHLE, v_RHLE), strict=True):
            if row_R is None:
                held_BHLE[:, :, columns] = fresh_RHLE
                read.append(held_BHLE)
            else:
                held_BHLE[row_R, :, columns] = fresh_RHLE
                read.append(held_BHLE[row_R])
        return read[0], read[1]

    def _checked_rows(self, k_RHLE: Tensor, v_RHLE: Tensor) -> Tensor | None:
        """Which rows of the store a layer reads, where it computes; None = all of them."""
        if k_RHLE.requires_grad or v_RHLE.requires_grad:
            raise UsageError(
                "a canvas cache is read without gradient; call the model in torch.no_grad()"
            )
        rows = self.rows if self._row_R is None else len(self._row_R)
        if len(k_RHLE) != rows:
            raise UsageError(
                f"the canvas cache is for {rows} rows and the input has {len(k_RHLE)}; make one "
                f"with new_canvas_cache({len(k_RHLE)}), or name the rows with of()"
            )
        return None if self._row_R is None else self._row_R.to(k_RHLE.device)


class Window:
    """The columns of an input that a forward runs, and which logits of them are wanted.

    Args:
        input_ids: int64 (B, L).
        columns: those whose logits may be asked for; None = all.
        cache: what the others are read from.
        logits_at: bool (B, L), as a forward is given it.
        columns_at: int64 (B, M), as a forward is given it.
        margin: columns before `columns` that run too.

    Raises:
        ModelError: columns without a cache, without wanted logits, or wanted logits elsewhere.
    """

    def __init__(
        self, input_ids: Tensor, columns: slice | None, cache: CanvasCache | None,
        logits_at: Tensor | None, columns_at: Tensor | None, *, margin: int = 0,
    ) -> None:  # fmt: skip
        self.length = input_ids.shape[1]
        self.cache, self.given = cache, columns
        self.run = slice(0, self.length)
        self.logits_at, self.columns_at = logits_at, columns_at
        if columns is not None:
            self._narrow(columns, margin)
        self.ids_BL = input_ids[:, self.run]
        if cache is not None:
            cache.ran = self.ids_BL.shape[1]

    def _narrow(self, columns: slice, margin: int) -> None:
        if self.cache is None:
            raise ModelError("columns need a canvas_cache, that new_canvas_cache makes")
        start, stop, stride = columns.indices(self.length)
        if stride != 1 or stop <= start:
            raise ModelError(f"columns {columns} are no run of the {self.length} columns")
        if self.logits_at is None and self.columns_at is None:
            raise ModelError("with columns, logits_at or columns_at must say what is wanted")
        self.run = slice(max(start - margin, 0), stop)
        if self.columns_at is not None:
            self.columns_at = self.columns_at - self.run.start
        if self.logits_at is not None:
            inside = self.logits_at[:, start:stop]
            if int(inside.sum()) != int(self.logits_at.sum()):
                raise ModelError(f"logits_at names slots outside of the columns {start} to {stop}")
            self.logits_at = self.logits_at[:, self.run]

    def keeps(self, layers: int) -> list[Keep | None]:
        """What each layer hands its keys and values to; None without a cache."""
        if self.cache is None:
            return [None] * layers
        columns = None if self.given is None else self.run
        return [self.cache.layer(number, columns) for number in range(layers)]

    def of(self, value_BL: Tensor) -> Tensor:
        """The columns that run, of a tensor over all of them."""
        return value_BL[:, self.run]
