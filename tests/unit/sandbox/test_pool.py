"""Workers: what they say where no sandbox can start, and how they come and go."""

import json
import logging
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from dllmzoo.sandbox import Limits, Sandbox, SandboxError, Suite, shared, workers
from dllmzoo.sandbox.pool import endless_power

ONE = ("def f():\n    return 1", Suite(("assert f() == 1",)))


def fake(folder, text):
    """A `bwrap` that says something and ends."""
    script = folder / "bwrap"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    folder.chmod(0o755)
    return str(script)


@pytest.fixture
def started():
    made = []

    def start(*args, **options):
        made.append(Sandbox(*args, **options))
        return made[-1]

    yield start
    for sandbox in made:
        sandbox.close()


def test_a_missing_bubblewrap_is_told_and_nothing_weaker_is_tried(monkeypatch, started):
    monkeypatch.setattr(workers.shutil, "which", lambda name: None)
    with pytest.raises(SandboxError, match=r"apt-get install bubblewrap.*nothing weaker"):
        started("bubblewrap").start()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("bwrap: No permissions to create new namespace", "user namespaces.*refused.*sysctl"),
        ("bwrap: setting up uid map: Permission denied", "apparmor_restrict.*nothing weaker"),
        ("bwrap: something else", "does not start: bwrap: something else"),
    ],
)
def test_refused_namespaces_are_told_with_what_to_do(monkeypatch, tmp_path, started, said, told):
    text = f'[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit\necho "{said}" >&2\nexit 1'
    path = fake(tmp_path, text)
    for folder in tmp_path.parents:
        if folder.is_relative_to("/tmp/pytest-of-root"):
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    monkeypatch.setattr(workers.shutil, "which", lambda name: path)
    with pytest.raises(SandboxError) as caught:
        started("bubblewrap").start()
    assert re.search(told, str(caught.value).replace("\n", " ")), caught.value


def test_limits_only_is_warned_about(caplog, started):
    with caplog.at_level(logging.WARNING, "dllmzoo"):
        started("subprocess", workers=1).start()
    assert "neither from the network nor from files" in caplog.text


def test_a_worker_that_is_killed_is_replaced(started):
    sandbox = started("subprocess", workers=1)
    sandbox.start()
    os.kill(sandbox._handles[0].worker.pid, 9)
    [[verdict]] = sandbox.run([ONE])
    assert verdict.outcome == "pass"


def test_equal_programs_are_run_once(monkeypatch, started):
    sandbox, asked = started("subprocess", workers=1), []
    ask = workers.Handle.ask
    monkeypatch.setattr(
        workers.Handle, "ask", lambda self, *args: asked.append(args) or ask(self, *args)
    )
    assert len(sandbox.run([ONE, ONE, ONE])) == 3
    assert sandbox.run([ONE])[0][0].outcome == "pass"
    assert len(asked) == 1


def test_a_forked_child_starts_workers_of_its_own(started):
    sandbox = started("subprocess", workers=1)
    sandbox.start()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if sandbox.run([ONE])[0][0].outcome == "pass" else 2
            sandbox.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sandbox.run([ONE])[0][0].outcome == "pass"


def test_an_interrupted_program_does_not_answer_for_the_next(started):
    sandbox = started("subprocess", Limits(seconds=20.0), workers=1)
    sandbox.run([ONE])
    wrong = "import time\ndef f():\n    time.sleep(5)\n    return 2"
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sandbox.run([(wrong, ONE[1])])
    assert time.monotonic() - begun < 4, "it waits for no program"
    [[verdict]] = sandbox.run([(f"{ONE[0]}\n# anew", ONE[1])])
    assert verdict.outcome == "pass", verdict


def test_a_sandbox_that_is_closed_ends_what_runs(started):
    sandbox = started("subprocess", Limits(seconds=30.0), workers=1)
    sandbox.start()
    stays = f"sleep 4321.{os.getpid()}"
    code = (
        f"import os\nif os.fork() == 0:\n    os.setsid()\n    os.execvp('sleep', {stays.split()!r})"
        "\ndef f():\n    while True: pass"
    )
    handle = sandbox._handles[0]
    request = {"code": code, "setup": "", "tests": ["f()"], "names": [], "objects": False}
    handle.worker.stdin.write(json.dumps(request).encode() + b"\n")
    handle.worker.stdin.flush()

    def there():
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
        return stays in listed.splitlines()

    end = time.monotonic() + 20
    while not there() and time.monotonic() < end:
        time.sleep(0.05)
    assert there()
    sandbox.close()
    assert not there()


def test_another_process_comes_to_the_same_verdicts():
    code = (
        "from dllmzoo.sandbox import Sandbox, Suite\n"
        "sandbox = Sandbox('subprocess', workers=1)\n"
        "suite = Suite(('assert f() == 1', 'assert f() == 2', 'assert g()'))\n"
        "[verdicts] = sandbox.run([('def f(): return 1', suite)])\n"
        "print(*[verdict.outcome for verdict in verdicts])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["pass", "fail", "error"], done.stderr


def test_workers_end_when_their_trainer_is_killed(started):
    code = (
        "from dllmzoo.sandbox import Limits, Sandbox, Suite\n"
        "sandbox = Sandbox('subprocess', Limits(seconds=1.0), workers=1)\n"
        "sandbox.start()\n"
        "print(sandbox._handles[0].worker.pid, sandbox._handles[0].staged.folder, flush=True)\n"
        "sandbox.run([('def f():\\n    while True: pass', Suite(('f()',)))])\n"
        "input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as trainer:
        assert trainer.stdout is not None
        worker, folder = trainer.stdout.readline().split()
        trainer.kill()
    end = time.monotonic() + 60
    while os.path.exists(f"/proc/{worker}") and time.monotonic() < end:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{worker}")
    assert os.path.exists(folder), "nobody was left to delete it"
    started("subprocess", workers=1).start()
    assert not os.path.exists(folder), "the next run does"


def test_nothing_stays_behind_when_a_sandbox_is_closed(started):
    sandbox = started("subprocess", workers=2)
    assert [v.outcome for [v] in sandbox.run([ONE, (ONE[0] + "\n#", ONE[1])])] == ["pass", "pass"]
    folders = [handle.staged.folder for handle in sandbox._handles]
    pids = [handle.worker.pid for handle in sandbox._handles]
    sandbox.close()
    assert folders and not any(map(os.path.exists, folders))
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_tasks_with_the_same_settings_share_a_sandbox():
    assert shared("subprocess", Limits(), 1) is shared("subprocess", Limits(), 1)
    assert shared("subprocess", Limits(seconds=1), 1) is not shared("subprocess", Limits(), 1)


def test_too_long_programs_are_errors_without_being_run(started):
    [[verdict]] = started("subprocess").run([("#" * 300_000, ONE[1])])
    assert verdict.outcome == "error" and "too long" in verdict.detail


@pytest.mark.parametrize(
    ("code", "endless"),
    [
        ("99**99**99", True), ("x = 7 ** (9 ** 99)", True), ("2**64", False), ("x ** 99**9", False),
        ("(", False), ("2**-1", False), ("'a**b'", False), ("10**10**9", False),
        ("-" * 50_000 + "1**2", False),
    ],
)  # fmt: skip
def test_powers_of_literals_that_fit_nowhere_are_seen(code, endless):
    assert endless_power(code) == endless
