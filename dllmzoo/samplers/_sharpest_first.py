"""What the orders of Dream share: which law they judge, and positions drawn instead of ranked."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.protocols import Policy
from dllmzoo.records import Key, Prompts
from dllmzoo.samplers._candidates import HELD_BACK, ConfidenceRule, Law, at_token
from dllmzoo.samplers._noise import KeyedNoise, Noise, Slots
from dllmzoo.samplers._semi_autoregressive import SemiAutoregressive


@dataclass(frozen=True)
class PlaceNoise(KeyedNoise):
    """The numbers of a key, where priorities are drawn anew at every step."""

    @cached_property
    def _place_BTN(self) -> Tensor:
        key = self.key.sub("place")
        return key.uniform(self.sample_B, self.num_steps, self.answer_length).to(self.device)

    def priority(self, at: Slots) -> Tensor:
        """One number for each step and slot."""
        return self._place_BTN[at.row_S, at.step % self.num_steps, at.slot_S]


@dataclass(frozen=True)
class SharpestFirst(SemiAutoregressive):
    """Base of samplers that order slots by how sure their distribution is.

    A subclass says how sure in `sharpness`.

    Args:
        top_k: draw from the k likeliest tokens; 0 = from all. Read where temperature > 0.
        top_p: in (0, 1], draw from the fewest tokens that hold this probability, after temperature
            and top_k; 1 = from all. Read where temperature > 0.
        confidence: the probabilities that slots are ordered by, and that `threshold` asks for, if
            temperature > 0: `temperature_one`; `before_filters`, at `temperature`; or
            `after_filters`, of the law that tokens are drawn from. Greedy, those of temperature 1.
        order_temperature: tau >= 0. Above 0 a step draws its slots one after another, each with
            probability softmax(certainty / tau) over those that are left, instead of taking the
            most certain ones: Dream's `alg_temp`. Tokens that the end rule holds back still wait.
    """

    top_k: Annotated[int, Field(ge=0)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    confidence: ConfidenceRule = "temperature_one"
    order_temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    def sharpness(self, prob_SV: Tensor, token_S: Tensor) -> Tensor:
        """sharpness_S, float32; higher is surer.

        Args:
            prob_SV: probabilities as `confidence` says, end rule applied.
            token_S: the candidate of each slot.
        """
        raise NotImplementedError

    def certainty(self, prob_SV: Tensor, token_S: Tensor, noise: Noise, at: Slots) -> Tensor:
        """The sharpness, or a draw from it; the least of all where the end rule holds back."""
        certainty_S = self.sharpness(prob_SV, token_S)
        if self.order_temperature > 0:  # the largest of x + Gumbel noise is a draw from softmax(x)
            uniform_S = noise.priority(at).clamp(min=torch.finfo(torch.float32).tiny)
            certainty_S = certainty_S / self.order_temperature - (-uniform_S.log()).log()
        return certainty_S.masked_fill(at_token(prob_SV, token_S) == 0, HELD_BACK)

    @property
    def greedy_varies(self) -> bool:
        """Whether samples of a prompt differ at temperature 0."""
        return self.order_temperature > 0

    def _law(self, policy: Policy) -> Law:
        rule = self.confidence if self.temperature > 0 else "temperature_one"
        law = super()._law(policy)
        return replace(law, top_k=self.top_k, top_p=self.top_p, confidence=rule)

    def _noise(self, key: Key, prompts: Prompts, device: torch.device) -> Noise:
        kind = PlaceNoise if self.order_temperature > 0 else KeyedNoise
        return kind(key, prompts.sample_B, self.num_steps, self.answer_length, device)
