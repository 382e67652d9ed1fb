"""Laws of samplers."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dllmzoo.laws import inputs
from dllmzoo.laws.case import Case
from dllmzoo.laws.law import (
    MAKERS,
    Report,
    check,
    law,
    require,
    same,
    untouched_global_generator,
)
from dllmzoo.laws.network import ToyDenoiser, ToyOutput
from dllmzoo.laws.recomputed import drawn_from, logits_when_committed
from dllmzoo.laws.settings import choices
from dllmzoo.records import Prompts, Rollout, take

Sampler = Any
SIZES = ("answer_length", "block_length", "steps", "branch")


def check_sampler(part: Any, *, cases: int = 20, seed: int = 0) -> Report:
    """Hold a sampler (a class or an instance) to every law of samplers; see `law.check`.

    Of a class, answers are short: only `answer_length`, `block_length`, `steps` and `branch` of the
    default construction are changed, in half of the cases; in the others more settings are drawn.
    """
    return check("sampler", part, cases=cases, seed=seed)


def small(cls: type, case: Case) -> Any:
    """A sampler of short answers: its other settings at their defaults, or drawn."""
    names = {field.name for field in fields(cls)}
    drawn = {} if case.truth("default") else choices(cls, case)
    drawn = {name: option for name, option in drawn.items() if name not in SIZES}
    while drawn:
        try:
            return cls(**_sizes(names, drawn, case), **drawn)
        except (ValueError, TypeError):
            drawn.pop(next(iter(drawn)))
    return cls(**_sizes(names, drawn, case))


def _sizes(names: set[str], drawn: dict[str, Any], case: Case) -> dict[str, Any]:
    """Sizes that fit each other; no `steps` beside a threshold."""
    branch = case.among("branch", ((2, 2), (3,), (1, 2, 1)))
    least = len(branch) if "branch" in names else 1
    N = case.integer("answer length", least, 8)
    block = case.integer("block length", 1, N)
    blocks = -(-N // block) if "block_length" in names else 1
    steps = max(blocks, least) + case.integer("steps", 0, N)
    sizes = {"answer_length": N, "block_length": block, "steps": steps, "branch": branch}
    if drawn.get("threshold") is not None:
        sizes.pop("steps")
    return {name: size for name, size in sizes.items() if name in names}


MAKERS["sampler"] = small


class Recorder:
    """A policy that notes every input row it is given."""

    def __init__(self, policy: ToyDenoiser) -> None:
        """Wrap a policy."""
        self.policy = policy
        self.mask_id, self.stop_ids = policy.mask_id, policy.stop_ids
        self.block_size = policy.block_size
        self.inputs: list[Tensor] = []

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **others: Any
    ) -> ToyOutput:
        """The policy's output."""
        noised = others.get("target_ids")
        self.inputs.append((input_ids if noised is None else noised).clone())
        with torch.no_grad():
            return self.policy(input_ids, attention_mask, **others)


def policy_for(sampler: Sampler, case: Case) -> ToyDenoiser:
    """A random network; with blocks, of any size, if the sampler says that it needs them."""
    needs = getattr(sampler, "needs_blocks", False)
    block = case.among("block size of the network", (1, 2, 3, 8)) if needs else None
    return ToyDenoiser(case.seed, block, scale=0.7)


def prompts_for(sampler: Sampler, case: Case, policy: ToyDenoiser) -> Prompts:
    """Ragged prompts, with what the sampler wants: whole groups, given answers."""
    prompts = inputs.prompts(case, samples=getattr(sampler, "group_size", None))
    given = getattr(sampler, "given", None)
    if given is None:
        return prompts
    B, N = len(prompts.tokens_BL), sampler.answer_length
    answer_BN = case.integers("given answers", 0, 4, B, N)
    tail_BN = torch.arange(N) >= N - case.integers("given ends", 0, N // 2, B, 1)
    answer_BN = answer_BN.masked_fill(tail_BN, policy.stop_ids[0])
    if given == "blanks":
        share_B1 = case.uniform("share of blanks", B, 1, high=1.2) - 0.1  # at times none, or all
        blank_BN = case.uniform("blanks", B, N) < share_B1
        answer_BN = answer_BN.masked_fill(blank_BN, policy.mask_id)
    return replace(prompts, answer_BN=answer_BN)


def sample(sampler: Sampler, case: Case) -> tuple[Rollout, Prompts, ToyDenoiser]:
    """A rollout of ragged prompts, with what made it."""
    policy = policy_for(sampler, case)
    prompts = prompts_for(sampler, case, policy)
    return sampler(policy, prompts, case.key("sample")), prompts, policy


def _without_steps(sampler: Sampler) -> str | None:
    recorded = getattr(sampler, "records_steps", True)
    return None if recorded else "its answers were not made step by step"


def _masks_again(sampler: Sampler) -> str | None:
    return "it says that it masks again" if getattr(sampler, "remasks", False) else None


def _stores_nothing(sampler: Sampler) -> str | None:
    return None if getattr(sampler, "records_drafts", False) else "it stores no drafts"


def _no_choice_of_storing(sampler: Sampler) -> str | None:
    options = {field.name for field in fields(sampler)} if is_dataclass(sampler) else set()
    if "record_drafts" not in options or getattr(sampler, "remasks", False):
        return "whether drafts are stored is no option of it"
    return None


def _alone(sampler: Sampler) -> str | None:
    shared = getattr(sampler, "group_size", None)
    return "every row is a trajectory of its own" if shared is None else None


@law("sampler")
def prompt_untouched(sampler: Sampler, case: Case) -> None:
    """The prompt stays, N answer slots follow it, and rows keep their group, number and example."""
    rollout, prompts, policy = sample(sampler, case)
    L = prompts.tokens_BL.shape[1]
    N = sampler.answer_length
    require(rollout.tokens_BL.shape[1] == L + N, f"width {rollout.tokens_BL.shape[1]}: {L} + {N}")
    same(rollout.tokens_BL[:, :L], prompts.tokens_BL, "prompt tokens")
    same(rollout.attend_BL[:, :L].int(), prompts.attend_BL.int(), "padding of the prompt")
    require(rollout.attend_BL[:, L:].all(), "an answer slot is marked as padding")
    answer_BL = (torch.arange(L + N) >= L).expand(rollout.answer_BL.shape).clone()
    if prompts.answer_BN is not None:
        blank_BN = prompts.answer_BN == policy.mask_id
        found, given = rollout.tokens_BL[:, L:][~blank_BN], prompts.answer_BN[~blank_BN]
        same(found, given, "given tokens")
        if sampler.given == "blanks":
            answer_BL[:, L:] = blank_BN
    same(rollout.answer_BL.int(), answer_BL.int(), "answer slots")
    same(rollout.group_B, prompts.group_B, "groups")
    same(rollout.sample_B, prompts.sample_B, "sample numbers")
    require(list(rollout.examples) == list(prompts.examples), "examples")


@law("sampler")
def records_fit(sampler: Sampler, case: Case) -> None:
    """Steps lie in [0, T), records are 0 where nothing was committed, answers end where valid."""
    rollout, _, policy = sample(sampler, case)
    T = sampler.num_steps
    require(rollout.num_steps == T, f"T is {rollout.num_steps}, the sampler said {T}")
    require(tuple(rollout.block_entropy_BT.shape) == (len(rollout.tokens_BL), T), "block entropies")
    committed_BL = rollout.reveal_BL >= 0
    require((rollout.reveal_BL < T).all(), f"a step of {T} or more")
    require(not (committed_BL & ~rollout.answer_BL).any(), "a slot outside the answer has a step")
    for name in ("logprob_BL", "entropy_BL", "confidence_BL"):
        found = getattr(rollout, name)
        require(found.dtype == torch.float32, f"{name} is {found.dtype}")
        require(found.isfinite().all(), f"{name} is not finite")
        same(found[~committed_BL], torch.zeros_like(found[~committed_BL]), f"{name} elsewhere")
    require((rollout.logprob_BL <= 1e-6).all(), "a log-prob above 0")
    sure = (rollout.confidence_BL >= 0) & (rollout.confidence_BL <= 1 + 1e-6)
    require(sure.all() and (rollout.entropy_BL >= 0).all(), "a confidence or an entropy")
    end_BL = torch.isin(rollout.tokens_BL, torch.tensor(policy.stop_ids)) & rollout.answer_BL
    before_BL = end_BL.long().cumsum(1) - end_BL.long()
    expected_BL = rollout.answer_BL & (before_BL == 0)
    same(rollout.valid_BL.int(), expected_BL.int(), "slots up to the first end token")


@law("sampler", _masks_again)
def committed_once(sampler: Sampler, case: Case) -> None:
    """Every input the policy saw is the state that the recorded steps describe: no slot changes."""
    rollout, policy = _recorded(sampler, case)
    B, T = len(rollout.tokens_BL), rollout.num_steps
    step_BK = torch.arange(T).expand(B, T)
    unchanged = replace(rollout, draft_BTN=None, hidden_BTN=None)
    _saw_only(policy, sampler, rollout, unchanged.hidden_before(step_BK), None)


@law("sampler", _stores_nothing)
def states_are_stored(sampler: Sampler, case: Case) -> None:
    """Every input the policy saw is a stored state, and a stored proposal becomes the answer."""
    rollout, policy = _recorded(sampler, case)
    B, T = len(rollout.tokens_BL), rollout.num_steps
    require(rollout.draft_BTN is not None and rollout.hidden_BTN is not None, "nothing is stored")
    step_BK = torch.arange(T + 1).expand(B, T + 1)
    hide_BKL, draft_BKL = rollout.hidden_before(step_BK), rollout.draft_before(step_BK)
    assert draft_BKL is not None
    require(draft_BKL.dtype == torch.int64 and hide_BKL.dtype == torch.bool, "types of the states")
    _saw_only(policy, sampler, rollout, hide_BKL, draft_BKL)
    chosen_BKL = rollout.reveal_BL.unsqueeze(1) == step_BK.unsqueeze(2)
    tokens_BKL = rollout.tokens_BL.unsqueeze(1).expand_as(draft_BKL)
    same(draft_BKL[chosen_BKL], tokens_BKL[chosen_BKL], "proposals of what was committed")
    require((hide_BKL | ~chosen_BKL).all(), "a slot is committed that was not masked")
    ran_BK = chosen_BKL.any(2)
    proposed = draft_BKL[hide_BKL & ran_BK.unsqueeze(2)]
    require(not (proposed == policy.mask_id).any(), "a masked slot has no proposal")


@law("sampler", _no_choice_of_storing)
def storing_changes_nothing(sampler: Sampler, case: Case) -> None:
    """With and without stored drafts the answers are the same and cost the same forwards."""
    stored, _, _ = sample(replace(sampler, record_drafts=True), case)
    bare, _, _ = sample(replace(sampler, record_drafts=False), case)
    require(bare.draft_BTN is None and bare.hidden_BTN is None, "something is stored unasked")
    _alike(replace(stored, draft_BTN=None, hidden_BTN=None), bare, "with stored drafts")
    require(stored.forwards == bare.forwards, f"{stored.forwards} forwards, not {bare.forwards}")


@law("sampler", _alone)
def shared_steps_are_equal(sampler: Sampler, case: Case) -> None:
    """Rows with one branch number at a step are of one group and equal up to that step."""
    rollout, prompts, _ = sample(sampler, case)
    require(rollout.branch_BT is not None, "no branch numbers")
    assert rollout.branch_BT is not None
    for step in range(rollout.num_steps):
        known_BL = (rollout.reveal_BL >= 0) & (rollout.reveal_BL <= step)
        state_BL = torch.where(known_BL, rollout.tokens_BL, -1)
        for number in rollout.branch_BT[:, step].unique().tolist():
            rows = (rollout.branch_BT[:, step] == number).nonzero()[:, 0]
            what = f"rows {rows.tolist()} of branch {number} at step {step}"
            require(number == int(prompts.sample_B[rows].min()), f"{what}: not its least sample")
            for name, value in (
                ("group", prompts.group_B),
                ("number before", rollout.branch_BT[:, : step + 1]),
                ("state", state_BL[:, -sampler.answer_length :]),
            ):
                require((value[rows] == value[rows[:1]]).all(), f"{what}: {name} differs")
    last = rollout.branch_BT[:, -1]
    require(len(last.unique()) == len(last), "two rows share the last step")


def _recorded(sampler: Sampler, case: Case) -> tuple[Rollout, Recorder]:
    """A rollout, and the policy that knows what it was asked."""
    policy = policy_for(sampler, case)
    prompts, recorder = prompts_for(sampler, case, policy), Recorder(policy)
    return sampler(recorder, prompts, case.key("sample")), recorder


def _saw_only(
    policy: Recorder, sampler: Sampler, rollout: Rollout, hide_BKL: Tensor, shown_BKL: Tensor | None
) -> None:
    """Refute the law if the policy saw a row that is none of the states, or was miscounted."""
    shown_BKL = rollout.tokens_BL.unsqueeze(1) if shown_BKL is None else shown_BKL
    states = shown_BKL.masked_fill(hide_BKL, policy.mask_id).flatten(0, 1)
    known = {tuple(row) for row in states.tolist()}
    if getattr(sampler, "cfg_scale", 0) > 0:
        prompt_BL = rollout.attend_BL.clone()
        prompt_BL[:, -sampler.answer_length :] = False
        blind = states.masked_fill(
            prompt_BL.repeat_interleave(hide_BKL.shape[1], 0), policy.mask_id
        )
        known |= {tuple(row) for row in blind.tolist()}
    for number, seen in enumerate(policy.inputs):
        for row in seen.tolist():
            require(tuple(row) in known, f"forward {number} saw {row}, which no recorded state is")
    rows = sum(len(seen) for seen in policy.inputs)
    require(rollout.forwards == rows, f"forwards is {rollout.forwards}, the policy ran {rows} rows")


def _may_stop_early(sampler: Sampler) -> str | None:
    if getattr(sampler, "stop_at_end", False):
        return "it may stop at an end token"
    return _without_steps(sampler)


@law("sampler", _may_stop_early)
def nothing_is_left(sampler: Sampler, case: Case) -> None:
    """Every answer slot is committed at some step, and none holds the mask token."""
    rollout, _, policy = sample(sampler, case)
    left = (rollout.answer_BL & (rollout.reveal_BL < 0)).nonzero().tolist()
    require(not left, f"slots {left} were never committed")
    require(not (rollout.tokens_BL[rollout.answer_BL] == policy.mask_id).any(), "a mask is left")


@law("sampler")
def same_key_same_rollout(sampler: Sampler, case: Case) -> None:
    """The same key gives the same answers, without the global generator and without gradient."""
    with untouched_global_generator():
        first, _, _ = sample(sampler, case)
        second, _, _ = sample(sampler, case)
    _alike(second, first, "of the same key")
    require(not first.logprob_BL.requires_grad, "the rollout carries gradient")


@law("sampler")
def batch_invariant(sampler: Sampler, case: Case) -> None:
    """A row's answer does not depend on the other rows or on the order of rows."""
    rollout, prompts, policy = sample(sampler, case)
    order = case.order("rows", len(prompts.tokens_BL))
    rows = order[: case.integer("kept rows", 1, len(order))]
    found = sampler(policy, take(prompts, rows), case.key("sample"))
    _alike(found, take(rollout, rows), f"of rows {rows.tolist()}")


@law("sampler")
def padding_invariant(sampler: Sampler, case: Case) -> None:
    """More padding on the left changes nothing."""
    rollout, prompts, policy = sample(sampler, case)
    columns = case.integer("columns", 1, 4)
    pad = torch.nn.functional.pad
    wide = replace(
        prompts, tokens_BL=pad(prompts.tokens_BL, (columns, 0)),
        attend_BL=pad(prompts.attend_BL, (columns, 0)),
    )  # fmt: skip
    found = sampler(policy, wide, case.key("sample"))
    _alike(found, rollout, f"behind {columns} columns of padding", columns)


@law("sampler", _without_steps)
def records_can_be_recomputed(sampler: Sampler, case: Case) -> None:
    """Recorded entropies and log-probs are those of the policy in the recorded states."""
    plain: Any = sampler
    if is_dataclass(plain) and not isinstance(plain, type) and hasattr(plain, "end_rule"):
        plain = replace(plain, end_rule="none")
    rollout, _, policy = sample(plain, case)
    committed_BL = rollout.reveal_BL >= 0
    logits_BLV = logits_when_committed(plain, rollout, policy)
    entropy_BL = torch.special.entr(logits_BLV.softmax(-1)).sum(-1)
    same(rollout.entropy_BL[committed_BL], entropy_BL[committed_BL], "entropies", 1e-4)
    drawn_BLV = drawn_from(plain, logits_BLV, policy)
    token_BL1 = rollout.tokens_BL.unsqueeze(2)
    logprob_BL = drawn_BLV.log_softmax(-1).gather(2, token_BL1).squeeze(2)
    same(rollout.logprob_BL[committed_BL], logprob_BL[committed_BL], "log-probs", 2e-4)


def _alike(found: Rollout, expected: Rollout, what: str, skip: int = 0) -> None:
    for name in ("tokens_BL", "reveal_BL"):
        same(getattr(found, name)[:, skip:], getattr(expected, name), f"{name} {what}")
    for name in ("logprob_BL", "entropy_BL", "confidence_BL"):
        same(getattr(found, name)[:, skip:], getattr(expected, name), f"{name} {what}", 1e-4)
    same(found.block_entropy_BT, expected.block_entropy_BT, f"block entropies {what}", 1e-4)
    for name in ("draft_BTN", "hidden_BTN", "branch_BT"):
        stored, wanted = getattr(found, name), getattr(expected, name)
        require((stored is None) == (wanted is None), f"{name} {what}: stored once only")
        if stored is not None and wanted is not None:
            same(stored.int(), wanted.int(), f"{name} {what}")
