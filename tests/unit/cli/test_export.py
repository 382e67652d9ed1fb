"""`dllmzoo export`: a folder that loads alone."""

import torch
from safetensors.torch import load_file

import dllmzoo


def test_a_run_is_exported_and_loads_bit_for_bit(cli, tiny_run, tmp_path):
    done = cli("export", tiny_run, tmp_path / "out")
    assert done.code == 0, done.err
    assert "model.safetensors" in done.out and "dllmzoo.load_model(" in done.out
    before = load_file(tiny_run / "final" / "model.safetensors")
    after = load_file(tmp_path / "out" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    tokens_BL = torch.tensor([[0, 1, 2]])
    ours, theirs = (dllmzoo.load_model(p) for p in (tiny_run / "final", tmp_path / "out"))
    assert torch.equal(ours(tokens_BL).logits, theirs(tokens_BL).logits)


def test_a_folder_with_something_in_it_is_refused(cli, tiny_run, tmp_path):
    (tmp_path / "file").touch()
    done = cli("export", tiny_run, tmp_path)
    assert done.code == 2 and "is not empty" in done.err


def test_there_must_be_an_adapter_to_merge(cli, tiny_run, tmp_path):
    done = cli("export", tiny_run, tmp_path / "out", "--merge")
    assert done.code == 2 and "no adapter to merge" in done.err


def test_adapters_are_exported_alone_or_merged(cli, tiny_run, recipe, tmp_path):
    words = ["model.config=null", "model.tokenizer=null", f"model.weights={tiny_run / 'final'}"]
    words += ["model.lora={rank: 2, alpha: 4}", "optimizer.lr=0.1", "output=adapted"]
    done = cli("train", recipe, *words, "-q")
    assert done.code == 0, done.err
    assert "dllmzoo export adapted adapted-model --merge" in done.out
    assert cli("export", "adapted", "alone").code == 0
    assert (tmp_path / "alone" / "adapter_model.safetensors").is_file()
    assert cli("export", "adapted", "merged", "--merge").code == 0
    tokens_BL = torch.tensor([[0, 1, 2]])
    alone, merged = (dllmzoo.load_model(tmp_path / name) for name in ("alone", "merged"))
    assert type(merged).__name__ == "LLaDAModelLM"
    torch.testing.assert_close(merged(tokens_BL).logits, alone(tokens_BL).logits)
