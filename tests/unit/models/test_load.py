import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import PreTrainedTokenizerFast

import dllmzoo
from dllmzoo import catalogue, load_model
from dllmzoo.errors import ModelError, UsageError
from dllmzoo.models._load import build_model, check_config, load_tokenizer
from dllmzoo.models._lora import add_lora
from dllmzoo.models._source import resolve
from dllmzoo.models.llada import LLaDAConfig, LLaDAModelLM
from dllmzoo.recipe.sections import Lora
from tests.unit.models.tiny import PUBLIC, SMALL, small_public, tiny, tokenizer, tokens


@pytest.fixture
def folder(tmp_path):
    """A checkpoint with its tokenizer."""
    path = tmp_path / "model"
    tiny().save_pretrained(path)
    tokenizer().save_pretrained(path)
    return path


def rewrite(folder: Path, **fields):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def no_weights(monkeypatch):
    def read(*args, **kwargs):
        raise AssertionError("weights were read")

    monkeypatch.setattr(LLaDAModelLM, "from_pretrained", read)


@pytest.mark.parametrize("spelling", [str, Path])
def test_a_folder_loads_in_evaluation_mode_with_the_saved_bits(folder, spelling, capsys):
    model = load_model(spelling(folder))
    assert dllmzoo.load_model is load_model
    assert isinstance(model, LLaDAModelLM) and not model.training
    for name, value in tiny().state_dict().items():
        assert torch.equal(model.state_dict()[name], value)
    assert load_tokenizer(spelling(folder))("01").input_ids == [0, 1]
    printed = capsys.readouterr()
    assert "%|" not in printed.out + printed.err


@pytest.mark.parametrize("dtype", ["bfloat16", torch.bfloat16, "torch.bfloat16"])
def test_weights_come_in_the_dtype_that_is_asked_for(folder, dtype):
    model = load_model(folder, dtype=dtype, device_map="cpu")
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert load_model(folder).dtype is torch.float32


def test_a_dtype_that_does_not_exist_is_named(folder):
    with pytest.raises(UsageError, match="dtype 'float31' is not one of float32, bfloat16"):
        load_model(folder, dtype="float31")


def test_a_run_folder_means_its_final_weights(folder):
    run = folder.parent / "run"
    run.mkdir()
    folder.rename(run / "final")
    assert load_model(run).mask_id == 8
    assert resolve(run) == run / "final"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "no weights and no tokenizer are named"),
        ("nowhere", "neither a folder, nor a card of the catalogue, nor a hub id"),
        ("./nowhere", "there is no folder nowhere"),
        (Path("no/where"), "there is no folder no/where"),
        ("a/b/c", "neither a folder"),
        (".", "holds neither config.json nor adapter_config.json"),
    ],
)
def test_what_is_not_there_is_said(tmp_path, monkeypatch, spec, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=message):
        load_model(spec)


def test_cards_name_folders_and_hub_ids(folder, monkeypatch):
    card = {"hub_id": "GSAI-ML/LLaDA-8B-Instruct", "revision": "abc"}
    monkeypatch.setattr(
        catalogue, "names", lambda kind: {"weights": ("tiny",), "models": ("llada-8b",)}[kind]
    )
    monkeypatch.setattr(
        catalogue, "weights_folder", lambda name: folder if name == "tiny" else None
    )
    monkeypatch.setattr(catalogue, "card", lambda kind, name: card)
    assert resolve("tiny") == folder
    assert load_model("tiny").name_or_path == "tiny"
    assert resolve("llada-8b") == "GSAI-ML/LLaDA-8B-Instruct@abc"
    card["revision"] = None
    assert resolve("llada-8b") == "GSAI-ML/LLaDA-8B-Instruct"
    card["hub_id"] = None
    with pytest.raises(ModelError, match="card 'llada-8b' names no hub id"):
        resolve("llada-8b")
    with pytest.raises(ModelError, match="cards: llada-8b, tiny"):
        resolve("llama")


def test_S8_weights_of_another_family_are_refused_naming_both(folder, monkeypatch):
    no_weights(monkeypatch)
    rewrite(folder, model_type="Dream")
    with pytest.raises(ModelError, match=r"of the family 'Dream', but .*`model.name: llada`"):
        load_model(folder, name="llada")
    rewrite(folder, model_type="gpt2")
    with pytest.raises(ModelError, match=r"'gpt2', which is not among those built here: .*llada"):
        load_model(folder)


def test_S6_a_mask_id_that_is_not_the_tokenizers_is_refused_before_weights(folder, monkeypatch):
    no_weights(monkeypatch)
    rewrite(folder, mask_token_id=3)
    with pytest.raises(ModelError, match="mask token has id 8, the config's mask_token_id is 3"):
        load_model(folder)
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(ModelError, match="weights were read"):
        load_model(folder)
    with pytest.raises(ModelError, match="has id 8, the config's mask_token_id is 3"):
        load_model(folder, tokenizer=tokenizer())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mask_token_id": None}, "no mask_token_id"),
        ({"mask_token_id": 9}, "mask_token_id is 9, must be an id from 0 to 8"),
        ({"alibi": True}, "alibi is True"),
    ],
)
def test_a_config_that_cannot_be_right_is_refused_before_weights(
    folder, monkeypatch, fields, message
):
    no_weights(monkeypatch)
    rewrite(folder, **fields)
    with pytest.raises(ModelError, match=message):
        load_model(folder)


def test_S6_ids_of_the_public_vocabulary_are_known():
    # 151666 is Dream's mask: no id of the vocabulary at all; 5 is an ordinary token
    with pytest.raises(ModelError, match="mask_token_id is 151666, must be an id from 0 to 126463"):
        LLaDAConfig.from_dict(PUBLIC | {"mask_token_id": 151666})
    wrong = LLaDAConfig.from_dict(PUBLIC | {"mask_token_id": 5})
    with pytest.raises(ModelError, match=r"mask_token_id is 5, but the public .* at 126336"):
        check_config(wrong, None, "weights")
    check_config(LLaDAConfig.from_dict(dict(PUBLIC)), None, "weights")


def test_S6_a_tokenizer_without_mask_token_or_with_too_many_ids_is_refused():
    class Other:
        mask_token_id = None

        def get_vocab(self):
            return {"a": 0, "b": 40}

    with pytest.raises(ModelError) as caught:
        check_config(LLaDAConfig.from_dict(small_public()), Other(), "weights")
    assert "has no mask token; the config expects id 11" in str(caught.value)
    assert "ids up to 40, the network only 12 embeddings" in str(caught.value)


def test_a_mask_token_that_is_an_ordinary_token_is_registered_by_its_id(folder):
    plain = PreTrainedTokenizerFast(tokenizer_object=tokenizer().backend_tokenizer, eos_token="4")
    assert plain.mask_token is None
    plain.save_pretrained(folder)
    found = load_tokenizer(folder)
    assert (found.mask_token, found.mask_token_id, len(found)) == ("[MASK]", 8, 9)
    assert load_model(folder).mask_id == 8
    rewrite(folder, mask_token_id=10, vocab_size=11)
    with pytest.raises(ModelError, match="no mask token and nothing at the id 10"):
        load_tokenizer(folder)


def test_the_all_mask_forward_uses_the_masks_embedding(folder):
    model = load_model(folder)
    ids = torch.full((1, 3), model.mask_id)
    embedded = model(ids, output_hidden_states=True).hidden_states[0]
    assert torch.equal(embedded[0, 0], model.state_dict()["model.transformer.wte.weight"][8])


def test_a_missing_or_broken_weights_file_is_an_error_of_ours(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_model(folder)
    weights.unlink()
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_model(folder)
    (folder / "config.json").write_text("[1")
    with pytest.raises(ModelError, match=r"config.json cannot be read"):
        load_model(folder)
    (folder / "config.json").write_text("[1]")
    with pytest.raises(ModelError, match="must hold a JSON object"):
        load_model(folder)


def test_how_fresh_weights_were_once_drawn_does_not_matter_to_a_checkpoint(folder):
    rewrite(folder, init_fn="kaiming_normal")
    assert load_model(folder).config.init_fn == "kaiming_normal"


@pytest.mark.parametrize("beside", [False, True])
def test_an_adapter_folder_brings_its_base(folder, beside):
    adapted = add_lora(load_model(folder), Lora(rank=2), seed=0)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.constant_(weight, 0.1)
    target = folder.parent / "adapter"
    if beside:
        adapted.peft_config["default"].base_model_name_or_path = "../model"
    adapted.save_pretrained(target, save_embedding_layers=False)
    loaded = load_model(target)
    ids = tokens(2, 4)
    assert isinstance(loaded, PeftModel) and not loaded.training
    assert torch.equal(loaded(ids).logits, adapted.eval()(ids).logits)
    assert load_tokenizer(target).mask_token_id == 8
    with pytest.raises(ModelError, match=r"holds neither|there is no folder|neither a folder"):
        (folder / "config.json").unlink()
        load_model(target)


def test_an_adapter_without_a_base_is_an_error(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="names no base"):
        load_model(tmp_path)


def test_a_model_from_nothing_takes_its_ids_from_the_tokenizer():
    model = build_model("llada", SMALL, tokenizer(), seed=3)
    config = model.config
    assert (config.vocab_size, config.mask_token_id, config.eos_token_id) == (9, 8, 7)
    assert config.pad_token_id == 6 and not model.training
    again = build_model("llada", SMALL, tokenizer(), seed=3, dtype="bfloat16")
    assert again.dtype is torch.bfloat16
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value.to(torch.bfloat16))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n_layer": 3, "zzz": 1}, "no field 'n_layer', did you mean 'n_layers'.*no field 'zzz'"),
        ({"n_heads": 5}, "d_model / n_heads is 16 / 5"),
        ({"mask_token_id": 2}, "mask token has id 8, the config's mask_token_id is 2"),
        ({"vocab_size": 5, "mask_token_id": 4}, "ids up to 8, the network only 5 embeddings"),
        ({"init_fn": "mitchel"}, "init_fn is 'mitchel', fresh weights need"),
    ],
)
def test_a_model_from_nothing_is_checked_like_a_checkpoint(fields, message):
    with pytest.raises(ModelError, match=message):
        build_model(
            "llada", SMALL | {"eos_token_id": 1, "pad_token_id": 1} | fields, tokenizer(), 0
        )
