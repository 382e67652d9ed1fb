"""What must fit together of model, weights and tokenizer: each rule broken once."""

import pytest

from tests.unit.checked import checkpoint, found, one, write
from tests.unit.models.tiny import small_public
from tests.unit.recipe.small_parts import small_zoo


@pytest.fixture(autouse=True, scope="module")
def _small_zoo():
    with small_zoo():
        yield


@pytest.fixture
def folder(tmp_path):
    return checkpoint(tmp_path)


def test_a_checkpoint_that_fits_has_no_problem(folder):
    assert found(model={"weights": str(folder)}, sampler="writer") == []


def test_a_run_folder_means_its_final_weights(folder, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "final").symlink_to(folder)
    assert found(model={"weights": str(run)}) == []


def test_something_must_be_loaded_or_built():
    assert one(model={"name": "llada"}).path == "model"
    problem = one(model={"weights": "llada-8b-instruct", "config": {}})
    assert problem.path == "model.config"


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ("llada-8b-instrct", "did you mean 'llada-8b-instruct'"),
        ("./nothing_here", "neither a folder, nor a card, nor a hub id"),
        ("runs/nothing_here", "neither a folder"),
        ("tests", "holds neither config.json nor adapter_config.json"),
    ],
)
def test_weights_that_are_nowhere_are_refused(weights, words):
    problem = one(model={"weights": weights})
    assert problem.path == "model.weights"
    assert words in problem.message


def test_a_hub_id_is_not_looked_up():
    assert found(model={"weights": "owner/name@main"}) == []


def test_another_family_is_refused(folder):
    write(folder, "config.json", model_type="Dream")
    problem = one(model={"weights": str(folder)})
    assert problem.path == "model.weights"
    assert problem.message == "these weights are of the family 'Dream', and model.name is 'llada'"


def test_the_mask_of_config_and_tokenizer_must_be_one(folder):
    write(folder, "config.json", mask_token_id=18)
    problem = one(model={"weights": str(folder)})
    assert problem.message == (
        "the tokenizer's mask token has id 19, and the config's mask_token_id is 18"
    )
    write(folder, "config.json", mask_token_id=None)
    assert "no mask_token_id" in one(model={"weights": str(folder)}).message
    write(folder, "config.json", mask_token_id=20)
    messages = [problem.message for problem in found(model={"weights": str(folder)})]
    assert "mask_token_id 20 is none of the 20 embeddings" in messages


def test_the_mask_of_a_public_vocabulary_is_known(folder):
    write(folder, "config.json", vocab_size=126464, embedding_size=126464, mask_token_id=126081)
    write(folder, "tokenizer_config.json", mask_token=None)
    problem = one(model={"weights": str(folder)})
    assert problem.message == (
        "mask_token_id is 126081, and the public vocabulary of 126464 tokens has its mask at 126336"
    )


def test_a_tokenizer_from_elsewhere_must_fit(folder):
    problem, size = found(
        model={"weights": str(folder), "tokenizer": "characters:" + "1234567890+=/*-()%^&!ab"}
    )
    assert {problem.path, size.path} == {"model.tokenizer"}
    assert "id 25" in problem.message
    assert "ids up to 25" in size.message
    assert one(model={"weights": str(folder), "tokenizer": "characters:aa"}).message == (
        "the tokenizer 'characters:aa' names 'a' twice"
    )


def test_an_adapter_is_judged_by_its_base(folder, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    write(adapter, "adapter_config.json", base_model_name_or_path=str(folder))
    assert found(model={"weights": str(adapter)}) == []
    write(folder, "config.json", model_type="sdar")
    assert "'sdar'" in one(model={"weights": str(adapter)}).message


def test_a_broken_file_is_named(folder):
    (folder / "config.json").write_text("{")
    assert "config.json cannot be read" in one(model={"weights": str(folder)}).message


def test_a_network_from_nothing_needs_a_tokenizer_and_known_fields():
    assert one(model={"config": {}}).path == "model.tokenizer"
    small = {"d_model": 8, "n_layers": 1, "n_heads": 2}
    model = {"tokenizer": "characters:1+=", "config": small}
    assert found(model=model) == []
    shape, unknown = found(model={**model, "config": {**small, "d_modle": 3, "n_heads": 3}})
    assert (unknown.path, unknown.hint) == ("model.config.d_modle", "did you mean 'd_model'?")
    assert shape.path == "model.config.d_model"
    problem = one(model={**model, "config": {**small, "mask_token_id": 0}})
    assert problem.message == "mask_token_id is 0, and the tokenizer has 5"
    assert (
        one(model={**model, "config": {**small, "vocab_size": 3}}).path == "model.config.vocab_size"
    )


def test_a_config_that_the_loader_refuses_is_refused_at_once(folder):
    write(folder, "config.json", alibi=True, n_heads=3)
    problem = one(model={"weights": str(folder)})
    assert problem.path == "model.weights"
    assert "its config.json is refused" in problem.message
    assert "alibi is True, must be False" in problem.message
    assert "d_model / n_heads is 16 / 3" in problem.message
    write(folder, "config.json", alibi=False, n_heads=None)
    assert "lacks n_heads" in one(model={"weights": str(folder)}).message


def test_the_end_of_config_and_tokenizer_must_be_one(folder):
    write(folder, "tokenizer_config.json", eos_token={"content": "b"})
    problem = one(model={"weights": str(folder)})
    assert problem.path == "model.weights"
    assert problem.message == (
        "the tokenizer's end token has id 1, and answers end at 18: eos_token_id of the config"
    )
    write(folder, "config.json", eos_token_id=[18, 1])
    assert found(model={"weights": str(folder)}) == []
    own = {"weights": str(folder), "tokenizer": "characters:1234567890+=-*abc"}  # 18 and 19
    assert found(model=own) == []
    write(folder, "config.json", eos_token_id=1)
    assert one(model=own).path == "model.tokenizer"


def test_the_end_of_a_turn_ends_answers_too(folder):
    write(folder, "config.json", **small_public(vocab_size=126464, embedding_size=126464,
          mask_token_id=126336, eos_token_id=126081))  # fmt: skip
    write(folder, "tokenizer_config.json", mask_token="[M]", eos_token="<|eot_id|>")
    tokens = [{"content": "[M]", "id": 126336}, {"content": "<|eot_id|>", "id": 126348}]
    write(folder, "tokenizer.json", added_tokens=tokens)
    assert found(model={"weights": str(folder)}) == []


@pytest.mark.parametrize(
    ("lora", "path", "said"),
    [
        ({"targets": ["o_proj"]}, "targets", "no linear layer is called 'o_proj'; in the blocks of "
         "llada there are q_proj, k_proj, v_proj, attn_out, ff_proj, up_proj, ff_out"),
        ({"targets": ["q_proj", "down", "gate"]}, "targets", "called 'down', 'gate'"),
        ({"targets": ["blocks.7.q_proj"]}, "targets", "called 'blocks.7.q_proj'"),
    ],
)  # fmt: skip
def test_adapters_on_nothing_are_refused_before_weights_are_read(folder, lora, path, said):
    for model in ({"weights": str(folder)}, {"weights": "llada-8b-instruct"}):
        problem = one(model={**model, "lora": lora})
        assert problem.path == f"model.lora.{path}"
        assert said in problem.message
    good = {"preset": "qkv_up"}
    assert found(model={"weights": str(folder), "lora": good}) == []
    assert found(model={"weights": str(folder), "lora": {"targets": ["blocks.0.q_proj"]}}) == []


def test_a_preset_must_be_one_of_the_family():
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 4,
             "num_key_value_heads": 1}  # fmt: skip
    model = {"name": "sdar", "tokenizer": "characters:1+=", "config": small}
    problem = one(model={**model, "lora": {"preset": "qkv_up"}})
    assert problem.path == "model.lora.preset"
    assert "sdar has no LoRA preset 'qkv_up'; it has attention, mlp, all-linear" in problem.message
    assert one(model={**model, "lora": {"targets": ["qq"]}}).path == "model.lora.targets"
    assert found(model={**model, "lora": {"targets": ["gate_proj"]}}) == []


SHAPES = {
    "llada": {"d_model": 8, "n_layers": 1, "n_heads": 2, "max_sequence_length": 16},
    "dream": {
        "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "intermediate_size": 16, "max_position_embeddings": 16,
    },
}  # fmt: skip


@pytest.mark.parametrize("family", sorted(SHAPES))
def test_a_network_from_nothing_takes_its_ids_from_a_tokenizer_folder(tmp_path, family):
    # characters 0 to 2, then padding 3, end 4, mask 5; no config.json beside them
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    special = {"pad_token": "[P]", "eos_token": "[E]", "mask_token": "[M]"}
    write(tokenizer, "tokenizer_config.json", **special, chat_template="x")
    write(
        tokenizer, "tokenizer.json", model={"vocab": {"1": 0, "+": 1, "=": 2}},
        added_tokens=[{"content": each, "id": 3 + i} for i, each in enumerate(special.values())],
    )  # fmt: skip
    model = {"name": family, "tokenizer": str(tokenizer), "config": SHAPES[family]}
    assert found(model=model) == []
    problem = one(model=model | {"config": SHAPES[family] | {"eos_token_id": 0}})
    assert problem.path == "model.config.eos_token_id"
    assert problem.message == "eos_token_id is 0, and the tokenizer has 4"
