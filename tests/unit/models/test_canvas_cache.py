"""Forwards that run some columns of a canvas and read the others as an earlier one left them."""

import pytest
import torch

from dllmzoo.errors import ModelError, UsageError
from tests.unit.models.dense import FAMILIES, dense, network
from tests.unit.models.tiny import tiny_sdar, tokens

LENGTHS = (9, 6, 4)


def canvas(seed=0):
    """Three rows of nine columns, of which 9, 6 and 4 are real."""
    ids_BL = tokens(3, 9, seed)
    return ids_BL, torch.arange(9) >= 9 - torch.tensor(LENGTHS).unsqueeze(1)


def at_columns(*columns):
    at_BL = torch.zeros(3, 9, dtype=torch.bool)
    at_BL[:, list(columns)] = True
    return at_BL


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.fixture(params=FAMILIES)
def model(request):
    return network(request.param)


@torch.no_grad()
def filled(model, ids_BL, attend_BL):
    cache = model.new_canvas_cache(len(ids_BL))
    logits_BLV = model(ids_BL, attend_BL, canvas_cache=cache).logits
    return cache, logits_BLV


def test_the_plain_network_of_these_tests_is_the_network(model):
    ids_BL, attend_BL = canvas()
    with torch.no_grad():
        found = model(ids_BL, attend_BL).logits
    close(dense(model, ids_BL, attend_BL)[0][:, 6:], found[:, 6:])


def test_a_forward_that_stores_says_what_it_says_without_a_cache(model):
    ids_BL, attend_BL = canvas()
    cache, found = filled(model, ids_BL, attend_BL)
    with torch.no_grad():
        assert torch.equal(found, model(ids_BL, attend_BL).logits)
    assert cache.ran == 9


@torch.no_grad()
def test_columns_of_an_unchanged_canvas_say_the_same(model):
    ids_BL, attend_BL = canvas()
    cache, whole = filled(model, ids_BL, attend_BL)
    at_BL = at_columns(6, 8)
    options = {"canvas_cache": cache, "columns": slice(6, 9)}
    close(model(ids_BL, attend_BL, logits_at=at_BL, **options).logits, whole[at_BL])
    columns_BM = torch.tensor([[6, 8]] * 3)
    close(model(ids_BL, attend_BL, columns_at=columns_BM, **options).logits, whole[at_BL])
    assert cache.ran == 3 + model.shifted_head


@pytest.mark.parametrize(("start", "stop"), [(6, 9), (6, 8), (0, 9)])
@torch.no_grad()
def test_after_a_change_the_other_columns_are_read_as_they_were(model, start, stop):
    ids_BL, attend_BL = canvas()
    cache, _ = filled(model, ids_BL, attend_BL)
    _, held = dense(model, ids_BL, attend_BL)
    run = slice(max(start - model.shifted_head, 0), stop)
    for seed in (1, 2):  # twice: what ran once is what the next forward finds
        changed = ids_BL.clone()
        changed[:, start:stop] = tokens(3, stop - start, seed)
        at_BL = at_columns(start, stop - 1) & attend_BL
        found = model(
            changed, attend_BL, logits_at=at_BL, canvas_cache=cache, columns=slice(start, stop)
        ).logits
        expected, held = dense(model, changed, attend_BL, held, run)
        close(found, expected[at_BL])
    if stop - start < 9:
        exact = model(changed, attend_BL, logits_at=at_BL).logits
        assert (found - exact).abs().max() > 1e-3  # the tokens before see the change


@torch.no_grad()
def test_some_rows_read_and_renew_theirs_and_leave_the_others_alone(model):
    ids_BL, attend_BL = canvas()
    cache, _ = filled(model, ids_BL, attend_BL)
    alone = model.new_canvas_cache(2)
    rows = torch.tensor([0, 2])
    model(ids_BL[rows], attend_BL[rows], canvas_cache=alone)
    before = [[each[1].clone() for each in pair] for pair in cache._layers.values()]
    ids_BL[:, 6:] = tokens(3, 3, 1)
    options = {"logits_at": at_columns(6, 7)[rows], "columns": slice(6, 8)}
    both = [
        model(ids_BL[rows], attend_BL[rows], canvas_cache=store, **options).logits
        for store in (cache.of(rows), alone)
    ]
    close(*both)
    for pair, old in zip(cache._layers.values(), before, strict=True):
        assert all(torch.equal(each[1], was) for each, was in zip(pair, old, strict=True))


@torch.no_grad()
def test_a_store_can_be_filled_row_by_row(model):
    ids_BL, attend_BL = canvas()
    whole, _ = filled(model, ids_BL, attend_BL)
    cache = model.new_canvas_cache(3)
    for rows in (torch.tensor([2, 0]), torch.tensor([1])):
        model(ids_BL[rows], attend_BL[rows], canvas_cache=cache.of(rows))
    for number, pair in whole._layers.items():
        for one, other in zip(pair, cache._layers[number], strict=True):
            close(other[:, :, 6:], one[:, :, 6:])


def test_what_cannot_be_meant_is_refused(model):
    ids_BL, attend_BL = canvas()
    at_BL = at_columns(7)
    part = {"columns": slice(6, 8)}
    with pytest.raises(UsageError, match="without gradient"):
        model(ids_BL, attend_BL, canvas_cache=model.new_canvas_cache(3))
    with torch.no_grad():
        cache, _ = filled(model, ids_BL, attend_BL)
        with pytest.raises(UsageError, match="for 3 rows and the input has 2"):
            model(ids_BL[:2], attend_BL[:2], canvas_cache=cache)
        with pytest.raises(UsageError, match="cache is empty"):
            model(
                ids_BL, attend_BL, logits_at=at_BL, canvas_cache=model.new_canvas_cache(3), **part
            )
        with pytest.raises(ModelError, match="columns need a canvas_cache"):
            model(ids_BL, attend_BL, logits_at=at_BL, **part)
        with pytest.raises(ModelError, match="must say what is wanted"):
            model(ids_BL, attend_BL, canvas_cache=cache, **part)
        with pytest.raises(ModelError, match="outside of the columns 6 to 8"):
            model(ids_BL, attend_BL, logits_at=at_columns(7, 8), canvas_cache=cache, **part)
        with pytest.raises(ModelError, match="no run of the 9 columns"):
            model(ids_BL, attend_BL, logits_at=at_BL, canvas_cache=cache, columns=slice(8, 8))


def test_a_network_with_blocks_has_its_own_cache():
    assert not hasattr(tiny_sdar(), "new_canvas_cache")
