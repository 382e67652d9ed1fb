"""ELBO of an answer as an integral over time, by Gauss-Legendre quadrature."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.likelihoods._plan import after_end, independent_slots, precise, sequence_views
from dllmzoo.likelihoods._pool import linear_pool
from dllmzoo.protocols import Unit
from dllmzoo.records import Estimate, Key, Rollout, Steps, Views
from dllmzoo.zoo import LIKELIHOODS


@LIKELIHOODS.register("quadrature", aliases=("gdpo",))
@dataclass(frozen=True)
class Quadrature:
    r"""ELBO of the answer at Q fixed times instead of random ones, masks at each by chance.

    The ELBO is an integral over t, taken here at the Q Gauss-Legendre nodes $t_q$ of [0, 1] with
    their weights $a_q$; at each node `masks` random masks hide every valid token with probability
    $t_q$:

    $$ \hat E(y) = \sum_{q=1}^Q \frac{a_q}{t_q} \frac1M \sum_{m=1}^M
       \sum_{i \in H_{qm}} \log \pi_\theta(y_i \mid y_{\setminus H_{qm}}) $$

    Costs at most Q M forwards per sample and pass; a view that hides nothing counts as 0 and costs
    none. Over masks the integrand is a polynomial of degree n - 1 in t, so the estimate is
    unbiased for the ELBO of the n valid tokens where 2Q >= n; for longer answers it is biased by
    the error of the rule and has less variance than random times. Slots after the end token are
    always hidden and never scored.

    Args:
        nodes: Q, in 1..64. 2 nodes stand at 0.2113 and 0.7887.
        masks: M, masks at each node, >= 1; the variance falls as 1/M.
        temperature: > 0, of the log-softmax; null takes the sampler's (1 if it is greedy).

    References:
        Rojas et al., 2025, GDPO (arXiv:2510.08554). No code was released: the number of masks and
        that they are drawn slot by slot are ours.
    """

    nodes: Annotated[int, Field(ge=1, le=64)] = 2
    masks: Annotated[int, Field(ge=1)] = 1
    temperature: Annotated[float, Field(gt=0)] | None = None

    uses_steps: ClassVar[bool] = False
    random: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    shares_masks: ClassVar[bool] = True
    unit: ClassVar[Unit] = "sequence"
    exempt: ClassVar[dict[str, str]] = {
        "unbiased if nodes=1": "Q nodes integrate answers of at most 2Q tokens exactly "
        "(GDPO, arXiv:2510.08554), and the answers of the law have 3",
    }

    @property
    def num_forwards(self) -> int:
        """Q M."""
        return self.nodes * self.masks

    @property
    def num_draws(self) -> int:
        """M: one mask at each node is a whole estimate."""
        return self.masks

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """Q M views, those of one draw (one mask at each node) after each other."""
        valid_BL = rollout.valid_BL
        device = valid_BL.device
        time_K, part_K = (
            torch.tensor(each, dtype=precise(device), device=device).repeat(self.masks)
            for each in gauss_legendre(self.nodes)
        )
        score_BKL = torch.stack(
            [
                independent_slots(
                    key.sub(f"view{k}"), rollout, valid_BL, time_K[k].expand(len(valid_BL))
                )
                for k in range(self.num_forwards)
            ],
            dim=1,
        )
        weight_1K1 = (part_K / time_K / self.masks).view(1, -1, 1)
        return sequence_views(
            score_BKL | after_end(rollout).unsqueeze(1),
            score_BKL,
            weight_1K1.expand(len(valid_BL), -1, 1),
            rollout.length_B,
            self.temperature or rollout.temperature,
        )

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """The estimate of the ELBO, total nats of the sequence."""
        return linear_pool(logprob_BKL, views)


@cache
def gauss_legendre(number: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Nodes of [0, 1] in rising order and their weights, which sum to 1.

    The nodes are the eigenvalues of the Jacobi matrix of the Legendre polynomials.

    Example:
        >>> gauss_legendre(1)
        ((0.5,), (1.0,))

    References:
        Golub and Welsch, 1969, Calculation of Gauss quadrature rules.
    """
    k = torch.arange(1, number, dtype=torch.float64)
    beside = k / (4 * k**2 - 1).sqrt()
    jacobi = torch.diag(beside, 1) + torch.diag(beside, -1)
    if number == 1:
        jacobi = torch.zeros(1, 1, dtype=torch.float64)
    node, vector = torch.linalg.eigh(jacobi)
    node, share = (node + 1) / 2, vector[0] ** 2
    node, share = (node + 1 - node.flip(0)) / 2, (share + share.flip(0)) / 2
    return tuple(node.tolist()), tuple((share / share.sum()).tolist())
