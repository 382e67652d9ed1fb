"""The rivals: losses that differ only in what they do with a noisy importance ratio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Exponent = Literal["sum", "token"]
"""The log-ratio of an answer: its total nats, or their mean over its tokens."""

CLAIMED = ("grpo", "clip_only", "sn_only", "stable_drl")
"""The arms that the claim is about."""

CAP = (5.0, 5.0)
"""Distances of the clip from 1 in the recipe `stable_drl_sudoku`: a ratio counts as at most 6."""


@dataclass(frozen=True)
class Rival:
    """One loss.

    Args:
        title: how tables and plots call it.
        component: registered loss.
        options: of it, the same in every condition.
        capped: whether a condition may move its clip.
    """

    title: str
    component: str
    options: Mapping[str, Any]
    capped: bool = False


RIVALS: dict[str, Rival] = {
    "grpo": Rival(
        "GRPO, conditional clip",
        "clipped_surrogate",
        {"clip_low": 0.2, "clip_high": 0.2, "kl": "none"},
    ),
    "clip_only": Rival(
        "clip only", "stable_drl", {"clip": True, "self_normalise": False}, capped=True
    ),
    "sn_only": Rival(
        "self-normalisation only", "stable_drl", {"clip": False, "self_normalise": True}
    ),
    "stable_drl": Rival(
        "StableDRL", "stable_drl", {"clip": True, "self_normalise": True}, capped=True
    ),
    "policy_gradient": Rival("no ratio", "policy_gradient", {"kl": "none"}),
}
"""Name -> loss. All see the same samples, rewards, masks and score, a log-prob per token."""


def loss_of(
    arm: str,
    exponent: Exponent,
    clip: tuple[float | None, float | None] | None = None,
    noise: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The loss of an arm as a recipe writes it.

    The gradient is scaled alike in all arms: that of a mean over answers of the log-prob per
    token, times whatever weight the arm gives the answer.

    Args:
        arm: a name of `RIVALS`.
        exponent: of the log-ratio.
        clip: distances of the lower and upper bound from 1; None = those of the recipe. Arms that
            are not `capped` have none.
        noise: options of the loss `perturbed`, which disturbs the log-ratio before the arm sees it.
    """
    rival = RIVALS[arm]
    length = "none" if exponent == "sum" else "token"
    loss: dict[str, Any] = {"name": rival.component, **rival.options, "length_norm": length}
    if rival.component == "stable_drl":
        loss["clip_low"], loss["clip_high"] = clip if clip and rival.capped else CAP
    elif rival.component == "policy_gradient":
        loss |= {"length_norm": "token", "normaliser": "sequence"}  # it has no ratio
    else:
        loss["normaliser"] = "fixed" if exponent == "sum" else "sequence"
    return {"name": "perturbed", "inner": loss, **noise} if noise else loss
