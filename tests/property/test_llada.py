"""LLaDA: a row is the same at any length, padding, order and company."""

import functools

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.models.tiny import tiny, tokens

LONGEST = 9


@functools.cache
def model(kv_heads=4, tied=False):
    return tiny(n_kv_heads=kv_heads, weight_tying=tied)


def logits(*args, kv_heads=4, tied=False, **kwargs):
    with torch.no_grad():
        return model(kv_heads, tied)(*args, **kwargs).logits


@st.composite
def ragged_batches(draw):
    """Rows of their own lengths, each at its own place of a padded canvas with any filling."""
    lengths = draw(st.lists(st.integers(1, LONGEST), min_size=1, max_size=4))
    lefts = [draw(st.integers(0, 7)) for _ in lengths]
    width = max(n + left for n, left in zip(lengths, lefts, strict=True)) + draw(st.integers(0, 7))
    rows = tokens(len(lengths), LONGEST, seed=draw(st.integers(0, 99)))
    wide = torch.full((len(lengths), width), draw(st.integers(0, 8)))
    mask = torch.zeros_like(wide, dtype=torch.bool)
    for b, (length, left) in enumerate(zip(lengths, lefts, strict=True)):
        wide[b, left : left + length] = rows[b, :length]
        mask[b, left : left + length] = True
    alone = [rows[b : b + 1, :length] for b, length in enumerate(lengths)]
    return wide, mask, alone


families = st.sampled_from([{}, {"kv_heads": 2}, {"tied": True}])


@given(batch=ragged_batches(), family=families)
def test_a_row_is_the_same_alone_and_padded_on_any_side_among_others(batch, family):
    wide, mask, alone = batch
    together = logits(wide, mask, **family)
    assert together.isfinite().all()
    for b, row in enumerate(alone):
        torch.testing.assert_close(
            together[b, mask[b]], logits(row, **family)[0], atol=1e-5, rtol=0
        )


@given(batch=ragged_batches(), order=st.randoms(use_true_random=False))
def test_rows_may_come_in_any_order_and_in_any_micro_batch(batch, order):
    wide, mask, alone = batch
    shuffled = list(range(len(alone)))
    order.shuffle(shuffled)
    together = logits(wide, mask)
    torch.testing.assert_close(
        logits(wide[shuffled], mask[shuffled]), together[shuffled], atol=1e-5, rtol=0
    )
    cut = order.randint(0, len(alone))
    parts = [logits(wide[rows], mask[rows]) for rows in (slice(cut), slice(cut, None))]
    torch.testing.assert_close(torch.cat(parts), together, atol=1e-5, rtol=0)


@given(batch=ragged_batches(), family=families, share=st.floats(0, 1), seed=st.integers(0, 99))
def test_wanted_slots_have_the_logits_they_have_among_all(batch, family, share, seed):
    wide, mask, _ = batch
    generator = torch.Generator().manual_seed(seed)
    at = torch.rand(wide.shape, generator=generator) < share
    among_all = logits(wide, mask, **family)[at]
    wanted = logits(wide, mask, logits_at=at, **family)
    torch.testing.assert_close(wanted, among_all, atol=1e-5, rtol=0)
