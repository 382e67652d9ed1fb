"""How much of a call is spent in networks, their backward pass and the optimiser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accelerate import Accelerator
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from dllmzoo.bench.place import Place


class Stopwatch:
    """Seconds of the outermost of nested calls, by name.

    Args:
        place: whose clock; on a GPU every reading waits for the device.
    """

    def __init__(self, place: Place) -> None:
        """Nothing was spent."""
        self.place = place
        self.seconds: dict[str, float] = {}
        self._depth, self._start, self._name = 0, 0.0, ""

    def enter(self, name: str) -> None:
        """A call begins."""
        if self._depth == 0:
            self._start, self._name = self.place.now(), name
        self._depth += 1

    def leave(self) -> None:
        """The call that began last ends."""
        self._depth -= 1
        if self._depth == 0:
            spent = self.place.now() - self._start
            self.seconds[self._name] = self.seconds.get(self._name, 0.0) + spent

    @contextmanager
    def watching(self) -> Iterator[None]:
        """From zero on: forwards of any module (`policy`) and steps of any optimiser."""
        self.seconds = {}
        handles = (
            register_module_forward_pre_hook(lambda *_: self.enter("policy")),
            register_module_forward_hook(lambda *_: self.leave()),
            register_optimizer_step_pre_hook(lambda *_: self.enter("optimiser")),
            register_optimizer_step_post_hook(lambda *_: self.leave()),
        )
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


class TimedReference:
    """A reference policy whose forwards are timed as `reference`.

    Args:
        watch: is told of them.
        reference: the policy.
    """

    def __init__(self, watch: Stopwatch, reference: Any) -> None:
        """A policy."""
        self.watch, self.reference = watch, reference

    def __getattr__(self, name: str) -> Any:
        """What the policy has."""
        return getattr(self.reference, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the policy says."""
        self.watch.enter("reference")
        try:
            return self.reference(*args, **kwargs)
        finally:
            self.watch.leave()


class TimedAccelerator(Accelerator):
    """One process, whose backward passes are timed.

    Args:
        watch: is told of them.
        **settings: of the accelerator.
    """

    def __init__(self, watch: Stopwatch, **settings: Any) -> None:
        """An accelerator."""
        super().__init__(**settings)
        self.watch = watch

    def backward(self, loss: Any, **settings: Any) -> None:
        """Backward, timed."""
        self.watch.enter("backward")
        super().backward(loss, **settings)
        self.watch.leave()
