"""Published protocols by name."""

import dataclasses

import pytest

from dllmzoo.errors import UsageError
from dllmzoo.training.presets import PRESETS, preset
from dllmzoo.zoo import SAMPLERS, TASKS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_every_option_of_its_sampler(name):
    chosen = preset(name)
    options = dict(chosen.sampler)
    cls = SAMPLERS.get(options.pop("name"))
    left = {field.name for field in dataclasses.fields(cls)} - set(options)
    assert left == {"answer_length", "steps", "temperature"}
    sampler = cls(
        **options, answer_length=256, steps=chosen.steps(256), temperature=chosen.temperature
    )
    assert sampler.num_steps == chosen.steps(256)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_names_options_that_its_tasks_have(name):
    for task, options in preset(name).task.items():
        assert set(options) <= {field.name for field in dataclasses.fields(TASKS.get(task))}


def test_the_protocol_of_d1():
    chosen = preset("d1")
    assert [chosen.steps(length) for length in (128, 256, 512, 1)] == [64, 128, 256, 1]
    assert chosen.sampler["block_length"] == 32 and chosen.temperature == 0
    prompt = TASKS.get("gsm8k")(**chosen.task["gsm8k"]).prompt({"question": "2 + 2?"})
    assert [each["role"] for each in prompt] == ["user", "assistant"]
    assert prompt[1]["content"] == "<reasoning>" and "boxed" in prompt[0]["content"]


def test_an_unknown_preset_names_those_there_are():
    with pytest.raises(UsageError, match="no preset 'd2'; there are: d1"):
        preset("d2")
