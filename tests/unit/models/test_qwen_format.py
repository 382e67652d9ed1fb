"""Folders of the families that stem from Qwen: names, bytes, seeds, adapters, errors."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel

from dllmzoo import load_model
from dllmzoo.errors import ModelError
from dllmzoo.models._lora import add_lora, lora_table
from dllmzoo.models.dream import DreamConfig, DreamModel
from dllmzoo.models.sdar import SdarConfig, SDARForCausalLM
from dllmzoo.recipe.sections import Lora
from dllmzoo.zoo import MODELS
from tests.unit.models.blocks import logits
from tests.unit.models.tiny import small_dream, small_sdar, tiny_dream, tiny_sdar, tokens


@dataclass(frozen=True)
class Family:
    """A family: its name, classes, tiny networks, and what is its own."""

    name: str
    model: Any
    config: Any
    tiny: Any
    small: Any
    ids: tuple[Any, ...]
    norm: str
    changed: dict[str, int]
    misfit: str
    summary: str


FAMILIES = [
    Family(
        "dream", DreamModel, DreamConfig, tiny_dream, small_dream, (11, (10,), None),
        "input_layernorm", {"intermediate_size": 20},
        "gate_proj.weight ((24, 16) in the checkpoint, (20, 16) in the network)",
        "its logits set right",
    ),
    Family(
        "sdar", SDARForCausalLM, SdarConfig, tiny_sdar, small_sdar, (11, (10,), 3),
        "self_attn.q_norm", {"head_dim": 8},
        "q_norm.weight ((6,) in the checkpoint, (8,) in the network)", "attention in blocks",
    ),
]  # fmt: skip
ATTENTION, MLP = ["q_proj", "k_proj", "v_proj", "o_proj"], ["gate_proj", "up_proj", "down_proj"]


@pytest.fixture(params=FAMILIES, ids=lambda each: each.name)
def family(request):
    return request.param


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("shard", ["5GB", "3KB"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_S26_saving_and_loading_is_bit_exact_under_the_same_names(
    tmp_path, family, tied, shard, dtype
):
    model = family.tiny(tie_word_embeddings=tied).to(dtype)
    model.save_pretrained(tmp_path, max_shard_size=shard)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert (len(files) > 1) == (shard == "3KB")
    saved = {name: value for file in files for name, value in load_file(file).items()}
    assert ("lm_head.weight" in saved) != tied
    loaded = load_model(tmp_path, dtype=dtype)
    plain = AutoModel.from_pretrained(tmp_path, torch_dtype=dtype, device_map="cpu")
    assert isinstance(plain, family.model)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), family.config)
    ours = model.state_dict()
    assert ours.keys() == loaded.state_dict().keys() == plain.state_dict().keys()
    assert set(saved) == set(ours) - ({"lm_head.weight"} if tied else set())
    for name, value in ours.items():
        for other in (saved.get(name, value), loaded.state_dict()[name], plain.state_dict()[name]):
            assert other.dtype is dtype and torch.equal(other, value), name
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) == tied
    assert torch.equal(logits(loaded, tokens(2, 5)), logits(model, tokens(2, 5)))


def test_a_folder_of_the_public_format_is_loaded_and_written_back(tmp_path, family):
    config = family.config.from_dict(family.small(torch_dtype="float32"))
    family.model(config).save_pretrained(tmp_path / "one")
    model = load_model(tmp_path / "one")
    assert type(model) is family.model
    assert (model.mask_id, model.stop_ids, model.block_size) == family.ids
    model.save_pretrained(tmp_path / "two")
    for name in ("config.json", "model.safetensors"):
        first, second = ((tmp_path / folder / name).read_bytes() for folder in ("one", "two"))
        assert first == second, name


def test_tensors_that_do_not_fit_are_all_named(tmp_path, family):
    family.tiny(num_hidden_layers=1).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    fields = json.loads(file.read_text()) | {"num_hidden_layers": 2} | family.changed
    file.write_text(json.dumps(fields))
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path)
    said = str(caught.value)
    assert "missing from the checkpoint: model.layers.1.input_layernorm.weight" in said
    for name in set(family.tiny().state_dict()) - set(
        family.tiny(num_hidden_layers=1).state_dict()
    ):
        assert name in said
    assert family.misfit in said


def test_building_saving_and_loading_leave_the_global_generator_alone(tmp_path, family):
    before = torch.get_rng_state()
    model = family.tiny()
    model.save_pretrained(tmp_path)
    family.model(model.config)
    family.model.from_pretrained(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_fresh_weights_follow_the_stated_law_and_depend_on_the_seed(family):
    shape = {"hidden_size": 64, "intermediate_size": 256, "initializer_range": 0.05}
    weights = family.tiny(**shape).state_dict()
    for name in ("model.embed_tokens", "model.layers.1.mlp.down_proj", "lm_head"):
        assert weights[f"{name}.weight"].std().item() == pytest.approx(0.05, rel=0.1)
    assert (weights[f"model.layers.1.{family.norm}.weight"] == 1).all()
    one, two = family.tiny(seed=1).state_dict(), family.tiny(seed=2).state_dict()
    assert not torch.equal(one["lm_head.weight"], two["lm_head.weight"])


def test_the_model_is_found_by_its_name(family):
    assert MODELS.get(family.name) is family.model
    assert family.summary in MODELS.summaries()[family.name]


@pytest.mark.parametrize(
    ("preset", "kinds"), [("attention", ATTENTION), ("mlp", MLP), ("all-linear", ATTENTION + MLP)]
)
def test_a_preset_adapts_these_layers_of_every_block_and_never_the_head(family, preset, kinds):
    model = add_lora(family.tiny(), Lora(preset=preset, rank=2), seed=0)
    table = {row.kind.split(".")[-1]: row.layers for row in lora_table(model)}
    assert table == {**dict.fromkeys(kinds, 2), "total": 2 * len(kinds)}


def test_names_that_match_nothing_are_refused_with_the_real_ones(family):
    name = family.name
    with pytest.raises(ModelError, match=rf"{name} has no LoRA preset 'qkv_up'; it has attention"):
        add_lora(family.tiny(), Lora(preset="qkv_up"), seed=0)
    with pytest.raises(ModelError, match=rf"called 'ff_out'; in the blocks of {name} there are"):
        add_lora(family.tiny(), Lora(targets=("q_proj", "ff_out")), seed=0)
