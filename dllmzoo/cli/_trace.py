"""How one answer was denoised, as a line of rollouts/ with what the viewer can show besides."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from dllmzoo.records import Key, Rewards, Rollout, Steps
    from dllmzoo.training.prompts import Codec

MICRO_BATCH = 16
PAGE = (".html", ".htm")


class TraceCommand(TyperCommand):
    """Reads `--trace FILE.html` as a page to write, `--trace` alone as a flag."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rename the option where the word after it is a page."""
        words = [w.replace("--trace=", "--trace-page=", 1) for w in args]
        for i, word in enumerate(words[:-1]):
            if word == "--trace" and words[i + 1].endswith(PAGE):
                words[i] = "--trace-page"
        return super().parse_args(ctx, words)


@dataclass(frozen=True)
class Tracer:
    """What it takes to say more of an answer than its tokens.

    Args:
        policy: the network.
        codec: its tokens as text.
        recipe: of the task and of the selector whose choice is marked.
        key: of the selector's random numbers.
        rewarded: whether the prompts are examples of the task, which it can reward.
    """

    policy: Any
    codec: Codec
    recipe: Any
    key: Key
    rewarded: bool

    def line(self, rollout: Rollout) -> dict[str, Any]:
        """The line of the only row, with `guesses` before every step.

        A sampler that masks again also gets `writes`.
        """
        from dllmzoo.recipe.plain import name_of
        from dllmzoo.records import Experience
        from dllmzoo.training.rollouts import lines
        from dllmzoo.training.sampling import answers

        final = self._rewards(answers(rollout.tokens_BL, rollout), rollout)
        steps = self._chosen(rollout)
        none_BA = rollout.entropy_BL.new_zeros(1, 0)
        seen = Experience(rollout, steps, final, none_BA, (), (), (), ())
        line = lines(seen, self.codec)[0] | {"task": name_of(self.recipe.task)}
        line.pop("group")
        guesses = self._guesses(rollout)
        line["guesses"] = guesses
        for step in line.get("steps", ()):
            before = guesses[step["start"]] if step["start"] < len(guesses) else None
            step["guesses"] = [] if before is None else [before]
        if getattr(rollout.sampler, "remasks", False):
            line["writes"] = writes(rollout, self.codec)
        return line

    def _chosen(self, rollout: Rollout) -> Steps | None:
        """The choice of the recipe's selector; None where it needs more than one answer says."""
        selector = self.recipe.selector if self.recipe.stage == "rl" else None
        more = ("needs_advantage", "needs_branches")
        if selector is None or any(getattr(selector, need, False) for need in more):
            return None
        if (getattr(selector, "steps", None) or 1) > rollout.num_steps:
            return None
        return selector(rollout, self.key)

    def _guesses(self, rollout: Rollout) -> list[dict[str, Any] | None]:
        """Before each step, the answer with every hidden slot at its likeliest token."""
        import torch

        from dllmzoo.scoring import score, states_before
        from dllmzoo.training.choose import every_step

        steps = every_step(rollout)
        with torch.no_grad():
            found = score(
                self.policy, rollout, states_before(rollout, steps), micro_batch=MICRO_BATCH,
                guesses=1, key=self.key.sub("guesses"),
            )  # fmt: skip
        assert found.guess_BKL is not None
        guess_KN = found.guess_BKL[0][:, -rollout.canvas :]
        texts = self.codec.texts(guess_KN)
        rewards = self._rewards(guess_KN, rollout)
        return [
            {"text": text, "reward": _value(rewards, k)} if used else None
            for k, (text, used) in enumerate(zip(texts, steps.weight_BK[0] > 0, strict=True))
        ]

    def _rewards(self, tokens_BN: Any, rollout: Rollout) -> Rewards:
        """Rewards of some answers to the only example; none count where it is no example."""
        import torch

        from dllmzoo.records import Rewards

        texts = self.codec.texts(tokens_BN)
        if self.rewarded:
            return self.recipe.task.reward(texts, list(rollout.examples) * len(texts))
        X = len(texts)
        return Rewards(
            torch.zeros(X), torch.zeros(X, 0), (), torch.zeros(X, dtype=torch.bool),
            torch.zeros(X, 0, dtype=torch.int8),
        )  # fmt: skip


def writes(rollout: Rollout, codec: Codec) -> list[list[tuple[int, str | None]]]:
    """What each step changed: (slot, its text or None where it was masked again).

    The slots of `answer_BL` are counted, as in every list of a line.
    """
    import torch

    T = rollout.num_steps
    step_BK = torch.arange(T + 1, device=rollout.tokens_BL.device)[None]
    hidden_BKL = rollout.hidden_before(step_BK)
    draft_BKL = rollout.draft_before(step_BK)
    if draft_BKL is None:
        draft_BKL = rollout.tokens_BL[:, None].expand(-1, T + 1, -1)
    slots = rollout.answer_BL[0]
    hidden, draft = hidden_BKL[0][:, slots].tolist(), draft_BKL[0][:, slots].tolist()

    def state(p: int) -> list[str | None]:
        return [
            None if mask else codec.tokenizer.decode([token], skip_special_tokens=False)
            for mask, token in zip(hidden[p], draft[p], strict=True)
        ]

    states = [state(p) for p in range(T + 1)]
    return [
        [(slot, b) for slot, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        for before, after in pairwise(states)
    ]


def _value(rewards: Rewards, x: int) -> float | None:
    return round(float(rewards.total_X[x]), 6) if bool(rewards.counted_X[x]) else None
