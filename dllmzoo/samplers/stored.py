"""Sampler that hands out answers that are there already."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field

from dllmzoo.errors import UsageError
from dllmzoo.protocols import Policy
from dllmzoo.records import Key, Prompts, Rollout
from dllmzoo.samplers._canvas import Canvas
from dllmzoo.samplers._given import given_answers
from dllmzoo.zoo import SAMPLERS


@SAMPLERS.register("stored")
@dataclass(frozen=True)
class Stored:
    """Stored answers: nothing is sampled and no forward runs, for offline preference pairs.

    The answers of a prompt's group are those of the data, which the task gives row by row; the
    reward says which is better. They were not made step by step, so no likelihood of denoising
    steps can score them, and evaluation needs another sampler (`evaluate.sampler`).

    Args:
        answer_length: N, tokens of the answer, 1 to 65536; shorter answers are filled with the
            end token, longer ones are an error.

    References:
        Zhu et al., 2025, LLaDA 1.5 (arXiv:2505.19223): preference pairs from a data set.
    """

    answer_length: Annotated[int, Field(ge=1, le=65536)] = 128

    records_steps: ClassVar[bool] = False
    given: ClassVar[str] = "answers"
    num_steps: ClassVar[int] = 0
    num_forwards: ClassVar[int] = 0

    @torch.no_grad()
    def __call__(self, policy: Policy, prompts: Prompts, key: Key) -> Rollout:
        """The given answer of every row; neither the policy nor the key is asked.

        Args:
            policy: its mask, end tokens and device.
            prompts: B rows, left-padded, with `answer_BN`.
            key: not read.

        Raises:
            UsageError: no answers were given, those of another length, or with a mask token.
        """
        answer_BN = given_answers(prompts, self.answer_length, "stored", "given")
        if bool((answer_BN == policy.mask_id).any()):
            raise UsageError(
                "a stored answer holds the mask token; blanks are filled by sampler: infill"
            )
        device = getattr(policy, "device", prompts.tokens_BL.device)
        canvas = Canvas.given(prompts, answer_BN, 0, policy.mask_id, device)
        canvas.blank_BN.fill_(True)  # nothing is masked, and all of it is the answer
        return canvas.rollout(prompts, policy, 0, self)
