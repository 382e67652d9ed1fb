"""What stopped a run is written into its manifest."""

import pytest

from dllmzoo.errors import HealthError, Interrupted, UsageError
from dllmzoo.training.folder import RunFolder
from dllmzoo.training.stops import noted


@pytest.fixture
def folder(tmp_path):
    """A run that has begun."""
    found = RunFolder(tmp_path)
    found.note(seed=0, finished=None)
    return found


def ended(folder, error):
    """Rows that end by an error, and what was noted."""

    def rows():
        yield {"round": 0}
        raise error

    passed = []
    with pytest.raises(type(error)):
        passed.extend(noted(rows(), folder))
    return folder.manifest().get("stopped")


@pytest.mark.parametrize(
    ("error", "stopped"),
    [(HealthError("it collapsed"), {"by": "a health check", "why": "it collapsed"}),
     (Interrupted("stopped by SIGINT"), {"by": "an interrupt", "why": "stopped by SIGINT"}),
     (KeyboardInterrupt(), {"by": "an interrupt", "why": "at once, without saving"}),
     (MemoryError("none left"), {"by": "an error", "why": "MemoryError: none left"})],
)  # fmt: skip
def test_an_end_before_its_time_is_noted_and_raised(folder, error, stopped):
    assert ended(folder, error) == stopped
    assert folder.manifest()["seed"] == 0


def test_a_refusal_is_no_stop(folder):
    assert ended(folder, UsageError("another recipe")) is None


def test_nothing_is_written_where_no_run_has_begun(tmp_path):
    assert ended(RunFolder(tmp_path), HealthError("no")) is None
    assert not any(tmp_path.iterdir())


def test_only_the_main_process_notes(folder, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert ended(folder, HealthError("no")) is None


def test_a_damaged_manifest_does_not_hide_the_error(folder):
    (folder.path / "manifest.json").write_text("{")
    with pytest.raises(HealthError, match="it collapsed"):
        list(noted(iter_of(HealthError("it collapsed")), folder))


def iter_of(error):
    """Rows that end at once."""
    raise error
    yield


def test_a_caller_that_has_enough_closes_the_run_and_nothing_is_noted(folder):
    closed = []

    def rows():
        try:
            yield {"round": 0}
        except GeneratorExit:
            closed.append(True)
            raise

    watched = noted(rows(), folder)
    assert next(watched) == {"round": 0}
    watched.close()
    assert closed == [True] and "stopped" not in folder.manifest()
