"""A trained model on one prompt, of whose answer only a few slots are open."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from dllmzoo.errors import UsageError
from dllmzoo.lab.estimators.lattice import MOST_SLOTS, Lattice
from dllmzoo.lab.estimators.options import Options
from dllmzoo.lab.estimators.paths import Paths
from dllmzoo.lab.estimators.spec import component
from dllmzoo.lab.estimators.states import look
from dllmzoo.lab.estimators.world import Truth, World, nearby
from dllmzoo.models._load import load_model, load_tokenizer
from dllmzoo.protocols import Task
from dllmzoo.records import Key
from dllmzoo.samplers._noise import inverse_cdf
from dllmzoo.training.prompts import Codec

MOST_ANSWERS = 4096
"""Answers that are still enumerated."""
SAMPLED_ANSWERS, SAMPLED_ORDERS = 8, 256
"""Answers and orders where they are sampled instead."""


def network_world(options: Options) -> World:
    """A demonstration of the task with the slots that the model is least sure of left open.

    Raises:
        UsageError: no such example, or fewer answer slots than are to be open.
    """
    policy = load_model(options.model, dtype="float32")
    if policy.block_size is not None:
        raise UsageError(
            f"{options.model} is a block model; the estimator lab needs one that sees the whole "
            f"answer, such as llada-tiny-sudoku"
        )
    codec = Codec(load_tokenizer(options.model), policy.mask_id, tuple(policy.stop_ids))
    task: Task = component("task", options.task).part
    examples = task.test(max(options.example + 1, 16))
    if options.example >= len(examples):
        raise UsageError(f"example {options.example}: the task has {len(examples)} held-out ones")
    tokens_L, canvas, alphabet = _demonstrated(codec, task, examples, options.example)
    if options.slots > canvas:
        raise UsageError(f"slots {options.slots}: the answer has {canvas}")
    open_L = _least_sure(policy, tokens_L, canvas, options.slots)
    title = (
        f"{options.model}, held-out example {options.example} of {task_name(options.task)}, "
        f"{options.slots} of {canvas} answer slots open"
    )
    settings = {"canvas": canvas, "stop_ids": tuple(policy.stop_ids), "micro_batch": 256}
    if len(alphabet) ** options.slots <= MOST_ANSWERS:
        return _enumerated(
            policy, tokens_L, open_L, alphabet, codec, task, options, title, settings
        )
    return _sampled(policy, tokens_L, open_L, options, title, settings)


def task_name(spec: str) -> str:
    """The task of a spec without its options."""
    return spec.partition(":")[0]


def _demonstrated(
    codec: Codec, task: Task, examples: list[Any], chosen: int
) -> tuple[Tensor, int, list[int]]:
    """Prompt and answer of an example, the answer's length, and every token answers are made of."""
    key = Key(0, 0, "lab/demonstrations")
    ids = [
        list(codec.tokenizer(task.answer(each, key, i), add_special_tokens=False)["input_ids"])
        for i, each in enumerate(examples)
    ]
    prompt = codec.prompt_ids(task.prompt(examples[chosen]))
    tokens_L = torch.tensor([*prompt, *ids[chosen]])
    return tokens_L, len(ids[chosen]), sorted({token for each in ids for token in each})


def _least_sure(policy: Any, tokens_L: Tensor, canvas: int, slots: int) -> Tensor:
    """open_L: the answer slots of highest entropy where the whole answer is hidden."""
    answer_L = torch.arange(len(tokens_L)) >= len(tokens_L) - canvas
    hidden = torch.ones(1, canvas, dtype=torch.bool)
    _, entropy = look(policy, tokens_L.unsqueeze(0), answer_L, hidden)
    best = entropy[0].argsort(descending=True, stable=True)[:slots]
    open_L = torch.zeros_like(answer_L)
    open_L[len(tokens_L) - canvas + best] = True
    return open_L


def _enumerated(
    policy: Any, tokens_L: Tensor, open_L: Tensor, alphabet: list[int], codec: Codec, task: Task,
    options: Options, title: str, settings: dict[str, Any],
) -> World:  # fmt: skip
    """Every answer of the alphabet, with its exact probability and its reward."""
    answer_XN = torch.tensor(list(itertools.product(alphabet, repeat=options.slots)))
    tokens_XL = tokens_L.repeat(len(answer_XN), 1)
    tokens_XL[:, open_L] = answer_XN

    def truth_of(network: Any) -> Lattice:
        return Lattice.of(network, tokens_XL, open_L)

    truth = truth_of(policy)
    mass_X = truth.loglikelihood_X.exp()
    prob_X = mass_X / mass_X.sum()
    texts = codec.texts(tokens_XL[:, -settings["canvas"] :])
    examples = [task.test(options.example + 1)[options.example]] * len(texts)
    reward_X = task.reward(texts, examples).total_X.double()
    new, new_truth = nearby(policy, truth_of, truth, prob_X, options.shift, options.seed)
    notes = (
        f"all {len(answer_XN)} answers of {len(alphabet)} tokens; log-likelihood, ELBO and "
        f"gradient are exact; answers with other tokens, left out, have probability "
        f"{1 - float(mass_X.sum()):.2g}",
    )
    return World(
        title, policy, new, tokens_XL, open_L, settings["canvas"], prob_X, reward_X, truth,
        new_truth, notes, settings["stop_ids"], settings["micro_batch"],
    )  # fmt: skip


def _sampled(
    policy: Any, tokens_L: Tensor, open_L: Tensor, options: Options, title: str,
    settings: dict[str, Any],
) -> World:  # fmt: skip
    """A few answers that the policy wrote; longer ones have truths with standard errors."""
    X = SAMPLED_ANSWERS
    key = Key(options.seed, 0, "lab/written")
    tokens_XL = written(policy, tokens_L, open_L, X, key, settings["stop_ids"])
    prob_X = torch.full((X,), 1 / X, dtype=torch.float64)
    notes = [f"{X} answers that the model wrote; there are too many to enumerate, so no gradient"]
    few = options.slots <= MOST_SLOTS
    uniform = key.sub("orders").uniform(torch.arange(X), SAMPLED_ORDERS, options.slots)

    def truth_of(network: Any) -> Truth:
        if few:
            return Lattice.of(network, tokens_XL, open_L)
        return Paths.of(network, tokens_XL, open_L, uniform.argsort(-1).argsort(-1))

    truth = truth_of(policy)
    first, second = truth.errors
    if few:
        notes.append("log-likelihood and ELBO are exact")
    else:
        notes.append(
            f"truths are averages over {SAMPLED_ORDERS} random orders, with standard errors of "
            f"{first:.2g} (log-likelihood) and {second:.2g} nats (ELBO)"
        )
    new, new_truth = nearby(policy, truth_of, truth, prob_X, options.shift, options.seed)
    return World(
        title, policy, new, tokens_XL, open_L, settings["canvas"], prob_X, None, truth, new_truth,
        tuple(notes), settings["stop_ids"], settings["micro_batch"],
    )  # fmt: skip


@torch.no_grad()
def written(
    policy: Any, tokens_L: Tensor, open_L: Tensor, count: int, key: Key, stop_ids: tuple[int, ...]
) -> Tensor:
    """Answers drawn slot by slot in random order at temperature 1, without end tokens."""
    slot_N = open_L.nonzero()[:, 0]
    N = len(slot_N)
    sample_B = torch.arange(count)
    order_BN = key.sub("order").uniform(sample_B, N).argsort(1)
    uniform_BN = key.sub("token").uniform(sample_B, N)
    tokens_BL = tokens_L.repeat(count, 1)
    tokens_BL[:, open_L] = policy.mask_id
    for step in range(N):
        at_BL = torch.zeros_like(tokens_BL, dtype=torch.bool)
        at_BL[sample_B, slot_N[order_BN[:, step]]] = True
        real_BL = torch.ones_like(at_BL)
        logits = policy(tokens_BL, real_BL, logits_at=at_BL).logits.float()
        logits[:, [policy.mask_id, *stop_ids]] = -math.inf
        tokens_BL[at_BL] = inverse_cdf(logits.softmax(-1), uniform_BN[:, step])
    return tokens_BL
