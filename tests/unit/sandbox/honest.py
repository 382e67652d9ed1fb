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
