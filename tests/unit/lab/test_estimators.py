"""The estimator lab on policies whose truths are known."""

import json
import math
from dataclasses import replace

import pytest
import torch

from dllmzoo.lab import estimators as lab
from dllmzoo.lab.estimators.bench import Bench
from dllmzoo.lab.estimators.experiment import measured
from dllmzoo.lab.estimators.selection import BEST, Selection
from dllmzoo.lab.estimators.table_world import table_world
from dllmzoo.zoo import LIKELIHOODS
from tests.unit.lab.estimators.small import two_slots

NUMBERS = ("values", "ratios", "gradients")
FEW = {"slots": 3, "draws": 2048, "views": (2,), "measures": NUMBERS}


def points(**settings):
    """label -> point of a small run on the table."""
    result = lab.run(lab.Options(**{**FEW, **settings}))
    return {point.label: point for point in result.points}


@pytest.fixture(scope="module")
def default():
    """Every registered likelihood and selector, few draws."""
    return lab.run(lab.Options(slots=2, draws=512, views=(1, 2)))


def test_unbiased_estimators_are_told_by_what_they_estimate():
    found = points(
        estimators=("elbo", "exact:of=elbo", "exact:of=loglikelihood", "coupled:form=elbo"),
        measures=("values",),
    )
    reads = {label: point.values[0].estimates for label, point in found.items()}
    assert reads == {
        "elbo": "ELBO",
        "coupled:form=elbo": "ELBO",
        "exact:of=elbo": "ELBO",
        "exact:of=loglikelihood": "log-likelihood",
    }
    value = found["elbo"].values[0]
    assert abs(value.elbo.bias) < 4 * value.elbo.bias_se
    assert value.loglikelihood.bias < -4 * value.loglikelihood.bias_se  # a lower bound
    exact = found["exact:of=loglikelihood"].values[0].loglikelihood
    assert exact.rmse < 1e-6 and exact.bias_se == pytest.approx(0.0, abs=1e-9)
    assert found["exact:of=elbo"].forwards == 7  # 2^3 - 1


def test_mean_field_is_biased_by_what_slots_tell_of_each_other():
    value = points(estimators=("mean_field",), measures=("values",))["mean_field"].values[0]
    assert value.estimates == "neither"
    assert value.loglikelihood.std == pytest.approx(0.0, abs=1e-6)
    assert value.loglikelihood.answer_bias > 0.1


def test_mean_field_of_two_slots_by_hand():
    # answer (1, 1): mean field .5 * .25 = .125; exact (.5 * .8 + .25 * .6) / 2 = .275
    options = lab.Options(slots=2, draws=256, estimators=("mean_field",), measures=("values",))
    bench = Bench(table_world(options, two_slots()), options)
    (point,), skipped = measured(bench, print)
    assert not skipped
    # the other answers: (1, 0): mean field .375, exact (.5 * .2 + .75 * .5) / 2 = .2375
    # (0, 1): .125, (.5 * .5 + .25 * .4) / 2 = .175; (0, 0): .375, (.25 + .375) / 2 = .3125
    exact = {3: 0.275, 2: 0.2375, 1: 0.175, 0: 0.3125}
    meant = {3: 0.125, 2: 0.375, 1: 0.125, 0: 0.375}
    assert bench.world.prob_X.tolist() == pytest.approx([exact[x] for x in range(4)])
    counts = torch.bincount(bench.index_B).tolist()
    gap = sum(counts[x] * math.log(meant[x] / exact[x]) for x in range(4)) / 256
    assert point.values[0].loglikelihood.bias == pytest.approx(gap, abs=1e-6)


def test_the_trajectory_ratio_and_gradient_are_unbiased():
    found = points(estimators=("denoising_steps",), with_selectors=("all",), draws=4096)
    point = found["denoising_steps@all"]
    (ratio,) = point.ratios
    assert ratio.masks == "shared"
    assert abs(ratio.ratio.bias) < 4 * ratio.ratio.bias_se
    assert point.gradient.bias < 3 * point.gradient.resolution
    assert point.gradient.cosine_of_mean > 0.95
    assert point.forwards == 3
    # given the answer, orders that make it likely are likelier: above the log-likelihood
    assert point.values[0].loglikelihood.bias > 4 * point.values[0].loglikelihood.bias_se


def test_the_exact_log_likelihood_has_the_exact_gradient():
    result = lab.run(
        lab.Options(slots=3, draws=512, estimators=("exact:of=loglikelihood",), measures=NUMBERS)
    )
    gradient = result.points[0].gradient
    assert gradient.bias < 1e-6 and gradient.resolution < 1e-6
    assert gradient.cosine == pytest.approx(result.exact_score.cosine, abs=1e-6)
    assert gradient.error == pytest.approx(result.exact_score.error, abs=1e-6)
    assert result.points[0].ratios[0].ratio.rmse < 1e-5


def test_masks_of_their_own_make_ratios_noisy():
    shared, own = points(estimators=("elbo",), measures=("ratios",))["elbo"].ratios
    assert (shared.masks, own.masks) == ("shared", "own")
    assert own.log.std > 2 * shared.log.std
    assert own.ratio.rmse > shared.ratio.rmse


def test_more_views_cost_more_and_err_less():
    found = points(estimators=("elbo",), views=(1, 4), draws=4096)
    few, many = found["elbo:views=1"], found["elbo:views=4"]
    assert (few.forwards, many.forwards) == (1.0, 4.0)
    assert many.values[0].elbo.std == pytest.approx(few.values[0].elbo.std / 2, rel=0.15)
    assert many.gradient.std < few.gradient.std


def test_bounds_that_depend_on_the_sign_are_told_apart(default):
    (sandwich,) = [point for point in default.points if point.label == "sandwich"]
    above, below = sandwich.values
    assert (above.advantage, below.advantage) == ("positive", "negative")
    assert below.loglikelihood.bias > above.loglikelihood.bias


def test_every_registered_likelihood_is_measured_or_left_out_with_a_reason(default):
    seen = {point.name for point in default.points}
    seen |= {each.name.partition("@")[0].partition(":")[0] for each in default.skipped}
    assert set(LIKELIHOODS.names()) <= seen
    assert all(each.reason for each in default.skipped)
    assert [point.forwards for point in default.points] == sorted(
        point.forwards for point in default.points
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_the_entropy_bound_is_never_violated(seed):
    names = ("entropy", "entropy_gate", "random", "surprisal", "uniform")
    options = lab.Options(slots=3, seed=seed, draws=64, measures=("selection",), selectors=names)
    found = lab.run(options).selection
    bounded = [each for each in found if each.bound is not None]
    assert {each.selector for each in bounded} == {*names, BEST}
    for each in bounded:
        assert each.error - each.resolution <= each.bound + 1e-9, each
        assert each.error - each.resolution <= each.surprisal_bound + 1e-9, each
    whole = [each for each in found if each.selector in ("entropy", BEST) and each.kept == 3]
    assert len(whole) == 2
    assert all(each.error < 1e-9 and each.cosine == pytest.approx(1) for each in whole)
    best = {len(each.steps): each.error for each in found if each.selector == BEST}
    uniform = {round(each.kept): each.error for each in found if each.selector == "uniform"}
    assert all(best[k] <= uniform[k] + 1e-9 for k in (1, 2, 3))


def test_sampled_steps_are_unbiased_and_all_steps_are_the_gradient():
    options = lab.Options(
        slots=3, draws=64, measures=("selection",), selectors=("entropy_sampled",)
    )
    bench = Bench(table_world(options), options)
    study = Selection(bench, LIKELIHOODS.get("denoising_steps")())
    torch.testing.assert_close(study.whole, bench.gradient, rtol=0, atol=1e-7)
    for each in lab.run(options).selection:
        if each.selector == "entropy_sampled":
            assert each.bound is None
            assert each.error < 3 * each.resolution


def test_a_plug_in_is_measured_like_any_other(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        '"""Half of mean field."""\n'
        "from dataclasses import dataclass\n"
        "from dllmzoo import LIKELIHOODS\n"
        "from dllmzoo.records import Estimate\n"
        "MeanField = LIKELIHOODS.get('mean_field')\n\n"
        "@LIKELIHOODS.register('half_field')\n"
        "@dataclass(frozen=True)\n"
        "class HalfField(MeanField):\n"
        '    """Half the log-prob of mean field."""\n'
        "    def pool(self, logprob_BKL, views, rollout, advantage_BU):\n"
        "        whole = super().pool(logprob_BKL, views, rollout, advantage_BU)\n"
        "        return Estimate(whole.score_BU / 2, whole.ratio_BU / 2)\n"
    )
    with LIKELIHOODS.temporarily(""):
        options = {"measures": ("values",), "plugins": (str(file),)}
        found = points(estimators=("half_field", "mean_field"), **options)
        every = lab.run(lab.Options(slots=2, draws=64, views=(1,), **options))
    half, whole = (found[name].values[0].elbo for name in ("half_field", "mean_field"))
    assert half.bias > whole.bias
    assert "half_field" in {point.name for point in every.points}


def test_json_holds_the_documented_fields_and_nothing_infinite(default):
    data = json.loads(json.dumps(lab.plain(default), allow_nan=False))
    assert data["format"] == 1
    assert set(data) == {
        "format", "dllmzoo", "options", "title", "notes", "slots", "answers", "loglikelihood",
        "elbo", "gradient_norm", "exact_score", "points", "selection", "skipped", "seconds",
    }  # fmt: skip
    point = data["points"][0]
    assert set(point) == {
        "name", "label", "settings", "selector", "forwards", "values", "ratios", "gradient",
    }  # fmt: skip
    assert set(point["values"][0]) == {"advantage", "loglikelihood", "elbo", "estimates"}
    errors = {"bias", "bias_se", "answer_bias", "std", "rmse", "biased"}
    assert set(point["values"][0]["elbo"]) == set(point["ratios"][0]["log"]) == errors
    assert set(point["gradient"]) == set(data["exact_score"]) == {
        "cosine_of_mean", "scale", "bias", "resolution", "std", "error", "cosine", "cosine_se",
    }  # fmt: skip
    assert set(data["selection"][0]) == {
        "selector", "steps", "kept", "error", "resolution", "bound", "surprisal_bound", "cosine",
        "std", "batch_cosine",
    }  # fmt: skip
    assert data["options"]["slots"] == data["slots"] == 2


def test_the_same_seed_gives_the_same_numbers():
    first, second = (lab.plain(lab.run(lab.Options(**FEW, estimators=("elbo",)))) for _ in range(2))
    assert first | {"seconds": 0} == second | {"seconds": 0}


def test_tables_have_a_row_for_each_estimate(default):
    tables = lab.named_tables(default)
    assert list(tables) == ["values", "ratios", "gradients", "selection", "skipped"]
    for headers, rows, title in tables.values():
        assert title and all(len(row) == len(headers) for row in rows)
    assert len(tables["values"][1]) == sum(len(point.values) for point in default.points)


def test_figures_are_drawn_into_a_folder(default, tmp_path):
    pytest.importorskip("matplotlib")
    few = replace(default, points=default.points[:4], selection=default.selection[:4])
    files = lab.plot(few, tmp_path / "figures")
    assert [path.name for path in files] == ["estimators.svg", "selection.svg"]
    assert all(path.read_text().startswith("<?xml") for path in files)
    assert {path.suffix for path in files[0].parent.iterdir()} == {".svg", ".png"}
    alone = lab.plot(replace(few, selection=()), tmp_path / "lab.svg")
    assert alone == [tmp_path / "lab.svg"]


def test_a_trained_model_is_measured_on_its_task():
    options = lab.Options(
        model="llada-tiny-sudoku", slots=2, draws=64, group=16, estimates=2, views=(1,),
        estimators=("exact:of=loglikelihood,max_tokens=8", "mean_field"), example=1,
        measures=NUMBERS,
    )  # fmt: skip
    result = lab.run(options)
    assert result.title == (
        "llada-tiny-sudoku, held-out example 1 of sudoku, 2 of 16 answer slots open"
    )
    assert result.answers == 4**2 and "exact" in result.notes[0]
    by_name = {point.name: point for point in result.points}
    exact = by_name["exact"]
    assert exact.forwards == 3
    assert exact.values[0].estimates == "log-likelihood"
    assert exact.gradient.bias < 1e-3  # float32
    assert by_name["mean_field"].values[0].estimates == "neither"


def test_answers_too_long_to_enumerate_have_truths_with_errors():
    options = lab.Options(
        model="llada-tiny-sudoku", slots=7, draws=64, views=(1,), estimators=("elbo",),
        measures=("values", "gradients"),
    )  # fmt: skip
    result = lab.run(options)
    assert result.answers == 8 and result.elbo < result.loglikelihood
    (skipped,) = result.skipped
    assert skipped.name == "policy gradient" and "too many answers" in skipped.reason


def test_likelihoods_of_blocks_are_left_out_with_the_reason(default):
    reasons = {each.name: each.reason for each in default.skipped}
    assert "blocks of the network's attention" in reasons["block_elbo"]
    assert "blocks of the network's attention" in reasons["exact_block"]
    layout = lab.run(
        lab.Options(
            slots=2, draws=64, estimators=("denoising_steps:layout=dual_stream@all",),
            measures=("values",),
        )
    )  # fmt: skip
    assert not layout.points and layout.skipped
