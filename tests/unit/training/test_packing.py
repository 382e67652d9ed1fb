"""Documents packed into rows: the same loss, positions that restart, no look across."""

from dataclasses import replace

import pytest
import torch

from dllmzoo.errors import TaskError, UsageError
from dllmzoo.models._lora import add_lora
from dllmzoo.recipe.sections import Lora
from dllmzoo.records import Key
from dllmzoo.training.packing import ByDocument, as_read, pack, places
from dllmzoo.training.sft import Demonstrations, as_rollout, noise, train
from dllmzoo.zoo import SCHEDULES
from tests.unit.training.small import Digits, Ranks, budget, codec, flat, learner, network

LINEAR = SCHEDULES.get("linear")()


def data(**changes):
    return replace(Demonstrations(Digits(), 4, LINEAR, tail="end"), **changes)


def documents(which, rows=6):
    examples = which.task.draw(rows, Key(3, 0, "prompts"))
    drawn = codec(network()).demonstrations(
        which.task, examples, Key(3, 0, "a"), answer_length=4, tail=which.tail
    )
    rollout = as_rollout(which, drawn, 2)
    return rollout, noise(which, rollout, Key(3, 0, "views"))


def test_positions_restart_with_each_document():
    document_BL = torch.tensor([[1, 1, 1, 2, 2, 3, 0, 0], [1, 2, 2, 2, 2, 2, 2, 2]])
    assert places(document_BL)[:, :6].tolist() == [[0, 1, 2, 0, 1, 0], [0, 0, 1, 2, 3, 4]]


def test_each_document_is_in_one_row_with_its_own_masks():
    rollout, views = documents(data())
    packed, moved = pack(rollout, views, 16)
    assert packed.document_BL is not None
    assert len(packed.tokens_BL) < len(rollout.tokens_BL)
    assert packed.attend_BL.sum(1).max() <= 16

    def told(rollout, views, row, keep):
        columns = [rollout.tokens_BL, views.hide_BKL[:, 0], views.weight_BKL[:, 0],
                   rollout.valid_BL]  # fmt: skip
        return tuple(tuple(each[row][keep].tolist()) for each in columns)

    apart = sorted(
        told(rollout, views, row, rollout.attend_BL[row])
        for row in range(6) if views.score_BKL[row].any()
    )  # fmt: skip
    together = sorted(
        told(packed, moved, row, packed.document_BL[row] == number)
        for row in range(len(packed.tokens_BL))
        for number in range(1, int(packed.document_BL[row].max()) + 1)
    )
    assert together == apart


def test_the_grid_of_blocks_restarts_with_each_document():
    rollout, views = documents(data())
    packed, _ = pack(rollout, views, 16)
    assert packed.document_BL is not None
    for block_L, document_L in zip(packed.block_BL, packed.document_BL, strict=True):
        sizes = [int((document_L == d).sum()) for d in range(1, int(document_L.max()) + 1)]
        blocks = [n for size in sizes for n in [2] * (size // 2) + [1] * (size % 2)]
        assert torch.bincount(block_L[block_L >= 0]).tolist() == blocks


def test_a_document_longer_than_a_row_is_refused():
    rollout, views = documents(data())
    with pytest.raises(TaskError, match=r"have 10 tokens, and a packed row 9; raise sft.pack"):
        pack(rollout, views, 9)


@pytest.mark.parametrize("attention", ["block_causal", "full"])
@pytest.mark.parametrize("completion_only", [True, False])
def test_packing_changes_no_weight_whatever_the_split(completion_only, attention):
    def trained(world=1, micro_batch=64, **changes):
        def work(accelerator):
            policy = network(family="sdar")
            policy.config.attention = attention
            made = learner(policy, accelerator, lr=0.1)
            which = data(completion_only=completion_only, **changes)
            sizes = budget(prompts=8, micro_batch=micro_batch)
            rows = [
                meter.row() for _, meter, _ in train(which, sizes, made, seed=3, rounds=range(2))
            ]
            return flat(made.policy), rows

        return Ranks(world).run(work)[0]

    weights, rows = trained()
    assert not torch.equal(weights, flat(network(family="sdar")))
    for options in ({"pack": 20}, {"pack": 20, "micro_batch": 1}, {"pack": 33, "world": 4}):
        again, again_rows = trained(**options)
        torch.testing.assert_close(again, weights, rtol=0, atol=1e-8)
        for one, other in zip(rows, again_rows, strict=True):
            for key in ("loss", "grad_norm", "masked_share"):
                assert other[key] == pytest.approx(one[key], rel=1e-6)


def test_a_network_without_documents_refuses_to_pack():
    made = learner(network())
    with pytest.raises(UsageError, match=r"llada has no mask that keeps them apart.*sft.tail"):
        next(train(data(pack=20), budget(prompts=4), made, seed=3, rounds=range(1)))
    lora = Lora(rank=2, alpha=2)
    with pytest.raises(UsageError, match="llada has no mask"):
        ByDocument.of(None, add_lora(network().float(), lora, 0))
    ByDocument.of(None, add_lora(network(family="sdar").float(), lora, 0))


def test_rows_that_are_not_packed_are_read_as_they_are():
    rollout, _ = documents(data())
    assert as_read(rollout) is rollout


# --- rows that are left out


def test_rows_that_are_left_out_teach_nothing_whoever_holds_them():
    def trained(world=1, length=3, **changes):
        def work(accelerator):
            made = learner(network(family="sdar"), accelerator, lr=0.1)
            which = data(answer_length=length, tail="batch", too_long="drop", **changes)
            steps = train(which, budget(prompts=8), made, seed=3, rounds=range(2))
            return flat(made.policy), [meter.row() for _, meter, _ in steps]

        return Ranks(world).run(work)[0]

    weights, rows = trained(length=2)
    drawn = [Digits().draw(8, Key(3, round, "prompts")) for round in range(2)]
    expected = [sum(len(each["text"]) > 2 for each in part) for part in drawn]
    assert [row["dropped"] for row in rows] == expected and 0 < expected[0] < 8
    assert weights.isfinite().all()
    for options in ({"world": 2}, {"world": 8}, {"world": 4, "pack": 16}):
        again, again_rows = trained(length=2, **options)
        torch.testing.assert_close(again, weights, rtol=0, atol=1e-8)
        assert [row["dropped"] for row in again_rows] == expected


def test_a_round_of_nothing_but_long_rows_stops():
    made = learner(network())

    class Long(Digits):
        def answer(self, example, key, sample):
            return "12340"

    which = data(task=Long(), too_long="drop")
    with pytest.raises(TaskError, match="each of the 4 demonstrations of round 0 is too long"):
        next(train(which, budget(prompts=4), made, seed=3, rounds=range(1)))
