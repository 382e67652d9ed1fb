"""Which keys and values a denoising step takes from an earlier one, though they have changed."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from dllmzoo.errors import UsageError


@dataclass(frozen=True, config=ConfigDict(extra="forbid", validate_default=True))
class ApproximateCache:
    """Keys and values of tokens outside of the active block, kept from an earlier forward.

    In a network whose tokens all attend to each other every written token changes the keys and
    values of all others. Steps that read old ones cost less and sample from another law than the
    policy's. The first step on a block runs the whole row and is exact.

    Args:
        kind: `prefix` keeps what stands before the active block, so that later steps run the rest
            of the row; `dual` also keeps what stands behind it, and they run the block alone.
        refresh: steps from one forward of the whole row to the next inside a block; 1 = every step
            is exact, null = only the first of a block.

    References:
        Wu et al., 2025, Fast-dLLM (arXiv:2505.22618): both kinds; refreshing inside a block:
        Ma et al., 2025, dKV-Cache (arXiv:2505.15781).
    """

    kind: Literal["prefix", "dual"]
    refresh: Annotated[int, Field(ge=1, strict=True)] | None = None

    @property
    def exact(self) -> bool:
        """Whether no step reads an old key."""
        return self.refresh == 1

    def again(self, age: int) -> bool:
        """Whether a block is due for a forward of whole rows, `age` steps after the last one."""
        return self.refresh is not None and age >= self.refresh

    def columns(self, start: int, stop: int, length: int) -> slice:
        """What a step runs on the active block [start, stop) of a row of `length` columns."""
        return slice(start, length if self.kind == "prefix" else stop)

    def refuse_beside(self, *, cfg_scale: float, remasks: bool, stores_drafts: bool) -> None:
        """Refuse what needs more of a forward than a cached step runs.

        Raises:
            UsageError: says which setting to leave out.
        """
        if cfg_scale > 0:
            raise UsageError(
                f"cache {self.kind} keeps one set of keys and values, and cfg_scale {cfg_scale} "
                f"reads every row twice, with and without its prompt; leave one of them out"
            )
        if remasks:
            raise UsageError(
                f"cache {self.kind} takes finished blocks as they were, and this sampler masks "
                f"slots of them again; leave cache out, or use low_confidence"
            )
        if stores_drafts:
            raise UsageError(
                f"cache {self.kind} lets a step run a part of the answer, and record_drafts wants "
                f"a proposal for all of it; leave one of them out"
            )
