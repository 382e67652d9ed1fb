"""The process that runs an answer: it is asked to load the code, and to call what that defines.

It never holds a test or an expected result. Everything here can be read, replaced and forged by
the answer, and that must gain it nothing: all it can do is say which values its functions return.
"""

from __future__ import annotations

import io
import operator
import os
import sys
import types

from .confine import settle
from .values import Packer, Reader, Shared, contents, dumps
from .wire import Channel

TYPE_CHECKING = False  # the import of `typing` would cost every program 10 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PRINTED = 100_000
"""Characters of output that are kept of one call."""


def left(it: Any, kind: Any = None, *args: Any) -> Any:
    """Have a context manager end its block, in which an exception was raised if one is named."""
    if kind is None:
        return it.__exit__(None, None, None)
    try:
        raise kind(*args)
    except BaseException as error:
        return it.__exit__(type(error), error, error.__traceback__)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda it, *args, **options: it(*args, **options),
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "len": len,
    "iter": iter,
    "next": next,
    "send": lambda it, value: it.send(value),
    "await": lambda it: __import__("asyncio").run(it),
    "copy": lambda it: __import__("copy").copy(it),
    "deepcopy": lambda it: __import__("copy").deepcopy(it),
    "bool": bool,
    "str": str,
    "repr": repr,
    "hash": hash,
    "int": int,
    "float": float,
    "complex": complex,
    "abs": abs,
    "round": round,
    "format": format,
    "dir": dir,
    "isinstance": lambda kind, it: isinstance(it, kind),
    "issubclass": lambda kind, it: issubclass(it, kind),
    "contains": lambda it, item: item in it,
    "getitem": lambda it, key: it[key],
    "setitem": lambda it, key, value: it.__setitem__(key, value),
    "delitem": lambda it, key: it.__delitem__(key),
    "index": lambda it: it.__index__(),
    "reversed": reversed,
    "enter": lambda it: it.__enter__(),
    "exit": lambda it, *error: left(it, *error),
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "truediv": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
    "matmul": lambda a, b: a @ b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lshift": lambda a, b: a << b,
    "rshift": lambda a, b: a >> b,
    "divmod": divmod,
    "iadd": operator.iadd,
    "isub": operator.isub,
    "imul": operator.imul,
    "iand": operator.iand,
    "ior": operator.ior,
    "ixor": operator.ixor,
    "radd": lambda a, b: b + a,
    "rsub": lambda a, b: b - a,
    "rmul": lambda a, b: b * a,
    "rtruediv": lambda a, b: b / a,
    "rfloordiv": lambda a, b: b // a,
    "rmod": lambda a, b: b % a,
    "rpow": lambda a, b: b**a,
    "neg": lambda a: -a,
    "pos": lambda a: +a,
    "invert": lambda a: ~a,
}


class Output(io.StringIO):
    """Keeps the first `PRINTED` characters."""

    def write(self, text: str) -> int:
        """Append, as far as there is room."""
        super().write(text[: max(0, PRINTED - self.tell())])
        return len(text)

    def reconfigure(self, **options: Any) -> None:
        """Programs choose an encoding; text is kept as it is."""

    @property
    def buffer(self) -> Any:
        """For programs that print bytes."""
        return Bytes(self)


class Bytes:
    """The bytes below an output."""

    def __init__(self, output: Output) -> None:
        """What is written goes there."""
        self.output = output

    def write(self, data: bytes) -> int:
        """Append as text."""
        self.output.write(bytes(data).decode(errors="replace"))
        return len(data)

    def flush(self) -> None:
        """Nothing is waiting."""


class Callback:
    """An object of the tests, in the hands of the answer: it may be called, or read by name."""

    def __init__(self, program: Program, number: int, names: dict[str, Any]) -> None:
        """Nothing is asked; a function has names."""
        self.__dict__.update(names, _program=program, _number=number)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Ask the tests to call it."""
        return self._program.ask(self._number, "call", args, options)

    def __getattr__(self, name: str) -> Any:
        """Ask the tests for a public attribute."""
        return self._program.ask(self._number, "getattr", (name,), {})

    def __setattr__(self, name: str, value: Any) -> None:
        """Ask the tests to set a public attribute."""
        self._program.ask(self._number, "setattr", (name, value), {})


class Iterated(Callback):
    """An iterator or a file of the tests."""

    def __iter__(self) -> Any:
        """Itself."""
        return self

    def __next__(self) -> Any:
        """Ask the tests for the next item."""
        return self._program.ask(self._number, "next", (), {})


class Program:
    """Serves the requests of the tests until they close the channel."""

    def __init__(self, channel: Channel) -> None:
        """Nothing is loaded."""
        self.channel = channel
        self.module = types.ModuleType("solution")
        self.module.__file__ = os.path.join(os.getcwd(), "solution.py")
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.callbacks: dict[int, Callback] = {}
        self.stay: str | None = None

    def serve(self) -> None:
        """Answer one request after the other."""
        while True:
            self.answer(*self.read(self.channel.receive()))

    def answer(self, request: Any, containers: list[Any]) -> None:
        """Do what is asked and send what comes of it."""
        output = Output()
        before, sys.stdout = sys.stdout, output
        shared = Shared(containers)
        try:
            was = [self.packed(contents(each), shared) for each in containers]
            value = self.do(request)
            changed = {
                number: contents(each)
                for number, each in enumerate(containers)
                if self.packed(contents(each), shared) != was[number]
            }
            reply = self.packed(["value", value, changed or None, output.getvalue()], shared)
        except BaseException as error:
            reply = self.failed(error, output.getvalue())
        finally:
            sys.stdout = before
        self.channel.send(dumps(reply))

    def do(self, request: Any) -> Any:
        """The result of one request."""
        if request[0] == "load":
            self.stay = self.module.__name__ if request[2] else None
            sys.modules["solution"] = self.module
            # without the `__future__` of this file: annotations are what they are written as
            code = compile(request[1], "solution.py", "exec", dont_inherit=True)
            exec(code, self.module.__dict__)
            return [name for name in self.module.__dict__ if isinstance(name, str)]
        if request[0] == "get":
            return getattr(self.module, request[1])
        _, operation, target, args, options = request
        return OPERATIONS[operation](target, *args, **dict(options))

    def ask(self, number: int, operation: str, args: Any, options: Any) -> Any:
        """Have the tests do something with an object of theirs; they may ask back meanwhile."""
        request = ["callback", number, operation, list(args), options]
        self.channel.send(dumps(self.packed(request)))
        while True:
            reply, containers = self.read(self.channel.receive())
            if reply[0] == "result":
                return reply[1]
            if reply[0] == "raised":
                raise reply[1](*reply[2])
            self.answer(reply, containers)

    def packed(self, value: Any, shared: Shared | None = None) -> list[Any]:
        """A value as a flat list."""
        return Packer(self.foreign, shared, stay=self.stay).written(value)

    def failed(self, error: BaseException, printed: str) -> list[Any]:
        """What is said of an exception: built-in class, arguments, own class, the rest, output."""
        kind = next((k for k in type(error).__mro__ if k.__module__ == "builtins"), Exception)
        own = type(error) if kind is not type(error) else None
        text = "its text cannot be had"
        try:
            text = str(error)[:PRINTED]
            said = {"text": text, "fields": dict(vars(error))}
            return self.packed(["raised", kind.__name__, list(error.args), own, said, printed])
        except BaseException:
            return self.packed(["raised", kind.__name__, [text], None, {}, printed])

    def foreign(self, value: Any) -> list[Any]:
        """The header of a value that stays here, or that belongs to the tests."""
        if isinstance(value, Callback):
            return ["yours", value._number]
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)  # kept for good, so that no other object gets its id
        if isinstance(value, type) and issubclass(value, BaseException):
            bases = [self.base(each) for each in value.__bases__ if issubclass(each, BaseException)]
            return ["mine", number, value.__name__, value.__module__, bases]
        return ["mine", number, type(value).__name__]

    def base(self, kind: type) -> Any:
        """A class that an exception class comes from: its name if it is built in, or its header."""
        return kind.__name__ if kind.__module__ == "builtins" else self.foreign(kind)

    def read(self, data: bytes) -> tuple[Any, list[Any]]:
        """The value of a frame of the tests, and the containers in it."""
        reader = Reader(loads(data), self.own)
        return reader.value(), reader.made

    def own(self, header: list[Any]) -> Any:
        """What a header of the tests stands for."""
        if header[0] == "yours":
            return self.objects[header[1]]
        _, number, iterated, names = header
        if number not in self.callbacks:
            made = Iterated if iterated else Callback
            self.callbacks[number] = made(self, number, dict(names))
        return self.callbacks[number]


class _Context:
    strict = False
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo: dict[str, str] = {}  # noqa: RUF012


def loads(data: bytes) -> Any:
    """The value of a JSON text, without the import of `json`."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(data)
    context: Any = _Context
    return make_scanner(context)(data.decode(), 0)[0]


def main(fd: int, limits: dict[str, Any], parent: int | None) -> None:
    """Confine this process, then serve.

    Args:
        fd: of the channel.
        limits: as `settle` takes them, and `output`, bytes.
        parent: process to end with; None where the sandbox sees to that.
    """
    settle(limits, parent)
    try:
        channel = Channel(fd, limits["output"])
        channel.send(b"+")
        channel.left = 1 << 40  # of what the tests send; what is sent here is counted there
        Program(channel).serve()
    finally:
        os._exit(0)
