"""An approximate cache in a recipe: refused where the network has none, and never silent."""

import pytest

from dllmzoo.checks import check
from dllmzoo.recipe import load
from tests.runs import recipe
from tests.unit.test_checks_of_blocks import LOW
from tests.unit.test_checks_of_blocks import recipe as block_recipe

CACHE = {"kind": "dual", "refresh": 4}


def made(tmp_path, cache, **changes):
    """The small recipe with a cache, after its checks, and what they found."""
    base = recipe(tmp_path, **changes)
    base["sampler"] |= {"cache": cache}
    loaded = load(base)
    return loaded, check(loaded)


def test_an_approximate_cache_is_announced_with_the_metric_that_judges_it(tmp_path):
    loaded, problems = made(tmp_path, CACHE)
    assert problems == []
    assert loaded.notices == [
        "sampler.cache (dual) is an approximation: answers do not follow the policy's own law; the "
        "metric sampling_gap says how many nats a token is off. Evaluations use it too, unless "
        "evaluate.sampler names another sampler"
    ]


@pytest.mark.parametrize("cache", [None, CACHE | {"refresh": 1}])
def test_exact_sampling_needs_no_word(tmp_path, cache):
    loaded, problems = made(tmp_path, cache)
    assert problems == [] and loaded.notices == []


def test_evaluations_of_their_own_are_announced_apart(tmp_path):
    other = {"name": "low_confidence", "answer_length": 16}
    loaded, _ = made(tmp_path, CACHE, evaluate={"sampler": other})
    assert loaded.notices[0].endswith("says how many nats a token is off")
    evaluate = {"sampler": other | {"cache": {"kind": "prefix"}}}
    loaded, _ = made(tmp_path, None, evaluate=evaluate)
    (notice,) = loaded.notices
    assert notice.startswith("evaluate.sampler.cache (prefix) is an approximation: evaluations say")


def test_a_network_that_keeps_nothing_is_named_at_the_cache():
    base = block_recipe(LOW | {"cache": CACHE}, "elbo")
    base["evaluate"] = {"sampler": LOW | {"cache": CACHE}}
    problems = {problem.path: problem for problem in check(load(base))}
    assert problems.keys() == {"sampler.cache", "evaluate.sampler.cache"}
    assert problems["sampler.cache"].message == (
        "sampler low_confidence keeps keys and values of the canvas, and networks of the family "
        "sdar do not"
    )
    assert problems["sampler.cache"].hint == "remove cache, or use a network of dream or llada"


def test_compiled_blocks_have_none(tmp_path):
    model = recipe(tmp_path)["model"] | {"compile": True}
    _, (problem,) = made(tmp_path, CACHE, model=model)
    assert problem.path == "model.compile"
    assert problem.hint == "use compile: false, or remove sampler.cache"
