"""Unit test of how components are held to laws and exempted from them."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import pytest
import torch
from pydantic import Field

from dllmzoo.errors import DllmzooError
from dllmzoo.laws import LAWS, LawError, check_advantage, check_schedule, check_selector
from dllmzoo.laws.case import Case
from dllmzoo.laws.law import exemptions, same, untouched_global_generator
from dllmzoo.laws.settings import choices, drawn
from dllmzoo.records import Key, Rollout, Steps
from dllmzoo.zoo import ADVANTAGES, SCHEDULES, SELECTORS


@dataclass(frozen=True)
class Last:
    """The last `steps` denoising steps, where few masks are left."""

    steps: int = 1

    def __call__(self, rollout: Rollout, key: Key) -> Steps:
        step_K = torch.arange(rollout.num_steps - 1, rollout.num_steps - 1 - self.steps, -1)
        start_BK = step_K.expand(len(rollout.tokens_BL), -1)
        used_BK = (rollout.reveal_BL.unsqueeze(1) == start_BK.unsqueeze(2)).any(2)
        return Steps(start_BK, start_BK + 1, used_BK.float())


@dataclass(frozen=True)
class Raw:
    """The reward itself, as its own advantage."""

    needs_previews: ClassVar[bool] = False
    per_step: ClassVar[bool] = False
    exempt: ClassVar[dict[str, str]] = {
        "equal_rewards_give_zero": "no baseline",
        "groups_sum_to_zero": "no baseline",
        "shift": "no baseline",
    }

    def __call__(self, rewards, previews, steps, rollout, round):
        return rewards.total_X.unsqueeze(1)


def made(base: Any, **names: Any) -> Any:
    """A subclass with other class variables."""
    return type("Changed", (base,), names)


def test_a_strangers_selector_as_a_class_or_as_an_instance_obeys_the_laws():
    report = check_selector(Last)
    claims = {"cost_is_known", "states_decide", "weights_are_unbiased", "shared_steps_count_once"}
    assert set(report.silent) == claims
    assert {*report.held, *claims} == set(LAWS["selector"])
    assert report.exempt == {}
    assert check_selector(Last(steps=3)).held == report.held


def test_a_law_that_is_broken_names_itself_the_finding_and_a_smallest_input():
    class Loud(Last):
        def __call__(self, rollout, key):
            steps = super().__call__(rollout, key)
            return Steps(steps.start_BK, steps.stop_BK, torch.ones_like(steps.weight_BK))

    with pytest.raises(LawError) as caught:
        check_selector(Loud)
    text = str(caught.value)
    assert text.startswith("selector 'Loud' breaks the law 'empty_spans_weigh_nothing'")
    assert "An entry has weight above 0 only if its span committed something." in text
    assert "found: weight above 0 at (row, column)" in text
    assert "Loud(steps=1)" in text and "input: Case(seed=" in text
    assert isinstance(caught.value, DllmzooError) and isinstance(caught.value, AssertionError)


def test_an_error_inside_a_component_is_a_broken_law_that_names_the_error():
    class Crashing(Last):
        def __call__(self, rollout, key):
            raise IndexError("no such step")

    with pytest.raises(LawError, match="found: IndexError: no such step"):
        check_selector(Crashing())


def test_the_smallest_input_is_one_that_fails():
    class Long(Last):
        def __call__(self, rollout, key):
            steps = super().__call__(rollout, key)
            weight_BK = steps.weight_BK if rollout.num_steps < 4 else -steps.weight_BK - 1
            return Steps(steps.start_BK, steps.stop_BK, weight_BK)

    with pytest.raises(LawError) as caught:
        check_selector(Long, cases=60)
    place = str(caught.value).rpartition("input: ")[2]
    case = eval(place, {"Case": Case})
    with pytest.raises(LawError, match="weights"):
        LAWS["selector"]["spans_inside"].test(Long(), case)
    if case.size:
        smaller = Case(case.seed, case.size - 1)
        LAWS["selector"]["spans_inside"].test(Long(), smaller)


def test_an_exemption_is_reported_with_its_reason_and_the_other_laws_are_held():
    report = check_advantage(Raw)
    assert report.exempt == Raw.exempt
    assert "scale" in report.held and "shift" not in report.held
    assert list(report.silent) == ["zero_weight_is_group_relative", "sharers_share_credit"]


def test_an_exemption_that_is_not_real_is_refused():
    changed = made(Raw, exempt={**Raw.exempt, "scale": "said so"})
    with pytest.raises(LawError, match=r"exempt from the law 'scale', but obeys it on every case"):
        check_advantage(changed)


def test_an_exemption_from_a_law_that_says_nothing_about_the_part_is_refused():
    changed = made(Raw, exempt={**Raw.exempt, "zero_weight_is_group_relative": "has none"})
    with pytest.raises(LawError, match="remove the exemption"):
        check_advantage(changed)


def test_an_unknown_law_is_refused_with_the_names_of_all_laws():
    changed = made(Raw, exempt={"sums_to_one": "why"})
    with pytest.raises(LawError, match=r"exempt from 'sums_to_one'.*groups_sum_to_zero"):
        check_advantage(changed)


@pytest.mark.parametrize(
    ("key", "reason"),
    [("shift if", "why"), ("shift if centre", "why"), ("shift if nothing=1", "why"), ("shift", "")],
)
def test_a_malformed_exemption_is_refused(key, reason):
    changed = made(Raw, exempt={key: reason})
    with pytest.raises(LawError):
        check_advantage(changed)


def test_an_exemption_of_one_setting_leaves_the_others_held():
    @dataclass(frozen=True)
    class Centred:
        centre: bool = True
        needs_previews: ClassVar[bool] = False
        per_step: ClassVar[bool] = False
        exempt: ClassVar[dict[str, str]] = {
            f"{law} if centre=false": "no baseline"
            for law in ("equal_rewards_give_zero", "groups_sum_to_zero", "shift")
        }

        def __call__(self, rewards, previews, steps, rollout, round):
            if not self.centre:
                return rewards.total_X.unsqueeze(1)
            good = ADVANTAGES.get("group_relative")()
            return good(rewards, previews, steps, rollout, round)

    report = check_advantage(Centred)
    assert {"shift", "groups_sum_to_zero"} <= set(report.held)
    assert "shift" in check_advantage(Centred(centre=True)).held
    assert "shift" not in check_advantage(Centred(centre=False)).held
    assert exemptions(Centred)[0].covers(Centred(centre=False))
    assert not exemptions(Centred)[0].covers(Centred())


def test_every_law_has_a_sentence_for_its_statement():
    for kind, laws in LAWS.items():
        for name, law in laws.items():
            assert law.kind == kind and law.name == name
            assert law.statement.endswith(".") and len(law.statement) <= 100


def test_same_says_where_tensors_differ():
    with pytest.raises(LawError, match=r"weights: 2 at \[0, 1\], expected 3"):
        same(torch.tensor([[1, 2]]), torch.tensor([[1, 3]]), "weights")
    with pytest.raises(LawError, match=r"weights: shape \(1,\), expected \(2,\)"):
        same(torch.zeros(1), torch.zeros(2), "weights")
    with pytest.raises(LawError, match="nan"):
        same(torch.tensor([float("nan")]), torch.tensor([0.0]), "weights", 1.0)


def test_drawing_from_the_global_generator_is_caught():
    with pytest.raises(LawError, match="global generator"), untouched_global_generator():
        torch.rand(1)
    with untouched_global_generator():
        torch.rand(1, generator=Case(0).generator("x"))


@dataclass(frozen=True)
class Knobs:
    share: Annotated[float, Field(ge=0, lt=1)] = 0.5
    count: Annotated[int, Field(gt=0, le=2)] = 1
    mode: Literal["a", "b"] = "a"
    flag: bool = False
    bound: Annotated[float, Field(ge=0)] | None = 1.0
    free: float = 7.0
    name: str = "kept"

    def __post_init__(self) -> None:
        if self.flag and self.mode == "b":
            raise ValueError("flag does not go with mode b")


def test_settings_are_drawn_inside_the_ranges_that_annotations_state():
    seen = [drawn(Knobs, Case(seed)) for seed in range(200)]
    assert all(0 <= knobs.share < 1 for knobs in seen)
    assert {knobs.count for knobs in seen} == {1, 2}
    assert {knobs.mode for knobs in seen} == {"a", "b"}
    assert {knobs.flag for knobs in seen} == {False, True}
    assert None in {knobs.bound for knobs in seen}
    assert {knobs.free for knobs in seen} == {7.0} and {knobs.name for knobs in seen} == {"kept"}
    assert not any(knobs.flag and knobs.mode == "b" for knobs in seen)


def test_real_components_are_drawn_from_too():
    found = {name for seed in range(50) for name in choices(SELECTORS.get("entropy"), Case(seed))}
    assert found == {"steps", "over", "until_last_non_end"}
    assert choices(SCHEDULES.get("cosine"), Case(0)) == {}
    assert check_schedule(SCHEDULES.get("cosine")()).held == tuple(LAWS["schedule"])


def test_a_case_draws_the_same_for_a_tag_and_stays_small():
    case = Case(3, size=2)
    assert case.integer("a", 1, 9) == case.integer("a", 1, 9) <= 3
    assert torch.equal(case.normal("x", 4), case.normal("x", 4))
    assert not torch.equal(case.normal("x", 4), case.normal("y", 4))
    assert not torch.equal(case.normal("x", 4), Case(4, 2).normal("x", 4))
    assert sorted(case.order("o", 5).tolist()) == [0, 1, 2, 3, 4]
    assert Case(0, 0).integer("a", 2, 9) == 2
