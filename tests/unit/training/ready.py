"""Recipes with what they load, and verdicts of the preflight by name."""

import dataclasses
import functools

from accelerate import Accelerator

from dllmzoo.checks import load_checked
from dllmzoo.models._load import load_tokenizer
from dllmzoo.training.preflight import preflight
from dllmzoo.training.setup import make_learner
from tests.runs import recipe


@functools.cache
def accelerator():
    return Accelerator(cpu=True)


def ready(source=None, policy=None, **changes):
    """A packaged recipe, or the smallest one with `changes` of its sections, and its learner."""
    loaded = load_checked(source or recipe("run", **changes), smoke=bool(source))
    tokenizer = None if policy is None else load_tokenizer("characters:01234=")
    return loaded, make_learner(loaded, accelerator(), policy=policy, tokenizer=tokenizer)


def verdicts(loaded, learner, **options):
    return {verdict.name: verdict for verdict in preflight(loaded, learner, **options)}


def failed(loaded, learner, **options):
    found = verdicts(loaded, learner, **options)
    return {name: v for name, v in found.items() if v.outcome == "failed"}


def with_policy(learner, policy):
    return dataclasses.replace(learner, policy=policy)


def with_tokenizer(learner, tokenizer):
    return dataclasses.replace(
        learner, codec=dataclasses.replace(learner.codec, tokenizer=tokenizer)
    )
