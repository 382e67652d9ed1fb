"""Unit test of the records that the parts of a round hand to each other."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dllmzoo.laws import inputs
from dllmzoo.records import Key, Normaliser, Rewards, Units, Views, join, take
from tests.strategies import cases, played, units

NORMALISERS = Normaliser.__args__


def test_a_key_always_gives_the_same_numbers():
    # the first numbers are written down: another hash or generator would move every run
    key = Key(seed=42, round=7, purpose="views", pass_=1)
    first, again = (torch.rand(2, generator=key.generator()).tolist() for _ in range(2))
    assert first == again
    assert key.generator().initial_seed() == 4671411746072853478


def test_every_field_of_a_key_and_the_sample_number_matter():
    key = Key(1, 2, "views", 3)
    others = [
        replace(key, seed=2), replace(key, round=3), replace(key, purpose="select"),
        replace(key, pass_=4), key.sub("size"),
    ]  # fmt: skip
    seeds = {k.generator().initial_seed() for k in (key, *others)}
    seeds |= {key.generator(sample).initial_seed() for sample in range(5)}
    assert len(seeds) == 6 + 5


def test_a_row_of_uniform_numbers_depends_on_its_sample_number_alone():
    key = Key(0, 0, "sample")
    all_B23 = key.uniform(torch.tensor([4, 0, 9]), 2, 3)
    assert all_B23.shape == (3, 2, 3) and all_B23.dtype == torch.float32
    assert ((all_B23 >= 0) & (all_B23 < 1)).all()
    assert torch.equal(key.uniform(torch.tensor([9, 4]), 2, 3), all_B23[[2, 0]])


def test_no_rows_are_no_numbers():
    assert Key(0, 0, "sample").uniform(torch.zeros(0, dtype=torch.long), 3).shape == (0, 3)


def test_keys_do_not_touch_the_global_generator():
    before = torch.random.get_rng_state()
    Key(0, 0, "sample").uniform(torch.arange(3), 4)
    assert torch.equal(before, torch.random.get_rng_state())


def test_hidden_before_a_step_are_answer_slots_committed_then_later_or_never():
    rollout = played([[1, 1, 1, 1]], [[0, 2, 1, -1]], num_steps=3)
    hide_BKL = rollout.hidden_before(torch.tensor([[0, 1, 2, 3]]))
    # one word of prompt stands before the answer
    assert hide_BKL[0].int().tolist() == [
        [0, 1, 1, 1, 1],
        [0, 0, 1, 1, 1],
        [0, 0, 1, 0, 1],
        [0, 0, 0, 0, 1],
    ]


def test_the_answer_is_valid_up_to_and_including_its_first_end_token():
    rollout = played([[1, 5, 2, 5], [1, 2, 3, 4]], [[0, 0, 0, 0]] * 2)
    assert rollout.valid_BL[:, 1:].int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert rollout.length_B.tolist() == [2, 4]


@pytest.mark.parametrize(("temperature", "expected"), [(0.9, 0.9), (0.0, 1.0), (2.0, 2.0)])
def test_the_temperature_of_a_greedy_rollout_is_one(temperature, expected):
    assert played([[1]], [[0]], temperature=temperature).temperature == expected


def test_a_rollout_without_a_sampler_has_temperature_one():
    assert replace(played([[1]], [[0]]), sampler=None).temperature == 1.0


@pytest.fixture
def views() -> Views:
    """Two views of one row of three slots; slot 1 is scored in both, for units 0 and 2."""
    score_BKL = torch.tensor([[[True, True, False], [False, True, False]]])
    return Views(
        hide_BKL=score_BKL,
        score_BKL=score_BKL,
        weight_BKL=torch.full((1, 2, 3), 0.5),
        unit_BKL=torch.tensor([[[0, 0, 9], [9, 2, 9]]]),  # 9 where nothing is scored
        size_BU=torch.tensor([[2.0, 1.0, 1.0, 1.0]]),
        weight_BU=torch.tensor([[1.0, 1.0, 0.0, 1.0]]),
        column_BU=torch.tensor([[1, 0, 1, 0]]),
    )


def test_a_total_sums_scored_slots_of_each_unit(views):
    value_BKL = torch.tensor([[[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]]], requires_grad=True)
    total_BU = views.total(value_BKL)
    # unit 0: 1 + 2; unit 2: 16; the others are fed by nothing
    assert total_BU.tolist() == [[3.0, 0.0, 16.0, 0.0]]
    total_BU.sum().backward()
    assert value_BKL.grad.tolist() == [[[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]]


def test_numbers_that_are_not_scored_do_not_matter_even_if_they_are_none(views):
    value_BKL = torch.full((1, 2, 3), float("nan"))
    value_BKL[views.score_BKL] = 1.0
    assert views.total(value_BKL).tolist() == [[2.0, 0.0, 1.0, 0.0]]


def test_live_units_are_fed_by_a_slot_and_have_weight(views):
    # unit 2 is fed but weighs nothing, units 1 and 3 weigh but are not fed
    assert views.live_BU.tolist() == [[True, False, False, False]]


def test_one_advantage_column_judges_every_unit_and_several_are_gathered(views):
    assert views.credit(torch.tensor([[3.0]])).tolist() == [[3.0] * 4]
    assert views.credit(torch.tensor([[3.0, 5.0]])).tolist() == [[5.0, 3.0, 5.0, 3.0]]


def test_facts_of_units_name_the_view_that_scored_them_and_count_what_there_is(views):
    rollout = played([[1, 5]], [[0, 1]])
    facts = Units.of(views, rollout)
    assert facts.row_BU.tolist() == [[0, 0, 1, 0]]
    assert facts.canvas == 2
    # one live unit of 2 tokens; two views score something; 2 valid tokens
    assert facts.totals == {
        "tokens": 2.0, "scored": 2.0, "sequences": 1.0, "nonzero": 1.0, "rows": 2.0, "units": 1.0,
        "groups": 1.0,
    }  # fmt: skip
    none = Units.totals_of(views, rollout, torch.zeros(1, 4))
    assert none["nonzero"] == 0.0


def test_rows_that_do_not_count_are_in_no_total():
    rollout = played([[1, 5]] * 3, [[0, 1]] * 3, group_size=1)
    score_BKL = torch.tensor([[[False, True, True]]]).expand(3, 1, 3)
    counted_B = torch.tensor([True, False, True])
    ones_BU, zero_BKL = torch.ones(3, 1), torch.zeros(3, 1, 3, dtype=torch.long)
    made = Views(
        score_BKL, score_BKL & counted_B[:, None, None], ones_BU[:, :, None].expand(3, 1, 3),
        zero_BKL, 2 * ones_BU, ones_BU * counted_B[:, None], zero_BKL[:, :, 0],
    )  # fmt: skip
    assert Units.totals_of(made, rollout, ones_BU * counted_B[:, None], counted_B) == {
        "tokens": 4.0, "scored": 4.0, "sequences": 2.0, "nonzero": 2.0, "rows": 2.0, "units": 2.0,
        "groups": 2.0,
    }  # fmt: skip


def test_the_canvas_counts_slots_that_were_given(views):
    rollout = played([[1, 5]], [[0, -1]])
    answer_BL = rollout.answer_BL & (rollout.reveal_BL >= 0)
    assert int(answer_BL.sum()) == 1
    assert Units.of(views, replace(rollout, answer_BL=answer_BL)).canvas == 2


def step() -> Units:
    """Two sequences of one group. Row 0: units of 2 and 3 tokens; row 1: 4 tokens and a dead one.

    The live units of row 0 come from two views, that of row 1 from one; N = 6.
    """
    return units(
        2, 2,
        size_BU=torch.tensor([[2.0, 3.0], [4.0, 0.0]]),
        weight_BU=torch.tensor([[1.0, 2.0], [1.0, 0.0]]),
        row_BU=torch.tensor([[0, 1], [0, 0]]),
        canvas=6,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        # terms 1, 2, 4 with weights 1, 2, 1 sum to 1 + 4 + 4 = 9
        ("token", 9 / 9),  # 2 + 3 + 4 tokens
        ("sequence", ((1 + 4) / 2 + 4) / 2),
        ("fixed", 9 / (2 * 6)),
        ("row", 9 / 3),  # three views of one unit each
        ("nonzero", 9 / (6 * 2)),
        ("step", (1 / 2 + 4 / 3 + 4 / 4) / 3),
        ("unit", 9 / 3),
        ("group", 9 / 1),
    ],
)
def test_each_normaliser_divides_as_it_says(how, expected):
    term_BU = torch.tensor([[1.0, 2.0], [4.0, float("nan")]])
    assert step().mean(term_BU, how).item() == pytest.approx(expected)


def test_token_divides_by_what_was_scored_not_by_all_valid_tokens():
    # terms 1, 2, 4 with weights 1, 2, 1 sum to 9; 9 of 20 valid tokens were scored
    facts = replace(step(), totals={**step().totals, "tokens": 20.0})
    term_BU = torch.tensor([[1.0, 2.0], [4.0, 0.0]])
    assert facts.mean(term_BU, "token").item() == pytest.approx(9 / 9)


def test_a_view_that_feeds_two_units_averages_them():
    # one view feeds both units of row 0: (1 + 2 * 2) / 2, then over two views with row 1: 4
    facts = replace(step(), row_BU=torch.zeros(2, 2, dtype=torch.long))
    facts = replace(facts, totals={**facts.totals, "rows": 2.0})
    assert facts.mean(torch.tensor([[1.0, 2.0], [4.0, 0.0]]), "row").item() == pytest.approx(
        (5 / 2 + 4) / 2
    )


def test_nonzero_counts_sequences_that_the_advantage_moves():
    facts = units(2, advantage_BU=torch.tensor([[1.0], [0.0]]), canvas=3)
    assert facts.mean(torch.ones(2, 1), "nonzero").item() == pytest.approx(2 / (3 * 1))


def test_an_unknown_normaliser_is_refused_with_the_names_of_all():
    with pytest.raises(ValueError, match=r"no normaliser named 'median'.*'token', 'sequence'"):
        step().mean(torch.ones(2, 2), "median")


@pytest.mark.parametrize("how", NORMALISERS)
def test_a_step_without_live_units_is_zero_and_not_nan(how):
    dead = units(2, 2, weight_BU=torch.zeros(2, 2), advantage_BU=torch.zeros(2, 2))
    term_BU = torch.ones(2, 2, requires_grad=True)
    scalar = dead.mean(term_BU, how)
    scalar.backward()
    assert scalar.item() == 0 and not term_BU.grad.any()


@pytest.mark.parametrize("how", NORMALISERS)
@settings(max_examples=30)
@given(case=cases(), data=st.data())
def test_any_split_of_the_rows_adds_up_to_the_whole_step(how, case, data):
    facts = inputs.units_of_kind(case, case.among("kind", ("slot", "step", "sequence", "view")))
    B = len(facts.live_BU)
    term_BU = case.normal("term", *facts.live_BU.shape).double().requires_grad_()
    whole = facts.mean(term_BU, how)
    (whole_BU,) = torch.autograd.grad(whole, term_BU)
    parts = torch.tensor(data.draw(st.lists(st.integers(0, 3), min_size=B, max_size=B)))
    total = torch.zeros((), dtype=torch.float64)
    for part in range(4):
        rows = (parts == part).nonzero()[:, 0]
        if len(rows):
            total = total + inputs.take_units(facts, rows).mean(term_BU[rows], how)
    (split_BU,) = torch.autograd.grad(total, term_BU)
    torch.testing.assert_close(total, whole, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(split_BU, whole_BU, rtol=1e-10, atol=1e-12)


@given(case=cases(), data=st.data())
def test_taking_and_joining_rows_are_inverse(case, data):
    rollout = inputs.rollout(case)
    B = len(rollout.tokens_BL)
    order = torch.tensor(data.draw(st.permutations(range(B))))
    cut = data.draw(st.integers(1, B))
    parts = [take(rollout, rows) for rows in (order[:cut], order[cut:]) if len(rows)]
    found = take(join(parts), order.argsort())
    for name, value in vars(rollout).items():
        other = getattr(found, name)
        if name == "forwards":
            assert other == value * len(parts)  # counted over all rows, so parts add theirs
        elif isinstance(value, torch.Tensor):
            assert torch.equal(other, value), name
        else:
            assert other == value, name


def test_taking_rows_of_rewards_changes_nothing_without_a_row_axis():
    # X is no row axis: rewards are flat lists of texts
    found = inputs.rewards(torch.tensor([1.0, 2.0]))
    assert torch.equal(take(found, torch.tensor([1])).total_X, found.total_X)
    assert isinstance(found, Rewards)
