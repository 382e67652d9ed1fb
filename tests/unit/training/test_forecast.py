"""The estimate for GPUs that are not here, against sums by hand."""

from dataclasses import replace

import pytest

from dllmzoo.errors import UsageError
from dllmzoo.recipe import load
from dllmzoo.training.cost import flops_of
from dllmzoo.training.forecast import FOUR_BITS, UTILISATION, count, forecasts
from dllmzoo.training.gpus import GPUS, Gpu, gpu
from dllmzoo.training.plan import config_of, work_of
from tests.runs import recipe
from tests.unit.training.small import network

KL = {"name": "clipped_surrogate", "kl_coef": 0.1, "normaliser": "step"}
MODEL = recipe("x")["model"]
LORA = {"preset": "attention", "rank": 2, "alpha": 4.0}
SMALL = Gpu("small", 1e9, 1e8, 1e6, 1e9, 1e9)
EIGHT_B = "llada_8b/egspo_sa_sudoku"


def made(**changes):
    return load(recipe("run", **changes))


def test_parameters_are_those_of_the_network():
    found = count(made(), config_of(made()))
    policy = network()
    assert found.all == found.trained == sum(p.numel() for p in policy.parameters())
    # 4 projections of 16 x 16, 3 of the MLP of 16 x 32, two norms
    assert found.block == 4 * 256 + 3 * 512 + 2 * 16 and found.inside == 2 * found.block


def test_parameters_of_adapters_are_counted_apart():
    plain = count(made(), config_of(made()))
    found = count(made(model=MODEL | {"lora": LORA}), config_of(made()))
    assert found.trained == 2 * 4 * 2 * (16 + 16)  # blocks, projections, rank, both sides
    assert found.all == plain.all + found.trained and found.inside == plain.inside


def test_bytes_of_full_training_by_hand():
    all = count(made(), config_of(made())).all
    (found,) = forecasts(made(loss=KL), SMALL, 1)
    memory = found.memory
    assert memory["weights"] == memory["gradients"] == memory["reference"] == 4 * all
    assert memory["optimiser"] == 8 * all
    # 8 rows of 33 columns, 2 layers; inputs and outputs of 7 layers of a block
    widths = 4 * (16 + 16) + 3 * (16 + 32)
    length = work_of(made()).trained.length
    assert memory["activations"] == 8 * length * 2 * widths * 4
    vocabulary = config_of(made()).num_embeddings
    assert memory["logits in training"] == 8 * 16 * vocabulary * 12
    assert found.total == sum(memory.values()) and found.available == 0.92e6
    assert found.fits is (found.total <= 0.92e6)


def test_shards_divide_what_copies_hold():
    copied, sharded = forecasts(made(loss=KL), SMALL, 4)
    assert (copied.sharded, sharded.sharded) == (False, True)
    for name in ("weights", "optimiser", "reference"):
        assert sharded.memory[name] == copied.memory[name] / 4
    # copies exchange gradients through buckets of the same size
    assert sharded.memory["gradients"] == copied.memory["gradients"] / 8
    assert sharded.memory["gathered blocks"] > 0


def test_what_saves_memory_saves_it_in_the_estimate():
    def total(**model):
        return forecasts(made(loss=KL, model=MODEL | model), SMALL, 1)[0].memory

    assert total(dtype="bfloat16")["weights"] == total()["weights"] / 2
    assert "reference" not in total(reference_device="cpu", reference="copy")
    assert "reference" not in total(lora=LORA)
    assert total(gradient_checkpointing=True)["activations"] < total()["activations"]


def test_a_base_in_four_bits_shrinks_its_blocks_only():
    plain = load(EIGHT_B)
    counts = count(plain, config_of(plain))
    assert counts.all - counts.trained == 8015581184  # what the card says
    full = forecasts(plain, gpu("h100"), 1)[0].memory["weights"]
    quantised = replace(plain, model=replace(plain.model, quantize="4bit"))
    found = forecasts(quantised, gpu("h100"), 1)[0].memory["weights"]
    assert full - found == pytest.approx(counts.inside * (2 - FOUR_BITS))


def test_time_is_flops_at_a_share_of_the_peak_or_bytes():
    run = made()
    work = work_of(run)
    fast_memory = replace(SMALL, bandwidth=1e30, link=1e30)
    (found,) = forecasts(run, fast_memory, 1)
    flops = flops_of(work.config, run.model, [work.trained])
    assert found.seconds["update"] == pytest.approx(flops / (UTILISATION * 1e8))
    halves = forecasts(run, fast_memory, 2)[0]
    assert halves.round == pytest.approx(found.round / 2)
    slow_memory = replace(SMALL, float32=1e30)
    (found,) = forecasts(run, slow_memory, 1)
    # 4 calls with a backward of twice the work; each reads all weights
    weights = found.memory["weights"]
    assert found.seconds["update"] == pytest.approx(4 * 3 * weights / 1e9)


def test_what_does_not_fit_says_what_to_change():
    full = load(EIGHT_B, ["model.lora=null", "model.reference=auto", "model.dtype=float32"])
    copied, sharded = forecasts(full, gpu("A100"), 8)
    assert not copied.fits and sharded.fits and not sharded.advice
    assert copied.advice[0] == "train adapters: model.lora: {rank: 64}"
    assert "model.dtype: bfloat16" in copied.advice
    assert copied.advice[-1] == "shards: launch with fsdp2.yaml"
    assert not any("rollout_batch" in each for each in copied.advice)


@pytest.mark.parametrize("name", GPUS)
def test_numbers_of_a_gpu_are_plausible(name):
    kind = gpu(name.upper())
    assert 1e14 < kind.bfloat16 < 3e15 and kind.float32 < kind.bfloat16
    assert 2e10 < kind.memory < 3e11 and 2e11 < kind.bandwidth < 1e13
    assert kind.link < kind.bandwidth
    assert f"{kind.memory / 1e9:.0f} GB" in kind.title


def test_an_unknown_gpu_lists_the_known_ones():
    with pytest.raises(UsageError, match="no GPU kind 'v100'; there are a100, a100-40, h100"):
        gpu("v100")
