"""A task of a few digits, a network of two narrow layers in float64, and processes as threads."""

import copy
import functools
import threading
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from accelerate import Accelerator
from torch import nn

from dllmzoo.models._load import build_model, load_tokenizer
from dllmzoo.protocols import Ratio
from dllmzoo.records import ABSTAIN, VALUE, Key, Rewards
from dllmzoo.training.method import Budget, Learner, Method
from dllmzoo.training.prompts import Codec
from dllmzoo.zoo import ADVANTAGES, LIKELIHOODS, LOSSES, SAMPLERS, SELECTORS

TOKENIZER = load_tokenizer("characters:01234=")
CONFIG = {
    "d_model": 16, "n_layers": 2, "n_heads": 2, "mlp_hidden_size": 32, "max_sequence_length": 64,
}  # fmt: skip
CONFIGS = {
    "llada": CONFIG,
    "sdar": {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8,
        "num_key_value_heads": 1, "intermediate_size": 32, "max_position_embeddings": 64,
        "block_size": 2,
    },
}  # fmt: skip
BUILDING = threading.Lock()


def digit_sum(text: str) -> int:
    """What the task rewards, times 24."""
    return sum(int(character) for character in text if character.isdigit())


@dataclass(frozen=True)
class Digits:
    """Prompts of one to five digits; the reward is the digit sum over 24, of six digits or less.

    Args:
        abstain: which examples get no reward: none, those of odd length, all.
    """

    abstain: str = "none"
    primary: ClassVar[str] = "solved_rate"

    def draw(self, num: int, key: Key) -> list[dict[str, Any]]:
        length = torch.randint(1, 6, (num,), generator=key.generator()).tolist()
        return [{"text": "4321043210"[i % 5 :][: length[i]]} for i in range(num)]

    def test(self, num: int) -> list[dict[str, Any]]:
        return self.draw(num, Key(99, 0, "test"))

    def prompt(self, example: Any) -> str:
        return example["text"] + "="

    def answer(self, example: Any, key: Key, sample: int) -> str:
        return example["text"][:3]

    def reward(self, texts: Any, examples: Any) -> Rewards:
        assert len(texts) == len(examples)
        silent = [
            self.abstain == "all" or (self.abstain == "odd" and len(each["text"]) % 2 == 1)
            for each in examples
        ]
        value_X = torch.tensor([digit_sum(text) / 24 for text in texts])
        counted_X = ~torch.tensor(silent, dtype=torch.bool)
        value_X = torch.where(counted_X, value_X, 0)
        outcome_X1 = torch.where(counted_X, VALUE, ABSTAIN).to(torch.int8).unsqueeze(1)
        return Rewards(value_X, value_X.unsqueeze(1), ("digits",), counted_X, outcome_X1)

    def metrics(self, texts: Any, examples: Any) -> dict[str, Ratio]:
        hits = [float(digit_sum(text) > 6) for text in texts]
        return {"solved_rate": Ratio(hits, [1.0] * len(hits))}


def network(seed: int = 5, family: str = "llada") -> Any:
    """A random network in float64, with logits that are far from uniform."""
    with BUILDING:  # building one forks the global generator, which threads share
        return copy.deepcopy(_template(seed, family))


@functools.cache
def _template(seed: int, family: str) -> Any:
    policy = build_model(family, CONFIGS[family], TOKENIZER, seed).double()
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4)
    return policy


def codec(policy: Any) -> Codec:
    return Codec(TOKENIZER, policy.mask_id, tuple(policy.stop_ids), 64)


def method(**parts: Any) -> Method:
    """EGSPO-SA; `parts` replace single parts, by name, by (name, options) or built."""
    registries = {
        "sampler": SAMPLERS, "selector": SELECTORS, "likelihood": LIKELIHOODS,
        "advantage": ADVANTAGES, "loss": LOSSES,
    }  # fmt: skip
    default = {
        "task": Digits(),
        "sampler": ("low_confidence", {"answer_length": 6, "steps": 3}),
        "selector": ("entropy", {"steps": 2}),
        "likelihood": "denoising_steps",
        "advantage": "stepwise_one_shot",
        "loss": ("clipped_surrogate", {"kl": "none", "normaliser": "step"}),
    }

    def built(kind: str, given: Any) -> Any:
        if given is None or kind == "task" or not isinstance(given, str | tuple):
            return given
        name, options = (given, {}) if isinstance(given, str) else given
        return registries[kind].get(name)(**options)

    return Method(**{kind: built(kind, given) for kind, given in (default | parts).items()})


def budget(**changes: Any) -> Budget:
    """Four prompts of four samples, seven rows a forward."""
    return Budget(**({"prompts": 4, "group_size": 4, "micro_batch": 7} | changes))


def learner(policy: Any = None, accelerator: Any = None, *, lr: float = 1e-3) -> Learner:
    """A policy with its frozen copy as reference and plain SGD, whose steps are the gradients."""
    policy = network() if policy is None else policy
    accelerator = Accelerator(cpu=True) if accelerator is None else accelerator
    reference = network(6, policy.family).eval().requires_grad_(False)
    optimizer = torch.optim.SGD(policy.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    return Learner(policy, reference, optimizer, scheduler, accelerator, codec(policy))


def flat(policy: nn.Module) -> torch.Tensor:
    """All weights in one vector."""
    return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])


class Ranks:
    """Processes as threads: what one reduces, all see; gradients are averaged when clipped."""

    def __init__(self, world: int) -> None:
        self.world = world
        self.barrier = threading.Barrier(world)
        self.table: list[Any] = [None] * world

    def exchange(self, rank: int, value: Any) -> list[Any]:
        """Everybody's value, in order of rank."""
        self.table[rank] = value
        self.barrier.wait(30)
        seen = list(self.table)
        self.barrier.wait(30)
        return seen

    def run(self, work: Any) -> list[Any]:
        """`work(accelerator)` on every rank; the results in order of rank."""
        results: list[Any] = [None] * self.world
        errors: list[BaseException] = []

        def one(rank: int) -> None:
            try:
                results[rank] = work(Rank(self, rank))
            except BaseException as error:
                errors.append(error)
                self.barrier.abort()

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results


class Rank:
    """What the loop asks of accelerate, for one of several threads."""

    def __init__(self, ranks: Ranks, rank: int) -> None:
        self.ranks, self.process_index, self.num_processes = ranks, rank, ranks.world
        self.is_main_process = rank == 0
        self.device = torch.device("cpu")
        self.forwards = 0

    def unwrap_model(self, model: Any) -> Any:
        return model

    def reduce(self, tensor: torch.Tensor, how: str) -> torch.Tensor:
        assert how == "sum"
        return torch.stack(self.ranks.exchange(self.process_index, tensor)).sum(0)

    def gather(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.cat(self.ranks.exchange(self.process_index, tensor))

    def no_sync(self, model: Any) -> Any:
        return nullcontext()

    def backward(self, loss: torch.Tensor) -> None:
        self.forwards += 1
        loss.backward()

    def clip_grad_norm_(self, parameters: Any, limit: float) -> torch.Tensor:
        """Averages the gradients over ranks, as data parallel training does, then clips."""
        parameters = list(parameters)
        for parameter in parameters:
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            every = self.ranks.exchange(self.process_index, grad)
            parameter.grad = torch.stack(every).mean(0)
        return nn.utils.clip_grad_norm_(parameters, limit)
