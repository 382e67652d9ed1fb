"""LLaDA and Dream written out once more, plainly, with keys and values that may be old ones."""

import torch

from tests.unit.models.tiny import tiny, tiny_dream

FAMILIES = {"llada": tiny, "dream": tiny_dream}


def network(family, seed=0):
    """A tiny one in float64, three layers deep."""
    depth = {"n_layers": 3} if family == "llada" else {"num_hidden_layers": 3}
    return FAMILIES[family](seed, **depth).double().eval()


def layers_of(model):
    """Norm, queries, keys, values, way back, norm, gate, up and down of each layer."""
    if model.family == "llada":
        for block in model.model.transformer["blocks"]:
            yield (
                block.attn_norm, block.q_proj, block.k_proj, block.v_proj, block.attn_out,
                block.ff_norm, block.ff_proj, block.up_proj, block.ff_out,
            )  # fmt: skip
    else:
        for layer in model.model.layers:
            part, mlp = layer.self_attn, layer.mlp
            yield (
                layer.input_layernorm, part.q_proj, part.k_proj, part.v_proj, part.o_proj,
                layer.post_attention_layernorm, mlp.gate_proj, mlp.up_proj, mlp.down_proj,
            )  # fmt: skip


@torch.no_grad()
def dense(model, ids_BL, attend_BL, held=None, run=None):
    """Logits (B, L, V), of meaning in the columns that run, and keys and values of each layer.

    Every column is computed, then keys and values of all but `run` are replaced by `held`.
    """
    config, llada = model.config, model.family == "llada"
    heads, theta = (config.n_heads if llada else config.num_attention_heads), config.rope_theta
    final = model.model.transformer["ln_f"] if llada else model.model.norm
    place_BL = (attend_BL.long().cumsum(1) - 1).clamp(min=0)
    x_BLD = model.get_input_embeddings()(ids_BL)
    width = x_BLD.shape[-1] // heads
    power = theta ** (-torch.arange(0, width, 2).float() / width)
    angle = (place_BL[..., None].float() * power)[:, None]

    def split(flat):
        return flat.view(*flat.shape[:2], -1, width).transpose(1, 2)

    def turn(x):
        first, second = x.chunk(2, -1)
        cos, sin = angle.cos().double(), angle.sin().double()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    kept = []
    for number, (norm, q, k, v, back, norm2, gate, up, down) in enumerate(layers_of(model)):
        h = norm(x_BLD)
        pair = [turn(split(k(h))), split(v(h))]
        if run is not None:
            for fresh, old in zip(pair, held[number], strict=True):
                fresh[:, :, : run.start] = old[:, :, : run.start]
                fresh[:, :, run.stop :] = old[:, :, run.stop :]
        kept.append(pair)
        key, value = (each.repeat_interleave(heads // each.shape[1], 1) for each in pair)
        fit = turn(split(q(h))) @ key.transpose(2, 3) / width**0.5
        share = fit.masked_fill(~attend_BL[:, None, None], -torch.inf).softmax(-1)
        x_BLD = x_BLD + back((share @ value).transpose(1, 2).flatten(2))
        h = norm2(x_BLD)
        x_BLD = x_BLD + down(torch.nn.functional.silu(gate(h)) * up(h))
    logits_BLV = model.head(final(x_BLD))
    if not llada:  # its head speaks of the next token
        logits_BLV = torch.cat([logits_BLV[:, :1], logits_BLV[:, :-1]], 1)
    return logits_BLV, kept
