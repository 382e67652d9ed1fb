"""Parts that work in the blocks of the network's attention, and the network's blocks."""

from __future__ import annotations

from typing import Any

from dllmzoo.checks._files import Network
from dllmzoo.checks._found import Found
from dllmzoo.recipe.plain import name_of
from dllmzoo.recipe.recipe import Recipe
from dllmzoo.zoo import MODELS

INSTEAD = {
    "sampler": "a sampler for any network, such as low_confidence",
    "evaluate.sampler": "a sampler for any network, such as low_confidence",
    "likelihood": "likelihood elbo",
    "likelihood.layout": "layout: full",
}


def check_blocks(recipe: Recipe, found: Found, network: Network) -> None:
    """What samplers and likelihoods need of the network's blocks; reads no weights."""
    needy = {key: part for key, part in _parts(recipe).items() if _needs(part) and found.sound(key)}
    if "likelihood" in needy:
        _context(recipe)
    if not needy or not found.sound("model.name", "model.weights", "model.config"):
        return
    why = without_blocks(recipe, network)
    for key, part in needy.items():
        if why is not None:
            place, what = _place(key, part)
            found.add(place, f"{what}, and {why}", _remedy(recipe, network, place))
    if why is None:
        _steps(recipe, found, network)
    if why is None and "likelihood" in needy:
        _size(recipe, found, network)
        if found.sound("sampler"):
            _order(recipe, found, network)


def _parts(recipe: Recipe) -> dict[str, Any]:
    """Key -> part, of those that the stage reads."""
    parts = {"sampler": recipe.sampler, "evaluate.sampler": recipe.evaluate.sampler}
    return parts | ({"likelihood": recipe.likelihood} if recipe.stage == "rl" else {})


def _needs(part: Any) -> bool:
    return getattr(part, "needs_blocks", False) is True


def _place(key: str, part: Any) -> tuple[str, str]:
    """The key to change, and what it asks for."""
    if hasattr(part, "layout"):
        return f"{key}.layout", "layout dual_stream reads all blocks of the network in one pass"
    kind = key.rpartition(".")[2]
    return key, f"{kind} {name_of(part)} works in the blocks of the network's attention"


def without_blocks(recipe: Recipe, network: Network) -> str | None:
    """Why the network has no blocks; None if it has."""
    if network.config.get("attention") == "full":
        return "this network's attention is full"
    if "block_size" in network.config:
        return None
    from dllmzoo.checks._model import config_fields

    family: Any = MODELS.get(recipe.model.name)
    if "block_size" in config_fields(family.config_class):
        return None
    return f"the family {recipe.model.name} has none"


def _remedy(recipe: Recipe, network: Network, place: str) -> str:
    """A network with blocks, or a part that needs none."""
    if network.config.get("attention") != "full":
        other = "use model.name: sdar with weights of that family"
    elif recipe.model.weights is None:
        other = "use model.config.attention: block_causal"
    else:
        other = "use weights whose config.json has attention: block_causal"
    return f"{other}, or {INSTEAD[place]}"


def _context(recipe: Recipe) -> None:
    """A clean stream that is read otherwise than the sampler read it."""
    if getattr(recipe.likelihood, "context", "block_causal") != "block_causal":
        notice = (
            f"likelihood.context {recipe.likelihood.context}: the sampler read the clean text "
            f"block by block, so these are not the log-probs of what it did; context: block_causal "
            f"gives those"
        )
        recipe.notices.extend({notice} - set(recipe.notices))


def _size(recipe: Recipe, found: Found, network: Network) -> None:
    """Blocks too large to be enumerated."""
    size, limit = network.config.get("block_size"), getattr(recipe.likelihood, "max_block", None)
    if isinstance(size, int) and limit is not None and size > limit:
        found.add(
            "likelihood",
            f"likelihood {name_of(recipe.likelihood)} takes blocks of at most {limit} tokens, and "
            f"those of the network have {size}: 2^{size} - 1 forwards",
            "use likelihood block_elbo, or a network of smaller blocks",
        )


def _steps(recipe: Recipe, found: Found, network: Network) -> None:
    """More steps for a block than it has tokens: the rest would commit nothing."""
    size = network.config.get("block_size")
    own, other = recipe.sampler, recipe.evaluate.sampler
    counts = {
        "sampler.steps_per_block": getattr(own, "steps_per_block", None),
        "evaluate.sampler.steps_per_block": getattr(other, "steps_per_block", None),
    }
    if getattr(other or own, "steps_field", None) == "steps_per_block":
        counts["evaluate.steps"] = recipe.evaluate.steps
        counts["evaluate.also_steps"] = max(recipe.evaluate.also_steps, default=None)
    for key, count in counts.items():
        if isinstance(size, int) and count is not None and count > size:
            found.add(
                key,
                f"{count} steps for a block, and the network's blocks have {size} tokens",
                f"give at most {size}: every step commits at least one token",
            )


def _order(recipe: Recipe, found: Found, network: Network) -> None:
    """Steps of a sampler that need not finish one block before it begins the next."""
    sampler, size = recipe.sampler, network.config.get("block_size")
    if _needs(sampler) or not getattr(recipe.likelihood, "uses_steps", False):
        return
    length = getattr(sampler, "block_length", None)
    N = getattr(sampler, "answer_length", None)
    what = (
        f"layout dual_stream needs every block finished before the next is begun, and sampler "
        f"{name_of(sampler)}"
    )
    across = isinstance(size, int) and isinstance(N, int) and size < (length or N)
    if across or getattr(sampler, "remasks", False):
        does = "masks tokens again" if not across else f"fills {length or N} slots in any order"
        found.add(
            "likelihood.layout",
            f"{what} {does}" + (f", the network's blocks having {size}" if across else ""),
            "use sampler: block_diffusion, or layout: full",
        )
    elif length != 1:
        notice = (
            f"{what} counts blocks from the answer: a prompt that ends inside a block of the "
            f"network is refused when it comes; sampler block_diffusion has the network's grid"
        )
        recipe.notices.extend({notice} - set(recipe.notices))
