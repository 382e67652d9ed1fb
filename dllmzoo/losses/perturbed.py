"""A loss under stress: noise, spikes and inflation of the log-ratio that it works with."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.losses._ratio import LengthNorm, alive, per_length, per_row
from dllmzoo.protocols import Unit
from dllmzoo.recipe.part import Part
from dllmzoo.records import Estimate, Key, Units
from dllmzoo.zoo import LOSSES

EVERY: frozenset[Unit] = frozenset({"slot", "step", "sequence", "view"})
HALF_STEP = 2.0**-25
"""Half the distance of two uniform numbers: it keeps their normal quantiles finite."""


class _UnitsOfInner:
    """Units of the inner loss; read from the class, all that some inner loss works with."""

    def __get__(self, loss: Any, owner: type) -> frozenset[Unit]:
        return EVERY if loss is None else loss.inner.units


@LOSSES.register("perturbed")
@dataclass(frozen=True)
class Perturbed:
    r"""Another loss with log-ratios made noisy on purpose: the instrument of a stress test.

    The inner loss sees, in place of a sequence's log-ratio x as it would exponentiate it,

    $$ c\,x + s\,z_i + s_g\,z_{group} + \log F \cdot [u_i < p] $$

    with z standard normal and u uniform, drawn anew for every optimiser step, per sample and per
    group, whatever the batch, its order or the number of processes. Only the old policy's
    log-probs are changed: what does not read them, such as a KL to the reference or a loss
    without ratios, stays as it is, and the gradient is that of the inner loss at the false ratio.

    The noise is on the log-ratio after the inner loss's `length_norm`: with `token`, an answer of
    n tokens gets n times as many nats, so the exponent moves as far as with `none`. Units smaller
    than the answer share it in proportion to their tokens, so that their log-ratios add up to
    that of the sequence; units that stand for the whole answer, like views, get all of it each.
    With all knobs at rest it is the inner loss bit for bit.

    Args:
        inner: the loss under test.
        noise: s, nats, >= 0; standard deviation of each sequence's own noise.
        shared_noise: s_g, nats, >= 0; standard deviation of noise that a prompt's group shares.
        spike_share: p, in [0, 1]; share of the sequences whose ratio is multiplied by the factor.
        spike_factor: F, > 0, such as 1e3.
        scale: c, >= 0; multiplies the log-ratio; 1 leaves it.

    References:
        The instability loop of StableDRL, 2026 (arXiv:2603.06743); the knobs are ours.
    """

    inner: Annotated[Any, Part("loss")] = "clipped_surrogate"
    noise: Annotated[float, Field(ge=0)] = 0.0
    shared_noise: Annotated[float, Field(ge=0)] = 0.0
    spike_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    spike_factor: Annotated[float, Field(gt=0)] = 1e3
    scale: Annotated[float, Field(ge=0)] = 1.0

    units: ClassVar[Any] = _UnitsOfInner()
    exempt: ClassVar[dict[str, str]] = {
        "first_pass_is_the_policy_gradient": "the first ratio is noisy, which is the point",
        "better_answer_becomes_more_likely": "a noisy ratio may be clipped before any update",
    }

    @property
    def needs_old(self) -> bool:
        """As the inner loss."""
        return self.inner.needs_old

    @property
    def needs_reference(self) -> bool:
        """As the inner loss."""
        return self.inner.needs_reference

    @property
    def needs_exact_kl(self) -> bool:
        """As the inner loss."""
        return self.inner.needs_exact_kl

    @property
    def needs_branches(self) -> bool:
        """As the inner loss."""
        return getattr(self.inner, "needs_branches", False)

    @property
    def uses_score(self) -> bool:
        """As the inner loss."""
        return getattr(self.inner, "uses_score", True)

    @property
    def bounded_weight(self) -> float | None:
        """As the inner loss: whatever the ratio, it bounds the weight."""
        return getattr(self.inner, "bounded_weight", None)

    def __call__(
        self,
        new: Estimate,
        old: Estimate | None,
        reference: Estimate | None,
        advantage_BU: Tensor,
        units: Units,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The inner loss and its metrics, at the false log-ratio.

        Raises:
            UsageError: the units carry no key or sample numbers to draw noise from.
        """
        if old is not None and not self._at_rest:
            old = replace(old, ratio_BU=self._false(new, old, units))
        return self.inner(new, old, reference, advantage_BU, units)

    @property
    def _at_rest(self) -> bool:
        quiet = self.noise == self.shared_noise == 0.0
        spikeless = self.spike_share == 0.0 or self.spike_factor == 1.0
        return quiet and spikeless and self.scale == 1.0

    def _false(self, new: Estimate, old: Estimate, units: Units) -> Tensor:
        """Log-probs of the old policy that give the inner loss the false log-ratio."""
        old_BU = old.ratio_BU.detach()
        moved_BU = alive(new.ratio_BU.detach() - old_BU, units)
        added_BU = spread(self._added(units).to(old_BU), units, self.inner)
        return old_BU - (self.scale - 1) * moved_BU - added_BU

    def _added(self, units: Units) -> Tensor:
        """What is added to the log-ratio of each sequence, nats, float64 (B,), on the CPU."""
        if units.key is None or units.sample_B is None:
            raise UsageError(
                "loss perturbed draws its noise per optimiser step and sample, and these units "
                "carry no key and sample numbers: give them to Units.of"
            )
        key, sample_B, group_B = units.key, units.sample_B.cpu(), units.group_B.cpu()
        added_B = torch.zeros(len(sample_B), dtype=torch.float64)
        if self.noise > 0:
            added_B += self.noise * normal(key.sub("noise"), sample_B)
        if self.shared_noise > 0:
            added_B += self.shared_noise * normal(key.sub("shared noise"), group_B)
        if self.spike_share > 0:
            spiked_B = key.sub("spike").uniform(sample_B, 1)[:, 0] < self.spike_share
            added_B += math.log(self.spike_factor) * spiked_B
        return added_B


def normal(key: Key, index_B: Tensor) -> Tensor:
    """Standard normal numbers, float64 (B,); row i depends on the key and `index_B[i]` alone."""
    return torch.special.ndtri(key.uniform(index_B, 1)[:, 0].double() + HALF_STEP)


def spread(added_B: Tensor, units: Units, inner: Any) -> Tensor:
    """Total nats for each unit, (B, U), that move a sequence's log-ratio by `added_B`.

    Args:
        added_B: nats, as the inner loss exponentiates them.
        units: their sizes decide each unit's share.
        inner: its `length_norm` and `ratio_level` say what it divides total nats by.
    """
    size_BU = alive(units.size_BU, units).to(added_B.dtype)
    share_BU = size_BU / size_BU.sum(1, keepdim=True).clamp(min=1)
    one_BU = torch.ones_like(size_BU)
    length_norm: LengthNorm = getattr(inner, "length_norm", "none")
    if getattr(inner, "ratio_level", "unit") == "sequence":
        length_BU = 1 / per_row(share_BU, units, length_norm).clamp(min=1e-30)
    else:
        whole_BU = units.live_BU & (size_BU >= units.length_B.unsqueeze(1))
        share_BU = torch.where(whole_BU, one_BU, share_BU)
        length_BU = 1 / per_length(one_BU, units, length_norm)
    return added_B.unsqueeze(1) * share_BU * length_BU
