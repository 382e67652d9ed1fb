"""What every model family shares as a Hugging Face model: strict loading, no global randomness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import MaskedLMOutput

from dllmzoo.errors import ModelError
from dllmzoo.models._layers import Slots
from dllmzoo.reading import PerSlot, in_chunks


@dataclass
class SlotOutput(MaskedLMOutput):
    """What a forward returns.

    Args:
        per_slot: results of the function that was given, in place of `logits`.
    """

    per_slot: tuple[Tensor, ...] | None = None


class ZooModel(PreTrainedModel):
    """A `PreTrainedModel` that loads every tensor of a checkpoint exactly once, or not at all."""

    end_of_turn: ClassVar[Mapping[int, int]] = {}
    """Vocabulary size -> id of the public tokenizer's end-of-turn token, by family."""
    shifted_head: ClassVar[bool] = False
    """Whether the head predicts the token behind its position, which `forward` sets right."""
    reads_slots: ClassVar[bool] = True
    """Whether `forward` takes `per_slot` and `columns_at`."""

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, pretrained_model_name_or_path: str | Path, *args: Any, **kwargs: Any
    ) -> Any:
        """As in transformers, but missing, unexpected and misshapen tensors are an error.

        Raises:
            ModelError: lists every difference between the checkpoint and the network.
        """
        wants_info = kwargs.pop("output_loading_info", False)
        kwargs.setdefault("ignore_mismatched_sizes", True)
        with cls.without_global_randomness():
            loaded: Any = super().from_pretrained(
                pretrained_model_name_or_path, *args, output_loading_info=True, **kwargs
            )
        model, info = loaded
        if problems := _differences(info):
            raise ModelError(
                f"the tensors of {pretrained_model_name_or_path} do not fit {cls.__name__} of its "
                f"config.json:\n  " + "\n  ".join(problems)
            )
        return (model, info) if wants_info else model

    def head_output(
        self, x: Tensor, per_slot: PerSlot | None, hidden: tuple[Tensor, ...] | None
    ) -> SlotOutput:
        """Logits of what the last norm gave, or what a function makes of them chunk by chunk."""
        if per_slot is None:
            return SlotOutput(logits=self.head(x), hidden_states=hidden)  # type: ignore[arg-type]
        weight: Any = self.get_input_embeddings().weight
        like = x.new_empty(0, weight.shape[0])
        made = in_chunks(lambda part: self.head(x[part]), len(x), like, per_slot)
        return SlotOutput(hidden_states=hidden, per_slot=made)

    def head(self, x: Tensor) -> Tensor:
        """Logits of normed hidden states, (..., D) in and (..., V) out."""
        raise NotImplementedError

    @property
    def kept_per_token(self) -> int:
        """Bytes that a forward stores for its backward pass, for each token, about."""
        blocks = [m for m in self.modules() if type(m).__name__ in (self._no_split_modules or ())]
        linears = [m for block in blocks for m in block.modules() if isinstance(m, nn.Linear)]
        width = sum(each.in_features + each.out_features for each in linears)
        return width * (self.dtype or torch.float32).itemsize

    @property
    def mask_id(self) -> int:
        """Id of the mask token."""
        if self.config.mask_token_id is None:
            raise ModelError(
                "the config of this model has no mask_token_id; write it into config.json"
            )
        return self.config.mask_token_id

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end an answer: end of text, and end of turn in the public vocabulary."""
        eos = self.config.eos_token_id
        ids = [] if eos is None else list(eos) if isinstance(eos, list | tuple) else [eos]
        turn = self.end_of_turn.get(self.config.vocab_size)
        return tuple(dict.fromkeys(ids if turn is None else [*ids, turn]))

    @staticmethod
    @contextmanager
    def without_global_randomness() -> Iterator[None]:
        """Whatever the block draws, the global CPU generator comes out as it went in."""
        with torch.random.fork_rng(devices=[]):
            yield


def attend_of(attention_mask: Tensor | None, input_ids: Tensor) -> Tensor | None:
    """The mask as bool (B, L), or None where nothing is padded: the cheapest attention.

    Raises:
        ModelError: the mask is not of the shape of `input_ids`.
    """
    if input_ids.ndim != 2:
        raise ModelError(f"input_ids must be (B, L), not {tuple(input_ids.shape)}")
    if attention_mask is None:
        return None
    if attention_mask.shape != input_ids.shape:
        raise ModelError(
            f"attention_mask has shape {tuple(attention_mask.shape)}, input_ids "
            f"{tuple(input_ids.shape)}; give one number per token, 1 = real token"
        )
    attend_BL = attention_mask.bool()
    return None if bool(attend_BL.all()) else attend_BL


def refuse_second_stream(family: str, target_ids: Tensor | None) -> None:
    """Raise where a network of one stream is given the noised one of block models."""
    if target_ids is not None:
        raise ModelError(
            f"{family} reads one stream: it takes no target_ids. Use a likelihood with "
            f"layout `full`, or a family of block models"
        )


def wanted_slots(
    logits_at: Tensor | None, columns_at: Tensor | None, input_ids: Tensor, device: torch.device
) -> Slots | None:
    """The slots whose logits are asked for, by mask (B, L) or by columns (B, M); None = all.

    Raises:
        ModelError: the mask is not of the shape of `input_ids`.
    """
    if columns_at is not None:
        return Slots.at(columns_at.to(device), input_ids.shape[1])
    if logits_at is None:
        return None
    if logits_at.shape != input_ids.shape:
        raise ModelError(
            f"logits_at has shape {tuple(logits_at.shape)}, input_ids {tuple(input_ids.shape)}; "
            f"give one bool per token"
        )
    return Slots.of(logits_at.to(device).bool())


def _differences(info: dict[str, Any]) -> list[str]:
    """One line for each tensor that does not fit, at most 12 of a kind."""
    lines = []
    for title, names in (
        ("missing from the checkpoint", info["missing_keys"]),
        ("unknown to the network", info["unexpected_keys"]),
        ("of another shape", [_shapes(each) for each in info["mismatched_keys"]]),
    ):
        names = sorted(names)
        if names:
            more = f" and {len(names) - 12} more" if len(names) > 12 else ""
            lines.append(f"{title}: {', '.join(names[:12])}{more}")
    return lines


def _shapes(mismatch: Any) -> str:
    name, found, expected = mismatch
    return f"{name} ({tuple(found)} in the checkpoint, {tuple(expected)} in the network)"
