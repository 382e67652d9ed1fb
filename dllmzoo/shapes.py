"""The shape suffix of a name, checked: `dims(steps_BK=steps_BK, reward_B=reward_B)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def dims(**tensors: Tensor) -> dict[str, int]:
    """Size of each shape letter; a digit is a literal size (`mask_B1` has a last axis of 1).

    Example:
        >>> import torch
        >>> dims(steps_BK=torch.zeros(2, 3), reward_B=torch.zeros(2))
        {'B': 2, 'K': 3}

    Raises:
        ValueError: a tensor has another rank than its suffix says, or a letter has two sizes.
    """
    sizes: dict[str, int] = {}
    origin: dict[str, str] = {}
    for name, tensor in tensors.items():
        letters = name.rpartition("_")[2]
        if tensor.ndim != len(letters):
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, its name says {len(letters)} axes"
            )
        for letter, size in zip(letters, tensor.shape, strict=True):
            expected = int(letter) if letter.isdigit() else sizes.setdefault(letter, size)
            origin.setdefault(letter, name)
            if size != expected:
                raise ValueError(f"{letter} is {expected} in {origin[letter]} but {size} in {name}")
    return sizes
