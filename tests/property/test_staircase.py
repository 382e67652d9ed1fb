"""The staircase: what one pass over both streams may depend on, and what it equals."""

import functools
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dllmzoo.models._staircase import Tokens, may_attend, staircase
from dllmzoo.models._streams import Streams
from tests.unit.models.tiny import tiny_sdar, tokens

LONGEST, MASK = 11, 8
SIZES = st.integers(1, LONGEST)


@functools.cache
def networks(double=False):
    network = tiny_sdar(num_hidden_layers=3)
    return network.double() if double else network


class Canvas(NamedTuple):
    """A row: clean tokens, and the same with some answer slots hidden."""

    ids: Tensor
    noised: Tensor
    hidden: Tensor
    prompt: int
    size: int

    @property
    def blocks(self) -> list[range]:
        L = self.ids.shape[1]
        starts = range(self.prompt // self.size * self.size, L, self.size)
        return [range(start, min(start + self.size, L)) for start in starts]

    def network(self, double=False):
        found = networks(double)
        found.config.block_size = self.size
        return found

    def both(self, ids=None, noised=None, *, double=False, **options):
        """Logits of the noised stream in one pass, with no gradient."""
        with torch.no_grad():
            return self.network(double)(
                self.ids if ids is None else ids,
                target_ids=self.noised if noised is None else noised,
                **options,
            )


@st.composite
def canvases(draw, sizes=SIZES):
    """Lengths that blocks divide or not, prompts that end in a block or at its edge."""
    L = draw(st.integers(1, LONGEST))
    prompt, size = draw(st.integers(0, L - 1)), draw(sizes)
    ids = tokens(1, L, seed=draw(st.integers(0, 99)))
    hidden = torch.tensor([draw(st.lists(st.booleans(), min_size=L, max_size=L))])
    hidden[:, :prompt] = False
    return Canvas(ids, ids.masked_fill(hidden, MASK), hidden, prompt, size)


def changed(ids, slots):
    """Other tokens at these slots."""
    other = ids.clone()
    other[:, slots] = (ids[:, slots] + 1) % 6
    return other


@given(canvas=canvases(), pick=st.integers(0, 99))
def test_a_clean_block_reaches_later_noised_blocks_and_no_other(canvas, pick):
    size, L = canvas.size, canvas.ids.shape[1]
    block = pick % -(-L // size)
    slots = list(range(block * size, min((block + 1) * size, L)))
    before = canvas.both().logits
    after = canvas.both(ids=changed(canvas.ids, slots)).logits
    reached_L = (before != after).any(-1)[0]
    assert not reached_L[: slots[-1] + 1].any(), "a noised block sees its own clean block"
    assert reached_L[slots[-1] + 1 :].all()


@given(canvas=canvases(), pick=st.integers(0, 99))
def test_a_noised_block_reaches_itself_alone(canvas, pick):
    size, L = canvas.size, canvas.ids.shape[1]
    block = pick % -(-L // size)
    slots = list(range(block * size, min((block + 1) * size, L)))
    before = canvas.both(output_hidden_states=True)
    after = canvas.both(noised=changed(canvas.noised, slots), output_hidden_states=True)
    reached_L = (before.logits != after.logits).any(-1)[0]
    assert reached_L[slots].all() and int(reached_L.sum()) == len(slots)
    clean = before.hidden_states[0].shape[1] - L
    for one, two in zip(before.hidden_states[:-1], after.hidden_states[:-1], strict=True):
        assert torch.equal(one[:, :clean], two[:, :clean]), "the clean stream moved"


@given(canvas=canvases(), pick=st.integers(0, 99))
def test_no_gradient_reaches_clean_blocks_that_are_not_before(canvas, pick):
    network, L = canvas.network(), canvas.ids.shape[1]
    slot = pick % L
    start = slot // canvas.size * canvas.size
    seen = []
    handle = network.model.embed_tokens.register_forward_hook(
        lambda _, __, out: seen.append(out.detach().requires_grad_()) or seen[-1]
    )
    try:
        logits = network(canvas.ids, target_ids=canvas.noised).logits
    finally:
        handle.remove()
    logits[0, slot].logsumexp(0).backward()
    reached = seen[0].grad[0].abs().sum(-1) > 0
    clean = len(reached) - L
    expected = torch.zeros_like(reached)
    expected[:start] = True  # every clean block before
    expected[clean + start : clean + min(start + canvas.size, L)] = True  # the own noised one
    assert torch.equal(reached, expected)


@pytest.mark.parametrize(("double", "tolerance"), [(False, 1e-5), (True, 1e-10)])
@given(canvas=canvases())
def test_one_pass_is_a_pass_for_each_block(double, tolerance, canvas):
    both, network = canvas.both(double=double).logits, canvas.network(double)
    for block in canvas.blocks:
        mixed = torch.cat([canvas.ids[:, : block.start], canvas.noised[:, block]], 1)
        with torch.no_grad():
            alone = network(mixed).logits[:, block.start :]
        torch.testing.assert_close(both[:, block], alone, atol=tolerance, rtol=0)


@given(canvas=canvases(sizes=st.just(1)))
def test_blocks_of_one_token_are_the_autoregressive_factorisation(canvas):
    # log p(token i | tokens before i) by a causal pass over them with one mask at the end
    network, L = canvas.network(double=True), canvas.ids.shape[1]
    every = torch.full_like(canvas.ids, MASK)
    both = canvas.both(noised=every, double=True).logits.log_softmax(-1)
    for i in range(L):
        row = torch.cat([canvas.ids[:, :i], every[:, :1]], 1)
        with torch.no_grad():
            chain = network(row).logits[:, -1].log_softmax(-1)
        torch.testing.assert_close(both[:, i], chain, atol=1e-10, rtol=0)


@given(canvas=canvases(sizes=st.integers(LONGEST, 2 * LONGEST)))
def test_one_block_is_full_attention_over_the_noised_row(canvas):
    both = canvas.both(double=True).logits
    network = canvas.network(double=True)
    network.config.attention = "full"
    try:
        with torch.no_grad():
            torch.testing.assert_close(network(canvas.noised).logits, both, atol=1e-10, rtol=0)
        full = canvas.both(double=True).logits
    finally:
        network.config.attention = "block_causal"
    torch.testing.assert_close(full, both, atol=1e-10, rtol=0)


@given(canvas=canvases())
def test_hidden_states_of_the_clean_stream_are_those_of_a_cached_prefill(canvas):
    network = canvas.network(double=True)
    both = canvas.both(double=True, output_hidden_states=True).hidden_states
    clean = both[0].shape[1] - canvas.ids.shape[1]
    cache, place = network.new_cache(LONGEST), torch.arange(clean).unsqueeze(0)
    states = []
    for start in range(0, clean, canvas.size):
        piece = slice(start, start + canvas.size)
        with torch.no_grad():
            out = network(
                canvas.ids[:, :clean][:, piece], position_ids=place[:, piece], cache=cache,
                store=True, output_hidden_states=True,
            )  # fmt: skip
        states.append(out.hidden_states)
    for layer, hidden in enumerate(both[:-1]):
        if states:
            cached = torch.cat([each[layer] for each in states], 1)
            torch.testing.assert_close(hidden[:, :clean], cached, atol=1e-10, rtol=0)


@given(canvas=canvases(), right=st.integers(0, 5), left=st.integers(0, 5))
def test_padding_at_either_end_changes_nothing(canvas, right, left):
    def wide(row, filling):
        return torch.nn.functional.pad(row, (left, right), value=filling)

    expected = canvas.both(double=True).logits
    found = canvas.both(
        wide(canvas.ids, 7), wide(canvas.noised, 5), double=True,
        attention_mask=wide(torch.ones_like(canvas.ids), 0),
    ).logits  # fmt: skip
    stop = left + canvas.ids.shape[1]
    torch.testing.assert_close(found[:, left:stop], expected, atol=1e-10, rtol=0)


@given(canvas=canvases())
def test_blocks_without_a_hidden_slot_may_be_left_out(canvas):
    every = canvas.both(double=True).logits[canvas.hidden]
    wanted = canvas.both(double=True, logits_at=canvas.hidden).logits
    torch.testing.assert_close(wanted, every, atol=1e-10, rtol=0)


@given(canvas=canvases())
def test_the_order_of_the_streams_changes_nothing(canvas):
    network, L = canvas.network(double=True), canvas.ids.shape[1]
    place = torch.arange(L).unsqueeze(0)
    clean = Tokens.clean(place, place >= 0, canvas.size)
    reversed_ = clean.as_target().join(clean)
    ids = torch.cat([canvas.noised, canvas.ids], 1)
    wanted = torch.arange(2 * L).unsqueeze(0) < L
    streams = Streams(ids, reversed_, reversed_, "block_causal", wanted)
    with torch.no_grad():
        found = network.read(streams).logits
    torch.testing.assert_close(found, canvas.both(double=True).logits[0], atol=1e-10, rtol=0)


lengths, block_sizes = st.integers(1, 24), st.integers(1, 24)


@given(length=lengths, size=block_sizes)
def test_the_number_of_allowed_pairs(length, size):
    mask = staircase(length, size)
    whole, rest = divmod(length, size)
    # clean: every block sees itself and those before; noised: those before, and itself
    before = size * size * whole * (whole - 1) // 2 + rest * whole * size
    own = whole * size * size + rest * rest
    assert int(mask.sum()) == 2 * (before + own)
    if rest == 0:
        assert int(mask.sum()) == length**2 + length * size


@given(length=lengths, size=block_sizes, prompt=st.integers(0, 24))
def test_both_grids_agree_where_blocks_divide_the_prompt(length, size, prompt):
    prompt = min(prompt, length)
    absolute = staircase(length, size)
    answer = staircase(length, size, prompt_length=prompt, origin="answer")
    if prompt % size == 0:
        assert torch.equal(absolute, answer)
    L = length
    assert answer[L:, L:].diagonal().all() and not answer[:L, L:].any()
    for mask in (absolute, answer):
        assert not (mask[L:, :L] & mask[L:, L:]).any(), "a token is seen in one stream alone"


@given(cuts=st.lists(st.integers(1, 9), min_size=1, max_size=4), size=block_sizes)
def test_packed_documents_are_the_masks_of_the_documents(cuts, size):
    document_L = torch.arange(len(cuts)).repeat_interleave(torch.tensor(cuts))
    L = len(document_L)
    packed = staircase(L, size, document_L=document_L)
    expected = torch.zeros_like(packed)
    for number, length in enumerate(cuts):
        here = (document_L.repeat(2) == number).nonzero().squeeze(1)
        expected[here.unsqueeze(1), here] = staircase(length, size)
    assert torch.equal(packed, expected)


@given(length=lengths, size=block_sizes)
def test_blocks_of_one_and_a_token_causal_context_agree(length, size):
    causal = staircase(length, size, context="token_causal")
    assert torch.equal(causal[:length], staircase(length, 1)[:length])
    assert torch.equal(causal[length:], staircase(length, size)[length:])
    place = torch.arange(length).unsqueeze(0)
    one = Tokens.clean(place, place >= 0, 1)
    assert torch.equal(may_attend(one, one)[0], torch.ones(length, length).tril().bool())
