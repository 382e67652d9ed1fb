import math

import pytest
import torch

from dllmzoo.models._layers import (
    RMSNorm,
    Slots,
    gated,
    key_mask,
    positions,
    rotary_angles,
    rotate,
)


def test_the_norm_divides_by_the_root_mean_square():
    # x = (3, 4): mean square 12.5, root 3.5355; times weights 1 and 2
    norm = RMSNorm(2, 0.0)
    norm.weight.data = torch.tensor([1.0, 2.0])
    expected = torch.tensor([[3 / math.sqrt(12.5), 8 / math.sqrt(12.5)]])
    torch.testing.assert_close(norm(torch.tensor([[3.0, 4.0]])), expected)


def test_the_norm_returns_to_the_models_dtype_before_it_multiplies():
    # rounding the normalised number first, then the product, differs from rounding once
    x = torch.linspace(-3, 3, 64).to(torch.bfloat16)
    norm = RMSNorm(64, 1e-5)
    norm.weight.data = torch.linspace(0.5, 1.7, 64)
    norm = norm.to(torch.bfloat16)
    full = x.float() * torch.rsqrt(x.float().square().mean() + 1e-5)
    early = full.to(torch.bfloat16) * norm.weight
    late = (full * norm.weight.float()).to(torch.bfloat16)
    assert torch.equal(norm(x), early)
    assert not torch.equal(early, late)


def test_the_gate_is_the_same_to_the_bit_with_and_without_gradient():
    gate, up = torch.linspace(-4, 4, 33), torch.linspace(2, -1, 33)
    product = gated(gate, up)
    torch.testing.assert_close(product, gate / (1 + torch.exp(-gate)) * up)
    assert torch.equal(gate, torch.linspace(-4, 4, 33))  # a backward pass would need it
    with torch.no_grad():
        assert torch.equal(gated(gate, up), product)


def test_rotation_turns_pairs_that_are_half_a_head_apart():
    # E = 4, theta 16: frequencies 1 and 1/16^(1/2) = 1/4; at position 2 the angles are 2 and .5.
    # (1, 0, 0, 1): pair (1, 0) by 2 -> (cos 2, sin 2); pair (0, 1) by .5 -> (-sin .5, cos .5)
    angles = rotary_angles(torch.tensor([[2]]), 4, 16.0)
    x = torch.tensor([1.0, 0.0, 0.0, 1.0]).view(1, 1, 1, 4)
    expected = torch.tensor([math.cos(2), -math.sin(0.5), math.sin(2), math.cos(0.5)])
    torch.testing.assert_close(rotate(x, angles).flatten(), expected)


def test_rotation_has_the_gradient_that_finite_differences_give():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 2, 3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    cos, sin = rotary_angles(torch.tensor([[0, 1, 2], [0, 0, 1]]), 4, 10.0)
    angles = cos.double(), sin.double()
    assert torch.autograd.gradcheck(lambda x: rotate(x, angles, False), x)
    assert torch.autograd.gradgradcheck(lambda x: rotate(x, angles, False), x)


def test_rotation_is_done_in_float32_and_cast_back():
    x = torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    angles = rotary_angles(torch.arange(5).unsqueeze(0) * 37, 8, 500000.0)
    assert torch.equal(rotate(x, angles), rotate(x.float(), angles).to(torch.bfloat16))
    assert not torch.equal(rotate(x, angles, False), rotate(x, angles))
    assert rotate(x, angles, False).dtype is torch.bfloat16


def test_positions_count_real_tokens():
    ids = torch.zeros(3, 4, dtype=torch.int64)
    attend = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0], [1, 0, 1, 1]]).bool()
    assert positions(ids, attend).tolist() == [[0, 0, 0, 1], [0, 1, 1, 1], [0, 0, 1, 2]]
    assert positions(ids, None).tolist() == [[0, 1, 2, 3]]


def test_the_key_mask_hides_padding_from_every_query_but_never_everything():
    attend = torch.tensor([[False, True], [False, False]])
    assert key_mask(attend).shape == (2, 1, 1, 2)
    assert key_mask(attend)[:, 0, 0].tolist() == [[False, True], [True, True]]


@pytest.mark.parametrize(
    ("chosen", "packed"),
    [
        # both rows have one slot: nothing to fill
        ([[0, 1, 0], [1, 0, 0]], [[[1.0]], [[3.0]]]),
        ([[1, 0, 1], [0, 0, 1]], [[[0.0], [2.0]], [[5.0], [0.0]]]),
        ([[0, 0, 0], [0, 0, 0]], [[[0.0]], [[0.0]]]),
        ([[0, 0, 0], [1, 1, 0]], [[[0.0], [0.0]], [[3.0], [4.0]]]),
    ],
)
def test_slots_are_packed_into_rows_and_back(chosen, packed):
    x_BLD = torch.arange(6.0).view(2, 3, 1)
    chosen_BL = torch.tensor(chosen).bool()
    slots = Slots.of(chosen_BL)
    taken = slots.take(x_BLD)
    assert torch.equal(taken, x_BLD[chosen_BL])
    assert slots.pack(taken).tolist() == packed
    assert torch.equal(slots.unpack(slots.pack(taken)), taken)


def test_angles_of_packed_slots_are_those_of_their_positions():
    angles = rotary_angles(torch.tensor([[0, 1, 2], [0, 0, 1]]), 4, 10.0)
    shared = rotary_angles(torch.tensor([[0, 1, 2]]), 4, 10.0)
    slots = Slots.of(torch.tensor([[True, False, True], [False, False, True]]))
    cos, _ = slots.angles(angles)
    assert cos.shape == (2, 1, 2, 2)
    torch.testing.assert_close(cos[0, 0, 1], angles[0][0, 0, 2])
    torch.testing.assert_close(cos[1, 0, 0], angles[0][1, 0, 2])
    torch.testing.assert_close(slots.angles(shared)[0][1, 0, 0], shared[0][0, 0, 2])


def test_half_precision_is_rotated_in_full_precision_and_cast_back():
    angles = rotary_angles(torch.arange(40).unsqueeze(0), 8, 10.0)
    x = torch.randn(1, 2, 40, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    exact = rotate(x.float(), angles).bfloat16()
    assert torch.equal(rotate(x, angles), exact)
    assert not torch.equal(rotate(x, angles, full_precision=False), exact)


def test_norm_and_gate_have_the_gradients_that_finite_differences_give():
    generator = torch.Generator().manual_seed(1)
    x, y = (
        torch.randn(2, 3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
        for _ in range(2)
    )
    norm = RMSNorm(4, 0.1).double()

    def normed(x, weight):
        return torch.func.functional_call(norm, {"weight": weight}, (x,))

    weight = torch.linspace(0.5, 2, 4, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(normed, (x, weight))
    assert torch.autograd.gradgradcheck(normed, (x, weight))
    assert torch.autograd.gradcheck(gated, (x, y))
    assert torch.autograd.gradgradcheck(gated, (x, y))


def test_a_norm_and_a_gate_keep_nothing_but_what_goes_in():
    # a block of a network keeps its activations for the backward pass: these two are most of them
    kept = []

    def pack(tensor):
        kept.append(tensor.numel())
        return tensor

    x = torch.randn(5, 8, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        RMSNorm(8, 1e-5)(x)
        assert sorted(kept) == [8, 40]  # the weight, the input
        kept.clear()
        gated(x, x * 1.0)
    assert kept.count(40) == 2


def test_a_frozen_norm_gets_no_gradient():
    norm = RMSNorm(4, 1e-5).requires_grad_(False)
    x = torch.randn(3, 4, requires_grad=True)
    norm(x).sum().backward()
    assert x.grad is not None and norm.weight.grad is None


def test_the_norm_keeps_its_precision_under_autocast():
    norm, x = RMSNorm(512, 1e-6), torch.linspace(-3, 3, 512).requires_grad_()
    expected = norm(x)
    with torch.autocast("cpu", torch.bfloat16):
        found = norm(x)
    assert torch.equal(found, expected)
    (wanted,) = torch.autograd.grad(expected.square().sum(), x)
    with torch.autocast("cpu", torch.bfloat16):
        (gradient,) = torch.autograd.grad(found.square().sum(), x)
    torch.testing.assert_close(gradient, wanted)
