"""`dllmzoo plan`: an estimate for GPUs, marked as one, from the card alone."""

import json

import pytest

from dllmzoo.cli.plan import size, span

RECIPE = "llada_8b/egspo_sa_sudoku"


def test_the_table_is_marked_as_an_estimate_and_says_whether_it_fits(cli):
    done = cli("plan", RECIPE, "--gpus", "8", "--gpu", "h100")
    assert done.code == 0
    assert "ESTIMATE for 8 x NVIDIA H100 SXM 80 GB" in done.out
    assert "copied (DDP)" in done.out and "sharded (FSDP2)" in done.out
    for name in ("weights", "gradients", "optimiser", "activations", "logits in training", "fits"):
        assert name in done.out
    assert "40 % of the published peak" in done.out
    assert "train.prompts is 6, which 8 processes cannot share evenly; use 8" in done.out


def test_one_gpu_has_one_layout_and_json_says_the_same(cli):
    found = json.loads(cli("plan", RECIPE, "--gpu", "a100", "--json").out)
    (layout,) = found["layouts"]
    assert found["estimate"] is True and found["gpus"] == 1 and found["notes"] == []
    assert layout["fits"] is True and layout["total"] == sum(layout["memory"].values())
    assert layout["round"] == pytest.approx(sum(layout["seconds"].values()))


def test_what_does_not_fit_says_what_to_change(cli):
    done = cli("plan", RECIPE, "model.lora=null", "model.reference=auto", "--gpu", "l4")
    assert "does not fit; try, in this order: train adapters" in done.out


def test_an_unknown_gpu_is_a_usage_error(cli):
    done = cli("plan", RECIPE, "--gpu", "abacus")
    assert done.code == 2 and "no GPU kind 'abacus'" in done.err


def test_numbers_are_written_with_their_units():
    assert (size(1.5e9), size(2.5e7)) == ("1.5 GB", "25.0 MB")
    assert (span(12.34), span(300), span(7200), span(86400 * 3)) == (
        "12.3 s", "5.0 min", "2.0 h", "3.0 days",
    )  # fmt: skip
