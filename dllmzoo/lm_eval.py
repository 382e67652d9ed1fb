"""The model `dllmzoo` of the LM Evaluation Harness (lm-eval), an extra.

`python -m dllmzoo.lm_eval run --model dllmzoo --model_args pretrained=RUN,steps=64 --tasks ...` is
the harness's own command line with this model known; releases that read entry points find it by
themselves (`lm_eval run --model dllmzoo ...`).
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from dllmzoo.errors import DllmzooError, UsageError

try:
    import lm_eval.models  # noqa: F401 - registers the harness's own models before ours
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model
except ImportError as error:
    raise UsageError(
        f"the LM Evaluation Harness is not here ({error}): pip install 'dllmzoo[lm-eval]'"
    ) from error

log = logging.getLogger("dllmzoo")

KNOWN = ("until", "max_gen_toks", "do_sample", "temperature")
"""Options of a request for text that have a meaning here, beside fields of the sampler."""


@dataclass(frozen=True)
class _Asked:
    """A prompt that is text already; the task that `Codec` wants."""

    def prompt(self, example: str) -> str:
        return example


@register_model("dllmzoo")
class DiffusionLM(LM):
    """A diffusion language model: text by our samplers, log-likelihoods as ELBO estimates.

    `generate_until` writes answers of a fixed length and cuts them at the first stop string.
    `loglikelihood` is an estimate of the evidence lower bound of the continuation given the
    context, unbiased for the bound, which is at most the log-likelihood: choices may be ranked by
    it, as papers on these models do, but no perplexity is to be made of it. A continuation of one
    token is exact. `loglikelihood_rolling` is refused.

    Args:
        pretrained: a run folder, a model folder, an adapter, a card or a hub id.
        sampler: a registered sampler; none takes `block_diffusion` for networks whose attention
            has blocks, else `low_confidence`.
        answer_length: tokens of an answer where the task's `max_gen_toks` names none.
        steps: denoising steps (of a block, if the sampler counts them so); none = its default, one
            token a step.
        temperature: where a request does not say; 0 = greedy.
        dtype: of the weights.
        batch_size: rows of one forward.
        draws: masks of an ELBO estimate, >= 1.
        greedy_check: whether `loglikelihood` also says if greedy decoding would write the
            continuation, at one forward a token; false answers no without looking.
        seed: of the random choices.
        max_batch_size: not read.
        device: not read; the best one of this process is used.
        options: of the sampler: `block_length=32`.

    Raises:
        UsageError: options that the sampler does not have.
    """

    def __init__(
        self, pretrained: str, *, sampler: str | None = None, answer_length: int = 256,
        steps: int | None = None, temperature: float = 0.0, dtype: str = "float32",
        batch_size: int | str = 8, draws: int = 32, greedy_check: bool = True, seed: int = 0,
        max_batch_size: int | None = None, device: str | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Load the network; see the class."""
        super().__init__()
        from dllmzoo.cli import _policies as policies

        if not str(batch_size).isdecimal():
            raise UsageError(f"batch_size {batch_size} is no number; name one, say batch_size=8")
        self.pretrained, self.batch, self.seed = pretrained, int(batch_size), int(seed)
        self.draws, self.greedy_check = int(draws), greedy_check
        self.policy, self.codec = policies.load_policy(policies.source_of(str(pretrained)), dtype)
        self.policy.eval()
        self.accelerator: Any = None
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from dllmzoo.training.processes import join_processes

            self.accelerator = join_processes()
            self._rank = self.accelerator.process_index
            self._world_size = self.accelerator.num_processes
        self._device = self.policy.device
        name = sampler or ("block_diffusion" if self.policy.block_size else "low_confidence")
        self.sampler = _sampler(
            name, steps, answer_length=answer_length, temperature=temperature, **options
        )

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Answers, each cut before the first of its stop strings."""
        from dllmzoo.records import Key
        from dllmzoo.training.answers import refuse_idle_steps

        refuse_idle_steps(self.sampler, self.policy)
        texts = [""] * len(requests)
        streams = _streams([request.args[0] for request in requests])
        wanted = [self._sampler_of(request.args[1]) for request in requests]
        key = Key(self.seed, 0, "evaluate")
        for rows in _alike(wanted, self.batch):
            sampler = wanted[rows[0]]
            prompts = self._prompts([requests[row].args[0] for row in rows], sampler.answer_length)
            prompts = replace(prompts, sample_B=_tensor([streams[row] for row in rows]))
            rollout = sampler(self.policy, prompts, key)
            found = self.codec.texts(rollout.tokens_BL[:, -sampler.answer_length :])
            for row, text in zip(rows, found, strict=True):
                texts[row] = cut(text, requests[row].args[1].get("until"))
                self.cache_hook.add_partial("generate_until", requests[row].args, texts[row])
        return texts

    def loglikelihood(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """ELBO estimate in nats of each continuation, and whether greedy decoding writes it."""
        pairs = [self._split(*request.args) for request in requests]
        streams = _streams(["".join(request.args) for request in requests])
        found: list[tuple[float, bool]] = [(0.0, True)] * len(requests)  # of an empty text
        for rows in _alike([len(continuation) for _, continuation in pairs], self.batch):
            if pairs[rows[0]][1]:
                values = self._scored([pairs[row] for row in rows], [streams[row] for row in rows])
                for row, value in zip(rows, values, strict=True):
                    found[row] = value
                    self.cache_hook.add_partial("loglikelihood", requests[row].args, value)
        return found

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """Refused: windows that roll over a text are a notion of left-to-right models.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            "loglikelihood_rolling, and so a perplexity, is not defined for a masked diffusion "
            "model: it has no order from left to right, and its bound is not a likelihood; choose "
            "tasks with answers to generate or continuations to compare"
        )

    def _sampler_of(self, asked: Mapping[str, Any]) -> Any:
        """The sampler as one request wants it."""
        changes: dict[str, Any] = {}
        if asked.get("max_gen_toks") is not None:
            changes["answer_length"] = int(asked["max_gen_toks"])
        if asked.get("do_sample") is False:
            changes["temperature"] = 0.0
        elif asked.get("temperature") is not None:
            changes["temperature"] = float(asked["temperature"])
        names = {each.name for each in fields(self.sampler)}
        changes |= {n: v for n, v in asked.items() if n in names and n not in KNOWN}
        if ignored := sorted(set(asked) - set(KNOWN) - names):
            log.warning("the sampler has no %s; left out", ", ".join(ignored))
        return _changed(self.sampler, changes)

    def _prompts(self, contexts: Sequence[str], answer_length: int) -> Any:
        return self.codec.prompts(_Asked(), contexts, 1, answer_length=answer_length)  # type: ignore[arg-type]

    def _split(self, context: str, continuation: str) -> tuple[str, list[int]]:
        """Context, and the tokens that the continuation adds to it; blanks between belong to it."""
        bare = context.rstrip()
        before = self.codec.prompt_ids(bare)
        return bare, self.codec.prompt_ids(context + continuation)[len(before) :]

    def _scored(
        self, pairs: Sequence[tuple[str, list[int]]], streams: list[int]
    ) -> list[tuple[float, bool]]:
        """Rows whose continuations have one length."""
        import torch

        from dllmzoo.records import Key
        from dllmzoo.scoring import score
        from dllmzoo.zoo import LIKELIHOODS

        length, size = len(pairs[0][1]), self.policy.block_size
        prompts = self._prompts([context for context, _ in pairs], length)
        answer_BN = _tensor([tokens for _, tokens in pairs]).to(prompts.tokens_BL.device)
        prompts = replace(prompts, sample_B=_tensor(streams), answer_BN=answer_BN)
        key = Key(self.seed, 0, "elbo")
        rollout = _sampler("stored", None, answer_length=length)(self.policy, prompts, key)
        rollout = replace(rollout, valid_BL=rollout.answer_BL)  # whatever end tokens are in it
        views = self.draws if length > 1 else 1
        kind: Any = LIKELIHOODS.get("block_elbo" if size else "elbo")
        likelihood = kind(views=views)
        plan = likelihood.plan(rollout, None, key, 1)
        logprob_BKL = score(self.policy, rollout, plan, micro_batch=self.batch).logprob_BKL
        zero_BU = torch.zeros_like(plan.size_BU)
        elbo_B = likelihood.pool(logprob_BKL, plan, rollout, zero_BU).score_BU.sum(1)
        same_B = torch.zeros(len(pairs), dtype=torch.bool)
        if self.greedy_check:
            name = "block_diffusion" if size else "low_confidence"
            greedy = _sampler(name, None, answer_length=length, temperature=0.0)
            written = greedy(self.policy, prompts, key).tokens_BL[:, -length:]
            same_B = (written == answer_BN).all(1)
        return list(zip(elbo_B.tolist(), same_B.tolist(), strict=True))

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Messages as one text, by the tokenizer's template."""
        return self.codec.tokenizer.apply_chat_template(
            chat_history, tokenize=False, add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )  # fmt: skip

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """The template that the tokenizer carries."""
        return getattr(self.codec.tokenizer, "chat_template", None) or ""

    @property
    def tokenizer_name(self) -> str:
        """What the harness files cached requests under."""
        return str(self.pretrained).replace("/", "__")

    def get_model_info(self) -> dict[str, Any]:
        """What the harness writes beside the scores."""
        from dllmzoo.recipe.plain import plain_part
        from dllmzoo.training.manifest import versions

        return {
            "sampler": plain_part(self.sampler), "elbo_draws": self.draws, "seed": self.seed,
            "versions": versions(), "device": str(self._device),
        }  # fmt: skip

    def all_gather(self, tensor: Any) -> Any:
        """The tensors of all processes after each other."""
        return tensor if self.accelerator is None else self.accelerator.gather(tensor)

    def gather_object(self, obj: Any, dst: int = 0) -> Any:
        """A list of one object of each process, on process `dst`; None on the others."""
        if self.accelerator is None:
            return [obj]
        from accelerate.utils import gather_object

        found = gather_object([obj])
        return found if self.rank == dst else None

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()


def cut(text: str, until: str | Sequence[str] | None) -> str:
    r"""The text before the first stop string.

    Example:
        >>> cut("12\n\nQ: 3", ["Q:", "\n\n"])
        '12'
    """
    stops = [until] if isinstance(until, str) else list(until or ())
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return text[: min(places, default=len(text))]


def _sampler(name: str, steps: int | None, **options: Any) -> Any:
    """A sampler of that name.

    Raises:
        UsageError: an option does not fit it.
    """
    from dllmzoo.training.evaluate import steps_field
    from dllmzoo.zoo import SAMPLERS

    cls: Any = SAMPLERS.get(name)
    if steps is not None:
        options[steps_field(cls)] = steps
    if unknown := sorted(set(options) - {each.name for each in fields(cls)}):
        raise UsageError(f"sampler {name} has no option {', '.join(unknown)} (model_args)")
    return _changed(cls(), options)


def _changed(sampler: Any, options: Mapping[str, Any]) -> Any:
    from dllmzoo.cli._policies import changed

    return changed(sampler, **options)


def _streams(texts: Sequence[str]) -> list[int]:
    """A random stream for each request: by its text, and which time it is asked."""
    seen: Counter[str] = Counter()
    found = []
    for text in texts:
        digest = hashlib.blake2b(f"{seen[text]} {text}".encode(), digest_size=8).digest()
        found.append(int.from_bytes(digest, "little") >> 1)
        seen[text] += 1
    return found


def _alike(kinds: Sequence[Any], batch: int) -> Iterator[list[int]]:
    """Batches of the places of equal kinds."""
    places: dict[Any, list[int]] = {}
    for place, kind in enumerate(kinds):
        places.setdefault(repr(kind), []).append(place)
    for rows in places.values():
        for first in range(0, len(rows), batch):
            yield rows[first : first + batch]


def _tensor(values: Any) -> Any:
    import torch

    return torch.tensor(values)


def main() -> None:
    """The harness's command line, with the model `dllmzoo` known."""
    from lm_eval.__main__ import cli_evaluate

    try:
        cli_evaluate()
    except DllmzooError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
