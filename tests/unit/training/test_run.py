"""A run around the loop: health, checkpoints, stopping at bad moments, time, trackers."""

import json

import pytest
import torch

import dllmzoo
from dllmzoo.errors import HealthError, RunError, UsageError
from dllmzoo.training import checkpoint, loop, update
from dllmzoo.training import evaluate as evaluation
from tests.runs import metrics, recipe, weights

TRAIN = recipe("x")["train"]


def run(folder, *overrides, resume=None, **changes):
    return dllmzoo.train(recipe(folder, **changes), list(overrides), resume=resume)


def saved(folder):
    return sorted(path.name[-2:] for path in (folder / "checkpoints").iterdir())


@pytest.fixture
def solved(monkeypatch):
    """Makes evaluations report these rates, one after the other."""

    def rates(*values):
        left = list(values)

        def evaluate(*_, examples, **__):
            hits = [1.0] * 8
            value = left.pop(0)
            named = {"solved_rate": value, "solved_rate_low": 0.0, "solved_rate_high": 1.0}
            return evaluation.Evaluation(named, [h > 0 for h in hits], [""] * 8, examples, 8)

        monkeypatch.setattr(evaluation, "evaluate", evaluate)

    return rates


EACH = {"examples": 8, "steps": 4, "every": 1}


def test_a_collapsed_policy_stops_the_run_and_the_last_good_checkpoint_is_named(tmp_path, solved):
    # start .5, floor .25: good, then three low ones; the newest checkpoints are low, too
    solved(0.5, 0.4, 0.2, 0.1, 0.0)
    train = TRAIN | {"rounds": 9, "save_every": 1, "keep_last": 1}
    rows, going = [], run(tmp_path, train=train, evaluate=EACH)
    with pytest.raises(HealthError, match=r"collapsed.*start \(0\.500\).*0\.000 at round 4") as e:
        rows.extend(going)
    assert "last good checkpoint" in str(e.value) and "round-000001" in str(e.value)
    assert e.value.exit_code == 3 and len(rows) == 5, "the row that shows it is given out, too"
    assert [row["round"] for row in metrics(tmp_path)] == [0, 1, 2, 3, 4]
    assert saved(tmp_path) == ["01", "03"] and not (tmp_path / "final").exists()


def test_a_run_that_collapses_in_its_last_round_has_no_final_weights_even_resumed(tmp_path, solved):
    train = TRAIN | {"rounds": 3, "save_every": 1}
    for resume in (None, "auto"):
        solved(0.5, 0.1, 0.1, 0.1) if resume is None else solved(0.1)
        with pytest.raises(HealthError, match="collapsed"):
            list(run(tmp_path, train=train, evaluate=EACH, resume=resume))
        assert not (tmp_path / "final").exists() and saved(tmp_path) == ["01", "02"]
        assert [row["round"] for row in metrics(tmp_path)] == [0, 1, 2, 3]


@pytest.mark.parametrize("floor", [None, 0.5])
def test_low_evaluations_must_be_three_in_a_row_and_below_the_floor(tmp_path, solved, floor):
    solved(0.5, 0.2, 0.2, 0.3, 0.2, 0.2)
    train = TRAIN | {"rounds": 5, "save_every": None, "keep_last": 1}
    list(run(tmp_path, train=train, evaluate=EACH | {"floor": floor}))
    # the best after the start is kept beside the last
    assert saved(tmp_path) == ["03", "05"]
    state = checkpoint.read_state(tmp_path / "checkpoints" / "round-000005")
    assert state.best == {"round": 3, "value": 0.3} and state.first_value == 0.5
    assert state.low_evaluations == (0 if floor is None else 2)


def test_an_evaluation_without_any_value_stops_nothing(tmp_path, solved):
    solved(None, None, None)
    list(run(tmp_path, train=TRAIN | {"rounds": 2}, evaluate=EACH))
    assert checkpoint.read_state(tmp_path / "checkpoints" / "round-000002").best is None


def test_the_same_number_of_steps_is_evaluated_once(tmp_path, solved):
    solved(0.5, 0.4, 0.5, 0.4)  # two step counts at each edge
    also = {"examples": 8, "steps": 4, "also_steps": (4, 2, 2)}
    rows = list(run(tmp_path, train=TRAIN | {"rounds": 1}, evaluate=also))
    assert rows[1]["eval/solved_rate"] == 0.5 and rows[1]["eval/steps2/solved_rate"] == 0.4
    known = json.loads((tmp_path / "evaluations.json").read_text())
    assert list(known["start"]) == list(known["end"]) == ["4", "2"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "whole"
    list(run(folder, "train.passes=2"))
    return folder


@pytest.mark.parametrize("call", [1, 2, 5, 6, 8])
def test_an_interrupt_in_the_middle_of_a_round_leaves_a_run_that_goes_on(
    tmp_path, whole, monkeypatch, call
):
    # two updates a round, a checkpoint every other round
    calls = []

    def breaks(*args, **options):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        update.update(*args, **options)

    monkeypatch.setattr(loop, "update", breaks)
    with pytest.raises(KeyboardInterrupt):
        list(run(tmp_path, "train.passes=2"))
    assert (tmp_path / "checkpoints").exists() == (call > 4)
    list(run(tmp_path, "train.passes=2", resume="auto"))
    assert metrics(tmp_path) == metrics(whole) and weights(tmp_path) == weights(whole)


@pytest.mark.parametrize(
    ("moment", "error"),
    [
        ("dllmzoo.training.checkpoint.write", RunError),
        ("dllmzoo.training.checkpoint.snapshot", OSError),
        ("dllmzoo.training.export.save_final", OSError),
    ],
)
def test_a_failure_between_the_row_and_what_follows_it_costs_nothing(
    tmp_path, whole, monkeypatch, moment, error
):
    with monkeypatch.context() as patch:
        patch.setattr(moment, lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(error, match="disk full"):
            list(run(tmp_path, "train.passes=2"))
    list(run(tmp_path, "train.passes=2", resume="auto"))
    assert metrics(tmp_path) == metrics(whole) and weights(tmp_path) == weights(whole)


def test_an_error_of_the_caller_saves_what_was_reached(tmp_path, whole):
    with pytest.raises(ZeroDivisionError):
        for row in run(tmp_path, "train.passes=2", "train.save_every=null"):
            if row["round"] == 3:
                raise ZeroDivisionError
    assert saved(tmp_path) == ["03"]
    list(run(tmp_path, "train.passes=2", resume="auto"))
    assert weights(tmp_path) == weights(whole)


def test_what_a_kill_left_of_the_first_write_does_not_stop_a_resume(tmp_path):
    (tmp_path / ".manifest.json.tmp").write_text("{")
    rows = list(run(tmp_path, "train.rounds=1", resume="auto"))
    assert [row["round"] for row in rows] == [0, 1]


def test_minutes_of_earlier_sittings_count(tmp_path, caplog):
    going = run(tmp_path, "train.max_minutes=100")
    for _ in range(3):
        next(going)
    going.close()
    file = tmp_path / "checkpoints" / "round-000002" / "state.json"
    state = json.loads(file.read_text())
    assert 0 < state["minutes"] < 100
    file.write_text(json.dumps(state | {"minutes": 100.0}))
    rows = list(run(tmp_path, "train.max_minutes=100", resume="auto"))
    assert [row["round"] for row in rows] == [3] and rows[0]["time/elapsed"] > 6000
    assert "eval/solved_rate" in rows[0] and (tmp_path / "final").is_dir()
    with caplog.at_level("INFO", "dllmzoo"):
        assert list(run(tmp_path, "train.max_minutes=100", resume="auto")) == []
    assert "is finished" in caplog.text
    assert [r["round"] for r in run(tmp_path, "train.max_minutes=200", resume="auto")] == [4]


def test_the_clock_starts_with_the_first_row_not_with_the_call(tmp_path, monkeypatch):
    import dllmzoo.training.run as module

    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    going = run(tmp_path, "train.rounds=1", "train.max_minutes=5")
    now[0] = 1000.0
    next(going)
    assert next(going)["time/elapsed"] == 0.0


def test_resuming_a_folder_without_a_run_by_name_is_refused(tmp_path):
    with pytest.raises(UsageError, match="holds no run to go on with"):
        run(tmp_path / "a", resume=str(tmp_path / "typo"))


def test_overwriting_the_weights_it_starts_from_is_refused(whole):
    own = {"name": "llada", "weights": str(whole)}
    with pytest.raises(UsageError, match="--overwrite would delete"):
        dllmzoo.train(recipe(whole, model=own), overwrite=True)
    assert (whole / "final").is_dir()


def test_a_run_of_another_recipe_is_refused_even_when_it_is_finished(whole):
    with pytest.raises(RunError, match=r"optimizer\.lr differ"):
        list(run(whole, "train.passes=2", "optimizer.lr=0.5", resume="auto"))


def test_overwriting_starts_afresh_and_keeps_what_is_not_of_a_run(tmp_path, whole):
    list(run(tmp_path, "train.rounds=2"))
    (tmp_path / "notes.txt").write_text("mine")
    list(dllmzoo.train(recipe(tmp_path), ["train.passes=2"], overwrite=True))
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert metrics(tmp_path) == metrics(whole) and weights(tmp_path) == weights(whole)


def test_trackers_get_every_number_and_write_inside_the_run_folder(tmp_path):
    pytest.importorskip("tensorboard", reason="pip install tensorboard")
    list(run(tmp_path / "run", train=TRAIN | {"rounds": 2, "trackers": ["tensorboard"]}))
    events = list((tmp_path / "run" / "trackers").rglob("events.out.*"))
    assert len(events) == 1
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tags = EventAccumulator(str(events[0].parent))
    tags.Reload()
    assert {"reward", "loss", "eval/solved_rate"} <= set(tags.Tags()["scalars"])
    assert [scalar.step for scalar in tags.Scalars("loss")] == [1, 2]


def test_counters_and_cost_of_a_round(tmp_path, whole):
    rows = metrics(whole)
    assert [row["update"] for row in rows] == [0, 2, 4, 6, 8]
    # warm-up of two updates: the rate after update 1 is half of 1e-3, then 1e-3
    assert [row["lr"] for row in rows[1:]] == [1e-3] * 4
    again = list(run(tmp_path, "train.passes=2", "train.rounds=1", "train.micro_batch=64"))
    assert again[1]["flops"] == rows[1]["flops"] > 0


def test_the_reference_of_a_resumed_run_is_the_policy_at_the_start(tmp_path):
    loss = {"name": "clipped_surrogate", "kl_coef": 0.1, "normaliser": "step"}
    list(run(tmp_path / "whole", loss=loss))
    going = run(tmp_path / "cut", loss=loss)
    for _ in range(3):
        next(going)
    going.close()
    list(run(tmp_path / "cut", loss=loss, resume="auto"))
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    assert metrics(tmp_path / "cut")[-1]["kl"] > 0


def test_training_touches_no_global_generator(tmp_path):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    list(run(tmp_path, "train.rounds=1"))
    assert torch.equal(torch.random.get_rng_state(), before)
