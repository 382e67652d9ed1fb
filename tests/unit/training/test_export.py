"""Final weights: what is written is what was trained, whole."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from dllmzoo.errors import RunError, UsageError
from dllmzoo.models._load import load_model
from dllmzoo.models._lora import add_lora
from dllmzoo.recipe.sections import Lora
from dllmzoo.training.export import export, save_policy, weights_of
from dllmzoo.training.folder import RunFolder
from tests.unit.training.small import TOKENIZER, network


def test_a_tied_head_is_written_once_and_missed_by_nobody(tmp_path):
    from dllmzoo.models._load import build_model
    from tests.unit.training.small import CONFIG

    policy = build_model("llada", CONFIG | {"weight_tying": True}, TOKENIZER, 0)
    save_policy(tmp_path / "final", policy, TOKENIZER)
    again = load_model(tmp_path / "final")
    for name, value in policy.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)


def test_of_an_adapted_model_the_adapters_are_written(tmp_path):
    policy = add_lora(network().float(), Lora(rank=2), 0)
    save_policy(tmp_path / "final", policy, TOKENIZER)
    names = load_file(tmp_path / "final" / "adapter_model.safetensors")
    assert names and all("lora_" in name for name in names)


def test_what_is_written_is_compared_with_what_was_trained(tmp_path, monkeypatch):
    policy = network().float()
    save_policy(tmp_path / "good", policy, TOKENIZER)
    for change in ("other", "missing"):
        broken = {name: value.clone() for name, value in policy.state_dict().items()}
        name = next(iter(broken))
        if change == "other":
            broken[name] += 1
        else:
            del broken[name]
        monkeypatch.setattr(
            policy, "save_pretrained",
            lambda inside, broken=broken, **_: save_file(broken, inside / "model.safetensors"),
        )  # fmt: skip
        with pytest.raises(RunError, match=name):
            save_policy(tmp_path / change, policy, TOKENIZER)
        assert not (tmp_path / change).exists()


def test_what_can_be_exported(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.recipe.write_text("title: not read here")
    with pytest.raises(UsageError, match="a run without final weights"):
        weights_of(folder.path)
    assert weights_of("llada-tiny-sudoku") == "llada-tiny-sudoku"
    save_policy(folder.final, network().float(), TOKENIZER)
    assert weights_of(folder.path) == str(folder.final)
    export(folder.path, tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (
        folder.final / "model.safetensors"
    ).read_bytes()
    with pytest.raises(UsageError, match="is not empty"):
        export(folder.path, tmp_path / "out")
    with pytest.raises(UsageError, match="no adapter to merge"):
        export(folder.path, tmp_path / "merged", merge=True)
