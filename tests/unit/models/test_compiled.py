"""Compiled blocks, with the backend that traces as inductor does and runs plain kernels."""

import copy

import pytest
import torch

from dllmzoo.errors import RecipeError
from dllmzoo.models._compiled import compile_blocks
from dllmzoo.models._load import build_model, load_tokenizer
from dllmzoo.recipe import load
from tests.runs import recipe
from tests.unit.models.families import FAMILIES


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo's
@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_blocks_give_the_same_logits_and_gradients(family):
    plain = build_model(family, FAMILIES[family], load_tokenizer("characters:0123456789"), 0)
    compiled = compile_blocks(copy.deepcopy(plain), backend="aot_eager")
    tokens_BL = torch.tensor([[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]])
    attend_BL = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]]).bool()
    at_BL = torch.tensor([[0, 1, 0, 1, 1, 0], [0, 0, 1, 1, 0, 1]]).bool()
    found = []
    for network in (plain, compiled):
        with torch.no_grad():
            quiet = network(tokens_BL, attend_BL, logits_at=at_BL).logits
        logits = network(tokens_BL, attend_BL, logits_at=at_BL).logits
        torch.testing.assert_close(quiet, logits.detach())
        logits.log_softmax(-1)[:, 3].sum().backward()
        found.append((logits.detach(), [p.grad for p in network.parameters()]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    assert compiled.state_dict().keys() == plain.state_dict().keys()


def test_blocks_that_move_are_not_compiled(tmp_path):
    settings = recipe(tmp_path)
    settings["model"] = settings["model"] | {"compile": True, "reference_device": "cpu"}
    with pytest.raises(RecipeError, match="compile needs blocks that stay where they are"):
        load(settings)
