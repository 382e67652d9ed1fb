import pytest
import torch

from dllmzoo.models import _tiles
from dllmzoo.models._staircase import Tokens, may_attend
from dllmzoo.models._streams import read_columns
from dllmzoo.models._tiles import block_mask, tiles


def row(length, block_size, left=0):
    place = torch.arange(length).unsqueeze(0)
    return Tokens.clean((place - left).clamp(min=0), place >= left, block_size)


def both(length, block_size):
    clean = row(length, block_size)
    return clean.join(clean.as_target())


def whole(parts, queries, keys):
    """The dense mask that the parts stand for."""
    rows = max([len(part.mask) for part in parts if part.mask is not None], default=1)
    mask = torch.zeros(rows, queries, keys, dtype=torch.bool)
    for part in parts:
        columns = torch.cat([torch.arange(*span) for span in part.spans])
        seen = True if part.mask is None else part.mask[:, 0]
        mask[:, part.start : part.stop, columns] = seen
    return mask


@pytest.mark.parametrize("tile", [1, 3, 4, 7, 100])
@pytest.mark.parametrize("context", ["block_causal", "token_causal"])
def test_tiles_are_the_dense_mask(monkeypatch, tile, context):
    monkeypatch.setattr(_tiles, "TILE", tile)
    tokens = both(11, 4)
    parts = tiles(tokens, tokens, context, query_seam=11, key_seam=11)
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert torch.equal(whole(parts, 22, 22), may_attend(tokens, tokens, context))


def test_tiles_of_a_ragged_batch_cover_what_any_row_sees(monkeypatch):
    monkeypatch.setattr(_tiles, "TILE", 3)
    ragged = Tokens(*(torch.cat(pair) for pair in zip(row(9, 2), row(9, 2, left=4), strict=True)))
    found = whole(tiles(ragged, ragged, "block_causal"), 9, 9)
    dense = may_attend(ragged, ragged)
    real = ragged.real.unsqueeze(2)
    assert torch.equal(found & real, dense & real)
    assert found.any(2).all(), "a query of padding must see something"


def test_everything_seen_needs_no_mask():
    tokens = row(6, 6)
    assert tiles(tokens, tokens, "block_causal") == (_tiles.Part(0, 6, ((0, 6),), None),)


def test_nearly_only_allowed_pairs_are_computed():
    # 640 tokens in blocks of 4: L^2 + L*4 pairs are allowed, 4 * L^2 are in the square
    tokens, L = both(640, 4), 640
    parts = tiles(tokens, tokens, "block_causal", query_seam=L, key_seam=L)
    computed = sum(part.pairs for part in parts)
    allowed = int(may_attend(tokens, tokens).sum())
    assert allowed == L * L + 4 * L
    # five tiles of 128 queries in each stream: 128 * 128 / 2 - 128 * 2 = 7936 clean pairs of a tile
    # are beyond a query's blocks; of its own noised tile 128 * 128 - 128 * 4 = 15872 are
    assert computed == allowed + 10 * 7936 + 5 * 15872
    assert computed < 1.4 * allowed


def test_the_clean_stream_ends_with_the_last_token_that_is_read():
    clean = row(11, 4)
    last, first = clean.columns(8, 11).as_target(), clean.columns(0, 4).as_target()
    assert read_columns(clean, last, "block_causal") == 8
    assert read_columns(clean, first, "block_causal") == 0


def test_a_block_mask_is_the_same_rule():
    tokens = both(11, 4)
    (part,) = block_mask(tokens, tokens, "block_causal", 2)
    b, q, k = torch.meshgrid(torch.arange(2), torch.arange(22), torch.arange(22), indexing="ij")
    allowed = part.mask.mask_mod(b, torch.zeros_like(b), q, k)
    assert torch.equal(allowed, may_attend(tokens, tokens).expand(2, 22, 22))
