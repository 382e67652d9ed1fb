"""What a launcher may ask for, and how prompts are dealt to processes."""

import json
from types import SimpleNamespace

import pytest
import torch
from accelerate.utils import DistributedType

from dllmzoo.errors import UsageError
from dllmzoo.models._sharded import Sharding, everywhere, in_step, is_sharded, most
from dllmzoo.training.deepspeed import zero_sharding
from dllmzoo.training.processes import join_processes, sharding_of
from dllmzoo.training.sampling import share_out
from tests.unit.training.small import network


@pytest.fixture
def launched(monkeypatch):
    """Sets what a launcher tells two processes; they have joined."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setenv("FSDP_CPU_RAM_EFFICIENT_LOADING", "false")

    def tell(mixed_precision="no", **words):
        for name, value in words.items():
            monkeypatch.setenv(name, value)
        return SimpleNamespace(
            distributed_type=DistributedType.MULTI_CPU, state=SimpleNamespace(),
            mixed_precision=mixed_precision,
        )  # fmt: skip

    return tell


FSDP = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
ZERO = {"ACCELERATE_USE_DEEPSPEED": "true"}


def test_nothing_is_sharded_unless_asked_for_or_alone(launched, monkeypatch):
    assert sharding_of(launched()) is None
    assert sharding_of(launched(**FSDP)) == Sharding()
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    assert sharding_of(launched(**FSDP)) is None


def test_the_options_of_fsdp_are_read(launched):
    found = sharding_of(launched("bf16", **FSDP, FSDP_RESHARD_AFTER_FORWARD="false"))
    assert found == Sharding(free=False, compute=torch.bfloat16)
    assert sharding_of(launched(FSDP_OFFLOAD_PARAMS="true")).offload


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"FSDP_VERSION": "1"}, "set `fsdp_version: 2`"),
        ({"FSDP_ACTIVATION_CHECKPOINTING": "true"}, "model.gradient_checkpointing"),
        ({"mixed_precision": "fp16"}, "mixed_precision is fp16"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_what_is_not_supported_is_refused(launched, words, message):
    with pytest.raises(UsageError, match=message):
        sharding_of(launched(**(FSDP | words)))


def test_megatron_is_refused():
    with pytest.raises(UsageError, match="Megatron-LM is not supported"):
        sharding_of(SimpleNamespace(distributed_type=DistributedType.MEGATRON_LM))


@pytest.mark.parametrize(
    ("words", "sharding"),
    [
        ({"ZERO_STAGE": "0"}, None),
        ({"ZERO_STAGE": "1"}, Sharding(free=False)),
        ({"ZERO_STAGE": "2", "OFFLOAD_OPTIMIZER_DEVICE": "cpu"}, Sharding(False, offload=True)),
        ({"ZERO_STAGE": "3"}, Sharding()),
        ({"ZERO_STAGE": "3", "OFFLOAD_PARAM_DEVICE": "cpu"}, Sharding(offload=True)),
    ],
    ids=str,
)
def test_stages_of_zero_are_shards(launched, words, sharding):
    words = {f"ACCELERATE_DEEPSPEED_{name}": value for name, value in words.items()}
    assert sharding_of(launched(**ZERO, **words)) == sharding


def zero_file(tmp_path, monkeypatch, config):
    file = tmp_path / "zero.json"
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    monkeypatch.setenv("ACCELERATE_DEEPSPEED_CONFIG_FILE", str(file))


def test_a_deepspeed_file_is_read(tmp_path, monkeypatch):
    zero = {"stage": 3, "offload_param": {"device": "cpu"}}
    zero_file(tmp_path, monkeypatch, {"zero_optimization": zero, "fp16": {"enabled": "auto"}})
    assert zero_sharding(torch.bfloat16) == Sharding(True, True, torch.bfloat16)
    zero_file(tmp_path, monkeypatch, {})
    assert zero_sharding() is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "cannot be read as a DeepSpeed config"),
        ([], "cannot be read"),
        ({"optimizer": {"type": "Adam"}}, r"section 'optimizer', which the recipe decides"),
        ({"fp16": {"enabled": True}}, "fp16, which is not supported"),
        ({"zero_optimization": {"stage": 4}}, "no ZeRO stage 4"),
        ({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}, "NVMe"),
    ],
    ids=str,
)
def test_a_deepspeed_file_with_what_has_no_counterpart_is_refused(
    tmp_path, monkeypatch, config, message
):
    zero_file(tmp_path, monkeypatch, config)
    with pytest.raises(UsageError, match=message):
        zero_sharding()


def test_accumulation_by_the_launcher_is_refused(monkeypatch):
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    with pytest.raises(UsageError, match=r"4 steps of gradient accumulation.*train\.micro_batch"):
        join_processes()


def test_prompts_are_dealt_so_that_work_is_even():
    assert share_out([5, 5, 5, 5], 2) == [[0, 2], [1, 3]]
    assert share_out([9, 1, 1, 9], 2) == [[0, 1], [2, 3]]
    # 8, 7, 6, 5, 4, 3 on three: 8 + 3, 7 + 4, 6 + 5
    assert share_out([3, 8, 7, 5, 4, 6], 3) == [[0, 1], [2, 4], [3, 5]]
    assert share_out([1, 2, 3], 1) == [[0, 1, 2]]


def test_every_part_has_as_many_items_and_none_is_lost():
    work = [1, 50, 2, 3, 4, 5, 6, 60]
    found = share_out(work, 4)
    assert [len(part) for part in found] == [2] * 4
    assert sorted(item for part in found for item in part) == list(range(8))
    sums = sorted(sum(work[i] for i in part) for part in found)
    assert sums[-1] == 61  # no better than the longest item with the shortest


def test_a_network_that_is_not_sharded_asks_nobody():
    policy = network()
    assert not is_sharded(policy) and most(3, policy) == 3 and everywhere(True, policy)
    with in_step(policy) as same:
        assert same is policy
