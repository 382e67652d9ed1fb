import pytest

from dllmzoo.errors import UsageError
from dllmzoo.lab.estimators.options import Options
from dllmzoo.lab.estimators.spec import component, split_specs, variants, with_steps


def test_texts_hold_several_specs():
    text = "elbo:views=2,subset=uniform_t, mean_field,coupled@all"
    assert split_specs([text, "exact:of=elbo"]) == [
        "elbo:views=2,subset=uniform_t", "mean_field", "coupled@all", "exact:of=elbo",
    ]  # fmt: skip


def test_commas_in_brackets_do_not_split():
    assert split_specs(["a:x=[1,2],y={p: 1, q: 2},b"]) == ["a:x=[1,2],y={p: 1, q: 2}", "b"]


def test_options_are_read_as_in_a_recipe():
    spec = component("likelihood", "elbo:views=3,subset=uniform_t,shares_masks=false")
    assert (spec.part.views, spec.part.subset, spec.part.shares_masks) == (3, "uniform_t", False)
    assert spec.fixed == {"views", "subset", "shares_masks"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("elboo", "did you mean 'elbo'"),
        ("elbo:view=2", "did you mean 'views'"),
        ("elbo:views=0", "must be >= 1"),
        ("elbo:views", "expected option=value, got 'views'"),
    ],
)
def test_wrong_specs_are_refused_with_the_spec_and_the_fix(text, message):
    with pytest.raises(UsageError, match=f"likelihood '{text}'") as caught:
        component("likelihood", text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "forwards"),
    [
        ("elbo", [1, 2, 4, 8]),
        ("elbo:views=2", [2]),  # fixed
        ("mean_field", [1]),  # nothing to turn
        ("coupled:form=elbo", [2, 4, 8]),  # pairs
        ("coupled:form=token", [3, 7]),  # one view and pairs
        ("quadrature", [1, 2, 4, 8]),
        ("exact", [4095]),  # dearer than asked for, measured as it is
        ("prefixes", [None]),  # as many as the answer has tokens
    ],
)
def test_forwards_are_turned_where_an_option_allows(text, forwards):
    parts = variants(component("likelihood", text), (8, 1, 4, 2))
    assert [part.num_forwards for part in parts] == forwards


def test_steps_are_turned_up_to_all():
    parts = with_steps(component("selector", "entropy"), (1, 2, 4, 8), 3)
    assert [part.steps for part in parts] == [1, 2, 3]
    assert len(with_steps(component("selector", "entropy:steps=2"), (1, 2), 3)) == 1
    assert len(with_steps(component("selector", "all"), (1, 2), 3)) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views": (0,)}, r"views \(0,\): each must be >= 1"),
        ({"slots": 7}, "slots 7: from 2 to 6"),
        ({"measures": ("value",)}, "measures value: some of values, ratios"),
        ({"draws": 64, "group": 65}, "group 65: no more than the 64 draws"),
        ({"scale": 0.0}, "scale 0.0: above 0"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        Options(**settings)
