import warnings

import pytest
import torch
from safetensors.torch import load_file

from dllmzoo.errors import ModelError
from dllmzoo.models._lora import (
    AdapterOff,
    FrozenCopy,
    add_lora,
    lora_table,
    reference_policy,
)
from dllmzoo.models.llada import LLaDAModelLM
from dllmzoo.recipe.sections import Lora
from tests.unit.models.tiny import llada_8b, tiny, tokens

PRESETS = {
    "attention": ["q_proj", "k_proj", "v_proj", "attn_out"],
    "mlp": ["ff_proj", "up_proj", "ff_out"],
    "all-linear": ["q_proj", "k_proj", "v_proj", "attn_out", "ff_proj", "up_proj", "ff_out"],
    "qkv_up": ["q_proj", "k_proj", "v_proj", "up_proj"],
}


def adapted(**lora):
    """A model with adapters that do something."""
    model = add_lora(tiny(), Lora(**{"rank": 2, "alpha": 4.0} | lora), seed=0)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.constant_(weight, 0.1)
    return model


def logits(model, ids):
    with torch.no_grad():
        return model(ids).logits


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_adapts_these_layers_of_every_block_and_never_the_head(preset):
    model = add_lora(tiny(), Lora(preset=preset, rank=3), seed=0)
    *rows, total = lora_table(model)
    assert [row.kind for row in rows] == PRESETS[preset]
    assert {row.layers for row in rows} == {2}
    assert total.layers == 2 * len(rows)
    trained = [p for p in model.parameters() if p.requires_grad]
    assert total.parameters == sum(p.numel() for p in trained)
    assert not any("transformer.ff_out.lora" in name for name, _ in model.named_parameters())


@pytest.mark.parametrize(
    ("preset", "count"), [("qkv_up", 167_772_160), ("all-linear", 335_544_320)]
)
def test_parameters_of_rank_128_on_8b(preset, count):
    # qkv_up: 32 blocks * 128 * (3 * (4096 + 4096) + (4096 + 12288)) = 32 * 128 * 40960
    # all-linear: 32 * 128 * (4 * 8192 + 3 * 16384) = 32 * 128 * 81920
    with torch.device("meta"):
        model = add_lora(LLaDAModelLM(llada_8b()), Lora(preset=preset, rank=128), seed=0)
    assert lora_table(model)[-1].parameters == count


def test_fresh_adapters_change_nothing_and_draw_from_the_seed_alone():
    ids, before = tokens(2, 5), torch.get_rng_state()
    model = add_lora(tiny(), Lora(rank=2), seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(logits(model, ids), logits(tiny(), ids))
    torch.rand(3)
    again, other = (add_lora(tiny(), Lora(rank=2), seed=seed) for seed in (5, 6))
    weights, same, different = (m.state_dict() for m in (model, again, other))
    assert all(torch.equal(value, same[name]) for name, value in weights.items())
    assert any(not torch.equal(value, different[name]) for name, value in weights.items())


def test_S27_names_that_match_nothing_are_an_error_with_the_real_names():
    llama = ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj", "gate_proj")
    with pytest.raises(ModelError) as caught:
        adapted(targets=llama)
    message = str(caught.value)
    assert "no linear layer is called 'o_proj', 'down_proj', 'gate_proj'" in message
    assert f"there are {', '.join(PRESETS['all-linear'])}" in message


@pytest.mark.parametrize(
    "target", ["model.transformer.ff_out", "transformer.ff_out", "wte", "proj", "attn_norm"]
)
def test_the_head_other_modules_and_parts_of_names_are_no_targets(target):
    with pytest.raises(ModelError, match=f"no linear layer is called '{target}'"):
        adapted(targets=(target,))
    with pytest.raises(ModelError, match="no linear layer is called nothing"):
        adapted(targets=())


@pytest.mark.parametrize(
    ("targets", "kinds", "layers"),
    [
        (("ff_out",), ["ff_out"], 2),
        (("blocks.*.ff_out", "q_proj"), ["q_proj", "ff_out"], 4),
        (("blocks.1.q_proj",), ["q_proj"], 1),
    ],
)
def test_layers_can_be_named(targets, kinds, layers):
    *rows, total = lora_table(adapted(targets=targets))
    assert [row.kind for row in rows] == kinds
    assert total.layers == layers


def test_policy_attributes_and_narrow_logits_pass_through_the_adapter():
    model, ids = adapted(), tokens(2, 5)
    assert (model.mask_id, model.stop_ids, model.block_size) == (8, (7,), None)
    at = torch.zeros_like(ids, dtype=torch.bool)
    at[0, 1], at[1, 2:4] = True, True
    mask = torch.ones_like(ids)
    mask[0, 4] = 0
    with torch.no_grad():
        narrow = model(ids, mask, logits_at=at).logits
        torch.testing.assert_close(narrow, model(ids, mask).logits[at], atol=1e-5, rtol=0)


@pytest.mark.parametrize("late", [False, True])
def test_checkpointing_with_adapters_gives_the_same_gradients_without_a_warning(late):
    ids = tokens(2, 5)
    plain = adapted().train()
    plain(ids).logits.square().sum().backward()
    base = tiny()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if not late:
            base.activation_checkpointing_enable()
        model = add_lora(base, Lora(rank=2, alpha=4.0), seed=0).train()
        if late:
            base.activation_checkpointing_enable()
        model.load_state_dict(plain.state_dict())
        model(ids).logits.square().sum().backward()
    for one, other in zip(plain.parameters(), model.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None) == (not one.requires_grad)
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=0)


def test_the_reference_with_adapters_off_is_the_base_bit_for_bit():
    model, ids = adapted().train(), tokens(2, 5)
    reference = reference_policy(model, "auto")
    assert isinstance(reference, AdapterOff)
    out = reference(ids).logits
    assert torch.equal(out, logits(tiny(), ids)) and not out.requires_grad
    assert not torch.equal(out, model(ids).logits)
    assert any(p.requires_grad for p in model.parameters())
    assert (reference.mask_id, reference.stop_ids, reference.block_size) == (8, (7,), None)


def test_a_frozen_copy_stays_where_the_policy_was():
    model, ids = tiny().train(), tokens(2, 5)
    reference = reference_policy(model)
    assert isinstance(reference, FrozenCopy)
    before = logits(model, ids)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(2)
    out = reference(ids, logits_at=torch.ones_like(ids, dtype=torch.bool)).logits
    assert torch.equal(out, before.flatten(0, 1)) and not out.requires_grad
    assert model.training and not reference.model.training
    assert isinstance(reference_policy(adapted(), "copy"), FrozenCopy)


def test_a_reference_that_cannot_be_is_refused():
    assert reference_policy(tiny(), "none") is None
    with pytest.raises(ModelError, match="no LoRA adapters to switch off"):
        reference_policy(tiny(), "adapter")


def test_merged_weights_have_the_public_names(tmp_path):
    model, ids = adapted(), tokens(2, 5)
    expected = logits(model, ids)
    merged = model.merge_and_unload()
    torch.testing.assert_close(logits(merged, ids), expected, atol=1e-4, rtol=1e-4)
    merged.save_pretrained(tmp_path)
    assert load_file(tmp_path / "model.safetensors").keys() == tiny().state_dict().keys()


def test_the_wrapper_of_several_processes_takes_every_argument(tmp_path):
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    distributed.init_process_group(
        "gloo", store=distributed.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    try:
        for model in (tiny().train(), adapted().train()):
            ids = tokens(2, 5)
            mask, at = torch.ones_like(ids), torch.zeros_like(ids, dtype=torch.bool)
            mask[0, 0], at[:, 2] = 0, True
            wrapped = DistributedDataParallel(model)
            for chosen in (at, torch.zeros_like(at)):
                out = wrapped(ids, mask, logits_at=chosen).logits
                assert torch.equal(out, model(ids, mask, logits_at=chosen).logits)
                out.sum().backward()
            assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    finally:
        distributed.destroy_process_group()
