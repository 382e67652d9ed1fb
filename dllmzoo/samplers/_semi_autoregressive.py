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
from dllmzoo.samplers._approximate_cache import ApproximateCache
from dllmzoo.samplers._blocks import check_canvas, plan_steps
from dllmzoo.samplers._candidates import Candidates, EndRule, Law, draw
from dllmzoo.samplers._canvas import Canvas, spread_out
from dllmzoo.samplers._canvas_reads import CachedRows, Read, Reads, WholeRows, planned_reads
from dllmzoo.samplers._noise import KeyedNoise, Noise, Slots
from dllmzoo.samplers._parameters import with_inherited
from dllmzoo.samplers._refill import refill

StepPlan = Sequence[tuple[int | None, int | None]]
"""(block, tokens to commit) of every step."""


@dataclass(frozen=True)
class Walk:
    """What one call of a sampler works with."""

    policy: Policy
    canvas: Canvas
    noise: Noise
    law: Law
    width: int | None = None
    """Rows of a forward; None = all that are due."""


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
        cache: `{kind: prefix | dual, refresh: n}`, an approximation that makes rollouts cheaper:
            keys and values before the active block (`prefix`), or on both sides of it (`dual`),
            are those of the last forward of the whole row, at the first step of a block and then
            every n steps (null = once a block). Answers follow another law then than the policy's,
            `sampling_gap` says how far off; evaluations use it too. null = exact. Families llada
            and dream; not beside cfg_scale, record_drafts or remasking.
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
    cache: ApproximateCache | None = None

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
        if self.cache is not None:
            self.cache.refuse_beside(
                cfg_scale=self.cfg_scale, remasks=getattr(self, "remasks", False),
                stores_drafts=self.records_drafts,
            )  # fmt: skip

    def certainty(self, prob_SV: Tensor, token_S: Tensor, noise: Noise, at: Slots) -> Tensor:
        """certainty_S, float32; the slots of highest certainty are committed first.

        Args:
            prob_SV: temperature-1 probabilities, end rule applied.
            token_S: the candidate of each slot.
            noise: the random numbers.
            at: the S slots.
        """
        raise NotImplementedError

    def ranked(
        self, found: Candidates, step: int | Tensor, stop_ids: tuple[int, ...]
    ) -> Candidates:
        """The candidates with the certainty that finally orders them; `step` as in `Slots`."""
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

    def planned_reads(
        self, prompt_length: int, block_size: int | None = None
    ) -> tuple[tuple[int, int, int, int], ...]:
        """(rows, queries, keys, logits) of each forward of one sample that never stops, at most.

        Empty = all are of whole rows, or samples share some of them.

        Args:
            prompt_length: real tokens of the prompt.
            block_size: not read: blocks are the sampler's own.
        """
        if self.cache is None:
            return ()
        N, length = self.answer_length, self._block_length
        plan = plan_steps(N, length, self.steps, self.commits)  # a threshold commits one at least
        reads = planned_reads(self.cache, plan, prompt_length, N, length)
        return reads if len(reads) == self.num_forwards else ()

    @property
    def approximate(self) -> bool:
        """Whether tokens are drawn from another law than the policy's."""
        return self.cache is not None and not self.cache.exact

    @property
    def refills(self) -> bool:
        """Whether rows may stop at different steps, and others can take their place."""
        alone = self.cache is None and not self.records_drafts
        own_walk = type(self)._fill is not SemiAutoregressive._fill
        return (self.threshold is not None or self.stop_at_end) and alone and not own_walk

    @property
    def needs_canvas_cache(self) -> bool:
        """Whether the policy must make a `new_canvas_cache`."""
        return self.cache is not None

    @property
    def records_drafts(self) -> bool:
        """Whether rollouts hold `draft_BTN` and `hidden_BTN`."""
        return self.record_drafts

    @torch.no_grad()
    def __call__(
        self, policy: Policy, prompts: Prompts, key: Key, noise: Noise | None = None,
        width: int | None = None,
    ) -> Rollout:  # fmt: skip
        """Answers of every row; row i depends on the key and `sample_B[i]` alone.

        Args:
            policy: aligned logits; asked for those of masked slots of the active block only, of
                all masked slots where drafts are recorded.
            prompts: B rows, left-padded.
            key: where random numbers come from; greedy sampling in order of confidence draws none.
            noise: the random choices themselves instead, for tests.
            width: of a sampler that `refills`: rows of one forward, where a row that has finished
                makes room for one that waits.

        Raises:
            UsageError: an end token or a cache is needed and the policy has none.
        """
        self._check_end_token(policy)
        device = getattr(policy, "device", prompts.tokens_BL.device)
        canvas = self._canvas(policy, prompts, device)
        if self.records_drafts:
            canvas.store_drafts()
        noise = self._noise(key, prompts, device) if noise is None else noise
        self._fill(Walk(policy, canvas, noise, self._law(policy), width), prompts)
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
        if self.refills and walk.width is not None and walk.width < len(walk.canvas.hidden_BN):
            refill(self, walk, walk.width)
            return
        rows = torch.arange(len(walk.canvas.hidden_BN), device=walk.canvas.hidden_BN.device)
        self._take_steps(walk, rows, range(self.num_steps))

    def _take_steps(self, walk: Walk, rows: Tensor, steps: range) -> None:
        """Take some rows through some steps, as far as they do not stop before."""
        canvas, plan, reads = walk.canvas, self._plan(), self._reads(walk, rows)
        for step in steps:
            canvas.before(step)
            block, count = plan[step]
            due, count = canvas.due(rows, step, count)
            if len(due) == 0:
                continue
            at_BN = self._active(canvas.hidden_BN[due], block)
            number = self._number(canvas, plan, step)
            for index, read in reads.forwards(due, block):
                few, few_BN = due[index], at_BN[index]
                most = count[index] if isinstance(count, Tensor) else count
                found = self._candidates(walk, read, few, step, few_BN, number)
                canvas.commit(few, step, few_BN, self._chosen(found, few_BN, most), found)
            self._revise(canvas, due, step)
            inside = number is not None and number != count  # the block goes on in every row
            if self.threshold is not None or (self.stop_at_end and not inside):
                hidden_BN = canvas.hidden_BN[due]
                open_BN = at_BN & hidden_BN if block is None else self._active(hidden_BN, block)
                rows = self._unfinished(canvas, due, open_BN, walk.policy.stop_ids)

    def _reads(self, walk: Walk, rows: Tensor) -> Reads:
        """How the steps of some rows read the network."""
        if self.cache is None:
            return WholeRows(walk.policy, walk.canvas, self.cfg_scale)
        return CachedRows(walk.policy, walk.canvas, self.cache, rows, self._block_length)

    def _number(self, canvas: Canvas, plan: StepPlan, step: int) -> int | None:
        """Masked slots of the active block before a step, where all rows have as many.

        Nothing then waits for the device to find out, and shapes repeat from block to block.
        """
        if self.threshold is not None or canvas.commits_BT is not None or self.record_drafts:
            return None
        return sum(count or 0 for block, count in plan[step:] if block == plan[step][0])

    def _candidates(
        self, walk: Walk, read: Read, rows: Tensor, step: int | Tensor, at_BN: Tensor,
        number: int | None,
    ) -> Candidates:  # fmt: skip
        """One candidate for each of the marked slots; proposals for the others are stored."""
        canvas = walk.canvas
        at = wide_BN = canvas.hidden_BN[rows] if self.records_drafts else at_BN
        if number is None:
            which, slot_S = wide_BN.nonzero(as_tuple=True)
            slots = Slots(step if isinstance(step, int) else step[which], rows[which], slot_S)
        else:
            at = at_BN.long().argsort(dim=1, descending=True, stable=True)[:, :number]
            slots = Slots(step, rows.repeat_interleave(number), at.flatten())

        def drawn(logits_SV: Tensor, run: slice) -> tuple[Tensor, ...]:
            few = slots.part(run.start, run.stop)
            return tuple(draw(logits_SV, walk.law, self.certainty, walk.noise, few))

        made = read(rows, at, drawn)
        found = self.ranked(Candidates(*made), slots.step, walk.policy.stop_ids)
        if not self.records_drafts:
            return found
        assert isinstance(step, int), "rows that store drafts step together"
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

    def _active(self, hidden_BN: Tensor, block: int | Tensor | None) -> Tensor:
        """Masked slots of the block, or each row's, (B, 1); None = of its first open one."""
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
