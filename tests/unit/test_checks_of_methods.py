"""What the sockets of the published methods need of each other: each rule broken once."""

import pytest

from dllmzoo.checks import check
from dllmzoo.recipe import load

BROKEN = {
    "drafts without a sampler that stores them": (
        "mdpo_sudoku", ["sampler=low_confidence", "sampler.answer_length=16", "sampler.steps=4"],
        "likelihood", "stores none",
    ),
    "steps ranked by the rewards of drafts": (
        "mdpo_sudoku", ["sampler=low_confidence", "sampler.answer_length=16", "sampler.steps=4"],
        "selector", "ranks steps by the rewards of their drafts",
    ),
    "gains from step to step, of some steps": (
        "mdpo_sudoku", ["selector=entropy", "selector.steps=2"], "selector", "with the one before",
    ),
    "edges without a tree": (
        "d_tree_rpo_sudoku",
        ["sampler=low_confidence", "sampler.answer_length=16", "sampler.steps=4"],
        "selector", "lets none share any",
    ),
    "siblings without a tree": (
        "egspo_sudoku", ["likelihood.unit=slot", "loss={name: sibling_imitation, kl: none}"],
        "loss", "lets none share any",
    ),
    "siblings that a likelihood does not mark": (
        "d_tree_rpo_sudoku", ["selector=null", "likelihood=mean_field",
                              "advantage=group_relative"],
        "likelihood", "does not say which do",
    ),
    "leaves that are no group": (
        "d_tree_rpo_sudoku", ["train.group_size=8"], "train.group_size", "grows 16 answers",
    ),
    "too long to enumerate": (
        "espo_sudoku", ["likelihood=exact"], "likelihood", "at most 12 tokens",
    ),
    "a bound that no gradient reads": (
        "spg_sudoku", ["loss={name: clipped_surrogate, kl: none}"], "loss", "trains the ratio",
    ),
    "stored answers have no steps": (
        "vrpo_sudoku", ["likelihood=two_mean_field", "loss={name: policy_gradient}"],
        "sampler", "records no denoising steps",
    ),
    "equal answers": (
        "egspo_sudoku", ["sampler.temperature=0"], "sampler.temperature", "equal answers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_named_at_its_place(rule):
    name, changes, path, words = BROKEN[rule]
    problems = check(load(name, changes))
    assert [p for p in problems if p.path == path and words in p.message], problems
    assert all(problem.hint for problem in problems)


@pytest.mark.parametrize(
    "changes",
    [
        ["sampler=random_order", "sampler.answer_length=16", "sampler.steps=4",
         "sampler.temperature=0"],
        ["loss.kl_coef=0"],
        ["loss.kl=k3", "loss.kl_coef=0.5"],
    ],
)  # fmt: skip
def test_what_only_looks_idle_is_let_through(changes):
    assert check(load("egspo_sudoku", changes)) == []


def test_a_weight_of_no_kl_is_noticed():
    recipe = load("egspo_sudoku", ["loss.kl_coef=0.5"])
    assert check(recipe) == check(recipe) == []
    (notice,) = recipe.notices
    assert "loss.kl_coef 0.5 has no effect" in notice
