import re

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel

from dllmzoo.errors import ModelError
from dllmzoo.models.llada import LLaDAConfig, LLaDAModelLM
from dllmzoo.zoo import MODELS
from tests.unit.models.tiny import llada_8b, tiny, tokens


def logits(model, *args, **kwargs):
    with torch.no_grad():
        return model(*args, **kwargs).logits


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def close(actual, expected, atol=1e-5):
    torch.testing.assert_close(actual, expected, atol=atol, rtol=0)


def test_the_last_token_influences_the_first_logit():
    model, ids = tiny(), tokens(1, 6)
    other = ids.clone()
    other[0, -1] = (ids[0, -1] + 1) % 6
    assert (logits(model, ids)[0, 0] - logits(model, other)[0, 0]).abs().max() > 1e-3


def test_attention_stays_bidirectional_in_a_padded_batch():
    model, ids = tiny(), tokens(2, 6)
    mask = torch.ones_like(ids)
    mask[1, :2] = 0
    other = ids.clone()
    other[:, -1] = (ids[:, -1] + 1) % 6
    change = (logits(model, ids, mask) - logits(model, other, mask)).abs().amax(-1)
    assert change[0, 0] > 1e-3 and change[1, 2] > 1e-3


def test_what_stands_under_padding_changes_nothing():
    model, ids = tiny(), tokens(2, 7)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]])
    noise = torch.where(mask.bool(), ids, (ids + 3) % 9)
    real = mask.bool()
    assert torch.equal(logits(model, ids, mask)[real], logits(model, noise, mask)[real])


def test_a_mask_of_ones_is_no_mask():
    model, ids = tiny(), tokens(3, 5)
    for mask in (torch.ones_like(ids), torch.ones_like(ids, dtype=torch.bool), torch.ones(3, 5)):
        assert torch.equal(logits(model, ids, mask), logits(model, ids))


def test_one_padded_row_leaves_the_others_as_they_were():
    model, ids = tiny(), tokens(3, 6)
    mask = torch.ones_like(ids)
    mask[2, 3:] = 0
    close(logits(model, ids, mask)[:2], logits(model, ids)[:2], atol=1e-6)


@pytest.mark.parametrize("narrow", [False, True])
def test_a_row_of_nothing_but_padding_is_finite_forward_and_backward(narrow):
    model, ids = tiny(), tokens(3, 5)
    mask = torch.ones_like(ids)
    mask[1] = 0
    at = torch.ones_like(ids, dtype=torch.bool)
    at[0, :3] = False
    out = model(ids, mask, logits_at=at if narrow else None).logits
    assert out.isfinite().all()
    out.square().sum().backward()
    assert all(g.isfinite().all() for g in gradients(model).values())
    close(logits(model, ids, mask)[[0, 2]], logits(model, ids)[[0, 2]], atol=1e-6)


def test_S1_a_short_prompt_answers_alike_alone_and_in_a_padded_batch_with_pad_equal_to_eos():
    model = tiny()
    short, long = tokens(1, 3, seed=1), tokens(1, 9, seed=2)
    batch = torch.full((2, 9), model.config.eos_token_id)
    batch[0, 6:], batch[1] = short, long
    mask = torch.ones_like(batch)
    mask[0, :6] = 0
    for order in ([0, 1], [1, 0]):
        together = logits(model, batch[order], mask[order])[order]
        close(together[0, 6:], logits(model, short)[0])
        close(together[1], logits(model, long)[0])
        assert torch.equal(together[0, 6:].argmax(-1), logits(model, short)[0].argmax(-1))


def every_other(ids):
    at = torch.zeros_like(ids, dtype=torch.bool)
    at[:, ::2] = True
    return at


def ragged(ids):
    at = torch.zeros_like(ids, dtype=torch.bool)
    at[0, [0, 3]], at[2, 5] = True, True
    return at


def one_row(ids):
    at = torch.zeros_like(ids, dtype=torch.bool)
    at[1] = True
    return at


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("choose", [every_other, ragged, one_row, torch.ones_like])
def test_logits_at_gives_the_same_numbers_and_gradients_row_by_row(choose, padded):
    model, ids = tiny(weight_tying=padded), tokens(3, 6)
    mask = None
    if padded:
        mask = torch.ones_like(ids)
        mask[2, :2], mask[0, 5] = 0, 0
    at = choose(ids).bool()
    full = model(ids, mask).logits[at]
    full.square().sum().backward()
    expected = gradients(model)
    model.zero_grad()
    narrow = model(ids, mask, logits_at=at).logits
    assert narrow.shape == (int(at.sum()), 9)
    narrow.square().sum().backward()
    close(narrow, full)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-4, rtol=1e-4)


def test_no_wanted_slot_gives_no_logits_and_a_gradient_of_zero_for_every_weight():
    model, ids = tiny(), tokens(2, 4)
    out = model(ids, logits_at=torch.zeros_like(ids, dtype=torch.bool)).logits
    assert out.shape == (0, 9)
    out.sum().backward()
    found = gradients(model)
    assert found.keys() == dict(model.named_parameters()).keys()
    assert all((g == 0).all() for g in found.values())


@pytest.mark.parametrize("at", [None, "ragged"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_changes_neither_logits_nor_gradients(at, reentrant):
    model, ids = tiny().train(), tokens(3, 6)
    at = ragged(ids) if at else None
    model(ids, logits_at=at).logits.square().sum().backward()
    plain = gradients(model)
    model.zero_grad()
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    assert model.is_activation_checkpointing
    out = model(ids, logits_at=at).logits
    out.square().sum().backward()
    close(out, logits(model.eval(), ids, logits_at=at), atol=1e-6)
    for name, gradient in gradients(model).items():
        close(gradient, plain[name], atol=1e-6)


def test_hidden_states_are_the_embedding_the_blocks_but_the_last_and_the_final_norm():
    model, ids = tiny(n_layers=3), tokens(2, 5)
    hidden = model(ids, output_hidden_states=True).hidden_states
    assert len(hidden) == 4
    assert torch.equal(hidden[0], model.get_input_embeddings()(ids))
    assert torch.equal(model.get_output_embeddings()(hidden[-1]), model(ids).logits)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_heads_equal_full_heads_with_repeated_weights(kv_heads):
    grouped, full = tiny(n_kv_heads=kv_heads), tiny()
    weights = grouped.state_dict()
    for name in list(weights):
        if re.search(r"\.[kv]_proj\.", name):
            heads = weights[name].view(kv_heads, 4, 16)  # head width 16 / 4
            weights[name] = heads.repeat_interleave(4 // kv_heads, 0).reshape(16, 16)
    full.load_state_dict(weights)
    ids = tokens(2, 5)
    mask = torch.ones_like(ids)
    mask[0, 0] = 0
    close(logits(grouped, ids), logits(full, ids))
    close(logits(grouped, ids, mask), logits(full, ids, mask))
    at = ragged(tokens(3, 6))
    close(logits(grouped, tokens(3, 6), logits_at=at), logits(full, tokens(3, 6), logits_at=at))


def test_a_tied_head_is_the_embedding_and_has_no_tensor():
    model, ids = tiny(weight_tying=True), tokens(2, 3)
    assert "model.transformer.ff_out.weight" not in model.state_dict()
    final = model(ids, output_hidden_states=True).hidden_states[-1]
    close(logits(model, ids), F.linear(final, model.get_input_embeddings().weight))


def test_logits_cover_the_rows_of_the_embedding():
    model = tiny(embedding_size=16)
    assert logits(model, tokens(1, 3)).shape == (1, 3, 16)


def test_a_sequence_that_is_too_long_is_refused_by_its_real_tokens():
    model = tiny(max_sequence_length=5)
    ids = tokens(2, 7)
    mask = torch.ones_like(ids)
    mask[0, :2], mask[1, 4:] = 0, 0
    assert logits(model, ids, mask).isfinite().all()
    with pytest.raises(ModelError, match=r"sequence of 6 tokens is longer .* of 5"):
        model(ids, torch.ones_like(ids).index_fill(1, torch.tensor([0]), 0))
    with pytest.raises(ModelError, match="sequence of 7 tokens"):
        model(ids)


def test_a_second_stream_and_a_mask_of_another_shape_are_refused():
    model, ids = tiny(), tokens(2, 4)
    with pytest.raises(ModelError, match="takes no target_ids"):
        model(ids, target_ids=ids)
    with pytest.raises(ModelError, match=r"attention_mask has shape \(2, 3\), input_ids \(2, 4\)"):
        model(ids, torch.ones(2, 3))
    with pytest.raises(ModelError, match="logits_at has shape"):
        model(ids, logits_at=torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(ModelError, match=r"input_ids must be \(B, L\)"):
        model(ids[0])


def test_names_and_shapes_of_an_8b_checkpoint_are_the_public_ones():
    # 3 + 32 * 9 = 291 tensors
    with torch.device("meta"):
        model = LLaDAModelLM(llada_8b())
    D, F_, V = 4096, 12288, 126464
    expected = {
        "model.transformer.wte.weight": (V, D),
        "model.transformer.ln_f.weight": (D,),
        "model.transformer.ff_out.weight": (V, D),
    }
    for n in range(32):
        block = f"model.transformer.blocks.{n}"
        expected |= {f"{block}.{name}.weight": (D,) for name in ("attn_norm", "ff_norm")}
        expected |= {
            f"{block}.{name}.weight": (D, D) for name in ("q_proj", "k_proj", "v_proj", "attn_out")
        }
        expected |= {f"{block}.{name}.weight": (F_, D) for name in ("ff_proj", "up_proj")}
        expected[f"{block}.ff_out.weight"] = (D, F_)
    assert len(expected) == 291
    assert {name: tuple(p.shape) for name, p in model.state_dict().items()} == expected
    assert sum(p.numel() for p in model.parameters()) == 8_015_581_184


def test_ids_of_the_public_vocabulary_and_of_a_small_one():
    with torch.device("meta"):
        model = LLaDAModelLM(llada_8b())
    assert (model.mask_id, model.stop_ids, model.block_size) == (126336, (126081, 126348), None)
    small = tiny()
    assert (small.mask_id, small.stop_ids) == (8, (7,))
    assert tiny(eos_token_id=[7, 3, 7]).stop_ids == (7, 3)
    with pytest.raises(ModelError, match="has no mask_token_id"):
        _ = LLaDAModelLM(LLaDAConfig()).mask_id


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("shard", ["5GB", "3KB"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_S26_saving_and_loading_is_bit_exact_under_the_same_names(tmp_path, tied, shard, dtype):
    model = tiny(weight_tying=tied).to(dtype)
    model.save_pretrained(tmp_path, max_shard_size=shard)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert (len(files) > 1) == (shard == "3KB")
    saved = {name: value for file in files for name, value in load_file(file).items()}
    loaded = LLaDAModelLM.from_pretrained(tmp_path, dtype=dtype)
    plain = AutoModel.from_pretrained(tmp_path, torch_dtype=dtype, device_map="cpu")
    assert isinstance(plain, LLaDAModelLM)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), LLaDAConfig)
    ours = model.state_dict()
    assert saved.keys() == ours.keys() == loaded.state_dict().keys() == plain.state_dict().keys()
    for name, value in ours.items():
        for other in (saved[name], loaded.state_dict()[name], plain.state_dict()[name]):
            assert other.dtype is dtype and torch.equal(other, value), name


def test_tensors_that_do_not_fit_are_all_named(tmp_path):
    tiny(n_layers=1).save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(
        text.replace('"n_layers": 1', '"n_layers": 2').replace(": 24", ": 20")
    )
    with pytest.raises(ModelError) as caught:
        LLaDAModelLM.from_pretrained(tmp_path)
    message = str(caught.value)
    assert "missing from the checkpoint: model.transformer.blocks.1.attn_norm.weight" in message
    shapes = r"blocks\.0\.ff_proj\.weight \(\(24, 16\) in the checkpoint, \(20, 16\) in the network"
    assert re.search(shapes, message)
    (tmp_path / "config.json").write_text(
        text.replace('"weight_tying": false', '"weight_tying": true')
    )
    with pytest.raises(ModelError, match=r"unknown to the network: model\.transformer\.ff_out"):
        LLaDAModelLM.from_pretrained(tmp_path)


def test_building_saving_and_loading_leave_the_global_generator_alone(tmp_path):
    before = torch.get_rng_state()
    LLaDAModelLM(LLaDAConfig()).save_pretrained(tmp_path)
    tiny()
    with pytest.raises(ModelError):
        LLaDAModelLM.from_pretrained(tmp_path, n_layers=4)
    LLaDAModelLM.from_pretrained(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_fresh_weights_depend_on_the_seed_and_follow_the_stated_law():
    # width 64: mitchell has 1/sqrt(64) = .125, in the second block / sqrt(2 * 2) = .0625;
    # the way back from the MLP of width 256: 1/sqrt(256) / sqrt(4) = .03125. A normal truncated
    # at three standard deviations has .9866 of its spread.
    shape = {"d_model": 64, "n_layers": 2, "mlp_hidden_size": 256}
    fan_in = tiny(init_fn="mitchell", **shape).state_dict()
    block = "model.transformer.blocks.1"
    for name, std in (
        ("model.transformer.wte", 0.125),
        (f"{block}.q_proj", 0.125),
        (f"{block}.attn_out", 0.0625),
        (f"{block}.ff_out", 0.03125),
    ):
        weight = fan_in[f"{name}.weight"]
        assert weight.std().item() == pytest.approx(0.9866 * std, rel=0.1)
        assert weight.abs().max() <= 3 * std
    normal = tiny(init_fn="normal", init_std=0.02, **shape).state_dict()
    assert normal[f"{block}.ff_out.weight"].std().item() == pytest.approx(0.02, rel=0.03)
    assert (normal[f"{block}.ff_norm.weight"] == 1).all()
    one, two = tiny(seed=1).state_dict(), tiny(seed=2).state_dict()
    assert not torch.equal(one[f"{block}.q_proj.weight"], two[f"{block}.q_proj.weight"])


def test_the_model_is_found_by_its_name():
    assert MODELS.get("llada") is LLaDAModelLM
    assert "bidirectional" in MODELS.summaries()["llada"]
