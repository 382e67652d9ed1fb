import pytest
import torch

from dllmzoo import reading
from dllmzoo.models._load import build_model, load_tokenizer
from dllmzoo.models._lora import add_lora, reference_policy
from dllmzoo.reading import in_chunks, read_slots, reads_slots
from dllmzoo.recipe.sections import Lora
from tests.unit.models.families import FAMILIES


@pytest.fixture(params=FAMILIES)
def network(request):
    tokenizer = load_tokenizer("characters:0123456789")
    return build_model(request.param, FAMILIES[request.param], tokenizer, 0)


def rows():
    tokens_BL = torch.tensor([[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]])
    at_BL = torch.tensor([[0, 1, 0, 1, 1, 0], [0, 0, 1, 1, 0, 1]]).bool()
    return tokens_BL, at_BL


def largest(logits_SV, part):
    return logits_SV.amax(-1), logits_SV.argmax(-1)


def test_a_network_hands_over_the_logits_that_it_would_return(network, monkeypatch):
    tokens_BL, at_BL = rows()
    expected = largest(network(tokens_BL, logits_at=at_BL).logits, slice(0, 6))
    sizes = []

    def watched(logits_SV, part):
        sizes.append(len(logits_SV))
        return largest(logits_SV, part)

    for limit, calls in ((2**20, [6]), (logits_of(2, network), [2, 2, 2])):
        monkeypatch.setitem(reading.ELEMENTS, "cpu", limit)
        with torch.no_grad():
            found = read_slots(network, watched, tokens_BL, logits_at=at_BL)
        assert sizes == calls
        sizes.clear()
        torch.testing.assert_close(found[0], expected[0])
        assert torch.equal(found[1], expected[1])


def logits_of(slots, network):
    """Logits of so many slots and one more number."""
    return slots * network.get_input_embeddings().weight.shape[0] + 1


def test_columns_are_slots_by_another_name(network):
    tokens_BL, at_BL = rows()
    column_BM = torch.tensor([[1, 3, 4], [2, 3, 5]])
    found = network(tokens_BL, columns_at=column_BM).logits
    assert torch.equal(found, network(tokens_BL, logits_at=at_BL).logits)


def test_gradients_do_not_depend_on_the_chunks_and_no_logits_are_kept(network, monkeypatch):
    tokens_BL, at_BL = rows()
    vocabulary = network.get_input_embeddings().weight.shape[0]
    gradients, kept = [], []

    def keep(tensor):
        kept.append(tuple(tensor.shape))
        return tensor

    for limit in (2**20, logits_of(1, network)):
        monkeypatch.setitem(reading.ELEMENTS, "cpu", limit)
        network.zero_grad()
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            (value_S,) = read_slots(
                network, lambda logits_SV, _: (logits_SV.log_softmax(-1)[:, 3],), tokens_BL,
                logits_at=at_BL,
            )  # fmt: skip
        assert any(shape[-1:] == (vocabulary,) and len(shape) == 2 for shape in kept) == (
            limit == 2**20
        )
        (value_S * torch.arange(1.0, 7.0)).sum().backward()
        gradients.append([p.grad.clone() for p in network.parameters()])
    for whole, chunked in zip(*gradients, strict=True):
        torch.testing.assert_close(chunked, whole)


def test_a_policy_that_only_gives_logits_is_read_all_the_same(monkeypatch):
    class Plain:
        def __call__(self, input_ids, attention_mask=None, *, logits_at):
            logits = torch.nn.functional.one_hot(input_ids, 8).float()
            return type("Output", (), {"logits": logits[logits_at]})

    tokens_BL, at_BL = rows()
    monkeypatch.setitem(reading.ELEMENTS, "cpu", 17)
    found = read_slots(Plain(), largest, tokens_BL, logits_at=at_BL)
    assert found[1].tolist() == [2, 4, 5, 4, 3, 1]


def test_no_slot_at_all_gives_results_without_rows():
    made = in_chunks(lambda part: torch.zeros(0, 5)[part], 0, torch.zeros(0, 5), largest)
    assert [tuple(each.shape) for each in made] == [(0,), (0,)]


def test_a_wrapper_that_hands_on_what_it_does_not_know_is_asked_for_logits():
    class Louder:
        """Every logit doubled."""

        def __init__(self, policy):
            self.policy = policy

        def __getattr__(self, name):
            return getattr(self.policy, name)

        def __call__(self, *inputs, **options):
            out = self.policy(*inputs, **options)
            out.logits *= 2
            return out

    tokenizer = load_tokenizer("characters:0123456789")
    policy = build_model("llada", FAMILIES["llada"], tokenizer, 0)
    tokens_BL, at_BL = rows()
    with torch.no_grad():
        found = read_slots(Louder(policy), largest, tokens_BL, logits_at=at_BL)
        expected = policy(tokens_BL, logits_at=at_BL).logits.amax(-1) * 2
    torch.testing.assert_close(found[0], expected)


def test_adapters_references_and_copies_read_slots_as_their_network_does():
    policy = build_model("llada", FAMILIES["llada"], load_tokenizer("characters:01"), 0)
    adapted = add_lora(policy, Lora(rank=2), 0)
    references = [reference_policy(adapted, how) for how in ("adapter", "copy")]
    for each in (policy, adapted, *references):
        assert reads_slots(each)
