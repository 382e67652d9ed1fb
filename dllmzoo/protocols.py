"""What each kind of component must offer; imports no torch.

Shapes: see `dllmzoo.records`. Class variables say what a part needs or gives, so that the checks
across parts are a few lines over them. Every part but a model is a frozen dataclass: knobs in the
constructor, tensors in the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from dllmzoo.records import (
        Estimate,
        Example,
        Key,
        Prompts,
        Rewards,
        Rollout,
        Steps,
        Units,
        Views,
    )

Unit = Literal["slot", "step", "sequence", "view"]
"""What one log-prob, one ratio and one advantage stand for."""


class Policy(Protocol):
    """A model as samplers and the scorer see it: wrapped or not, logits aligned.

    Aligned: logits at position i predict the token at position i, in every family.
    """

    mask_id: int
    stop_ids: tuple[int, ...]
    block_size: int | None

    def __call__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        target_ids: Tensor | None = None,
        context: str = "block_causal",
        logits_at: Tensor | None = None,
    ) -> Any:
        """Output with `.logits`: (B, L, V), or (S, V) of the slots where `logits_at` (B, L)."""
        ...


class Model(Policy, Protocol):
    """A `PreTrainedModel` subclass of ours.

    Class variables: `family` (the registered name), `lora_targets` (preset name -> pattern of
    module names), `config_class`. Where it applies, for models whose attention has blocks:
    `block_size` is a number; `new_cache(capacity)` gives an empty cache of keys and values, that a
    forward takes as `cache=`, with `position_ids=`, and fills where `store=True`. For models
    without blocks: `new_canvas_cache(rows)` gives an empty store, that a forward takes as
    `canvas_cache=` and reads where `columns=` (a slice) says which columns run. `reads_slots`: a
    forward takes `per_slot=` and `columns_at=`, see `dllmzoo.reading`. `kept_per_token`: bytes that
    it stores for its backward pass.
    """

    lora_targets: ClassVar[Mapping[str, str]]


class Schedule(Protocol):
    """Noise law m(t), t in [0, 1], t = 1 all masked."""

    def mask_prob(self, t: Tensor) -> Tensor:
        """m(t) in [0, 1]; m(0) = 0, m(1) = 1."""
        ...

    def rate(self, t: Tensor) -> Tensor:
        """dm/dt; the weight of an estimator that draws t uniformly is rate / mask_prob."""
        ...

    def commits(self, num_masked: int, steps: int) -> list[int]:
        """Tokens to commit at each of `steps` steps; sums to `num_masked`."""
        ...


class Sampler(Protocol):
    """Policy and prompts in, rollout out; never with gradient.

    `records_steps`: False for answers that no step-wise sampler made. `num_steps` is T, known
    before sampling. `temperature` 0 is greedy. `answer_length` is N.

    Where it applies: `records_drafts`, the rollout holds `draft_BTN` and `hidden_BTN`;
    `group_size`, the G that it needs (rows of a group share steps, `branch_BT`); `given`, what
    `Prompts.answer_BN` must hold: `answers`, stored ones, or `blanks`, text to be filled in;
    `remasks`, committed slots may be masked again; `greedy_varies`, samples of a prompt differ at
    temperature 0 too; `needs_blocks`, the policy must have a `block_size`;
    `steps_field`, the field that `evaluate.steps` sets if it is not `steps`; `refills`, a call
    takes `width=`, rows of one forward, where a finished row makes room for another; and a method
    `planned_reads(prompt_length, block_size)`, (rows, queries, keys, logits) of the forwards that
    one sample costs at most, where these are not all of whole rows (empty = they are);
    `needs_canvas_cache`, the policy must have a `new_canvas_cache`; `approximate`, tokens are drawn
    from another law than the policy's.
    """

    records_steps: ClassVar[bool]

    @property
    def num_steps(self) -> int:
        """T: no row commits in more steps."""
        ...

    def __call__(self, policy: Policy, prompts: Prompts, key: Key) -> Rollout:
        """Answers of every prompt row; row i depends on the key and `sample_B[i]` alone."""
        ...


class Selector(Protocol):
    """Chooses K of the T denoising steps of each row.

    Where it applies: `needs_advantage`, it is called with the advantages of all T steps,
    `advantage_BT`, as third argument; `needs_branches`, it reads `Rollout.branch_BT`; and claims
    that laws hold it to: `state_only`, its choice of a step depends on states up to it alone;
    `unbiased`, its weights make the expected sum over chosen steps that over all; `by_group`, the
    rows of a group get one choice.
    """

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        """Spans with weights; column k is the k-th choice."""
        ...


class Likelihood(Protocol):
    """Which views of an answer are scored (`plan`), and how scores become log-probs (`pool`).

    `uses_steps`: needs a selector. `random`: plans differ between passes. `unit`: what a unit is.
    `shares_masks`: False makes old and reference score a plan of their own (purpose `old_views`).
    `num_forwards`: views per sample; None = one per chosen step, or without a selector one per
    answer token. `linear`: unweighted slots pooled
    by a sum, which an exact KL needs.

    Where it applies: `num_draws`, independent draws D among the K views, draw d being the views
    d*K/D and on; `needs_drafts`, it reads `Rollout.draft_BTN`; `reads_reveal`, it reads the order
    of commits without a selector; `score_is_ratio` False, the two tensors of an estimate differ;
    `max_tokens`, the longest answer; `marks_parents`, it fills `Views.parent_BU`; `needs_blocks`,
    it reads `Rollout.block_size`, which must be a number; and a method
    `refine(views, old_logprob_BKL) -> Views`, called once a round for each plan with what the old
    policy scored: it may drop scored slots and set weights, which are then constants.
    """

    uses_steps: ClassVar[bool]
    random: ClassVar[bool]
    linear: ClassVar[bool]

    @property
    def unit(self) -> Unit:
        """What one unit stands for."""
        ...

    @property
    def shares_masks(self) -> bool:
        """Whether new, old and reference policy score the same views."""
        ...

    @property
    def num_forwards(self) -> int | None:
        """Views per sample and pass; None = one per chosen step, or per answer token."""
        ...

    def plan(self, rollout: Rollout, steps: Steps | None, key: Key, num_passes: int) -> Views:
        """The views of pass `key.pass_` of `num_passes`."""
        ...

    def pool(
        self, logprob_BKL: Tensor, views: Views, rollout: Rollout, advantage_BU: Tensor
    ) -> Estimate:
        """Total nats of each unit, from log-probs that are 0 where nothing is scored."""
        ...


class Advantage(Protocol):
    """Rewards in, advantages (B, A) out, A = 1 or K; no gradient.

    `needs_previews`: one-shot guesses of the chosen states are scored too (`guesses` of each;
    1 = greedy, more = sampled, their rewards averaged). `per_step`: A = K. `needs_group`: a group
    of one sample has no meaning.

    Where it applies: `needs_every_step`, columns must be all T steps in time order;
    `needs_branches`, it reads `Rollout.branch_BT`; `compares_groups`, a group's credit depends on
    other groups.
    """

    needs_previews: ClassVar[bool]
    per_step: ClassVar[bool]
    needs_group: ClassVar[bool]

    def __call__(
        self,
        rewards: Rewards,
        previews: Rewards | None,
        steps: Steps | None,
        rollout: Rollout,
        round: int,
    ) -> Tensor:
        """advantage_BA, reward units; 0 for rows whose reward is not counted."""
        ...


class Loss(Protocol):
    """Estimates and advantages in, the scalar to minimise and metrics per unit out.

    Where it applies: `uses_score` False, it differentiates the ratio and never reads the score;
    `needs_branches`, it reads `Units.parent_BU`.

    `units`: units it makes sense for. `bounded_weight`: the largest weight a unit's score gradient
    can get relative to its advantage, as a law; None = unbounded.
    """

    units: ClassVar[frozenset[Unit]]

    @property
    def needs_old(self) -> bool:
        """Whether the old policy's log-probs are read."""
        ...

    @property
    def needs_reference(self) -> bool:
        """Whether the reference policy's log-probs are read."""
        ...

    @property
    def needs_exact_kl(self) -> bool:
        """Whether `Estimate.exact_kl_BU` is read."""
        ...

    def __call__(
        self,
        new: Estimate,
        old: Estimate | None,
        reference: Estimate | None,
        advantage_BU: Tensor,
        units: Units,
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Scalar and detached per-unit metrics (B, U); only `new` carries gradient."""
        ...


@dataclass(frozen=True)
class Ratio:
    """A metric as sums over texts: its value is sum(hits) / sum(outof)."""

    hits: list[float]
    outof: list[float]

    @property
    def value(self) -> float | None:
        """The rate, or None where nothing counts."""
        total = sum(self.outof)
        return sum(self.hits) / total if total else None


class Task(Protocol):
    """Data, prompts, rewards and metrics; text in and out, no tokens.

    `primary` names the metric that decides what is best. `rewards` maps component to weight.
    Building a task reads nothing; data are opened at the first example.

    Where it applies: `overlaps` True, `reward` and `metrics` may be called in another thread than
    the main one, one call at a time, with a part of the round's texts: they are judged while others
    are sampled; `gives`, what the task hands to samplers that do not start from nothing, and
    `given(example, key, sample) -> str`, the stored answer of a row, or
    `given_blanks(example, key, sample) -> str`, text in which blanks are spelled as mask tokens.
    """

    primary: ClassVar[str]

    def draw(self, num: int, key: Key) -> list[Example]:
        """`num` training examples of a round; depends on the key only."""
        ...

    def test(self, num: int) -> list[Example]:
        """The first `num` held-out examples (fewer if there are fewer); always the same."""
        ...

    def prompt(self, example: Example) -> str | list[dict[str, str]]:
        """The prompt: plain text, or messages for the tokenizer's chat template."""
        ...

    def answer(self, example: Example, key: Key, sample: int) -> str:
        """A demonstration for supervised training; may draw from the key."""
        ...

    def reward(self, texts: Sequence[str], examples: Sequence[Example]) -> Rewards:
        """Rewards of X texts, a flat list; text x answers example x."""
        ...

    def metrics(self, texts: Sequence[str], examples: Sequence[Example]) -> dict[str, Ratio]:
        """Evaluation metrics by name; `primary` is one of them, hits 0 or 1 per text."""
        ...
