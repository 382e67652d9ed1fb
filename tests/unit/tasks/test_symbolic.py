"""The worker process: right from anywhere, ended in time, replaced when it is gone."""

import importlib.util
import multiprocessing
import threading
import time

import pytest

from dllmzoo.tasks import _symbolic
from dllmzoo.tasks._symbolic import CHECKER, CheckerError, SymbolicChecker, missing_library

SLOW = ("(x+1)^{9999}", "(x+2)^{9999}")
LIMIT = 20.0


def test_formulas_are_compared():
    assert CHECKER.equal(r"2\sqrt{3}", r"\sqrt{12}", LIMIT)
    assert CHECKER.equal("x+1", "1+x", LIMIT)
    assert not CHECKER.equal("(2,1)", "(1,2)", LIMIT)
    assert not CHECKER.equal("{{{", "5", LIMIT)


def test_a_slow_comparison_is_cut_and_the_next_one_is_right():
    start = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"longer than 0.3 s"):
        CHECKER.equal(*SLOW, 0.3)
    with pytest.raises(TimeoutError):
        CHECKER.equal(*SLOW, 0.3)  # remembered
    assert CHECKER.equal("y+1", "1+y", LIMIT)
    assert time.perf_counter() - start < 15


def test_a_worker_that_was_killed_is_replaced():
    assert CHECKER.equal("z+1", "1+z", LIMIT)
    assert CHECKER._worker is not None
    CHECKER._worker.kill()
    CHECKER._worker.wait()
    assert CHECKER.equal("z+2", "2+z", LIMIT)


def test_a_verdict_is_remembered(monkeypatch):
    assert CHECKER.equal("a+b", "b+a", LIMIT)
    monkeypatch.setattr(CHECKER, "_asked", lambda *_: pytest.fail("asked again"))
    assert CHECKER.equal("a+b", "b+a", LIMIT)


def test_threads_take_turns():
    found = {}

    def ask(i):
        found[i] = CHECKER.equal(f"u+{i}", f"{i}+u", LIMIT), CHECKER.equal(f"u+{i}", "u", LIMIT)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: (True, False) for i in range(1, 5)}


def _in_child(queue):
    queue.put(CHECKER.equal("v+1", "1+v", LIMIT))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_a_worker_of_its_own():
    assert CHECKER.equal("w+1", "1+w", LIMIT)
    ours = CHECKER._worker
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    child.join(60)
    assert queue.get() is True and child.exitcode == 0
    assert ours is CHECKER._worker and ours is not None and ours.poll() is None
    assert CHECKER.equal("w+2", "2+w", LIMIT)


def test_a_missing_library_is_named_with_what_to_install(monkeypatch):
    assert missing_library() is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install dllmzoo[math]" in (missing_library() or "")


def test_a_library_that_cannot_be_looked_for_is_named(monkeypatch):
    def broken(name):
        raise ValueError("no spec")

    monkeypatch.setattr(importlib.util, "find_spec", broken)
    said = missing_library() or ""
    assert "no spec" in said and "pip install dllmzoo[math]" in said and "symbolic: off" in said


def test_a_broken_library_is_named_with_what_to_do(monkeypatch, tmp_path):
    (tmp_path / "math_verify").mkdir()
    (tmp_path / "math_verify" / "__init__.py").write_text("raise RuntimeError('half a library')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(_symbolic, "CHECKER", SymbolicChecker())
    said = missing_library() or ""
    assert "RuntimeError: half a library" in said
    assert "pip install dllmzoo[math]" in said and "task.symbolic: off" in said


def test_a_worker_that_does_not_start_is_an_error(monkeypatch, tmp_path):
    broken = tmp_path / "worker.py"
    broken.write_text("raise SystemExit\n")
    monkeypatch.setattr(_symbolic, "_WORKER", broken)
    checker = SymbolicChecker()
    with pytest.raises(CheckerError, match=r"does not start.*pip install dllmzoo\[math\]"):
        checker.equal("1+q", "q+1", LIMIT)
    broken.write_text('print(\'{"missing": "no module"}\')\n')
    with pytest.raises(CheckerError, match="no module"):
        checker.equal("1+q", "q+1", LIMIT)
    checker.close()


def test_memory_is_bounded(monkeypatch, tmp_path):
    hungry = tmp_path / "worker.py"
    hungry.write_text(
        "import sys\nprint('{\"ready\": true}', flush=True)\n"
        "for line in sys.stdin: print('{\"memory\": true}', flush=True)\n"
    )
    monkeypatch.setattr(_symbolic, "_WORKER", hungry)
    checker = SymbolicChecker()
    with pytest.raises(TimeoutError, match="memory"):
        checker.equal("1", "2", LIMIT)
    assert checker._worker is None


def test_a_worker_that_dies_twice_over_a_question_counts_as_a_timeout(monkeypatch, tmp_path):
    dying = tmp_path / "worker.py"
    dying.write_text("import sys\nprint('{\"ready\": true}', flush=True)\nsys.stdin.readline()\n")
    monkeypatch.setattr(_symbolic, "_WORKER", dying)
    checker = SymbolicChecker()
    with pytest.raises(TimeoutError, match="ended twice"):
        checker.equal("1", "2", LIMIT)
    checker.close()
