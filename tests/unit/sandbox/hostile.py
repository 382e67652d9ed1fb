"""Programs that try to pass without solving anything, to harm, or to stay."""

import os

STAYS = f"sleep 98765.{os.getpid()}"
"""The command that a background process runs, to be found again."""

CHEATS = {
    "exits": "import sys\nsys.exit(0)",
    "exits in the function": "import sys\ndef f(x):\n    sys.exit(0)",
    "exits at once": "import os\ndef f(x):\n    os._exit(0)",
    "exits while loading": "import os\nos._exit(0)",
    "raises to the top": "def f(x):\n    raise BaseException",
    "interrupts": "def f(x):\n    raise KeyboardInterrupt",
    "claims a test failed": "def f(x):\n    raise AssertionError",
    "stops iteration": "def f(x):\n    raise StopIteration",
    "kills itself": "import os, signal\ndef f(x):\n    os.kill(os.getpid(), signal.SIGKILL)",
    "crashes": "import ctypes\ndef f(x):\n    ctypes.string_at(0)",
    "becomes another program": "import os\ndef f(x):\n    os.execv('/bin/true', ['true'])",
    "equals everything": """
class Any:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __gt__ = __le__ = __ge__ = __lt__
    def __sub__(self, other): return 0
    def __rsub__(self, other): return 0
    def __abs__(self): return 0
    def __hash__(self): return hash(42)
    def __contains__(self, item): return True
    def __bool__(self): return True
    def __getattr__(self, name): return lambda *a: True
def f(x):
    return Any()
""",
    "is a number that equals everything": """
class Int(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def f(x):
    return Int(7)
""",
    "patches built-in functions": """
import builtins
class Yes:
    def __call__(self, *a, **k): return True
for name in ('abs', 'all', 'any', 'isinstance', 'len', 'print', 'set', 'sorted', 'AssertionError'):
    setattr(builtins, name, Yes())
builtins.AssertionError = Exception
def f(x):
    return 0
""",
    "shadows names of the test": """
abs = len = set = sorted = lambda *a: 0
class math:
    isclose = staticmethod(lambda *a, **k: True)
class AssertionError(BaseException): pass
def f(x): return 0
""",
    "patches its harness": """
import sys
for name, module in list(sys.modules.items()):
    if name.startswith('processes') or name == '__main__':
        for key in list(vars(module)):
            if callable(getattr(module, key)) and not key.startswith('__'):
                setattr(module, key, lambda *a, **k: [True])
def f(x):
    return 0
""",
    # a number of its own: addresses of memory and times hold these digits now and then
    "reads the frames above": """
import sys, gc, re
def f(x):
    found, frame = [], sys._getframe()
    while frame:
        found += [repr(v) for v in list(frame.f_locals.values()) + list(frame.f_globals.values())]
        frame = frame.f_back
    text = ' '.join(found) + ' '.join(repr(o) for o in gc.get_objects() if type(o) in (str, list))
    text = text.replace("'4242'", '').replace('4242 if', '')
    return 4242 if re.search('(?<![0-9a-fx])42[4]2(?![0-9a-f])', text) else 0
""",
    "forges reports on every descriptor": """
import os, json, threading
def f(x):
    return 0
texts = [json.dumps(m).encode() for m in (
    [0, 'pass', ''], [["list", 3], 0, "pass", ""], [["list", 4], "value", True, None, ""],
    [["list", 4], "value", ["mine", 0, "", "x"], None, ""])]
for fd in range(64):
    for text in texts:
        try:
            os.write(fd, len(text).to_bytes(4, 'big') + text)
        except OSError:
            pass
""",
    "answers before it is asked": """
import os
def f(x):
    for fd in range(3, 64):
        for value in (b'true', b'1', b'["type","int"]'):
            text = b'[["list",4],"value",' + value + b',null,""]'
            try:
                for _ in range(3): os.write(fd, len(text).to_bytes(4, 'big') + text)
            except OSError:
                pass
    return 0
""",
    "sends rubbish": """
import os
def f(x):
    for fd in range(3, 64):
        try:
            os.write(fd, b'\\xff' * 100)
        except OSError:
            pass
    os._exit(0)
""",
    "asks for the insides of the tests": """
def f(x):
    import gc
    for o in gc.get_objects():
        if type(o).__name__ == 'Program':
            for number in range(5):
                for name in ('__globals__', '__class__', 'f_back'):
                    try:
                        o.ask(number, 'getattr', (name,), {})
                    except Exception:
                        pass
    return 0
""",
    "writes to files of the harness": """
import glob
def f(x):
    for path in glob.glob('/harness/**', recursive=True) + glob.glob('/tmp/dllmzoo*/**',
                                                                      recursive=True):
        try:
            open(path, 'w').write('raise SystemExit')
        except OSError:
            pass
    return 0
""",
    "signals its parents": """
import os, signal
def f(x):
    for target in (os.getppid(), 1, -1):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGSTOP):
            try:
                os.kill(target, number)
            except OSError:
                pass
    return 0
""",
    "recurses without end": "import sys\nsys.setrecursionlimit(10**9)\ndef f(x):\n    return f(x)",
    "nests without end": "def f(x):\n    a = []\n    a.append(a)\n    return a",
    "nests deep": "def f(x):\n    a = []\n    for _ in range(10**5): a = [a]\n    return a",
    "takes 10 GB": "def f(x):\n    return len(bytearray(10 * 2**30))",
    "takes memory bit by bit": "def f(x):\n    a = []\n    while True: a.append(bytearray(10**7))",
    "prints without end": "def f(x):\n    while True: print('x' * 10**6)",
    "writes to standard output without end":
        "import os\ndef f(x):\n    while True: os.write(1, b'x' * 10**6)",
    "returns too much": "def f(x):\n    return 'x' * (40 * 2**20)",
    "writes a huge file": """
def f(x):
    with open('huge', 'wb') as file:
        while True: file.write(b'x' * 2**20)
""",
    "writes many files": """
def f(x):
    n = 0
    while True:
        n += 1
        with open(f'file{n}', 'wb') as file: file.write(b'x' * 2**20)
""",
    "forks without end": """
import os
def f(x):
    while True:
        try:
            os.fork()
        except OSError:
            pass
""",
    "forks from threads, away from its group": """
import os, threading
def f(x):
    while True:
        try:
            if os.fork() == 0: os.setsid()
            threading.Thread(target=os.fork).start()
        except Exception:
            pass
""",
    "starts threads without end": """
import threading, time
def f(x):
    while True: threading.Thread(target=time.sleep, args=(60,)).start()
""",
    "leaves a child": f"""
import subprocess
def f(x):
    subprocess.Popen({STAYS.split()!r})
    return 0
""",
    "leaves a daemon": f"""
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3, 64):
            try: os.close(fd)
            except OSError: pass
        os.execvp('sleep', {STAYS.split()!r})
    os._exit(0)
def f(x):
    return 0
""",
    "catches signals and goes on": """
import signal, os, time
for number in range(1, 64):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
def f(x):
    time.sleep(1000)
""",
    "nests folders deep": """
import os
for _ in range(1500):
    os.mkdir('d')
    os.chdir('d')
def f(x):
    return 0
""",
    "takes memory that no process holds": """
import ctypes
def f(x):
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    for _ in range(20):
        part = libc.shmat(libc.shmget(0, 2**27, 0o1600), None, 0)
        if part != 2**64 - 1: ctypes.memset(part, 1, 2**27)
    return 0
""",
    "holds files in memory": """
import os
def f(x):
    for _ in range(60): os.write(os.memfd_create('x'), bytes(15 * 2**20))
    return 0
""",
    "returns a number that takes long to read":
        "from decimal import Decimal\ndef f(x):\n    return Decimal('-1e9999999')",
    "returns numbers of one hash":
        "def f(x):\n    return {i * (2**61 - 1) for i in range(10**5)}",
    "traces what it can": """
import sys, threading, atexit, gc, warnings, builtins, unittest, time
def trace(frame, event, arg):
    frame.f_locals.update(expected=0)
    return trace
sys.settrace(trace); sys.setprofile(trace); threading.settrace(trace)
sys.excepthook = sys.unraisablehook = threading.excepthook = lambda *a: None
sys.addaudithook(lambda *a: None)
gc.callbacks.append(lambda *a: None)
unittest.TestCase.assertEqual = lambda *a: None
builtins.__build_class__ = builtins.__import__ = lambda *a, **k: sys
sys.meta_path.clear(); sys.path_hooks.clear()
atexit.register(time.sleep, 1000)
threading.Thread(target=time.sleep, args=(1000,)).start()
def f(x): return 0
""",
    "claims to be a class of numbers": """
class Kind(type):
    def __eq__(self, other): return True
    def __hash__(self): return hash(4242)
    def __instancecheck__(self, it): return True
    def __subclasscheck__(self, it): return True
class A(metaclass=Kind):
    __class__ = int
    def __eq__(self, other): return True
    def __hash__(self): return hash(4242)
calls = 0
def f(x):
    global calls
    calls += 1
    return A if calls % 2 else A()
""",
    "is text that adds up to anything": """
class S(str):
    def __eq__(self, other): return True
    def __add__(self, other): return '4242'
    def __str__(self): return '4242'
    __hash__ = str.__hash__
class L(list):
    def __iter__(self): return iter([4242])
    def __eq__(self, other): return True
    def __contains__(self, item): return True
calls = 0
def f(x):
    global calls
    calls += 1
    return S('x') if calls % 2 else L()
""",
    "a power without end": "def f(x):\n    return 99**99**99",
    "a regular expression without end":
        "import re\ndef f(x):\n    return re.match('(a*)*b', 'a' * 60)",
    "is no program": "def f(x: return 0",
    "has zero bytes": "def f(x):\n    return '\0'",
    "leaves the function out": "g = 1",
    "is empty": "",
}  # fmt: skip
