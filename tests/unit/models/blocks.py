"""What tests of block models share: drawn masks, gradients, and blocks read one by one."""

import torch


def logits(model, *args, **kwargs):
    with torch.no_grad():
        return model(*args, **kwargs).logits


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def close(actual, expected, atol=1e-5):
    torch.testing.assert_close(actual, expected, atol=atol, rtol=0)


def padded(ids, *holes):
    """A mask of ones but for the slots (row, from, to)."""
    mask = torch.ones_like(ids)
    for row, start, stop in holes:
        mask[row, start:stop] = 0
    return mask


def drawn(ids, share=0.5, seed=3):
    return torch.rand(ids.shape, generator=torch.Generator().manual_seed(seed)) < share


def in_blocks(model, ids, mask=None, sizes=(3, 6, 3), **options):
    """Logits of blocks read one after the other against the cache of those before."""
    cache, found, start = model.new_cache(ids.shape[1]), [], 0
    mask = torch.ones_like(ids) if mask is None else mask
    place = (mask.cumsum(1) - 1).clamp(min=0)
    for size in sizes:
        stop = min(start + size, ids.shape[1])
        piece = slice(start, stop)
        found.append(
            logits(
                model, ids[:, piece], mask[:, piece], position_ids=place[:, piece], cache=cache,
                store=True, **options,
            )
        )  # fmt: skip
        start = stop
    assert cache.used == ids.shape[1]
    return torch.cat(found, 1)
