"""The answer canvas that a sampler fills, and its record of what was committed when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dllmzoo.protocols import Policy
from dllmzoo.records import Prompts, Rollout
from dllmzoo.samplers._candidates import Candidates
from dllmzoo.shapes import dims


@dataclass
class Canvas:
    """Rows in the making: prompt and answer, where the answer is still masked, and the record.

    The tables hold every row; methods take the numbers `rows` of those that are still running, and
    tensors of just these. Which slots are masked is `hidden_BN`, never the token values.
    """

    tokens_BL: Tensor
    attend_BL: Tensor
    hidden_BN: Tensor
    reveal_BN: Tensor
    logprob_BN: Tensor
    entropy_BN: Tensor
    confidence_BN: Tensor
    block_entropy_BT: Tensor
    mask_id: int
    forwards: int = 0

    @classmethod
    def blank(cls, prompts: Prompts, N: int, T: int, mask_id: int, device: torch.device) -> Canvas:
        """Every answer slot masked, behind the prompt."""
        sizes = dims(
            tokens_BL=prompts.tokens_BL,
            attend_BL=prompts.attend_BL,
            group_B=prompts.group_B,
            sample_B=prompts.sample_B,
        )
        tokens_BL = prompts.tokens_BL.to(device)
        hidden_BN = torch.ones(sizes["B"], N, dtype=torch.bool, device=device)
        zero_BN = torch.zeros(sizes["B"], N, device=device)
        return cls(
            tokens_BL=torch.cat([tokens_BL, tokens_BL.new_full((sizes["B"], N), mask_id)], 1),
            attend_BL=torch.cat([prompts.attend_BL.to(device), hidden_BN], 1),
            hidden_BN=hidden_BN,
            reveal_BN=torch.full_like(hidden_BN, -1, dtype=torch.int64),
            logprob_BN=zero_BN,
            entropy_BN=zero_BN.clone(),
            confidence_BN=zero_BN.clone(),
            block_entropy_BT=torch.zeros(sizes["B"], T, device=device),
            mask_id=mask_id,
        )

    @property
    def answer_BN(self) -> Tensor:
        """Answer tokens, a window into `tokens_BL`: writing to it writes there."""
        return self.tokens_BL[:, self.prompt_length :]

    @property
    def prompt_length(self) -> int:
        """Columns before the answer, padding included."""
        return self.tokens_BL.shape[1] - self.hidden_BN.shape[1]

    def logits(self, policy: Policy, rows: Tensor, at_BN: Tensor, *, guided: bool) -> Tensor:
        """One forward of the given rows; logits of the S marked answer slots only.

        Returns:
            (S, V); guided (2S, V): the same slots again where every prompt token is masked.
        """
        tokens_BL, attend_BL = self.tokens_BL[rows], self.attend_BL[rows]
        at_BL = torch.nn.functional.pad(at_BN, (self.prompt_length, 0))
        if guided:
            prompt_BL = attend_BL.clone()
            prompt_BL[:, self.prompt_length :] = False
            tokens_BL = torch.cat([tokens_BL, tokens_BL.masked_fill(prompt_BL, self.mask_id)])
            attend_BL, at_BL = attend_BL.repeat(2, 1), at_BL.repeat(2, 1)
        self.forwards += len(tokens_BL)
        logits = policy(tokens_BL, attend_BL, logits_at=at_BL).logits
        return logits.to(tokens_BL.device)  # the head of a spread-out model may sit elsewhere

    def commit(
        self, rows: Tensor, step: int, at_BN: Tensor, chosen_BN: Tensor, found: Candidates
    ) -> None:
        """Write the chosen candidates and what is known about them.

        Args:
            rows: rows that ran this step.
            step: denoising step.
            at_BN: the slots that have a candidate.
            chosen_BN: the slots to commit, a part of them.
            found: the candidates.
        """
        for table_BN, value_S in (
            (self.answer_BN, found.token_S),
            (self.logprob_BN, found.logprob_S),
            (self.entropy_BN, found.entropy_S),
            (self.confidence_BN, found.confidence_S),
        ):
            table_BN[rows] = torch.where(chosen_BN, spread_out(value_S, at_BN), table_BN[rows])
        self.reveal_BN[rows] = self.reveal_BN[rows].masked_fill(chosen_BN, step)
        self.hidden_BN[rows] = self.hidden_BN[rows] & ~chosen_BN
        entropy_BN = spread_out(found.entropy_S, at_BN)
        self.block_entropy_BT[rows, step] = entropy_BN.sum(1) / at_BN.sum(1)

    def ended(self, stop_ids: tuple[int, ...]) -> Tensor:
        """Bool (B, N): slots that hold a committed end token."""
        stops = torch.tensor(stop_ids, dtype=torch.int64, device=self.tokens_BL.device)
        return torch.isin(self.answer_BN, stops) & ~self.hidden_BN

    def rollout(
        self, prompts: Prompts, stop_ids: tuple[int, ...], num_steps: int, sampler: Any
    ) -> Rollout:
        """The finished record; slots never committed are filled with the end token."""
        if stop_ids:
            self.answer_BN.masked_fill_(self.hidden_BN, stop_ids[0])
        end_BN = self.ended(stop_ids)
        valid_BN = end_BN.cumsum(1) - end_BN.long() == 0
        answer_BL = self._behind_prompt(torch.ones_like(self.hidden_BN))
        return Rollout(
            tokens_BL=self.tokens_BL,
            attend_BL=self.attend_BL,
            answer_BL=answer_BL,
            valid_BL=self._behind_prompt(valid_BN),
            reveal_BL=self._behind_prompt(self.reveal_BN, -1),
            logprob_BL=self._behind_prompt(self.logprob_BN),
            entropy_BL=self._behind_prompt(self.entropy_BN),
            confidence_BL=self._behind_prompt(self.confidence_BN),
            block_entropy_BT=self.block_entropy_BT,
            group_B=prompts.group_B.to(self.tokens_BL.device),
            sample_B=prompts.sample_B.to(self.tokens_BL.device),
            examples=prompts.examples,
            num_steps=num_steps,
            sampler=sampler,
            forwards=self.forwards,
        )

    def _behind_prompt(self, value_BN: Tensor, fill: float = 0) -> Tensor:
        return torch.nn.functional.pad(value_BN, (self.prompt_length, 0), value=fill)


def spread_out(value_S: Tensor, at_BN: Tensor, fill: float = 0) -> Tensor:
    """(B, N): flat values back at their slots, `fill` elsewhere."""
    empty_BN = torch.full(at_BN.shape, fill, dtype=value_S.dtype, device=value_S.device)
    return empty_BN.masked_scatter(at_BN, value_S)
