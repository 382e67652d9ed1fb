"""The walk that order-based samplers share: block by block, the most certain slots first."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.protocols import Policy
from dllmzoo.recipe.part import Part
from dllmzoo.records import Key, Prompts, Rollout
from dllmzoo.samplers._blocks import check_canvas, plan_steps
from dllmzoo.samplers._candidates import Candidates, EndRule, Law, draw
from dllmzoo.samplers._canvas import Canvas, spread_out
from dllmzoo.samplers._noise import KeyedNoise, Noise, Slots
from dllmzoo.samplers._parameters import with_inherited

StepPlan = Sequence[tuple[int | None, int | None]]
"""(block, tokens to commit) of every step."""


@dataclass(frozen=True)
class Walk:
    """What one call of a sampler works with."""

    policy: Policy
    canvas: Canvas
    noise: Noise
    law: Law


@dataclass(frozen=True)
class SemiAutoregressive:
    """Base of samplers that differ only in which masked slots of a block go first.

    A subclass says so in `certainty`. At each step a candidate is drawn at every masked slot of
    the active block, and the most certain ones are committed; the others are drawn anew.

    Args:
        answer_length: N, tokens of the answer, 1 to 65536.
        block_length: tokens of a block, in [1, N]; blocks are finished from left to right and the
            last may be shorter. null = one block.
        steps: T, denoising steps over all blocks, at least one a block: shared evenly over blocks,
            what does not divide going to the first blocks. null = N, one token a step.
        temperature: >= 0, of the law that tokens are drawn from; 0 = greedy.
        cfg_scale: w >= 0, guidance `uncond + (w + 1) * (cond - uncond)`, where the unconditional
            input has the prompt masked; 0 = none, above 0 doubles the cost.
        threshold: in [0, 1]; a step commits the most certain slot and every other one of
            confidence >= threshold, instead of as many as `commits` says. Leave `steps` out.
        end_rule: `none`; `logits_inf` never writes the end-of-text token; `confidence_inf` writes
            end tokens only where nothing else is left to commit.
        stop_at_end: a row stops after the block in which it committed an end token; the rest is
            filled with the end token. false = every slot is written.
        commits: schedule of the commits inside a block, read where `steps` is given.
        record_drafts: store the state before every step, and a proposal for every masked slot of
            the whole answer in it. No further forward, but the head runs at all masked slots, and
            memory grows by N * T tokens a row. Answers stay the same, records up to rounding.
    """

    answer_length: Annotated[int, Field(ge=1, le=65536)] = 128
    block_length: Annotated[int, Field(ge=1, le=65536)] | None = None
    steps: Annotated[int, Field(ge=1, le=65536)] | None = None
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    cfg_scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    end_rule: EndRule = "none"
    stop_at_end: bool = False
    commits: Annotated[Any, Part("schedule")] = "linear"
    record_drafts: bool = False

    records_steps: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        """Put the parameters of the base into the docstring of a subclass."""
        if cls.__doc__:
            cls.__doc__ = with_inherited(cls.__doc__, inspect.getdoc(cls.__mro__[1]) or "")

    def __post_init__(self) -> None:
        """Refuse settings that do not fit together, naming the nearest that do."""
        if self.threshold is not None and self.steps is not None:
            raise UsageError(
                f"steps {self.steps} has no meaning with threshold {self.threshold}: the threshold "
                f"decides how many tokens a step commits; leave one of them out"
            )
        check_canvas(self.answer_length, self._block_length, self.num_steps)
        self._plan()

    def certainty(self, prob_SV: Tensor, token_S: Tensor, noise: Noise, at: Slots) -> Tensor:
        """certainty_S, float32; the slots of highest certainty are committed first.

        Args:
            prob_SV: temperature-1 probabilities, end rule applied.
            token_S: the candidate of each slot.
            noise: the random numbers.
            at: the S slots.
        """
        raise NotImplementedError

    def ranked(self, found: Candidates, step: int, stop_ids: tuple[int, ...]) -> Candidates:
        """The candidates of a step with the certainty that finally orders them."""
        return found

    @property
    def num_steps(self) -> int:
        """T: no row runs more forwards."""
        return self.answer_length if self.steps is None else self.steps

    @property
    def num_forwards(self) -> int:
        """Model rows that one sample costs at most."""
        steps = sum(count != 0 for _, count in self._plan())
        return steps * (2 if self.cfg_scale > 0 else 1)

    @property
    def records_drafts(self) -> bool:
        """Whether rollouts hold `draft_BTN` and `hidden_BTN`."""
        return self.record_drafts

    @torch.no_grad()
    def __call__(
        self, policy: Policy, prompts: Prompts, key: Key, noise: Noise | None = None
    ) -> Rollout:
        """Answers of every row; row i depends on the key and `sample_B[i]` alone.

        Args:
            policy: aligned logits; asked for those of masked slots of the active block only, of
                all masked slots where drafts are recorded.
            prompts: B rows, left-padded.
            key: where random numbers come from; greedy sampling in order of confidence draws none.
            noise: the random choices themselves instead, for tests.

        Raises:
            UsageError: an end token is needed and the policy has none.
        """
        self._check_end_token(policy)
        device = getattr(policy, "device", prompts.tokens_BL.device)
        canvas = self._canvas(policy, prompts, device)
        if self.records_drafts:
            canvas.store_drafts()
        noise = self._noise(key, prompts, device) if noise is None else noise
        self._fill(Walk(policy, canvas, noise, self._law(policy)), prompts)
        return canvas.rollout(prompts, policy, self.num_steps, self)

    def _canvas(self, policy: Policy, prompts: Prompts, device: torch.device) -> Canvas:
        """What there is before the first step."""
        N, T = self.answer_length, self.num_steps
        return Canvas.blank(prompts, N, T, policy.mask_id, device)

    def _noise(self, key: Key, prompts: Prompts, device: torch.device) -> Noise:
        """The random numbers of every row."""
        return KeyedNoise(key, prompts.sample_B, self.num_steps, self.answer_length, device)

    def _law(self, policy: Policy) -> Law:
        """How candidates are drawn."""
        mask_id, stop_ids = policy.mask_id, policy.stop_ids
        return Law(self.temperature, self.end_rule, mask_id, stop_ids)

    def _fill(self, walk: Walk, prompts: Prompts) -> None:
        """Take every row through all steps."""
        rows = torch.arange(len(walk.canvas.hidden_BN), device=walk.canvas.hidden_BN.device)
        self._take_steps(walk, rows, range(self.num_steps))

    def _take_steps(self, walk: Walk, rows: Tensor, steps: range) -> None:
        """Take some rows through some steps, as far as they do not stop before."""
        canvas, plan = walk.canvas, self._plan()
        for step in steps:
            canvas.before(step)
            block, count = plan[step]
            due, count = canvas.due(rows, step, count)
            if len(due) == 0:
                continue
            at_BN = self._active(canvas.hidden_BN[due], block)
            number = self._number(canvas, plan, step)
            found = self._candidates(walk, due, step, at_BN, number)
            chosen_BN = self._chosen(found, at_BN, count)
            canvas.commit(due, step, at_BN, chosen_BN, found)
            self._revise(canvas, due, step)
            inside = number is not None and number != count  # the block goes on in every row
            if self.threshold is not None or (self.stop_at_end and not inside):
                hidden_BN = canvas.hidden_BN[due]
                open_BN = at_BN & hidden_BN if block is None else self._active(hidden_BN, block)
                rows = self._unfinished(canvas, due, open_BN, walk.policy.stop_ids)

    def _number(self, canvas: Canvas, plan: StepPlan, step: int) -> int | None:
        """Masked slots of the active block before a step, where all rows have as many.

        Nothing then waits for the device to find out, and shapes repeat from block to block.
        """
        if self.threshold is not None or canvas.commits_BT is not None or self.record_drafts:
            return None
        return sum(count or 0 for block, count in plan[step:] if block == plan[step][0])

    def _candidates(
        self, walk: Walk, rows: Tensor, step: int, at_BN: Tensor, number: int | None
    ) -> Candidates:
        """One candidate for each of the marked slots; proposals for the others are stored."""
        canvas = walk.canvas
        at = wide_BN = canvas.hidden_BN[rows] if self.records_drafts else at_BN
        if number is None:
            which, slot_S = wide_BN.nonzero(as_tuple=True)
            slots = Slots(step, rows[which], slot_S)
        else:
            at = at_BN.long().argsort(dim=1, descending=True, stable=True)[:, :number]
            slots = Slots(step, rows.repeat_interleave(number), at.flatten())

        def drawn(logits_SV: Tensor, part: slice) -> tuple[Tensor, ...]:
            few = slots.part(part.start, part.stop)
            return tuple(draw(logits_SV, walk.law, self.certainty, walk.noise, few))

        made = canvas.read(walk.policy, rows, at, drawn, cfg_scale=self.cfg_scale)
        found = self.ranked(Candidates(*made), step, walk.policy.stop_ids)
        if not self.records_drafts:
            return found
        canvas.propose(rows, step, wide_BN, found.token_S)
        return found.part(at_BN[wide_BN])

    def _revise(self, canvas: Canvas, rows: Tensor, step: int) -> None:
        """Change rows after the commits of a step; nothing, unless slots are masked again."""

    @property
    def _block_length(self) -> int:
        return self.answer_length if self.block_length is None else self.block_length

    def _plan(self) -> StepPlan:
        """(block, commits) of every step; None where a threshold decides, row by row."""
        if self.threshold is not None:
            return [(None, None)] * self.answer_length
        return plan_steps(self.answer_length, self._block_length, self.steps, self.commits)

    def _check_end_token(self, policy: Policy) -> None:
        if policy.stop_ids:
            return
        if self.end_rule != "none" or self.stop_at_end:
            raise UsageError(
                f"end_rule {self.end_rule} and stop_at_end {str(self.stop_at_end).lower()} need an "
                f"end token, and the policy has no stop_ids; use end_rule: none, stop_at_end: false"
            )

    def _active(self, hidden_BN: Tensor, block: int | None) -> Tensor:
        """Masked slots of the block; None: of the first block of each row that is not full."""
        block_N = torch.arange(self.answer_length, device=hidden_BN.device) // self._block_length
        if block is not None:
            return hidden_BN & (block_N == block)
        first_B1 = hidden_BN.int().argmax(1, keepdim=True)
        return hidden_BN & (block_N == first_B1 // self._block_length)

    def _chosen(self, found: Candidates, at_BN: Tensor, count: int | Tensor | None) -> Tensor:
        """Bool (B, N): the `count` most certain; None: the most certain and all confident ones."""
        certainty_BN = spread_out(found.certainty_S, at_BN, -torch.inf)
        order_BN = certainty_BN.argsort(dim=1, descending=True, stable=True)
        most = 1 if count is None else count.unsqueeze(1) if isinstance(count, Tensor) else count
        first_BN = torch.arange(at_BN.shape[1], device=at_BN.device).expand_as(at_BN) < most
        chosen_BN = torch.zeros_like(at_BN).scatter(1, order_BN, first_BN)
        if self.threshold is not None:
            chosen_BN |= spread_out(found.confidence_S, at_BN) >= self.threshold
        return chosen_BN & at_BN

    def _unfinished(
        self, canvas: Canvas, rows: Tensor, open_BN: Tensor, stop_ids: tuple[int, ...]
    ) -> Tensor:
        """The rows that go on; `open_BN` marks slots of the active block that are still masked."""
        more_B = canvas.hidden_BN[rows].any(1)
        if self.stop_at_end:
            more_B &= open_BN.any(1) | ~canvas.ended(stop_ids)[rows].any(1)
        canvas.running_B[rows] = more_B
        return rows[more_B]
