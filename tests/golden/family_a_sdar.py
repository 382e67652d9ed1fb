"""Golden cases of family A that only block models have: block sizes, the cache, two streams."""

import torch

from tests.golden.case import Case, handles
from tests.golden.family_a import load


@handles("A.sdar.logits")
def check_logits(case: Case) -> None:
    """The same weights with several block sizes, and with full attention."""
    model = load(case)
    ids = case["in.input_ids"]
    for size in case.params["block_sizes"]:
        model.config.block_size = size
        with torch.no_grad():
            case.close(model(ids).logits, case[f"out.logits_B{size}"], what=f"blocks of {size}")
            shown = model(ids, torch.ones_like(ids), logits_at=torch.ones_like(ids).bool()).logits
        case.close(shown, case[f"out.logits_B{size}"].flatten(0, 1), what=f"slots, {size}")
    model.config.attention = "full"
    with torch.no_grad():
        case.close(model(ids).logits, case["out.logits_full"], what="full attention")


@handles("A.sdar.cache")
def check_cache(case: Case) -> None:
    """Prefill, then the last block against the cache; the same without one."""
    model = load(case)
    ids, size = case["in.input_ids"], model.block_size
    first = ids.shape[1] - size
    cache = model.new_cache(ids.shape[1])
    place = torch.arange(ids.shape[1]).expand_as(ids)
    with torch.no_grad():
        model(ids[:, :first], cache=cache, store=True)
        k_BHLE, v_BHLE = cache.stored(0)
        case.close(k_BHLE, case["out.cached_key_l0"], what="keys")
        case.close(v_BHLE, case["out.cached_value_l0"], what="values")
        cached = model(ids[:, first:], position_ids=place[:, first:], cache=cache).logits
        plain = model(ids).logits[:, first:]
    assert cache.used == first, "the last block was stored"
    case.close(cached, case["out.last_block_logits"], what="cached")
    case.close(plain, case["out.last_block_logits"], what="not cached")


@handles("A.sdar.dual_stream")
def check_dual_stream(case: Case) -> None:
    """One pass over both streams, and a pass for each block."""
    model = load(case)
    clean, noisy, at = case["in.clean_ids"], case["in.noisy_ids"], case["in.mask"]
    with torch.no_grad():
        both = model(clean, target_ids=noisy).logits
        wanted = model(clean, target_ids=noisy, logits_at=at).logits
        case.close(model(clean).logits, case["out.clean_logits"], what="clean stream")
    case.close(both, case["out.noisy_logits"], what="noised stream")
    case.close(wanted, case["out.noisy_logits"][at], what="wanted slots")
    for start in range(0, clean.shape[1], model.block_size):
        block = slice(start, start + model.block_size)
        mixed = torch.cat([clean[:, :start], noisy[:, block]], 1)
        with torch.no_grad():
            alone = model(mixed).logits[:, block]
        case.close(alone, case["out.noisy_logits"][:, block], what=f"the block at {start} alone")
