"""The sections of a recipe that are not components: model, optimizer, train, evaluate, sft."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from dllmzoo.recipe.part import Part

STRICT = ConfigDict(extra="forbid", strict=True, validate_default=True)

Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True, config=STRICT)
class Lora:
    """Low-rank adapters through peft.

    Args:
        preset: which linear layers: `attention`, `mlp`, `all-linear` (both, never the head),
            `qkv_up` (LLaDA, as the released d1 and EGSPO runs matched).
        targets: names of linear layers instead of a preset; a name that matches nothing is an
            error.
        rank: >= 1.
        alpha: > 0; the update is scaled by alpha / rank.
        dropout: 0 only: dropout makes the first ratio differ from 1.
    """

    preset: Literal["attention", "mlp", "all-linear", "qkv_up"] = "all-linear"
    targets: tuple[str, ...] | None = None
    rank: Positive = 64
    alpha: Annotated[float, Field(gt=0)] = 64.0
    dropout: Annotated[float, Field(ge=0, le=0)] = 0.0


@dataclass(frozen=True, config=STRICT)
class Model:
    """Which network is trained, and what it is compared with.

    Args:
        name: model family, a registered model.
        weights: a folder, a card of the catalogue, or a hub id; null builds from `config`.
        config: fields of the family's config for a network made from nothing.
        tokenizer: a folder, a card or a hub id; null takes the one beside `weights`.
        lora: low-rank adapters; null trains every parameter.
        reference: the policy that a KL is measured to: `adapter` (adapters switched off), `copy`
            (a frozen copy of the start), `none`; `auto` is `adapter` with lora, else `copy`.
            No reference is made unless the loss needs one.
        reference_device: where a frozen copy lives: `same` as the policy, or `cpu`, from where
            its blocks visit the device one at a time.
        dtype: of the weights.
        quantize: `4bit` holds the frozen base of a LoRA run in 4-bit NormalFloat (QLoRA); null =
            in `dtype`.
        gradient_checkpointing: trade a second forward for activation memory.
        compile: compile the blocks of the network with `torch.compile`: the first rounds take
            longer, the others less. Numbers change by rounding.
    """

    name: str = "llada"
    weights: str | None = None
    config: dict[str, Any] | None = None
    tokenizer: str | None = None
    lora: Lora | None = None
    reference: Literal["auto", "adapter", "copy", "none"] = "auto"
    reference_device: Literal["same", "cpu"] = "same"
    dtype: Literal["float32", "bfloat16"] = "float32"
    quantize: Literal["4bit"] | None = None
    gradient_checkpointing: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        if self.compile and (self.quantize is not None or self.reference_device != "same"):
            raise ValueError(
                "compile needs blocks that stay where they are, in plain weights: leave it out, or "
                "leave out quantize and reference_device"
            )
        if self.quantize is not None and (self.lora is None or self.weights is None):
            raise ValueError(
                "quantize holds the frozen base of adapters in 4 bits, which are never trained: "
                "it needs `lora` and `weights`"
            )
        adapter = self.reference == "adapter" or (self.reference == "auto" and self.lora)
        if self.reference_device != "same" and (adapter or self.reference == "none"):
            raise ValueError(
                "reference_device is read for a frozen copy only, and there is none; leave it "
                "out, or use `reference: copy`"
            )
        if self.quantize is not None and self.reference == "copy":
            raise ValueError(
                "a 4-bit base is its own reference with the adapters off: use "
                "`reference: adapter`, which costs no memory"
            )


@dataclass(frozen=True, config=STRICT)
class Optimizer:
    """AdamW and its learning-rate schedule.

    Args:
        lr: peak learning rate, > 0.
        betas: decay rates of the first and second moment, in [0, 1).
        eps: > 0.
        weight_decay: >= 0, not applied to norms and biases.
        max_grad_norm: gradients are scaled down to this norm; null = never. The norm is logged
            before clipping.
        schedule: of the learning rate, over the run's updates.
        warmup: updates of linear warm-up.
        decay_share: last share of the updates over which `constant_with_decay` falls to 0.
    """

    lr: Annotated[float, Field(gt=0)] = 1e-5
    betas: tuple[Share, Share] = (0.9, 0.99)
    eps: Annotated[float, Field(gt=0)] = 1e-8
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] | None = 1.0
    schedule: Literal["constant", "linear", "cosine", "constant_with_decay"] = "constant"
    warmup: Annotated[int, Field(ge=0)] = 0
    decay_share: Annotated[float, Field(ge=0, le=1)] = 0.2


@dataclass(frozen=True, config=STRICT)
class Train:
    """How much of what happens in a round, and how long.

    Args:
        rounds: outer iterations; in `stage: sft` one optimiser update each.
        prompts: prompts of a round, all processes together; in `stage: sft` demonstrations.
        group_size: G, samples of one prompt.
        passes: sweeps over a round's samples.
        minibatches: optimiser updates of a sweep, each over whole groups.
        micro_batch: rows (sample, view) of one forward.
        rollout_batch: rows of one sampler call.
        rollout_dtype: sample with a copy of the policy in this precision, which is faster where
            weights are float32 and the device has matrix units for bfloat16; null = with the policy
            itself. Everything that the loss compares is scored by the policy.
        save_every: rounds between checkpoints; null = only at the end.
        keep_last: checkpoints kept besides the best one.
        async_save: training goes on while such a checkpoint is written, from a copy in main
            memory; false = it waits, as it always does for sharded parameters.
        max_minutes: wall time after which the run ends as if finished; null = no limit.
        trackers: besides metrics.jsonl, which is always written.
        log_rollouts: rounds between rollout files; null = none.
        log_drift: log how far a round moved the weights; keeps a second copy of what is trained.
    """

    rounds: Positive = 100
    prompts: Positive = 32
    group_size: Positive = 8
    passes: Positive = 1
    minibatches: Positive = 1
    micro_batch: Positive = 64
    rollout_batch: Positive = 256
    rollout_dtype: Literal["float32", "bfloat16"] | None = None
    save_every: Positive | None = None
    keep_last: Positive = 2
    async_save: bool = True
    max_minutes: Annotated[float, Field(gt=0)] | None = None
    trackers: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    log_rollouts: Positive | None = 10
    log_drift: bool = False


@dataclass(frozen=True, config=STRICT)
class Evaluate:
    """Greedy evaluation on held-out examples, at the start, at the end and in between.

    Args:
        every: rounds between evaluations; null = only at the start and the end.
        examples: held-out examples, the first of the task's fixed test list.
        sampler: makes the answers, at temperature 0; null = the sampler of training. A sampler
            that hands out stored answers needs another one here.
        steps: denoising steps, of a block if the sampler counts them so; null = the sampler's own.
        also_steps: further step counts, each evaluated at the start and the end as
            `eval/steps4/...`.
        batch: rows of one sampler call.
        floor: a solved rate below which three evaluations in a row stop the run as collapsed,
            as a share of the first evaluation; null = never.
    """

    every: Positive | None = None
    examples: Positive = 512
    sampler: Annotated[Any, Part("sampler")] | None = None
    steps: Positive | None = None
    also_steps: tuple[Positive, ...] = ()
    batch: Positive = 256
    floor: Annotated[float, Field(ge=0, lt=1)] | None = 0.5


@dataclass(frozen=True, config=STRICT)
class Sft:
    """Masked-diffusion supervised training: only read in `stage: sft`.

    Args:
        completion_only: True never masks the prompt (LLaDA SFT); False masks it like the answer.
        min_mask: smallest mask probability that weights a term by its inverse, in (0, 1].
        schedule: noise schedule, a registered schedule.
        noise: what has a noise level of its own: each `row`, as LLaDA and the released SDAR
            training have it, or each `block` of a network that attends in blocks (BD3-LM). `auto`
            is `block` for such a network, else `row`.
        tail: end tokens behind an answer: as many as fill `sampler.answer_length` (`canvas`) or
            reach the longest answer of the round (`batch`, as LLaDA SFT has it), all of them
            learnt; or one that is learnt, and padding behind it (`end`).
        too_long: what becomes of a demonstration whose answer or whose whole does not fit:
            `refuse` stops, `drop` leaves it out and counts it. Nothing is ever cut.
        pack: put several documents into rows of at most this many tokens, none of which sees
            another; null = one a row. Needs a network that knows documents, such as sdar.
    """

    completion_only: bool = True
    min_mask: Annotated[float, Field(gt=0, le=1)] = 0.05
    schedule: Any = "linear"
    noise: Literal["auto", "row", "block"] = "auto"
    tail: Literal["canvas", "batch", "end"] = "canvas"
    too_long: Literal["refuse", "drop"] = "refuse"
    pack: Positive | None = None
