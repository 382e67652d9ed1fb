"""Laws of samplers that read old keys and values, with small networks of real families."""

import pytest

from dllmzoo.laws import LAWS, Case, LawError, hold, samplers
from dllmzoo.laws.models import tiny
from dllmzoo.zoo import MODELS, SAMPLERS

CACHED = [name for name in SAMPLERS.names() if hasattr(SAMPLERS.get(name), "needs_canvas_cache")]
CACHED.remove("running_confidence")  # it refuses a cache
CACHED.remove("tree")  # whose laws are those of low_confidence, for whole groups
RECOMPUTED = "records_can_be_recomputed"
DRAFTS = "storing_changes_nothing"  # a cache is refused beside drafts
LAWS_OF_CACHES = [
    law for name, law in LAWS["sampler"].items() if name not in (RECOMPUTED, DRAFTS)
]  # fmt: skip


class Recorder(samplers.Recorder):
    """A recorder in front of a network with a canvas cache."""

    def new_canvas_cache(self, rows):
        return self.policy.new_canvas_cache(rows)


@pytest.fixture(params=["llada", "dream"])
def network(request, monkeypatch):
    """The policy of every case."""
    made = tiny(MODELS.get(request.param), Case(2))
    monkeypatch.setattr(samplers, "policy_for", lambda sampler, case: made)
    monkeypatch.setattr(samplers, "Recorder", Recorder)
    return made


def cached(name, case, refresh):
    """A sampler of short answers in two blocks."""
    N = case.integer("answer length", 2, 8)
    kind = case.among("kind", ("prefix", "dual"))
    sizes = {"answer_length": N, "block_length": -(-N // 2)}
    return SAMPLERS.get(name)(**sizes, cache={"kind": kind, "refresh": refresh})


@pytest.mark.parametrize("law", LAWS_OF_CACHES, ids=lambda law: law.name)
@pytest.mark.parametrize("name", CACHED)
def test_every_other_law_of_samplers_holds(name, law, network):
    for seed in range(3):
        case = Case(seed, 4)
        hold(cached(name, case, case.among("refresh", (None, 1, 2))), law, case)


@pytest.mark.parametrize("name", CACHED)
def test_records_can_be_recomputed_where_every_step_is_whole_and_only_there(name, network):
    law = LAWS["sampler"][RECOMPUTED]
    for seed in range(3):
        hold(cached(name, Case(seed, 4), 1), law, Case(seed, 4))
    with pytest.raises(LawError):
        for seed in range(8):
            hold(cached(name, Case(seed, 4), None), law, Case(seed, 4))
