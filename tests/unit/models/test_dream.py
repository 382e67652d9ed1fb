from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import nn

from dllmzoo.errors import ModelError
from dllmzoo.models._layers import column_before
from dllmzoo.models.dream import DreamModel
from dllmzoo.models.llada import LLaDAModelLM
from dllmzoo.models.sdar import SDARForCausalLM
from dllmzoo.training.preflight._network import logit_alignment
from dllmzoo.training.preflight._verdict import Canvas, Subject
from tests.unit.models.blocks import close, drawn, gradients, logits, padded
from tests.unit.models.tiny import tiny_dream, tokens


class PlainHead(DreamModel):
    """The same network, taken for one whose head predicts the token at its own position."""

    shifted_head = False


def plain(model):
    other = PlainHead(model.config)
    other.load_state_dict(model.state_dict())
    return other.eval()


def test_the_shift_is_a_property_of_the_family():
    assert DreamModel.shifted_head
    assert not LLaDAModelLM.shifted_head and not SDARForCausalLM.shifted_head


def test_a_position_takes_what_the_head_says_one_before_and_the_first_repeats_its_own():
    model, ids = tiny_dream(), tokens(2, 5)
    head_BLV = logits(plain(model), ids)
    found_BLV = logits(model, ids)
    assert torch.equal(found_BLV[:, 1:], head_BLV[:, :-1])
    assert torch.equal(found_BLV[:, 0], head_BLV[:, 0])
    one = tokens(1, 1)
    assert torch.equal(logits(model, one), logits(plain(model), one))


def test_the_token_before_is_the_last_real_one():
    # row 0: two of padding, then 2 3 4; row 1: a hole between 1 and 3; row 2: nothing real
    attend_BL = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 0, 1, 0], [0, 0, 0, 0, 0]]).bool()
    expected = [[0, 1, 2, 2, 3], [0, 0, 1, 1, 3], [0, 1, 2, 3, 4]]
    assert column_before(tokens(3, 5), attend_BL).tolist() == expected
    assert column_before(tokens(2, 4), None).tolist() == [[0, 0, 1, 2]] * 2


def test_the_first_real_token_behind_padding_has_the_logits_it_has_without_padding():
    model, ids = tiny_dream(), tokens(2, 6)
    mask = padded(ids, (1, 0, 2))
    close(logits(model, ids, mask)[1, 2:], logits(model, ids[1:, 2:])[0])
    at = torch.zeros_like(ids, dtype=torch.bool)
    at[1, 2] = True
    close(logits(model, ids, mask, logits_at=at), logits(model, ids[1:, 2:])[:, 0])


def test_a_gap_of_padding_inside_a_row_is_as_if_it_were_not_there():
    model, ids = tiny_dream(), tokens(1, 7)
    mask = padded(ids, (0, 2, 4))
    real = mask[0].bool()
    close(logits(model, ids, mask)[0, real], logits(model, ids[:, real])[0])


@pytest.mark.parametrize("layers", [1, 2])
def test_wanted_slots_read_the_head_one_before_also_where_two_read_the_same(layers):
    model, ids = tiny_dream(num_hidden_layers=layers), tokens(3, 6)
    mask = padded(ids, (1, 0, 2), (2, 4, 6))
    at = torch.tensor([[1, 1, 0, 0, 1, 0], [0, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0]]).bool()
    seen, hook = [], model.lm_head.register_forward_hook(lambda m, x, y: seen.append(x[0].shape))
    close(logits(model, ids, mask, logits_at=at), logits(model, ids, mask)[at])
    hook.remove()
    assert seen == [(6, 16), (3, 6, 16)], "the head reads 6 wanted slots, not all 18"
    assert logits(model, ids, logits_at=torch.zeros_like(at)).shape == (0, 9)


@pytest.mark.parametrize("reentrant", [False, True])
def test_wanted_slots_and_checkpoints_leave_the_gradients_as_they_are(reentrant):
    model, ids = tiny_dream(), tokens(3, 6)
    at = drawn(ids)
    at[:, :2] = True  # slots 0 and 1 read the same row of the head
    model(ids).logits[at].square().sum().backward()
    expected = gradients(model)
    for narrow in (False, True):
        model.zero_grad()
        model.train()
        model.activation_checkpointing_enable({"use_reentrant": reentrant})
        out = model(ids, logits_at=at).logits if narrow else model(ids).logits[at]
        out.square().sum().backward()
        found = gradients(model)
        assert found.keys() == expected.keys() and any("q_proj.bias" in name for name in found)
        for name, gradient in found.items():
            close(gradient, expected[name], atol=1e-4)


def test_attention_is_bidirectional_in_a_padded_batch_too():
    model, ids = tiny_dream(), tokens(2, 6)
    other = ids.clone()
    other[:, -1] = (ids[:, -1] + 1) % 6
    mask = padded(ids, (1, 0, 2))
    change_BL = (logits(model, ids, mask) - logits(model, other, mask)).abs().amax(-1)
    assert change_BL[0, 0] > 1e-3 and change_BL[1, 2] > 1e-3


def test_what_stands_under_padding_changes_nothing_and_a_mask_of_ones_is_none():
    model, ids = tiny_dream(), tokens(2, 7)
    mask = padded(ids, (0, 0, 2), (1, 4, 7))
    real = mask.bool()
    noise = torch.where(real, ids, (ids + 3) % 9)
    assert torch.equal(logits(model, ids, mask)[real], logits(model, noise, mask)[real])
    assert torch.equal(logits(model, ids, torch.ones_like(ids)), logits(model, ids))


@pytest.mark.parametrize("narrow", [False, True])
def test_a_row_of_nothing_but_padding_is_finite_forward_and_backward(narrow):
    model, ids = tiny_dream(), tokens(2, 4)
    at = torch.ones_like(ids, dtype=torch.bool) if narrow else None
    out = model(ids, padded(ids, (1, 0, 4)), logits_at=at).logits
    assert out.isfinite().all()
    out.square().sum().backward()
    assert all(g.isfinite().all() for g in gradients(model).values())


def test_queries_keys_and_values_have_a_bias_and_nothing_else():
    model = tiny_dream()
    biased = {name.removesuffix(".bias") for name, _ in model.named_parameters() if "bias" in name}
    kinds = {name.rsplit(".", 1)[1] for name in biased}
    assert kinds == {"q_proj", "k_proj", "v_proj"} and len(biased) == 6
    fresh = DreamModel(model.config)
    for name in biased:
        assert (fresh.get_submodule(name).bias == 0).all()  # type: ignore[operator]


def test_hidden_states_stand_where_the_network_computed_them():
    model, ids = tiny_dream(num_hidden_layers=3), tokens(2, 5)
    hidden = model(ids, output_hidden_states=True).hidden_states
    assert len(hidden) == 4
    assert torch.equal(hidden[0], model.get_input_embeddings()(ids))
    head_BLV = model.get_output_embeddings()(hidden[-1])
    close(head_BLV[:, :-1], model(ids).logits[:, 1:], atol=1e-6)


def test_inputs_that_mean_something_else_are_refused():
    model, ids = tiny_dream(max_position_embeddings=5), tokens(2, 4)
    with pytest.raises(ModelError, match="dream reads one stream: it takes no target_ids"):
        model(ids, target_ids=ids)
    with pytest.raises(ModelError, match=r"logits_at has shape \(2, 3\), input_ids \(2, 4\)"):
        model(ids, logits_at=torch.ones(2, 3))
    with pytest.raises(ModelError, match=r"attention_mask has shape \(2, 3\)"):
        model(ids, torch.ones(2, 3))
    long = tokens(2, 7)
    with pytest.raises(ModelError, match=r"sequence of 7 tokens is longer .* of 5"):
        model(long)
    assert logits(model, long, padded(long, (0, 0, 2), (1, 4, 7))).isfinite().all()


def fitted(shifted: bool, ids_BL: torch.Tensor, hide_KL: torch.Tensor) -> DreamModel:
    """A network whose head knows the token behind its position, or the one at it."""
    model = tiny_dream(initializer_range=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    target_BL = ids_BL.roll(-1, 1) if shifted else ids_BL
    know_KL = hide_KL.roll(-1, 1) if shifted else hide_KL
    noised_KL = ids_BL.masked_fill(hide_KL, model.mask_id)
    for _ in range(120):
        hidden = model(noised_KL, output_hidden_states=True).hidden_states
        head_SV = model.lm_head(hidden[-1][know_KL])
        loss = nn.functional.cross_entropy(head_SV, target_BL.expand_as(hide_KL)[know_KL])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("shifted", [True, False])
def test_S7_a_known_sequence_has_no_loss_with_the_right_flag_and_much_with_the_other(shifted):
    ids_BL = torch.tensor([[0, 3, 1, 5, 4, 2, 0, 5, 1, 4, 3, 2]])
    hide_KL = torch.zeros(4, 12, dtype=torch.bool)
    for row in range(4):
        hide_KL[row, 1 + row : 11 : 4] = True
    model = fitted(shifted, ids_BL, hide_KL)
    noised_KL = ids_BL.masked_fill(hide_KL, model.mask_id)

    def loss(policy):
        found_SV = logits(policy, noised_KL, logits_at=hide_KL)
        return nn.functional.cross_entropy(found_SV, ids_BL.expand_as(hide_KL)[hide_KL]).item()

    right, wrong = (model, plain(model)) if shifted else (plain(model), model)
    assert loss(right) < 0.05
    assert loss(wrong) > 2.0
    assert preflight(right, ids_BL).outcome == "ok"
    verdict = preflight(wrong, ids_BL)
    assert verdict.outcome == "failed"
    assert f"one position off, {'before' if shifted else 'behind'} their token" in verdict.message
    assert ("shifted right by one" if shifted else "not shifted") in verdict.hint


def preflight(model, ids_BL):
    """The built-in check on a prompt of one token and the rest but the last as its answer."""
    prompt, *rest, last = ids_BL[0].tolist()
    codec = SimpleNamespace(filler=last, max_length=None)
    canvases, device = [Canvas([prompt], rest)], torch.device("cpu")
    subject = SimpleNamespace(
        policy=model, codec=codec, canvases=canvases, device=device, full=True
    )
    return logit_alignment(cast(Subject, subject))
