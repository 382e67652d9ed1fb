"""No hostile program passes, stays, or harms what comes after it."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from dllmzoo.sandbox import Limits, Sandbox, Suite
from tests.unit.sandbox.hostile import CHEATS, STAYS

HONEST = "def f(x):\n    return 4242"
TESTS = (
    "assert f(1) == 4242",
    "assert 4242 == f(1)",
    "assert abs(f(1) - 4242) < 0.5",
    "import math\nassert math.isclose(f(1), 4242)",
    "assert f(1) > 4241",
    "assert f(1) in (4242,) and 4242 in [f(1)]",
    "assert set([f(1)]) == {4242}",
    "assert str(f(1)) == '4242'",
    "assert all(map(lambda i: f(i) == 4242, [1, 2]))",
    "assert [v == 4242 for v in map(f, [1, 2])] == [True, True]",
    "assert int(f(1)) == 4242 and f(1) == pytest.approx(4242) != pytest.approx(float('inf'))",
)
TESTS_OF_BLOCKS = ("with f(1) as got:\n    assert got == 4242",)


@pytest.fixture(scope="module")
def quick(sandbox):
    made = Sandbox(sandbox.isolation, Limits(seconds=1.0, memory_mb=256), workers=1)
    yield made
    made.close()


def processes():
    """Number -> parent and command of everything that runs on this machine."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z" and command:  # without one it is ending, and has given its memory back
            found[int(process.name)] = (int(parent), command)
    return found


def staying():
    return [command for _, command in processes().values() if STAYS in command]


def started_by(sandbox):
    """Commands of programs, those that wait for an answer too, below the workers."""
    found, inside = processes(), {h.worker.pid for h in sandbox._handles if h.worker}
    while more := {n for n, (parent, _) in found.items() if parent in inside} - inside:
        inside |= more
    return [found[n][1] for n in inside if n in found and "processes.judge" not in found[n][1]]


@pytest.mark.parametrize("name", CHEATS)
def test_no_hostile_program_passes_or_stays(quick, name):
    if name == "signals its parents" and quick.isolation == "subprocess" and os.getuid() != 0:
        pytest.skip("limits alone do not keep a program from other processes of its own user")
    started = time.monotonic()
    [verdicts] = quick.run([(CHEATS[name], Suite(TESTS, "import pytest", ("f",)))])
    assert [v.outcome for v in verdicts if v.outcome == "pass"] == [], verdicts
    assert time.monotonic() - started < 60
    assert not staying()
    spare = 3 if quick.isolation == "bubblewrap" else 0  # two of bubblewrap, and its Python
    end = time.monotonic() + 10  # the next sandbox may still be on its way
    while len(started_by(quick)) > 1 + spare and time.monotonic() < end:
        time.sleep(0.05)
    assert len(started_by(quick)) <= 1 + spare, started_by(quick)
    [[verdict]] = quick.run([(f"{HONEST}\n# after {name}", Suite(("assert f(1) == 4242",)))])
    assert verdict.outcome == "pass", "the next program is judged as ever"


def test_the_honest_program_passes_all_of_these_tests(quick):
    [verdicts] = quick.run([(HONEST, Suite(TESTS, "import pytest", ("f",)))])
    assert [v.outcome for v in verdicts] == ["pass"] * len(TESTS), verdicts


def test_outcomes_say_what_happened(quick):
    def outcome(name):
        return quick.run([(CHEATS[name], Suite(TESTS[:1], "import pytest"))])[0][0].outcome

    assert outcome("exits") == outcome("exits at once") == outcome("is no program") == "error"
    assert outcome("takes 10 GB") == outcome("leaves the function out") == "error"
    assert outcome("prints without end") == outcome("catches signals and goes on") == "timeout"
    assert outcome("equals everything") == outcome("shadows names of the test") == "fail"


def test_a_test_that_outlives_its_program_does_not_pass(quick):
    tests = "try:\n    f(1)\nexcept:\n    pass", "assert True"
    for name in ("exits at once", "catches signals and goes on"):
        [verdicts] = quick.run([(CHEATS[name], Suite(tests))])
        assert verdicts[0].outcome != "pass", name


@pytest.mark.parametrize("objects", [False, True])
def test_no_block_hides_that_an_assertion_in_it_failed(quick, objects):
    code = (
        "class Hides:\n    def __enter__(self): return {}\n"
        "    def __exit__(self, *error): return True\ndef f(x): return Hides()"
    )
    for value, outcome in ((0, "fail"), (4242, "pass")):
        suite = Suite(TESTS_OF_BLOCKS, objects=objects)
        [[verdict]] = quick.run([(code.format(value), suite)])
        assert verdict.outcome == outcome, verdict


def test_infinity_is_near_to_nothing_else(quick):
    tests = ("import pytest\nassert f(1) == pytest.approx(float('inf'))",)
    for value, outcome in (("5", "fail"), ("float('inf')", "pass"), ("-float('inf')", "fail")):
        [[verdict]] = quick.run([(f"def f(x): return {value}", Suite(tests))])
        assert verdict.outcome == outcome, (value, verdict)


def test_a_test_that_is_busy_with_a_result_is_stopped_in_time(quick):
    started = time.monotonic()
    code = "from decimal import Decimal\ndef f(x):\n    return Decimal('1e9999999')"
    [[verdict]] = quick.run([(code, Suite(("assert int(f(1)) == 4242",)))])
    assert verdict.outcome == "timeout"
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("objects", [False, True])
def test_an_import_of_everything_hides_no_name_of_the_tests(quick, objects):
    code = (
        "class Yes:\n    def __getattr__(self, name): return lambda *a, **k: self\n"
        "    def __eq__(self, other): return True\n    def __enter__(self): return self\n"
        "    def __exit__(self, *a): return True\n"
        "pytest = json = near = helper = Yes()\nisclose = lambda *a: True\ndef f(x): return 0"
    )
    setup = (
        "import json, pytest\nimport math as near\nfrom math import isclose\n"
        "def helper(x): return x\nfrom solution import *"
    )
    tests = (
        "assert f(1) == pytest.approx(4242)", "assert isclose(f(1), 4242)",
        "assert near.isclose(f(1), 4242)", "assert helper(f(1)) == 4242",
        "with pytest.raises(ValueError):\n    f(1)", "assert json.loads('4242') == f(1)",
    )  # fmt: skip
    [verdicts] = quick.run([(code, Suite(tests, setup, ("f",), objects))])
    assert {v.outcome for v in verdicts} == {"fail"}, verdicts


@pytest.mark.parametrize(
    "header",
    [
        "['shared', 0]", "['shared', -1]", "['shared', 99]", "['yours', 0]", "['mine', [], {}]",
        "['mine', 0, 'int', 'builtins', ['Exception']]", "['mine', 0, 'E', 'solution', ['int']]",
        "['mine', 0, 'generator']", "['library', 'ndarray']", "['list', 10**12]",
    ],
)  # fmt: skip
def test_headers_that_a_program_forges_gain_nothing(quick, header):
    code = (
        "import gc\ndef f(x):\n    for each in gc.get_objects():\n"
        "        if type(each).__name__ == 'Program':\n"
        f"            each.foreign = lambda value: {header}\n    return object()"
    )
    tests = *TESTS, "x = [1]\nassert f(x) == [4242] and x == [1]"
    [verdicts] = quick.run([(code, Suite(tests, names=("f",)))])
    assert "pass" not in {v.outcome for v in verdicts}, verdicts


def test_a_power_that_no_memory_holds_costs_nothing(quick):
    started = time.perf_counter()
    for literal in ("99**99**99", "(10**9)**(10**9)**2", "2**2**2**2**2**2"):
        [verdicts] = quick.run([(f"def f(x):\n    return {literal}", Suite(TESTS))])
        assert {v.outcome for v in verdicts} == {"timeout"}
    assert time.perf_counter() - started < 0.1
    [[verdict]] = quick.run([("def f(x):\n    return 9**9**3 % 10", Suite(("assert f(1) == 9",)))])
    assert verdict.outcome == "pass"


# --- what bubblewrap keeps a program from


def said(bubblewrap, body):
    """What a function returns, as its failing test tells."""
    code = "import os\ndef f():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    [[verdict]] = bubblewrap.run([(code, Suite(("raise ValueError(repr(f()))",)))])
    assert verdict.detail.startswith("ValueError: "), verdict
    return verdict.detail.removeprefix("ValueError: ")


def test_there_is_no_network(bubblewrap):
    body = """
import socket
names = sorted(name for _, name in socket.if_nameindex())
try:
    socket.create_connection(('1.1.1.1', 53), timeout=2)
except OSError as error:
    return names, type(error).__name__
"""
    assert said(bubblewrap, body) == "(['lo'], 'OSError')"


def test_there_is_no_home_and_nothing_else_of_ours(bubblewrap, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o644)
    paths = [str(secret), str(Path.home() / ".bashrc"), __file__, "/etc/passwd", "/proc/1"]
    body = f"return [os.path.exists(path) for path in {paths}], os.environ.get('HOME')"
    assert said(bubblewrap, body) == f"({[False] * len(paths)}, '/tmp')"


def test_the_system_cannot_be_written(bubblewrap):
    body = """
written = []
for folder in ('/', '/usr', '/usr/bin', '/dev', '/harness', '/harness/processes', '/var'):
    try:
        open(f'{folder}/x', 'w').close()
        written.append(folder)
    except OSError:
        pass
open('/tmp/x', 'w').close()
return written
"""
    assert said(bubblewrap, body) == "[]"


def test_only_its_own_processes_are_seen_and_it_is_not_root(bubblewrap):
    assert said(bubblewrap, "return os.getpid() < 10 and os.getuid() > 0") == "True"
    body = "import ctypes\nreturn ctypes.CDLL(None).unshare(0x10000000)"
    assert said(bubblewrap, body) == "-1", "no user namespace of its own"


def test_limits_are_as_they_were_set(bubblewrap):
    body = "import resource as r\nreturn r.getrlimit(r.RLIMIT_AS), r.getrlimit(r.RLIMIT_FSIZE)"
    memory, file = 512 << 20, 16 << 20
    assert said(bubblewrap, body) == f"(({memory}, {memory}), ({file}, {file}))"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_root_runs_programs_as_users_that_nobody_has(sandbox):
    code = "import os\ndef f():\n    return os.getuid(), os.getgroups()"
    test = "user, groups = f()\nassert 61184 <= user < 65520 and set(groups) <= {user, 65534}"
    [[verdict]] = sandbox.run([(code, Suite((test,)))])
    assert verdict.outcome == "pass", verdict


@pytest.mark.skipif(os.getuid() != 0, reason="files of the run's own user cannot be told apart")
def test_no_file_is_left_where_everybody_may_write(quick):
    name = f"left-by-a-program-{os.getpid()}"
    code = (
        f"import os\ndef f():\n    for folder in ('/tmp', '/dev/shm', '/var/tmp'):\n"
        f"        if os.path.isdir(folder) and os.access(folder, os.W_OK):\n"
        f"            open(folder + '/{name}', 'w').close()\n"
        f"            os.makedirs(folder + '/{name}-folder/inside')\n    return 1"
    )
    [[verdict]] = quick.run([(code, Suite(("assert f() == 1",)))])
    assert verdict.outcome == "pass", verdict
    assert not [str(p) for f in ("/tmp", "/dev/shm", "/var/tmp") for p in Path(f).glob(f"{name}*")]


def test_no_ended_process_waits_for_ever_to_be_noticed(quick):
    code = "import os, signal\ndef f():\n    os.kill(-1, signal.SIGKILL)\n    os._exit(0)"
    tests = tuple(f"assert f() == {i}" for i in range(20))
    quick.run([(code, Suite(tests)), (HONEST, Suite(("assert f(1) == 4242",)))])
    [worker] = [h.worker.pid for h in quick._handles if h.worker]
    listed = subprocess.run(["ps", "-o", "stat=", "--ppid", str(worker)], stdout=subprocess.PIPE)
    assert listed.stdout.split().count(b"Z") + listed.stdout.split().count(b"Zs") <= 1
