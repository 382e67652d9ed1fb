"""Write a trained policy as a Hugging Face folder, and prove that it reads back the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from dllmzoo.errors import RunError, UsageError
from dllmzoo.models._sharded import is_sharded, whole_state
from dllmzoo.recipe.sections import Model
from dllmzoo.training.files import whole_folder
from dllmzoo.training.method import Learner


def save_final(folder: Path, spec: Model, learner: Learner) -> None:
    """`final/`: the model under its public key names, or the adapter of a LoRA run, + tokenizer.

    All processes must call: sharded weights are gathered; the main one writes.

    Raises:
        RunError: what was written does not read back bit for bit.
    """
    policy = learner.accelerator.unwrap_model(learner.policy)
    main = learner.accelerator.is_main_process
    state = None
    if is_sharded(policy):
        state = whole_state(policy, main, trained_only=spec.lora is not None)
    if not main:
        return
    if spec.lora is not None and spec.weights is not None:
        policy.peft_config["default"].base_model_name_or_path = spec.weights
    save_policy(folder, policy, learner.codec.tokenizer, state)


def save_policy(
    folder: Path, policy: Any, tokenizer: Any, state: Mapping[str, Tensor] | None = None
) -> None:
    """Write a policy and its tokenizer atomically and compare the tensors on disk.

    Args:
        folder: appears complete or not at all.
        policy: the network; decides the format.
        tokenizer: goes beside it.
        state: its weights by name, where it does not hold them all; else its own.
    """
    from dllmzoo.models._load import quiet

    with whole_folder(folder) as inside, quiet():
        # peft would ask the hub whether the vocabulary has grown, which ours never does
        known: dict[str, Any] = {}
        if hasattr(policy, "merge_and_unload"):
            known["save_embedding_layers"] = False
        if state is not None:
            known["state_dict"] = dict(state)
        policy.save_pretrained(inside, safe_serialization=True, **known)
        tokenizer.save_pretrained(inside)
        _compare(inside, policy, policy.state_dict() if state is None else state)


def _compare(folder: Path, policy: Any, state: Mapping[str, Tensor]) -> None:
    known = dict(state)
    if hasattr(policy, "merge_and_unload"):  # only adapters are written, under shorter names
        known = {n.replace(".default.", "."): v for n, v in known.items() if ".lora_" in n}
    written = set()
    for file in folder.glob("*.safetensors"):
        for name, value in load_file(file).items():
            if name not in known or not torch.equal(known[name].detach().cpu(), value):
                raise RunError(f"{file} does not hold the trained weights of {name}")
            written.add(known[name].data_ptr())
    lost = [name for name, value in known.items() if value.data_ptr() not in written]  # not tied
    if lost:
        raise RunError(f"{folder} lacks the trained weights of {', '.join(lost)}")


def export(source: str | Path, folder: Path, *, merge: bool = False) -> Path:
    """Copy a run's or a model's weights to a new Hugging Face folder.

    Args:
        source: a run folder, a model folder or a card.
        folder: where to write; must be empty or absent.
        merge: fold LoRA adapters into the base weights.

    Raises:
        UsageError: the folder holds something, or an adapter is exported without its base.
    """
    from dllmzoo.models._load import load_model, load_tokenizer

    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose another folder")
    path = weights_of(source)
    policy: Any = load_model(path)
    if hasattr(policy, "merge_and_unload"):
        if merge:
            policy = policy.merge_and_unload()
    elif merge:
        raise UsageError(f"{source} has no adapter to merge; leave --merge out")
    save_policy(folder, policy, load_tokenizer(path))
    return folder


def weights_of(source: str | Path) -> str:
    """What `load_model` reads for a run folder (its `final/`), a model folder or a card.

    Raises:
        UsageError: the run has no finished weights yet.
    """
    path = Path(source)
    if (path / "recipe.resolved.yaml").exists():
        if not (path / "final").is_dir():
            raise UsageError(
                f"{path} is a run without final weights; finish it with "
                f"`dllmzoo train {path}/recipe.resolved.yaml --resume {path}`"
            )
        return str(path / "final")
    return str(source)
