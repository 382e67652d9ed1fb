"""Golden cases of family E: who may attend to whom, and where packed tokens stand."""

import re

import torch
from torch import Tensor

from dllmzoo.models._staircase import documents, staircase, token_positions
from tests.golden.case import Case, handles


def numbers(key: str) -> list[int]:
    """4, 8, 2 of `out.mask_P4_R8_B2`."""
    return [int(found) for found in re.findall(r"_[A-Z](\d+)", key)]


def reordered(mask: Tensor, order: Tensor) -> Tensor:
    """Rows and columns of a mask in another order."""
    return mask[order][:, order]


@handles("E.dual_stream_mask")
def check_dual_stream_mask(case: Case) -> None:
    """Order [noised; clean]."""
    for key, expected in case.tensors.items():
        L, size = numbers(key)
        order = torch.cat([torch.arange(L, 2 * L), torch.arange(L)])
        assert torch.equal(reordered(staircase(L, size), order), expected), key
        count = case.params["true_counts"].get(key.removeprefix("out.mask_"))
        assert count in (None, int(staircase(L, size).sum())), key


@handles("E.block_causal")
def check_block_causal(case: Case) -> None:
    """The clean stream alone."""
    for key, expected in case.tensors.items():
        L, size = numbers(key)
        assert torch.equal(staircase(L, size)[:L, :L], expected), key


@handles("E.response_grid_mask")
def check_response_grid_mask(case: Case) -> None:
    """Order [prompt; clean answer; noised answer], the grid at the answer."""
    for key, expected in case.tensors.items():
        P, R, size = numbers(key)
        order = torch.cat([torch.arange(P + R), torch.arange(R) + 2 * P + R])
        mask = staircase(P + R, size, prompt_length=P, origin="answer")
        assert torch.equal(reordered(mask, order), expected), key
        on_one_grid = torch.equal(reordered(staircase(P + R, size), order), expected)
        assert on_one_grid == (P % size == 0), key


@handles("E.packed")
def check_packed(case: Case) -> None:
    """Documents after each other, each as [noised; clean]."""
    document_BL = documents(case["in.position_ids"])
    L = document_BL.shape[1]
    position_BL = token_positions(torch.arange(L).expand_as(document_BL), document_BL)
    if "in.input_ids" not in case.tensors:
        assert torch.equal(position_BL, case["out.position_ids"])
        return
    ids_BL, hide_BL = case["in.input_ids"], case["in.mask"]
    noised_BL = ids_BL.masked_fill(hide_BL, case.params["mask_token_id"])
    for b, document_L in enumerate(document_BL):
        stream = torch.tensor([1, 0]).repeat_interleave(L)
        order = (2 * document_L.repeat(2) + stream).argsort(stable=True)
        clean_then_noised = {
            "out.input_ids": torch.cat([ids_BL[b], noised_BL[b]]),
            "out.position_ids": position_BL[b].repeat(2),
            "out.scored": torch.cat([torch.zeros_like(hide_BL[b]), hide_BL[b]]),
        }
        for key, value in clean_then_noised.items():
            assert torch.equal(value[order], case[key][b]), key
        mask = staircase(L, case.params["block_size"], document_L=document_L)
        assert torch.equal(reordered(mask, order), case["out.attention_mask"][b])
