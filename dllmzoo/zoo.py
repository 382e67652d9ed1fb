"""The eight registries: one for each kind of component, and nothing else."""

from __future__ import annotations

from dllmzoo.protocols import (
    Advantage,
    Likelihood,
    Loss,
    Model,
    Sampler,
    Schedule,
    Selector,
    Task,
)
from dllmzoo.registry import Registry

MODELS: Registry[Model] = Registry("model", package="dllmzoo.models")
SCHEDULES: Registry[Schedule] = Registry("schedule", package="dllmzoo.schedules")
SAMPLERS: Registry[Sampler] = Registry("sampler", package="dllmzoo.samplers")
SELECTORS: Registry[Selector] = Registry("selector", package="dllmzoo.selectors")
LIKELIHOODS: Registry[Likelihood] = Registry("likelihood", package="dllmzoo.likelihoods")
ADVANTAGES: Registry[Advantage] = Registry("advantage", package="dllmzoo.advantages")
LOSSES: Registry[Loss] = Registry("loss", package="dllmzoo.losses")
TASKS: Registry[Task] = Registry("task", package="dllmzoo.tasks")

ZOO: dict[str, Registry] = {
    registry.kind: registry
    for registry in (
        MODELS,
        SCHEDULES,
        SAMPLERS,
        SELECTORS,
        LIKELIHOODS,
        ADVANTAGES,
        LOSSES,
        TASKS,
    )
}
