"""The answer canvas that a sampler fills, and its record of what was committed when."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from dllmzoo.protocols import Policy
from dllmzoo.reading import PerSlot, in_chunks, read_slots, reads_slots
from dllmzoo.records import Prompts, Rollout
from dllmzoo.samplers._candidates import Candidates
from dllmzoo.shapes import dims


@dataclass
class Canvas:
    """Rows in the making: prompt and answer, where the answer is still masked, and the record.

    The tables hold every row; methods take the numbers `rows` of those that are still running, and
    tensors of just these. Which slots are masked is `hidden_BN`, never the token values.

    Args:
        tokens_BL: prompt and answer.
        attend_BL: real positions.
        blank_BN: slots that are to be filled; the others were given.
        hidden_BN: slots that are masked now.
        reveal_BN: step of the last filling, -1 = none yet.
        logprob_BN: of the last filling, as the next two.
        entropy_BN: nats.
        confidence_BN: probability of the token.
        block_entropy_BT: mean entropy of what each step looked at.
        running_B: rows that go on; kept up to date where rows may stop early.
        mask_id: of the policy.
        commits_BT: tokens to commit, where the number differs between rows; None = it does not.
        draft_BTN: the answer before each step, masked slots filled with proposals; None = not
            stored.
        hidden_BTN: what was masked before each step; with `draft_BTN`.
        full: no row is padded.
        group_B: int64, prompt of each row; None = not known.
        forwards: model rows run so far.
        reads: (rows, queries, keys, logits) of each forward, where some are not of whole rows.
    """

    tokens_BL: Tensor
    attend_BL: Tensor
    blank_BN: Tensor
    hidden_BN: Tensor
    reveal_BN: Tensor
    logprob_BN: Tensor
    entropy_BN: Tensor
    confidence_BN: Tensor
    block_entropy_BT: Tensor
    running_B: Tensor
    mask_id: int
    commits_BT: Tensor | None = None
    draft_BTN: Tensor | None = None
    hidden_BTN: Tensor | None = None
    full: bool = False
    group_B: Tensor | None = None
    forwards: int = 0
    reads: list[tuple[int, int, int, int]] = field(default_factory=list)

    @classmethod
    def blank(cls, prompts: Prompts, N: int, T: int, mask_id: int, device: torch.device) -> Canvas:
        """Every answer slot masked, behind the prompt."""
        return cls.given(
            prompts, torch.full((len(prompts.sample_B), N), mask_id), T, mask_id, device
        )

    @classmethod
    def given(
        cls, prompts: Prompts, answer_BN: Tensor, T: int, mask_id: int, device: torch.device
    ) -> Canvas:
        """An answer behind the prompt, masked where it holds the mask token."""
        sizes = dims(
            tokens_BL=prompts.tokens_BL,
            attend_BL=prompts.attend_BL,
            group_B=prompts.group_B,
            sample_B=prompts.sample_B,
        )
        answer_BN = answer_BN.to(device)
        hidden_BN = answer_BN == mask_id
        zero_BN = torch.zeros(answer_BN.shape, device=device)
        return cls(
            tokens_BL=torch.cat([prompts.tokens_BL.to(device), answer_BN], 1),
            attend_BL=torch.cat([prompts.attend_BL.to(device), torch.ones_like(hidden_BN)], 1),
            blank_BN=hidden_BN.clone(),
            hidden_BN=hidden_BN,
            reveal_BN=torch.full_like(hidden_BN, -1, dtype=torch.int64),
            logprob_BN=zero_BN,
            entropy_BN=zero_BN.clone(),
            confidence_BN=zero_BN.clone(),
            block_entropy_BT=torch.zeros(sizes["B"], T, device=device),
            running_B=hidden_BN.any(1),
            mask_id=mask_id,
            full=bool(prompts.attend_BL.all()),
            group_B=prompts.group_B.to(device),
        )

    def store_drafts(self) -> None:
        """From now on remember the answer before each step and the proposals made in it."""
        B, T = self.block_entropy_BT.shape
        N = self.hidden_BN.shape[1]
        self.draft_BTN = self.tokens_BL.new_zeros(B, T, N)
        self.hidden_BTN = self.hidden_BN.new_zeros(B, T, N)

    @property
    def answer_BN(self) -> Tensor:
        """Answer tokens, a window into `tokens_BL`: writing to it writes there."""
        return self.tokens_BL[:, self.prompt_length :]

    @property
    def prompt_length(self) -> int:
        """Columns before the answer, padding included."""
        return self.tokens_BL.shape[1] - self.hidden_BN.shape[1]

    def read(
        self, policy: Policy, rows: Tensor, at: Tensor, per_slot: PerSlot, *,
        cfg_scale: float = 0.0, **options: Any,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """One forward of the given rows; what a function makes of the logits of some answer slots.

        Args:
            policy: aligned logits.
            rows: R rows.
            at: bool (R, N), S slots; or int64 (R, M), M slots of each row in ascending order.
            per_slot: of logits (S', V) and which of all S they are; see `dllmzoo.reading`.
            cfg_scale: w > 0 doubles the rows: logits are `uncond + (w + 1) * (cond - uncond)`,
                float32, where the unconditional input has every prompt token masked.
            options: further ones of the policy's forward.
        """
        tokens_RL = self.tokens_BL[rows]
        attend_RL = None if self.full and reads_slots(policy) else self.attend_BL[rows]
        slots = self._slots(at, policy)
        home = tokens_RL.device  # the head of a spread-out model may sit elsewhere
        self.forwards += len(tokens_RL) * (2 if cfg_scale > 0 else 1)
        if cfg_scale == 0:
            return read_slots(
                policy, lambda logits_SV, part: per_slot(logits_SV.to(home), part),
                tokens_RL, attend_RL, **slots, **options,
            )  # fmt: skip
        prompt_RL = self.attend_BL[rows]
        prompt_RL[:, self.prompt_length :] = False
        both_RL = torch.cat([tokens_RL, tokens_RL.masked_fill(prompt_RL, self.mask_id)])
        attend_RL = None if attend_RL is None else attend_RL.repeat(2, 1)
        twice = {name: value.repeat(2, 1) for name, value in slots.items()}
        logits = policy(both_RL, attend_RL, **twice, **options).logits  # type: ignore[arg-type]
        seeing_SV, blind_SV = logits.to(home).chunk(2)

        def guided(part: slice) -> Tensor:
            blind = blind_SV[part].float()
            return blind + (cfg_scale + 1) * (seeing_SV[part].float() - blind)

        return in_chunks(guided, len(seeing_SV), seeing_SV, per_slot)

    def _slots(self, at: Tensor, policy: Policy) -> dict[str, Tensor]:
        """Answer slots as an option of the policy's forward."""
        if at.dtype == torch.bool:
            return {"logits_at": self._behind_prompt(at)}
        if reads_slots(policy):
            return {"columns_at": at + self.prompt_length}
        at_RN = torch.zeros_like(self.hidden_BN[: len(at)]).scatter(1, at, True)
        return {"logits_at": self._behind_prompt(at_RN)}

    def due(self, rows: Tensor, step: int, count: int | None) -> tuple[Tensor, int | Tensor | None]:
        """The rows that commit something at a step, and how much: for all alike, or for each."""
        if self.commits_BT is not None and count is not None:
            count_B = self.commits_BT[rows, step]
            return rows[count_B > 0], count_B[count_B > 0]
        return (rows[:0] if count == 0 else rows), count

    def before(self, step: int) -> None:
        """Store the state before a step; masked slots keep the proposal made last."""
        if self.draft_BTN is None or self.hidden_BTN is None:
            return
        last_BN = self.draft_BTN[:, step - 1] if step else self.answer_BN
        self.draft_BTN[:, step] = torch.where(self.hidden_BN, last_BN, self.answer_BN)
        self.hidden_BTN[:, step] = self.hidden_BN

    def propose(self, rows: Tensor, step: int, at_BN: Tensor, token_S: Tensor) -> None:
        """Store the proposals of a step, where drafts are stored; `at_BN` marks their slots."""
        if self.draft_BTN is not None:
            state_BN = self.draft_BTN[rows, step]
            self.draft_BTN[rows, step] = state_BN.masked_scatter(at_BN, token_S)

    def commit(
        self, rows: Tensor, step: int | Tensor, at_BN: Tensor, chosen_BN: Tensor, found: Candidates
    ) -> None:
        """Write the chosen candidates and what is known about them.

        Args:
            rows: rows that ran this step.
            step: denoising step, or that of each of the rows.
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
        step_B1 = torch.as_tensor(step, device=rows.device).reshape(-1, 1)
        self.reveal_BN[rows] = torch.where(chosen_BN, step_B1, self.reveal_BN[rows])
        self.hidden_BN[rows] = self.hidden_BN[rows] & ~chosen_BN
        entropy_BN = spread_out(found.entropy_S, at_BN)
        self.block_entropy_BT[rows, step] = entropy_BN.sum(1) / at_BN.sum(1)

    def mask_again(self, rows: Tensor, again_BN: Tensor) -> None:
        """Take back what was written in some slots, and what is known about it."""
        for table_BN, empty in (
            (self.answer_BN, self.mask_id),
            (self.logprob_BN, 0),
            (self.entropy_BN, 0),
            (self.confidence_BN, 0),
            (self.reveal_BN, -1),
            (self.hidden_BN, True),
        ):
            table_BN[rows] = table_BN[rows].masked_fill(again_BN, empty)

    def copy_rows(self, source_B: Tensor) -> None:
        """Make every row what the row of number `source_B` is."""
        for each in fields(self):
            table = getattr(self, each.name)
            if isinstance(table, Tensor):
                table[:] = table[source_B]

    def ended(self, stop_ids: tuple[int, ...]) -> Tensor:
        """Bool (B, N): slots that hold a committed end token."""
        stops = torch.tensor(stop_ids, dtype=torch.int64, device=self.tokens_BL.device)
        return torch.isin(self.answer_BN, stops) & ~self.hidden_BN

    def rollout(self, prompts: Prompts, policy: Policy, num_steps: int, sampler: Any) -> Rollout:
        """The finished record; slots never committed are filled with the end token."""
        stop_ids = policy.stop_ids
        if stop_ids:
            self.answer_BN.masked_fill_(self.hidden_BN, stop_ids[0])
        end_BN = self.ended(stop_ids) & self.blank_BN
        valid_BN = (end_BN.cumsum(1) - end_BN.long() == 0) & self.blank_BN
        return Rollout(
            tokens_BL=self.tokens_BL,
            attend_BL=self.attend_BL,
            answer_BL=self._behind_prompt(self.blank_BN),
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
            reads=tuple(self.reads),
            draft_BTN=self.draft_BTN,
            hidden_BTN=self.hidden_BTN,
            block_size=policy.block_size,
        )

    def _behind_prompt(self, value_BN: Tensor, fill: float = 0) -> Tensor:
        return torch.nn.functional.pad(value_BN, (self.prompt_length, 0), value=fill)


def spread_out(value_S: Tensor, at_BN: Tensor, fill: float = 0) -> Tensor:
    """(B, N): flat values back at their slots, `fill` elsewhere."""
    empty_BN = torch.full(at_BN.shape, fill, dtype=value_S.dtype, device=value_S.device)
    return empty_BN.masked_scatter(at_BN, value_S)
