"""Behaviours learned from public bug reports, A: batches, masks and model families."""

import json
from types import SimpleNamespace

import pytest
import torch

import dllmzoo
from dllmzoo.checks import load_checked
from dllmzoo.errors import RecipeError
from dllmzoo.models._load import build_model, load_model, load_tokenizer
from dllmzoo.records import Key, take
from dllmzoo.training.method import Learner
from dllmzoo.training.preflight._network import alignment_losses, logit_alignment
from dllmzoo.training.preflight._verdict import Subject
from dllmzoo.training.prompts import Codec
from dllmzoo.zoo import MODELS, SAMPLERS
from tests.contract.test_architecture import MODULES
from tests.runs import recipe
from tests.unit.models.tiny import tiny

SHIPPED = {
    "llada-tiny-sudoku": ("low_confidence", {"answer_length": 8, "steps": 4}),
    "sdar-tiny-sudoku": ("block_diffusion", {"answer_length": 8}),
}
SMALL = {
    "llada": {"d_model": 32, "n_layers": 2, "n_heads": 2, "mlp_hidden_size": 64},
    "sdar": {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 16,
        "num_key_value_heads": 1, "intermediate_size": 64, "block_size": 4,
    },
    "dream": {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "intermediate_size": 64,
    },
}  # fmt: skip
KNOWN = "2301=3204120411402"


def shipped(name):
    policy, tokenizer = load_model(name), load_tokenizer(name)
    return policy, Codec(tokenizer, policy.mask_id, tuple(policy.stop_ids))


@pytest.mark.parametrize("name", SHIPPED)
def test_s1_a_short_prompt_has_one_answer_alone_and_beside_a_longer_one(name):
    """Three and nine tokens, padded with the end token; greedy."""
    policy, codec = shipped(name)
    kind, options = SHIPPED[name]
    sampler = SAMPLERS.get(kind)(temperature=0.0, **options)
    task = SimpleNamespace(prompt=lambda text: text)
    together = codec.prompts(task, ["203", "402013=40"], 1, answer_length=8)
    assert codec.filler == codec.tokenizer.eos_token_id
    assert together.tokens_BL[0, :6].tolist() == [codec.filler] * 6
    both = sampler(policy, together, Key(0, 0, "sample"))
    turned = sampler(policy, take(together, torch.tensor([1, 0])), Key(0, 0, "sample"))
    assert torch.equal(both.tokens_BL, turned.tokens_BL[[1, 0]])
    for row, text in enumerate(["203", "402013=40"]):
        alone = codec.prompts(task, [text], 1, answer_length=8, first=row)
        one = sampler(policy, alone, Key(0, 0, "sample"))
        assert torch.equal(both.tokens_BL[row, -8:], one.tokens_BL[0, -8:])
        gap = both.logprob_BL[row, -8:] - one.logprob_BL[0, -8:]
        assert gap.abs().max() < 1e-5


class Shifted(torch.nn.Module):
    """The same network with the other setting of its shift."""

    def __init__(self, network, by):
        super().__init__()
        self.network, self.by = network, by
        self.mask_id, self.stop_ids, self.config = network.mask_id, network.stop_ids, network.config

    def forward(self, ids, attend, *, logits_at):
        logits = self.network(ids, attend).logits
        first, last = logits[:, :1], logits[:, -1:]
        moved = [first, logits[:, :-1]] if self.by > 0 else [logits[:, 1:], last]
        return SimpleNamespace(logits=torch.cat(moved, 1)[logits_at])


def fitted(family):
    """A network that knows one text by heart, and what the preflight looks at."""
    tokenizer = load_tokenizer("characters:01234=")
    policy = build_model(family, SMALL[family], tokenizer, 0).train()
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    ids = torch.tensor(tokenizer(KNOWN)["input_ids"] + [policy.stop_ids[0]]).repeat(8, 1)
    draw = torch.Generator().manual_seed(0)
    for _ in range(150):
        hide = torch.rand(ids.shape, generator=draw) < 0.4
        logits = policy(ids.masked_fill(hide, policy.mask_id), logits_at=hide).logits
        loss = torch.nn.functional.cross_entropy(logits, ids[hide])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    codec = Codec(tokenizer, policy.mask_id, tuple(policy.stop_ids))
    task = SimpleNamespace(
        test=lambda num: [0], prompt=lambda _: KNOWN[:5], answer=lambda *_: KNOWN[5:]
    )
    accelerator = SimpleNamespace(unwrap_model=lambda model: model)

    def subject(network):
        learner = Learner(network, None, None, None, accelerator, codec)  # type: ignore[arg-type]
        return Subject(SimpleNamespace(task=task), learner, True)  # type: ignore[arg-type]

    return policy, subject


@pytest.mark.parametrize("family", SMALL)
def test_s7_the_right_shift_has_no_loss_and_the_other_one_fails_with_a_message(family):
    policy, subject = fitted(family)
    losses = alignment_losses(subject(policy))
    assert losses.aligned < 0.1 < 1.0 < min(losses.before, losses.after)
    assert logit_alignment(subject(policy)).outcome == "ok"
    for by, said in ((1, "behind their token"), (-1, "before their token")):
        verdict = logit_alignment(subject(Shifted(policy, by)))
        assert verdict.outcome == "failed" and said in verdict.message
        assert "must hand out logits aligned" in verdict.hint


@pytest.mark.parametrize(("held", "named"), [("Dream", "llada"), ("llada", "dream")])
def test_s8_weights_of_another_family_fail_before_they_are_read(tmp_path, held, named):
    weights = tmp_path / "weights"
    weights.mkdir()
    config = {"model_type": held, "vocab_size": 9, "mask_token_id": 8}
    (weights / "config.json").write_text(json.dumps(config))
    (weights / "model.safetensors").write_bytes(b"never opened")
    with pytest.raises(RecipeError) as caught:
        load_checked(recipe(tmp_path, model={"name": named, "weights": str(weights)}))
    assert f"of the family '{held}', and model.name is '{named}'" in str(caught.value)
    with pytest.raises(dllmzoo.errors.ModelError, match="holds weights of the family"):
        load_model(weights, name=named)


def test_s9_code_of_a_checkpoint_is_never_run(tmp_path):
    network = tiny()
    network.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "modeling_own.Own", "AutoConfig": "modeling_own.Config"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "modeling_own.py").write_text("raise SystemExit('this file was run')\n")
    assert type(load_model(tmp_path)) is type(network)
    trusting = [path for path in MODULES if "trust_remote_code=True" in path.read_text()]
    assert trusting == []


def test_s10_only_a_family_whose_cache_is_exact_has_one(tmp_path):
    """The law `cached_blocks_are_the_whole_row` holds every cache to the whole forward."""
    for name in MODELS.names():
        family = MODELS.get(name)
        blocks = "block_size" in getattr(family.config_class(), "__dict__", {})
        assert hasattr(family, "new_cache") == blocks, name
    sampler = {"name": "block_diffusion", "answer_length": 16}
    with pytest.raises(RecipeError, match="works in the blocks of the network's attention"):
        load_checked(recipe(tmp_path, sampler=sampler))
