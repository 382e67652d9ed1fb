"""Sampler of networks whose attention has blocks: block after block, with a cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.protocols import Policy
from dllmzoo.recipe.part import Part
from dllmzoo.records import Key, Prompts, Rollout
from dllmzoo.samplers._block_commits import Choice, Remask
from dllmzoo.samplers._block_grid import BlockGrid
from dllmzoo.samplers._block_reads import Reader, reader_of
from dllmzoo.samplers._blocks import shared
from dllmzoo.samplers._candidates import Candidates, Law, at_token, draw
from dllmzoo.samplers._canvas import Canvas
from dllmzoo.samplers._noise import KeyedNoise, Noise, Slots
from dllmzoo.zoo import SAMPLERS

THRESHOLD = 0.9
"""Of `dynamic`, where none is given: the value of SDAR's and TraceRL's documentation."""


@SAMPLERS.register("block_diffusion")
@dataclass(frozen=True)
class BlockDiffusion:
    r"""Block-by-block decoding of block-causal networks (SDAR), exact with a cache.

    The network says how large its blocks are. They lie on a grid that starts at the first real
    token of each row, so the first block to be filled may begin with the tail of the prompt, which
    is read and never written. A block is denoised until none of its slots is masked: a candidate is
    drawn at each masked slot and `remask` says which are committed, at least one, for good. Then
    the next block follows. The last block ends with the N-th slot.

    With the cache the whole prompt blocks are read once. A step reads one block and the stored keys
    and values before it; a full block is read once more, without masks, to be stored (not the last
    one). For an answer of C blocks that is 1 + S + (C - 1) short forwards for S steps instead of S
    of the whole canvas; the tokens are the same, but where half precision tips a close choice. Rows
    whose block is full earlier are left out of its forwards, and rows that have stopped, of
    everything that follows. Memory: keys and values of prompt and answer in every layer, and at
    worst a copy of them while only some rows run.

    Step s of a row is its s-th forward that commits something, whatever its neighbours do: steps
    run from 0 without a gap, `num_steps` T = N bounds them, and rows are in different blocks at the
    same step. `block_entropy_BT` is the mean over the masked slots of the row's active block;
    `confidence_BL` is the probability that `confidence` names; `logprob_BL` is of the law after the
    filters, so the scorer finds it again only with `top_k: 0`, `top_p: 1`.

    Args:
        answer_length: N, tokens of the answer, 1 to 65536.
        steps_per_block: steps in which a block is filled, at most; `commits` shares its masked
            slots over them, and steps that would commit nothing are left out. null = one token a
            step (of `dynamic`: one at least).
        remask: which candidates a step commits, n being what `commits` says. `static`: the n most
            confident. `dynamic`: all of confidence > `threshold` if these are n or more, else the n
            most confident. `sequential`: the n leftmost. `entropy_bound`: those of lowest entropy,
            as many as `entropy_bound` allows. Ties go to the smaller position.
        threshold: in [0, 1], of `dynamic`; null = 0.9.
        entropy_bound: nats, >= 0, of `entropy_bound`, which needs it: the entropies of what a step
            commits, without the largest, add up to this at most. 0 = one token a step, unless
            entropies are 0.
        confidence: probability of a candidate, at `temperature` (at 1 if greedy), by which slots
            are chosen: `before_filters`, of the plain law; `after_filters`, of the law that it was
            drawn from, where top_k 1 makes all of them 1.
        temperature: >= 0, of the law that tokens are drawn from; 0 = greedy.
        top_k: draw from the k likeliest tokens; 0 = from all. Read where temperature > 0.
        top_p: in (0, 1], draw from the fewest tokens that hold this probability, after temperature
            and top_k; 1 = from all. Read where temperature > 0.
        stop_at_end: a row stops after the block in which it committed an end token; the rest is
            filled with the end token. false = every slot is written.
        commits: schedule of the commits inside a block, read where `steps_per_block` is given.
        commits_of: `masked`, the schedule shares the masked slots of the block; `block`, that of a
            full block is followed until no slot is masked, as the released script does: then a
            first block with a prompt's tail takes fewer steps.
        cache: false reads the whole canvas at every step, as is done for a policy without a cache.

    References:
        SDAR, 2025 (arXiv:2510.06303); Arriola et al., 2025, BD3-LM (arXiv:2503.09573);
        bound: EB-Sampler, 2025 (arXiv:2505.24857). Differs from SDAR's released script in:
        the answer has exactly N tokens (there it is filled up to a whole block); prompts of unlike
        length in one batch; only masked slots are candidates (there a step can overwrite the
        prompt's tail); the masked slots of the first block are shared over its steps; the mask
        token is never drawn; confidence is that before the filters; temperature 0 works; the
        entropy bound adds up entropies of slots.
    """

    answer_length: Annotated[int, Field(ge=1, le=65536)] = 128
    steps_per_block: Annotated[int, Field(ge=1, le=65536)] | None = None
    remask: Remask = "static"
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    entropy_bound: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    confidence: Literal["before_filters", "after_filters"] = "before_filters"
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    stop_at_end: bool = True
    commits: Annotated[Any, Part("schedule")] = "linear"
    commits_of: Literal["masked", "block"] = "masked"
    cache: bool = True

    records_steps: ClassVar[bool] = True
    needs_blocks: ClassVar[bool] = True
    steps_field: ClassVar[str] = "steps_per_block"

    def __post_init__(self) -> None:
        """Refuse settings that say nothing beside others, and a rule without its number."""
        if self.threshold is not None and self.remask != "dynamic":
            raise UsageError(
                f"threshold {self.threshold} is read by remask: dynamic only, and remask is "
                f"{self.remask}; leave threshold out, or use remask: dynamic"
            )
        if self.entropy_bound is not None and self.remask != "entropy_bound":
            raise UsageError(
                f"entropy_bound {self.entropy_bound} is read by remask: entropy_bound only, and "
                f"remask is {self.remask}; leave entropy_bound out, or use remask: entropy_bound"
            )
        if self.remask == "entropy_bound":
            if self.entropy_bound is None:
                raise UsageError(
                    "remask: entropy_bound needs a bound in nats; add entropy_bound: 0.5, or any "
                    "other number >= 0"
                )
            if self.steps_per_block is not None:
                raise UsageError(
                    f"steps_per_block {self.steps_per_block} has no meaning with remask: "
                    f"entropy_bound: entropies decide how many tokens a step commits; leave one of "
                    f"them out"
                )
        if self.commits_of == "block" and self.steps_per_block is None:
            raise UsageError(
                "commits_of: block has no meaning without steps_per_block: every step commits one "
                "token; leave commits_of out, or give steps_per_block"
            )

    @property
    def num_steps(self) -> int:
        """T = N: no row commits in more steps."""
        return self.answer_length

    @property
    def num_forwards(self) -> int:
        """Model rows that one sample costs at most, whatever the size of blocks.

        With the cache most of them are short: the worst is blocks of one token.
        """
        return 2 * self.answer_length if self.cache else self.answer_length

    def planned_reads(
        self, prompt_length: int, block_size: int
    ) -> tuple[tuple[int, int, int, int], ...]:
        """(rows, queries, keys, logits) of each forward of one sample that never stops, at most.

        A confidence or an entropy may commit more at a step than is counted here; beside a row
        with a longer prompt a row of less than a block of prompt is read once more.

        Args:
            prompt_length: real tokens of the prompt.
            block_size: of the network.
        """
        length = prompt_length + self.answer_length
        first = prompt_length // block_size
        reads = [(1, first * block_size, first * block_size, 0)] if first else []
        blocks = ceil(length / block_size)
        for block in range(first, blocks):
            stop = min((block + 1) * block_size, length)
            start = block * block_size
            masked = stop - max(start, prompt_length)
            for count in self._counts(masked, block_size):
                whole = (1, length, length, masked)
                reads.append((1, stop - start, stop, masked) if self.cache else whole)
                masked = max(masked - count, 1)
            if block < blocks - 1:
                reads.append((1, stop - start, stop, 0))
        return tuple(read for read in reads if self.cache or read[3])

    @torch.no_grad()
    def __call__(
        self, policy: Policy, prompts: Prompts, key: Key, noise: Noise | None = None
    ) -> Rollout:
        """Answers of every row; row i depends on the key and `sample_B[i]` alone.

        Args:
            policy: aligned logits, with blocks; asked for those of masked slots of the active block
                only. Its cache is used if it makes one (`new_cache`).
            prompts: B rows, left-padded.
            key: where random numbers come from; greedy sampling draws none.
            noise: the random choices themselves instead, for tests; its `at.step` holds the step
                of each slot.

        Raises:
            UsageError: the policy has no blocks, or no end token where one is needed.
        """
        size = self._block_size(policy)
        device = getattr(policy, "device", prompts.tokens_BL.device)
        N, T = self.answer_length, self.num_steps
        canvas = Canvas.blank(prompts, N, T, policy.mask_id, device)
        if noise is None:
            # a slot is drawn in its block's steps only: at most `size` of them, one after the other
            noise = KeyedNoise(key, prompts.sample_B, min(size, N), N, device)
        grid = BlockGrid.of(canvas, size)
        reader = reader_of(policy, canvas, grid, self.cache)
        self._fill(_Walk(canvas, grid, reader, noise, self._law(policy)))
        return canvas.rollout(prompts, policy, T, self)

    def _block_size(self, policy: Policy) -> int:
        if policy.block_size is None:
            raise UsageError(
                "sampler block_diffusion needs a network whose attention has blocks, and here "
                "every token attends to all others; use a model with a block_size (family sdar, "
                "attention: block_causal), or sampler: low_confidence"
            )
        if self.stop_at_end and not policy.stop_ids:
            raise UsageError(
                "stop_at_end true needs an end token, and the policy has no stop_ids; use "
                "stop_at_end: false"
            )
        return policy.block_size

    def _law(self, policy: Policy) -> Law:
        return Law(
            self.temperature, "none", policy.mask_id, tuple(policy.stop_ids),
            top_k=self.top_k, top_p=self.top_p, confidence=self.confidence,
        )  # fmt: skip

    def _fill(self, walk: "_Walk") -> None:
        """Take every row through its blocks, all of them through their b-th at the same time."""
        canvas, grid = walk.canvas, walk.grid
        step_B = torch.zeros_like(grid.prompt_B)
        rows = torch.arange(len(step_B), device=step_B.device)
        walk.reader.start()
        block = 0
        while len(rows):
            self._denoise(walk, rows, block, step_B)
            more_R = grid.count_B[rows] > block + 1
            if self.stop_at_end:
                more_R &= ~canvas.ended(walk.law.stop_ids)[rows].any(1)
            rows = rows[more_R]
            walk.reader.finish(rows, block)
            block += 1

    def _denoise(self, walk: "_Walk", rows: Tensor, block: int, step_B: Tensor) -> None:
        """Fill one block of some rows; `step_B`, the next step of each row, moves on."""
        canvas, grid = walk.canvas, walk.grid
        choose = Choice(
            self.remask, THRESHOLD if self.threshold is None else self.threshold,
            self.entropy_bound or 0.0,
        )  # fmt: skip
        mine_RN = grid.block_BN[rows] == block
        count_RT = self._plan(mine_RN.sum(1), grid.size)
        inner = 0
        while len(rows):
            at_RN = canvas.hidden_BN[rows] & mine_RN
            found = walk.candidates(rows, block, step_B[rows], at_RN)
            chosen_RN = choose(found, at_RN, count_RT[:, inner])
            canvas.commit(rows, step_B[rows], at_RN, chosen_RN, found)
            step_B[rows] += 1
            open_R = (at_RN & ~chosen_RN).any(1)
            rows, mine_RN, count_RT = rows[open_R], mine_RN[open_R], count_RT[open_R]
            inner += 1

    def _plan(self, masked_R: Tensor, block_size: int) -> Tensor:
        """count_RT: tokens to commit at each step of a block, in rows with so many masked slots."""
        known = {m: self._counts(m, block_size) for m in set(masked_R.tolist())}
        most = max(map(len, known.values()))
        count_RT = [[*known[m], *[1] * (most - len(known[m]))] for m in masked_R.tolist()]
        return torch.tensor(count_RT, device=masked_R.device)

    def _counts(self, masked: int, block_size: int) -> Sequence[int]:
        """Tokens to commit at each step, none of them 0, until `masked` slots are full."""
        if self.steps_per_block is None:
            return [1] * masked
        total = masked if self.commits_of == "masked" else block_size
        counts, left = [], masked
        for count in shared(total, self.steps_per_block, self.commits):
            if count > 0 and left > 0:
                counts.append(min(count, left))
                left -= counts[-1]
        return counts


@dataclass(frozen=True)
class _Walk:
    """What one call works with."""

    canvas: Canvas
    grid: BlockGrid
    reader: Reader
    noise: Noise
    law: Law

    def candidates(self, rows: Tensor, block: int, step_R: Tensor, at_RN: Tensor) -> Candidates:
        """One candidate for each of the marked slots."""
        which, slot_S = at_RN.nonzero(as_tuple=True)
        at = Slots(step_R[which], rows[which], slot_S)
        logits_SV = self.reader.logits(rows, block, at_RN)
        return draw(logits_SV, self.law, _probability, self.noise, at)


def _probability(prob_SV: Tensor, token_S: Tensor, noise: Noise, at: Slots) -> Tensor:
    """Of the candidate; slots are ordered by what `Choice` reads."""
    return at_token(prob_SV, token_S)
