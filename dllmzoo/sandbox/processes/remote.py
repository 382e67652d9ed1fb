"""The answer's functions and objects as the tests see them: stand-ins that ask the other process.

Values are compared here, where the tests run. Of an object that is no plain data its process can
say anything, so unless the tests are about classes (`objects`) such an object is equal to no value,
greater than none, and has no attributes and no arithmetic: an answer that returns an object which
claims to equal everything passes nothing.
"""

from __future__ import annotations

import io
import json
import sys
import threading
from typing import Any

from .values import Packer, Reader, Shared, refill
from .wire import Channel, Gone

TESTS = "tests"
"""Name of the module that the tests are."""


class Answer:
    """The process of an answer.

    Args:
        channel: to it.
        objects: whether operators and attributes of its objects are passed on.
        stops: whether tests may see a `StopIteration` of a call. One that no test asks for would
            end the loop of a test, `all(map(f, xs))`, as if it had come to its end.
    """

    def __init__(self, channel: Channel, objects: bool, stops: bool = True) -> None:
        """Nothing is asked."""
        self.channel, self.objects, self.stops = channel, objects, stops
        self.gone: Gone | None = None
        self.known: dict[int, Any] = {}
        self.lent: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.drawn: dict[int, Remote] = {}
        self.kinds: dict[str, type[Remote]] = {}
        self.lock = threading.RLock()

    def ask(self, request: tuple[Any, ...]) -> Any:
        """Send a request and return its value; the exceptions of the answer are raised here.

        Containers in it get the contents that the answer leaves in them.

        Args:
            request: its kind and what belongs to it.

        Raises:
            Gone: the process ended, is late or broke the rules, now or before.
        """
        with self.lock:  # tests may have threads
            if self.gone is not None:
                raise self.gone
            shared = Shared()
            try:
                self.send(request, shared)
                while (reply := self.receive(shared.items))[0] == "callback":
                    self.send(self.called(*reply[1:]))
                if reply[0] == "value":
                    for number, contents in (reply[2] or {}).items():
                        changed(shared.items, number, contents)
            except Gone as gone:
                self.gone = gone
                raise
        sys.stdout.write(reply[-1])
        if reply[0] == "value":
            return reply[1]
        error = exception(*reply[1:-1])
        if isinstance(error, StopIteration) and not (self.stops or request[1] in NEXT):
            raise RuntimeError("the program raised StopIteration") from error
        raise error

    def send(self, message: Any, shared: Shared | None = None) -> None:
        """Send a message.

        Raises:
            TypeError: the tests pass something that cannot be sent.
        """
        flat = Packer(self.lend, shared).written(message)
        self.channel.send(json.dumps(flat).encode())

    def receive(self, shared: list[Any]) -> list[Any]:
        """A message of the right form.

        Args:
            shared: containers of the request.

        Raises:
            Gone: it has another form.
        """
        data = self.channel.receive()
        try:
            reply = Reader(json.loads(data), self.foreign, shared).value()
            sizes = {"value": 4, "raised": 6, "callback": 5}
            if type(reply) is not list or sizes[reply[0]] != len(reply):
                raise ValueError("a message of another form")
            if reply[0] != "callback" and type(reply[-1]) is not str:
                raise ValueError("printed text is no text")
            if reply[0] == "value" and not (reply[2] is None or type(reply[2]) is dict):
                raise ValueError("changed arguments are no dictionary")
            if reply[0] == "raised" and type(reply[4]) is not dict:
                raise ValueError("what is said of an exception is no dictionary")
        except (Exception, RecursionError) as error:
            raise Gone("error", f"unreadable result: {type(error).__name__}: {error}") from error
        return reply

    def foreign(self, header: list[Any]) -> Any:
        """What a header of the answer stands for."""
        if header[0] == "yours":
            return self.lent[header[1]]
        _, number, name, *of_exception = header
        if number not in self.known:
            remote = made = self.kind(str(name))(self, int(number), str(name))
            if of_exception:
                made = self.exception_class(remote, *of_exception)
            elif name in LOCAL:
                made = LOCAL[name](remote)
                self.drawn[id(made)] = remote
            self.known[number] = made
        return self.known[number]

    def kind(self, name: str) -> type[Remote]:
        """A class of this name, for tests that ask an object what it is called."""
        if name not in self.kinds:
            self.kinds[name] = type(name, (Remote,), dict(SAID))
        return self.kinds[name]

    def exception_class(self, remote: Remote, module: str, bases: list[Any]) -> type:
        """A local class for an exception class of the answer: the same, if it is of the library."""
        if module.partition(".")[0] in sys.stdlib_module_names:
            found = getattr(sys.modules.get(module), remote._kind, None)
            if isinstance(found, type) and issubclass(found, BaseException):
                return found
        local = tuple(self.foreign(b) if isinstance(b, list) else built_in(b) for b in bases)
        return type(remote._kind, local, {"remote": remote, "__str__": told})

    def lend(self, value: Any) -> list[Any]:
        """The header of an object of the answer, or of one of the tests that it may use."""
        if isinstance(value, Remote):
            if value._answer is not self:
                raise TypeError("an object of another run")
            return ["yours", value._number]
        remote = self.drawn.get(id(value)) or getattr(value, "remote", None)
        if isinstance(remote, Remote):
            return ["yours", remote._number]
        iterated = hasattr(type(value), "__next__") and type(value).__module__ != TESTS
        if not (callable(value) or iterated or type(value).__module__ == TESTS):
            raise TypeError(f"a {type(value).__name__} cannot be passed to the program")
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.lent)
            self.lent.append(value)
        names = [[each, getattr(value, each, None)] for each in NAMES] if callable(value) else []
        names = [[each, said] for each, said in names if isinstance(said, str)]
        return ["mine", self.numbers[id(value)], iterated, names]

    def called(self, number: Any, operation: Any, args: Any, options: Any) -> list[Any]:
        """Do what the answer asks of a lent object: call it, or use a public attribute."""
        try:
            value = self.lent[number]
            if operation == "call":
                return ["result", value(*args, **options)]
            if operation == "next":
                return ["result", next(value)]
            open_to_it = type(value).__module__ == TESTS or type(value) in FILES
            if not open_to_it or args[0].startswith("_"):
                raise AttributeError(f"{args[0]!r} of an object of the tests is not to be used")
            if operation == "getattr":
                return ["result", getattr(value, args[0])]
            return ["result", setattr(value, args[0], args[1])]
        except Exception as error:
            kind = next(k for k in type(error).__mro__ if k.__module__ == "builtins")
            return ["raised", kind, [str(error)]]


NEXT = ("next", "send", "await")
NAMES = ("__name__", "__qualname__", "__doc__")
"""Of functions that are lent, which decorators copy."""
FILES = (io.StringIO, io.BytesIO)


def changed(containers: list[Any], number: Any, contents: Any) -> None:
    """Give a container of a request the contents that the answer left in it.

    Raises:
        Gone: it is no such container, or they do not fit.
    """
    try:
        refill(containers[number], contents)
    except Exception as error:
        raise Gone("error", f"an argument was changed to something else: {error}") from error


def exception(name: Any, args: Any, own: Any, said: dict[str, Any]) -> BaseException:
    """The exception that a reply tells of."""
    try:
        kind = built_in(name)
    except TypeError:
        return Gone("error", "an exception of no known class")
    if isinstance(own, type) and issubclass(own, kind):
        kind = own
    try:
        error = kind(*args)
    except Exception:
        try:
            error = kind.__new__(kind, *args)
        except Exception:
            error = RuntimeError(str(args))
    fields = said.get("fields")
    if type(fields) is dict:
        error.__dict__.update({k: v for k, v in fields.items() if type(k) is str})
    error.__dict__.update(of_the_answer=True, told=said.get("text"))
    return error


def built_in(name: Any) -> type[BaseException]:
    """An exception class by its name."""
    kind = getattr(sys.modules["builtins"], str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        raise TypeError(f"{name} is no exception")
    return kind


def told(error: BaseException) -> str:
    """The text of an exception of the answer, as it says itself."""
    text = error.__dict__.get("told")
    return text if type(text) is str else BaseException.__str__(error)


def drawn(remote: Remote) -> Any:
    """A generator of the answer."""
    sent = None
    while True:
        try:
            value = remote._do("next") if sent is None else remote._do("send", sent)
        except StopIteration as end:
            return end.value
        sent = yield value


async def awaited(remote: Remote) -> Any:
    """A coroutine of the answer, which runs from its start to its end there."""
    return remote._do("await")


LOCAL = {"generator": drawn, "coroutine": awaited}
"""What tests ask the class of."""


class Remote:
    """An object that lives in the process of the answer."""

    def __init__(self, answer: Answer, number: int, kind: str) -> None:
        """What it is called there."""
        self.__dict__.update(_answer=answer, _number=number, _kind=kind)

    def __repr__(self) -> str:
        """Its own words; for messages."""
        return self._do("repr") if self._answer.objects else f"<{self._kind} of the program>"

    def _do(self, operation: str, *args: Any, **options: Any) -> Any:
        return self._answer.ask(("do", operation, self, args, tuple(options.items())))

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call it there."""
        return self._do("call", *args, **options)

    def __getattr__(self, name: str) -> Any:
        """An attribute, if the tests are about classes."""
        special = name.startswith("__") and name not in ("__name__", "__doc__", "__dict__")
        if special or not (self._answer.objects or name in ("__name__", "__doc__")):
            raise AttributeError(f"a {self._kind} of the program has no {name!r} for these tests")
        return self._do("getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute there."""
        self._do("setattr", name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute there."""
        self._do("delattr", name)

    def __hash__(self) -> int:
        """Its own hash where classes are tested, so that equal objects are found in sets."""
        return self._do("hash") if self._answer.objects else self._number

    def __contains__(self, item: Any) -> bool:
        """Its own word where classes are tested; else what it yields is looked through here."""
        if self._answer.objects:
            return bool(self._do("contains", item))
        return any(each is item or each == item for each in self)

    def __iter__(self) -> Any:
        """An iterator that lives there."""
        return self._do("iter")

    def __copy__(self) -> Any:
        """A copy that lives there."""
        return self._do("copy")

    def __deepcopy__(self, memo: Any) -> Any:
        """A deep copy that lives there."""
        return self._do("deepcopy")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        """Its end of a block. It never hides that an assertion of the test failed."""
        if error is None:
            return self._do("exit")
        base = next(each for each in kind.__mro__ if each.__module__ == "builtins")
        hidden = self._do("exit", getattr(kind, "remote", base), *error.args)
        failed = isinstance(error, AssertionError) and not hasattr(error, "of_the_answer")
        return bool(hidden) and not failed

    def _compared(self, operation: str, other: Any) -> Any:
        if self._answer.objects or isinstance(other, Remote):
            return self._do(operation, other)
        return NotImplemented

    def __instancecheck__(self, it: Any) -> bool:
        """Whether an object of the answer is one of this class."""
        if isinstance(it, Remote):
            return bool(self._do("isinstance", it))
        own = getattr(type(it), "remote", None)
        return own is not None and bool(self._do("issubclass", own))

    def __subclasscheck__(self, kind: Any) -> bool:
        """Whether a class of the answer is one below this one."""
        return isinstance(kind, Remote) and bool(self._do("issubclass", kind))


ALWAYS = (
    "len", "next", "bool", "str", "int", "float", "complex", "abs", "round", "format",
    "getitem", "setitem", "delitem", "index", "reversed", "enter", "neg", "pos",
    "invert", "dir",
)  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
    "lshift", "rshift", "divmod", "iadd", "isub", "imul", "iand", "ior", "ixor",
)  # fmt: skip


def _passed_on(name: str) -> Any:
    return lambda self, *args: self._do(name, *args)


def _compared(name: str) -> Any:
    return lambda self, other: self._compared(name, other)


def _reflected(name: str) -> Any:
    def reflected(self: Remote, other: Any) -> Any:
        return self._do("r" + name, other) if self._answer.objects else NotImplemented

    return reflected


for _name in ALWAYS:
    setattr(Remote, f"__{_name}__", _passed_on(_name))
for _name in (*COMPARISONS, *ARITHMETIC):
    setattr(Remote, f"__{_name}__", _compared(_name))
for _name in ARITHMETIC[:7]:
    setattr(Remote, f"__r{_name}__", _reflected(_name))
SAID = {"__doc__": property(lambda self: self._do("getattr", "__doc__"))}
"""What a class of one name has of its own."""
