"""Correct programs with tests that are easy to get wrong between two processes."""

FUNCTIONS = {
    "returns its argument": ("def f(x):\n    x.sort()\n    return x",
        "a = [2, 1]\nassert f(a) is a and a == [1, 2]"),
    "returns a copy": ("def f(x):\n    return list(x)", "a = [1]\nassert f(a) is not a"),
    "changes lists in lists": ("def f(g):\n    for row in g: row.reverse()",
        "g = [[1, 2], [3, 4]]\nrow = g[0]\nf(g)\nassert g == [[2, 1], [4, 3]] and row == [2, 1]"),
    "changes what a tuple and a dictionary hold": (
        "def f(t, d):\n    t[0].append(1)\n    d['a'].add(2)",
        "a, b = [], set()\nf((a,), {'a': b})\nassert (a, b) == ([1], {2})"),
    "is given one list twice": ("def f(x, y):\n    x.append(1)\n    return len(y), x is y",
        "a = []\nassert f(a, a) == (1, True) and a == [1]"),
    "is given a list that holds itself": ("def f(x):\n    return x[0] is x",
        "a = []\na.append(a)\nassert f(a)"),
    "changes a queue": ("def f(q):\n    q.appendleft(3)",
        "q = collections.deque([1], 2)\nf(q)\nassert list(q) == [3, 1]"),
    "changes an array": ("def f(a):\n    a[0] = 9",
        "import numpy as np\na = np.zeros(3)\nf(a)\nassert a[0] == 9"),
    "counts into a dictionary": ("def f(d):\n    d['x'].append(1)",
        "d = collections.defaultdict(list)\nf(d)\nassert d['x'] == [1] and d['y'] == []"),
    "returns a dictionary with defaults": (
        "from collections import defaultdict\ndef f():\n    return defaultdict(lambda: 7)",
        "assert f()['a'] == 7"),
    "returns views": ("def f(d):\n    return d.keys(), d.values(), d.items()",
        "k, v, i = f({'a': 1})\nassert k == {'a'} and list(v) == [1] and list(i) == [('a', 1)]"),
    "nests deep": ("def f(x):\n    for _ in range(800): x = [x]\n    return x",
        "x = n = 0\nx = f([])\nfor _ in range(800): x = x[0]\nassert f(x) and x == []"),
    "returns no number": ("import math\ndef f():\n    return [math.nan, -0.0]",
        "assert f() == [math.nan, 0.0] and str(f()[1]) == '-0.0'"),
    "returns a time with a zone": ("import datetime as d\ndef f():\n"
        "    return d.datetime(2020, 1, 1, tzinfo=d.timezone.utc)",
        "import datetime as d\nassert f() == d.datetime(2020, 1, 1, tzinfo=d.timezone.utc)"),
    "takes a path": ("def f(p):\n    return p.name",
        "from pathlib import Path\nassert f(Path('/a/b')) == 'b'"),
    "takes a file in memory": ("def f(s):\n    return s.readline(), [each for each in s]",
        "import io\nassert f(io.StringIO('a\\nb\\nc')) == ('a\\n', ['b\\n', 'c'])"),
    "takes from endless iterators": ("def f(it):\n    return [next(it) for _ in range(3)]",
        "def g():\n    n = 0\n    while True:\n        yield n\n        n += 1\n"
        "assert f(g()) == [0, 1, 2] == f(itertools.count())"),
    "is a generator": ("def f(n):\n    got = yield n\n    yield got",
        "import types\ng = f(2)\nassert isinstance(g, types.GeneratorType)\n"
        "assert next(g) == 2 and g.send(5) == 5 and list(g) == []"),
    "takes its own endless generator": ("def f():\n    while True: yield 1\n"
        "def take(it, n):\n    return [x for x, _ in zip(it, range(n))]",
        "assert take(f(), 3) == [1, 1, 1]"),
    "is a coroutine": ("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x",
        "import asyncio\nassert asyncio.run(f(3)) == 3"),
    "decorates": ("import functools\ndef log(fn):\n    @functools.wraps(fn)\n"
        "    def inner(*args):\n        return f'{fn.__name__}: {fn(*args)}'\n    return inner",
        "@log\ndef add(a, b):\n    'doc'\n    return a + b\n"
        "assert add(1, 2) == 'add: 3' and (add.__name__, add.__doc__) == ('add', 'doc')"),
    "remembers a function": ("seen = {}\ndef f(fn):\n    seen[fn] = seen.get(fn, 0) + 1\n"
        "    return seen[fn]", "def g(): pass\nassert (f(g), f(g), f(len)) == (1, 2, 1)"),
    "prints bytes": ("import sys\ndef f():\n    sys.stdout.buffer.write(b'x')\n    return 1",
        "assert f() == 1"),
    "raises errors of the library": (
        "import json, decimal\ndef f(s):\n    return json.loads(s)\n"
        "def g(s):\n    return decimal.Decimal(s)",
        "with pytest.raises(json.JSONDecodeError, match='Expecting') as caught:\n    f('{')\n"
        "assert caught.value.pos == 1 and caught.match('line 1')\n"
        "with pytest.raises(decimal.InvalidOperation):\n    g('x')"),
    "looks at its own annotations": (
        "def checked(fn):\n    def inner(*args):\n"
        "        for value, kind in zip(args, fn.__annotations__.values()):\n"
        "            if not isinstance(value, kind): raise TypeError(kind)\n"
        "        return fn(*args)\n    return inner\n@checked\ndef f(x: int):\n    return x",
        "assert f(1) == 1\nwith pytest.raises(TypeError):\n    f('a')"),
    "has annotations of the future": ("from __future__ import annotations\n"
        "def f(x: int):\n    return f.__annotations__", "assert f(1) == {'x': 'int'}"),
    "starts a pool of threads": ("import time\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "def one(x):\n    time.sleep(0.01)\n    return len([bytes(1000) for _ in range(2000)])\n"
        "def f(n):\n    with ThreadPoolExecutor(n) as pool: return sum(pool.map(one, range(n)))",
        "assert f(4) == 8000 and f(32) == 64000"),
    "sets its output up": ("import sys, os\nsys.stdout.reconfigure(encoding='utf-8')\n"
        "def f():\n    print('\\u00e4' * 10**6)\n    return os.path.basename(__file__)",
        "assert f() == 'solution.py'"),
    "returns numbers of numpy": ("import numpy as np\ndef f():\n"
        "    return np.float32(0.5), np.int64(3), np.longdouble(1.5), np.array([1, 2]).mean()",
        "import numpy as np\na, b, c, d = f()\nassert isinstance(a, np.float32) and c == d == 1.5\n"
        "assert isinstance(b, np.integer) and b.dtype == np.int64"),
    "is near enough": ("import numpy as np, decimal\ndef f():\n    return np.array([1.0, 2.0])\n"
        "def g():\n    return decimal.Decimal('0.3000000001')",
        "import numpy as np\nassert f() == pytest.approx([1, 2.0000001])\n"
        "assert f() == pytest.approx(np.array([1.0, 2.0])) and f() != pytest.approx([1, 2.1])\n"
        "assert g() == pytest.approx(decimal.Decimal('0.3')) and g() == pytest.approx(0.3)"),
    "returns values that are made of text": ("import uuid, ipaddress\ndef f():\n"
        "    return uuid.UUID(int=7), ipaddress.ip_address('10.0.0.1')",
        "import uuid, ipaddress\na, b = f()\nassert a == uuid.UUID(int=7) and a.version is None\n"
        "assert b == ipaddress.IPv4Address('10.0.0.1') and b.is_private"),
    "takes some items of an iterator": ("def f(it):\n    return next(it)",
        "it = iter([1, 2, 3])\nassert f(it) == 1 and f(it) == 2 and list(it) == [3]\n"
        "with pytest.raises(StopIteration):\n    f(it)"),
    "is a context manager": ("from contextlib import contextmanager\n@contextmanager\n"
        "def f(*kinds):\n    try:\n        yield 3\n    except kinds:\n        pass",
        "with f(ZeroDivisionError) as v:\n    assert v == 3\n    1 / 0\n"
        "with pytest.raises(KeyError, match='a'):\n    with f(ValueError):\n        {}['a']"),
    "uses callbacks of C": ("import ctypes\nINT = ctypes.POINTER(ctypes.c_int)\ndef f(*xs):\n"
        "    kind = ctypes.CFUNCTYPE(ctypes.c_int, INT, INT)\n"
        "    xs = (ctypes.c_int * len(xs))(*xs)\n"
        "    ctypes.CDLL(None).qsort(xs, len(xs), 4, kind(lambda a, b: a[0] - b[0]))\n"
        "    return list(xs)", "assert f(3, 1, 2) == [1, 2, 3]"),
    "calls itself often": ("import sys, threading\nsys.setrecursionlimit(10**6)\n"
        "threading.stack_size(2**27)\ndef g(n):\n    return n and 1 + g(n - 1)\n"
        "def f(n):\n    out = []\n    each = threading.Thread(target=lambda: out.append(g(n)))\n"
        "    each.start()\n    each.join()\n    return out[0]",
        "assert f(20_000) == 20_000 == g(20_000)"),
    "keeps a file and a database": ("import sqlite3, tempfile, os\ndef f():\n"
        "    base = sqlite3.connect(os.path.join(tempfile.mkdtemp(), 'x'))\n"
        "    base.execute('create table t (a)')\n    base.execute('insert into t values (1)')\n"
        "    return base.execute('select a from t').fetchall()", "assert f() == [(1,)]"),
    "is called by threads": ("def f(x):\n    return 2 * x",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
        "    assert list(pool.map(f, range(40))) == [2 * i for i in range(40)]"),
}  # fmt: skip

CLASSES = {
    "exceptions of one family": (
        "class Base(Exception): pass\nclass Low(Base, ValueError):\n    def __init__(self, left):\n"
        "        self.left = left\n        super().__init__(f'low {left}')\n"
        "class Strange(Exception):\n    def __str__(self): return 'told'\n"
        "def f(x):\n    raise Low(x) if x else Strange(1)",
        "for kind in (Base, Low, ValueError):\n    with pytest.raises(kind) as caught:\n"
        "        f(3)\n    assert caught.value.left == 3 and str(caught.value) == 'low 3'\n"
        "with pytest.raises(Strange, match='told'):\n    f(0)\n"
        "assert issubclass(Low, Base) and not issubclass(Base, Low)"),
    "context managers": (
        "class Low(Exception): pass\nclass C:\n    def __enter__(self): return self\n"
        "    def __exit__(self, kind, error, trace):\n        self.seen = kind, str(error)\n"
        "        return kind is not None and issubclass(kind, Low)\ndef low(x):\n    raise Low(x)",
        "c = C()\nwith c:\n    low(3)\nassert c.seen[1] == '3'\n"
        "with pytest.raises(ValueError):\n    with c:\n        raise ValueError('x')\n"
        "assert c.seen == (ValueError, 'x')"),
    "frozen objects": ("from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n"
        "    x: int",
        "import dataclasses\nwith pytest.raises(dataclasses.FrozenInstanceError):\n    P(1).x = 2"),
    "a dictionary with methods": ("from collections import OrderedDict\n"
        "class Cache(OrderedDict):\n    def put(self, k, v):\n        self[k] = v\n"
        "        if len(self) > 1: self.popitem(last=False)",
        "c = Cache()\nc.put(1, 1)\nc.put(2, 2)\nassert len(c) == 1 and c[2] == 2 and 1 not in c"),
    "a list with methods": ("class M(list):\n    def t(self): return M(zip(*self))",
        "assert M([[1, 2]]).t() == [(1,), (2,)]"),
    "named values that are texts": ("from enum import Enum\nclass S(str, Enum):\n    A = 'a'",
        "assert S.A.value == 'a' == S.A and S('a') is S.A and S.A.name == 'A'"),
    "tuples with methods": ("from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n"
        "    def twice(self): return 2 * self.x",
        "p = P(2)\n[x] = p\nassert p.twice() == 4 and p == (2,) and x == p[0] == p.x"),
    "abstract classes": ("from abc import ABC, abstractmethod\nclass S(ABC):\n"
        "    @abstractmethod\n    def a(self): ...\nclass Q(S):\n    def a(self): return 1",
        "assert Q().a() == 1 and isinstance(Q(), S) and issubclass(Q, S)\n"
        "assert not issubclass(S, Q)\nwith pytest.raises(TypeError):\n    S()"),
    "copies": ("class N:\n    def __init__(self, v): self.v = v",
        "import copy\na = N([1])\nb, c = copy.deepcopy(a), copy.copy(a)\nb.v = 2\n"
        "assert a.v == [1] == c.v and b.v == 2"),
    "operators in place": ("class V:\n    def __init__(self, x): self.x = x\n"
        "    def __iadd__(self, y):\n        self.x += y\n        return self\n"
        "    def __divmod__(self, y): return divmod(self.x, y)",
        "v = w = V(1)\nv += 6\nassert w.x == 7 and v is w and divmod(v, 4) == (1, 3)"),
    "their names": ("class V: pass\nclass W: pass",
        "assert type(V()).__name__ == 'V' == V().__class__.__name__\n"
        "assert type(V()) is type(V()) is not type(W())"),
    "threads": ("class C:\n    n = 0\n    def up(self): self.n += 1",
        "import threading\nc = C()\nthreads = [threading.Thread(target=c.up) for _ in range(9)]\n"
        "for each in threads: each.start()\nfor each in threads: each.join()\nassert c.n == 9"),
}  # fmt: skip

SUITES = {
    "fixtures that others use": "@pytest.fixture\ndef unused(): return 1\n"
        "@pytest.fixture(scope='module')\ndef other(): return 1\n"
        "class T:\n    def test(self): assert f(1) == 2",
    "a class for unittest": "import unittest\nclass T(unittest.TestCase):\n    @classmethod\n"
        "    def setUpClass(cls): cls.k = 3\n    def setUp(self): self.j = 1\n"
        "    def tearDown(self): self.j = 0\n    def test(self):\n"
        "        self.assertAlmostEqual(f(self.k), 6.0)\n        self.assertRaises(TypeError, f)\n"
        "        with self.subTest(i=1), self.assertRaises(TypeError): f(None)",
    "a class for pytest": "class T:\n    @classmethod\n    def setup_class(cls): cls.k = 3\n"
        "    def setup_method(self, method): self.name = method.__name__\n"
        "    def teardown_method(self): del self.name\n"
        "    def test(self): assert f(self.k) == 6 and self.name == 'test'",
}  # fmt: skip
