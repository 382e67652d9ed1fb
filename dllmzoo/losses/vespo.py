"""VESPO: the policy gradient, weighted by a smooth bump of the sequence's ratio."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.losses._group import ess_share, group_index, softmax_by
from dllmzoo.losses._kl import KlPenalty
from dllmzoo.losses._ratio import LengthNorm, alive, bounded, log_ratio, per_length, ratio_metrics
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Normaliser, Units
from dllmzoo.zoo import LOSSES


@LOSSES.register("vespo")
@dataclass(frozen=True)
class Vespo(KlPenalty):
    r"""Policy gradient with a weight that is 1 on policy and fades for ratios far from it.

    $$ -\,\mathrm{sg}(\varphi)\, A\, \ell(\theta), \qquad
       \varphi = \exp\big(\lambda + k \log w - \lambda w\big), \quad
       w = \exp\Big(\sum_{units} \ell_{new} - \ell_{old}\Big) $$

    w is the ratio of the whole sequence, summed over its units and not averaged. The weight is
    computed in log space: it goes to 0, never to infinity, for ratios near 0 and for exploding
    ones. At w = 1 it is 1, and the first update of a round is the policy gradient.

    Args:
        power_pos: k where A >= 0; >= 0; how fast the weight fades as w goes to 0.
        decay_pos: lambda where A >= 0; > 0, nats; how fast it fades as w grows.
        power_neg: k where A < 0; >= 0.
        decay_neg: lambda where A < 0; > 0, nats.
        length_norm: what the sequence's log-ratio and the units' log-probs in total nats are
            divided by: nothing (`none`), the tokens of the sequence and of the unit (`token`), or
            N (`canvas`).
        normaliser: what the sum over units is divided by; see `Units.mean`.

    References:
        Shen et al., 2026, VESPO (arXiv:2602.10693), with the four numbers that TRL uses.
    """

    power_pos: Annotated[float, Field(ge=0)] = 2.0
    decay_pos: Annotated[float, Field(gt=0)] = 3.0
    power_neg: Annotated[float, Field(ge=0)] = 3.0
    decay_neg: Annotated[float, Field(gt=0)] = 2.0
    length_norm: LengthNorm = "none"
    normaliser: Normaliser = "token"

    units: ClassVar[frozenset[Unit]] = frozenset({"slot", "step", "sequence", "view"})
    ratio_level: ClassVar[str] = "sequence"
    needs_old: ClassVar[bool] = True

    @property
    def bounded_weight(self) -> float | None:
        """The top of the higher bump, at w = k / lambda."""
        return max(_peak(self.power_pos, self.decay_pos), _peak(self.power_neg, self.decay_neg))

    def __call__(
        self,
        new: Estimate,
        old: Estimate | None,
        reference: Estimate | None,
        advantage_BU: Tensor,
        units: Units,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to minimise and metrics per unit; only `new` carries gradient."""
        advantage_BU = alive(advantage_BU.detach(), units)
        log_ratio_BU = log_ratio(new, old, units, self.length_norm, "sequence").detach()
        good_BU = advantage_BU >= 0
        power_BU = _by_sign(good_BU, self.power_pos, self.power_neg, log_ratio_BU)
        decay_BU = _by_sign(good_BU, self.decay_pos, self.decay_neg, log_ratio_BU)
        ratio_BU = bounded(log_ratio_BU).exp()
        log_weight_BU = decay_BU + power_BU * log_ratio_BU - decay_BU * ratio_BU
        weight_BU = alive(log_weight_BU.exp(), units)
        score_BU = per_length(alive(new.score_BU, units), units, self.length_norm)
        loss = -units.mean(weight_BU * advantage_BU * score_BU, self.normaliser)

        share_BU = softmax_by(group_index(units), log_weight_BU, units)
        metrics = ratio_metrics(log_ratio_BU, units)
        metrics |= {"weight": weight_BU, "ess_share": ess_share(share_BU, units)}
        loss, kl_metrics = self.with_kl(loss, new, old, reference, units)
        return loss, metrics | kl_metrics


def _by_sign(good_BU: Tensor, pos: float, neg: float, like_BU: Tensor) -> Tensor:
    return torch.where(good_BU, like_BU.new_tensor(pos), like_BU.new_tensor(neg))


def _peak(power: float, decay: float) -> float:
    """Largest value of exp(decay + power * log w - decay * w) over w > 0."""
    return math.exp(decay - power + (power * math.log(power / decay) if power > 0 else 0.0))
