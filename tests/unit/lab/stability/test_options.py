import pytest

from dllmzoo.errors import UsageError
from dllmzoo.lab.runs import check_arms
from dllmzoo.lab.stability import CONDITIONS, RIVALS, Options
from dllmzoo.lab.stability.arms import CLAIMED, loss_of


def test_every_run_of_the_full_grid_is_a_checked_recipe(tmp_path):
    runs = Options(grid="full").runs()
    names = [arm.name for arm in runs]
    assert len(set(names)) == len(names) <= 200
    assert set(check_arms(runs[::12], tmp_path)) == set(names[::12])


def test_the_quick_grid_is_part_of_the_full_one():
    quick, full = Options().runs(), Options(grid="full").runs()
    assert len(quick) == 10
    assert set(quick) <= set(full)


def test_arms_differ_in_their_loss_alone():
    one, other = (CONDITIONS["base"].run(arm, 0) for arm in ("grpo", "stable_drl"))
    changed = set(one.overrides) ^ set(other.overrides)
    assert all(each.startswith("loss=") for each in changed)


def test_the_two_halves_of_stable_drl_are_its_two_switches():
    whole, clip, normalise = (loss_of(arm, "sum") for arm in ("stable_drl", "clip_only", "sn_only"))
    assert whole | {"self_normalise": False} == clip
    assert whole | {"clip": False} == normalise


@pytest.mark.parametrize("word", ["seed=3", "output=x", "loss=dpo", "loss.clip_low=1",
                                  "likelihood.views=4"])  # fmt: skip
def test_a_change_that_would_make_the_runs_alike_is_refused(word):
    with pytest.raises(UsageError, match=f"{word.partition('=')[0]} cannot be changed here"):
        Options(changes=("train.prompts=2", word)).runs()


def test_noise_wraps_the_arm():
    loss = loss_of("grpo", "token", noise={"noise": 2.0})
    assert loss["name"] == "perturbed"
    assert loss["noise"] == 2.0
    assert loss["inner"]["length_norm"] == "token"


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=str)
def test_a_condition_makes_as_many_updates_as_it_says(condition):
    changes = dict(c.split("=", 1) for c in condition.run("stable_drl", 3).overrides)
    rounds, passes = int(changes["train.rounds"]), int(changes["train.passes"])
    assert rounds * passes == condition.updates
    assert rounds / int(changes["evaluate.every"]) == 9
    assert changes["seed"] == "3"


def test_names_choose_conditions_arms_and_seeds():
    options = Options(conditions=("sum", "noise-1"), arms=("sn_only",), seeds=2)
    assert [arm.name for arm in options.runs()] == [
        "sum.sn_only.0", "sum.sn_only.1", "noise-1.sn_only.0", "noise-1.sn_only.1",
    ]  # fmt: skip


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match=r"no condition 'tokens'. Did you mean 'token'"):
        Options(conditions=("tokens",)).cells()
    with pytest.raises(UsageError, match=r"no arm 'gpro'. Did you mean 'grpo'"):
        Options(arms=("gpro",)).cells()


def test_a_condition_that_changes_nothing_for_an_arm_is_refused():
    with pytest.raises(UsageError, match="eps-100 changes nothing but clip_only and stable"):
        Options(conditions=("eps-100",), arms=("grpo",)).cells()


def test_no_seeds_are_refused():
    with pytest.raises(UsageError, match="--seeds must be 1 or more"):
        Options(seeds=0).cells()


def test_every_condition_knows_its_arms():
    for condition in CONDITIONS.values():
        assert set(condition.arms) <= set(condition.only or RIVALS)
    assert set(CLAIMED) <= set(CONDITIONS["base"].arms)
