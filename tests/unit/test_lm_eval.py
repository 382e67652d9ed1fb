"""The model `dllmzoo` of the LM Evaluation Harness, on a network of a few hundred weights."""

import json
import math
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from dllmzoo.errors import UsageError
from dllmzoo.training.export import save_policy
from tests.unit.training.small import TOKENIZER, network

pytest.importorskip(
    "lm_eval", reason="the LM Evaluation Harness is missing: pip install 'dllmzoo[lm-eval]'"
)
from dllmzoo.lm_eval import DiffusionLM, cut

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of a network of each family."""
    made = {}
    for family in ("llada", "sdar"):
        made[family] = tmp_path_factory.mktemp(family) / "model"
        save_policy(made[family], network(family=family).float(), TOKENIZER)
    return made


@pytest.fixture(scope="module")
def llada(models):
    return DiffusionLM(str(models["llada"]), answer_length=6, steps=3, batch_size=2)


def asks(*pairs):
    return [SimpleNamespace(args=pair) for pair in pairs]


TEXTS = asks(
    ("12=", {"until": ["=" * 9], "do_sample": False}),
    ("3=", {}),
    ("432104=", {"max_gen_toks": 4}),
    ("12=", {"until": "4"}),
)


def test_answers_come_in_the_order_of_the_requests_whatever_the_batch(models, llada):
    texts = llada.generate_until(TEXTS)
    for batch in (1, 7):
        other = DiffusionLM(str(models["llada"]), answer_length=6, steps=3, batch_size=batch)
        assert other.generate_until(TEXTS) == texts
    assert llada.generate_until(TEXTS[::-1]) == texts[::-1]
    assert texts[3] == texts[0].partition("4")[0]


def test_a_repeated_request_draws_another_answer_and_the_same_one_again(llada):
    warm = asks(*[("12=", {"do_sample": True, "temperature": 2.0})] * 4)
    texts = llada.generate_until(warm)
    assert len(set(texts)) > 1 and llada.generate_until(warm) == texts
    cold = asks(*[("12=", {"do_sample": False, "temperature": 2.0})] * 2)
    assert len(set(llada.generate_until(cold))) == 1


def test_an_option_that_the_sampler_lacks_is_named(llada, caplog):
    llada.generate_until(asks(("12=", {"num_beams": 4})))
    assert "the sampler has no num_beams" in caplog.text


def test_text_ends_before_the_first_stop_string():
    assert cut("a b c", ["c", "b"]) == "a " and cut("a", "b") == "a" and cut("a", None) == "a"
    assert cut("ab", ["", "b"]) == "a"


def logprobs(model, text, hidden):
    """Log-probs of all tokens at the slots of `text`, those in `hidden` masked."""
    ids = torch.tensor([model.codec.prompt_ids(text)])
    shown = ids.clone()
    shown[0, hidden] = model.policy.mask_id
    with torch.no_grad():
        table = model.policy(shown, torch.ones_like(shown)).logits.float().log_softmax(-1)
    return table[0].gather(1, ids[0].unsqueeze(1))[:, 0], table[0].argmax(-1) == ids[0]


def test_one_token_is_exact_and_greedy_says_whether_it_is_the_likeliest(llada):
    found = llada.loglikelihood(asks(*[("12=", digit) for digit in "01234"]))
    for digit, (value, same) in zip("01234", found, strict=True):
        table, likeliest = logprobs(llada, f"12={digit}", [3])
        assert value == pytest.approx(float(table[3]), abs=1e-5)
        assert same == bool(likeliest[3])
    assert sum(same for _, same in found) <= 1


def test_two_tokens_give_the_bound_by_hand(models):
    # k = 1 or 2 of 2 hidden, evenly: (2 * mean of the two single ones + both hidden) / 2
    model = DiffusionLM(str(models["llada"]), draws=600, batch_size=64)
    one, _ = logprobs(model, "12=34", [3])
    other, _ = logprobs(model, "12=34", [4])
    both, _ = logprobs(model, "12=34", [3, 4])
    bound = float(one[3] + other[4] + both[3] + both[4]) / 2
    chain = float(torch.logaddexp(both[3] + other[4], both[4] + one[3])) - math.log(2)
    [(value, _)] = model.loglikelihood(asks(("12=", "34")))
    assert value == pytest.approx(bound, abs=0.25)
    assert bound <= chain + 1e-6  # of the mixture over orders, by Jensen


def test_choices_are_scored_alike_whatever_stands_beside_them(models, llada):
    pairs = [("12=", "34"), ("3=", "1"), ("", "21"), ("12=", ""), ("12= ", "343")]
    pairs = [pair for pair in pairs if " " not in pair[0]]
    whole = llada.loglikelihood(asks(*pairs))
    alone = [llada.loglikelihood(asks(pair))[0] for pair in pairs]
    for (value, same), (single, same_alone) in zip(whole, alone, strict=True):
        assert value == pytest.approx(single, abs=1e-4) and same == same_alone
    assert whole[3] == (0.0, True)  # nothing is certain


def test_greedy_text_is_known_as_greedy(models):
    model = DiffusionLM(str(models["llada"]), answer_length=2)
    [text] = model.generate_until(asks(("12=", {})))
    if len(model.codec.prompt_ids(text)) == 2:  # no special token was written
        assert model.loglikelihood(asks(("12=", text)))[0][1]
    silent = DiffusionLM(str(models["llada"]), answer_length=2, greedy_check=False)
    assert not silent.loglikelihood(asks(("12=", "3")))[0][1]


def test_a_network_with_blocks_has_a_sampler_and_a_bound_of_its_own(models):
    model = DiffusionLM(str(models["sdar"]), answer_length=4, steps=2, draws=4)
    assert model.get_model_info()["sampler"]["name"] == "block_diffusion"
    assert model.sampler.steps_per_block == 2
    assert len(model.generate_until(asks(("12=", {}), ("3=", {})))) == 2
    values = [value for value, _ in model.loglikelihood(asks(("12=", "341"), ("12=", "3")))]
    assert all(value < 0 for value in values)
    with pytest.raises(UsageError, match="3 steps for a block"):
        DiffusionLM(str(models["sdar"]), steps=3).generate_until(asks(("12=", {})))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"stepz": 4}, "sampler low_confidence has no option stepz"),
     ({"batch_size": "auto"}, "batch_size auto is no number"),
     ({"answer_length": 8, "block_length": 16}, "block_length 16 is longer than answer_length 8")],
)  # fmt: skip
def test_what_does_not_fit_is_refused(models, options, message):
    with pytest.raises(UsageError, match=message):
        DiffusionLM(str(models["llada"]), **options)


def test_a_perplexity_is_refused(llada):
    with pytest.raises(UsageError, match="no order from left to right"):
        llada.loglikelihood_rolling(asks(("12=3",)))


def test_releases_of_the_harness_that_read_entry_points_find_the_model():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["lm_eval.models"] == {"dllmzoo": "dllmzoo.lm_eval:DiffusionLM"}
    assert any(each.startswith("lm-eval") for each in project["optional-dependencies"]["lm-eval"])


TASKS = {
    "sums": (
        "generate_until", "generation_kwargs: {until: ['='], do_sample: false}", "exact_match"
    ),
    "choices": ("multiple_choice", "doc_to_choice: ['1', '2', '34']", "acc"),
}  # fmt: skip


@pytest.mark.slow  # processes that import torch, transformers and the harness
@pytest.mark.parametrize("processes", [1, 2])
def test_the_harness_runs_tasks_with_it(models, tmp_path, processes):
    rows = [{"q": f"{x}=", "a": x % 3} for x in range(5)]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, (kind, options, metric) in TASKS.items():
        (tmp_path / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\n"
            f"test_split: test\noutput_type: {kind}\ndoc_to_text: '{{{{q}}}}'\n"
            f"doc_to_target: a\ntarget_delimiter: ''\n{options}\n"
            f"metric_list: [{{metric: {metric}, aggregation: mean, higher_is_better: true}}]\n"
        )
    environment = os.environ | {
        "OMP_NUM_THREADS": "1", "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path / "cache"), "ACCELERATE_USE_CPU": "true",
    }  # fmt: skip
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port",
              str(29300 + os.getpid() % 300)] if processes > 1 else []  # fmt: skip
    done = subprocess.run(
        [
            sys.executable, *launch, "-m", "dllmzoo.lm_eval", "run", "--model", "dllmzoo",
            "--model_args", f"pretrained={models['llada']},steps=3,answer_length=6,draws=4",
            "--tasks", "sums,choices", "--include_path", str(tmp_path), "--output_path",
            str(tmp_path / "out"), "--batch_size", "3",
            "--log_samples",
        ],
        capture_output=True, text=True, timeout=400, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    [file] = (tmp_path / "out").rglob("results*.json")
    found = json.loads(file.read_text())
    assert set(found["results"]) == {"sums", "choices"}
    assert 0 <= found["results"]["choices"]["acc,none"] <= 1
    for samples in (tmp_path / "out").rglob("samples*.jsonl"):
        seen = [json.loads(line)["doc_id"] for line in samples.read_text().splitlines()]
        assert sorted(seen) == list(range(5))
    assert found["config"]["sampler"]["steps"] == 3 and found["config"]["elbo_draws"] == 4
