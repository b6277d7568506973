"""Interpreter of pickled structures: a closed list of instructions, on objects that the interpreter has created.

A file cannot reach other objects of the program. Names are looked up in a table; only functions in another table are
called; and state is set only on containers created by this file, or on objects of classes that the user has allowed.
Time and memory grow linearly with the length of the structure.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from gradcore.core.size import Size

__all__ = ["Interpreter", "check_names"]

#: The number of bytes that calls may copy: per byte of the file, and in addition for every file.
ROOM_PER_BYTE, ROOM = 16, 1 << 16
#: Limits for keys of dicts and sets: the number of values in a key, and of keys in a container with the same hash.
KEY_VALUES, EQUAL_HASHES = 1000, 100
#: Containers that are made by a call.
CONTAINERS: tuple[Any, ...] = (set, frozenset, OrderedDict, Counter)

Step = Callable[["Interpreter"], None]
STEPS: dict[int, Step] = {}


def error(text: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(text)


def check_names(state: Any, owner: str) -> dict[str, Any]:
    """Return `state`, after checking that its keys can be attribute names of `owner`.

    Raises
    ------
    pickle.UnpicklingError
        If the state is not a dict, or has names that mean something to Python.
    """
    if type(state) not in (dict, OrderedDict):
        raise error(f"the state of {owner} in the file is {type(state).__name__} instead of dict")
    for name in state:
        if type(name) is not str or name.startswith("__"):
            raise error(f"the file gives {owner} the attribute {name!r}, which it must not set")
    return state  # type: ignore[no-any-return]


class Interpreter:
    """State of one run over a pickled structure.

    Parameters
    ----------
    structure : bytes
        A pickle.
    size : int
        The length of the whole file.
    find : callable
        ``find(name)`` returns the object with this full name, or raises if the file must not use it.
    calls : callable
        ``calls(obj)`` returns the function that calls the object `obj`, or None if files must not call it.
    trusted : callable
        ``trusted(value)`` returns whether the user has allowed a class or function.
    memory : callable
        ``memory(reference)`` returns the memory to which the file refers.
    """

    def __init__(
        self,
        structure: bytes,
        size: int,
        find: Callable[[str], Any],
        calls: Callable[[Any], Any],
        trusted: Callable[[Any], bool],
        memory: Callable[[Any], Any],
    ) -> None:
        self.data, self.at = structure, 0
        self.find, self.calls, self.trusted, self.memory = find, calls, trusted, memory
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.room = ROOM + ROOM_PER_BYTE * size
        self.hashes: Counter[tuple[int, int]] = Counter()

    def run(self) -> Any:
        """Return the object that the structure describes.

        Raises
        ------
        pickle.UnpicklingError
            If the structure is damaged, or uses something that is not allowed.
        """
        steps, data = STEPS, self.data
        try:
            while True:
                instruction = data[self.at]
                self.at += 1
                if instruction == pickle.STOP[0]:
                    return self.stack.pop()
                steps[instruction](self)
        except (pickle.UnpicklingError, MemoryError):
            raise
        except IndexError:
            raise error("the structure in the file ends too soon, or takes more values than are on the stack") from None
        except KeyError as problem:
            if problem.args == (instruction,):
                raise error(f"the structure in the file has the unknown instruction {instruction}") from None
            raise error(f"the structure in the file cannot be read: {problem!r}") from None
        except (ArithmeticError, AttributeError, EOFError, RuntimeError, TypeError, ValueError) as problem:
            raise error(f"the structure in the file cannot be read: {problem}") from None

    # -- reading ------------------------------------------------------------------------------------------------------

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        start, self.at = self.at, self.at + count
        if count < 0 or self.at > len(self.data):
            raise error("the structure in the file ends too soon")
        return self.data[start : self.at]

    def byte(self) -> int:
        """Return the next byte as an int."""
        self.at += 1
        return self.data[self.at - 1]

    def number(self, layout: str) -> Any:
        """Return the next number of fixed length, with the struct format `layout`."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def line(self) -> str:
        """Return the bytes up to the end of the line."""
        end = self.data.find(b"\n", self.at, self.at + 4096)
        if end < 0:
            raise error("the structure in the file has a line without an end")
        line, self.at = self.data[self.at : end], end + 1
        return line.decode("utf-8")

    # -- the stack ----------------------------------------------------------------------------------------------------

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop_marked(self) -> list[Any]:
        """Pop the values since the last mark, and return them."""
        result, self.stack = self.stack, self.below.pop()
        return result

    def spend(self, count: int) -> None:
        """Count bytes that a call copies, and raise an error above a limit.

        A short file could otherwise repeat a large copy.
        """
        self.room -= count
        if self.room < 0:
            raise error("the structure in the file asks for far more memory than the file has")

    # -- containers ---------------------------------------------------------------------------------------------------

    def key(self, container: Any, key: Any) -> Any:
        """Return `key` if it can be a key of `container`. It must be fast to hash, and few keys may share its hash."""
        if type(key) in (str, bytes, bool, float, type(None)) or (type(key) is int and key.bit_length() <= 64):
            return key  # few of these keys have the same hash
        waiting, count = [key], 0
        while waiting:
            value = waiting.pop()
            if type(value) in (tuple, frozenset, Size):
                count += len(value)
                waiting.extend(value if count <= KEY_VALUES else ())
            elif type(value) is int:
                count += value.bit_length() // 64
        if count > KEY_VALUES:
            raise error("a key in the file has too many parts")
        self.spend(count)
        slot = id(container), hash(key)
        self.hashes[slot] += 1
        if self.hashes[slot] > EQUAL_HASHES:
            raise error("too many keys in the file have the same hash")
        return key

    def put(self, container: Any, items: list[Any]) -> None:
        """Put `items`, alternating keys and values, into a dict that this file created."""
        if len(items) % 2:
            raise error("a key in the file has no value")
        if type(container) not in (dict, OrderedDict, Counter) and not self.trusted(type(container)):
            raise error(f"the file puts items into {type(container).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            container[self.key(container, key)] = value

    def extend(self, container: Any, items: list[Any]) -> None:
        """Append items to a list that this file created."""
        if type(container) is not list and not self.trusted(type(container)):
            raise error(f"the file appends to {type(container).__name__}")
        container.extend(items)

    def add(self, container: Any, items: list[Any]) -> None:
        """Add items to a set that this file created."""
        if type(container) is not set:
            raise error(f"the file adds elements to {type(container).__name__}")
        for item in items:
            container.add(self.key(container, item))

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(self, function: Any, args: Any, named: dict[str, Any] | None = None) -> Any:
        """Return the result of calling a function, if files may call it."""
        if type(args) is not tuple:
            raise error(f"the file calls a function with {type(args).__name__} for arguments")
        self.spend(64 + sum(_extent(arg) for arg in args))
        if self.trusted(function):
            return function(*args, **named or {})
        if any(function is cls for cls in CONTAINERS) and not named:
            return self.container(function, *args)
        checked = self.calls(function)
        if checked is None or named:
            raise error(f"the file calls {function!r}, which files must not call")
        return checked(*args)

    def container(self, cls: Any, content: Any = ()) -> Any:
        """Return a new container of class `cls`, with the content passed to its constructor."""
        if cls in (set, frozenset):
            results: set[Any] = set()
            self.add(results, _sequence(content))
            return results if cls is set else frozenset(results)
        items = content.items() if type(content) is dict else map(_sequence, _sequence(content))
        out = cls()
        for key, value in items:
            self.put(out, [key, value])
        return out

    def make_object(self, cls: Any, args: Any, named: dict[str, Any] | None = None) -> Any:
        """Return an object of a class that the user has allowed, or an empty container."""
        if self.trusted(cls) and isinstance(cls, type) and type(args) is tuple:
            return cls.__new__(cls, *args, **named or {})
        if cls is OrderedDict and args == () and not named:
            return OrderedDict()
        raise error(f"the file makes an object of {cls!r}, which files must not create")

    def build(self, target: Any, state: Any) -> None:
        """Set the state of an object that this file created."""
        self.spend(64 + _extent(state))
        if type(target) is OrderedDict:
            target.__dict__.update(check_names(state, "OrderedDict"))
            return
        if not self.trusted(type(target)):
            raise error(f"the file gives state to {type(target).__name__}")
        take_state = getattr(target, "__setstate__", None)
        if take_state is not None:
            take_state(state)
            return
        attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
        if attributes:
            target.__dict__.update(check_names(attributes, type(target).__name__))
        for name, value in check_names(slots or {}, type(target).__name__).items():
            setattr(target, name, value)


def _sequence(value: Any) -> Any:
    if type(value) not in (list, tuple):
        raise error(f"the file makes a container of {type(value).__name__}")
    return value


def _extent(value: Any) -> int:
    """Return the approximate size in bytes of a copy of a value."""
    if type(value) in (str, bytes, bytearray):
        return len(value)
    return 32 * len(value) if type(value) in (list, tuple, dict, set, frozenset, OrderedDict, Counter) else 0


# -- the instructions --------------------------------------------------------------------------------------------------


def step(opcode: bytes) -> Callable[[Step], Step]:
    """Return a decorator that registers a function as the implementation of an instruction."""

    def note(function: Step) -> Step:
        STEPS[opcode[0]] = function
        return function

    return note


def _install() -> None:
    """Register the instructions that read or make one value."""
    values: dict[bytes, Callable[[Interpreter], Any]] = {
        pickle.NONE: lambda run: None,
        pickle.NEWTRUE: lambda run: True,
        pickle.NEWFALSE: lambda run: False,
        pickle.BININT: lambda run: run.number("<i"),
        pickle.BININT1: lambda run: run.byte(),
        pickle.BININT2: lambda run: run.number("<H"),
        pickle.LONG1: lambda run: int.from_bytes(run.take(run.byte()), "little", signed=True),
        pickle.LONG4: lambda run: int.from_bytes(run.take(run.number("<i")), "little", signed=True),
        pickle.INT: lambda run: _decimal(run.line()),
        pickle.LONG: lambda run: _decimal(run.line().removesuffix("L")),
        pickle.BINFLOAT: lambda run: run.number(">d"),
        pickle.FLOAT: lambda run: float(run.line()),
        pickle.SHORT_BINSTRING: lambda run: run.take(run.byte()).decode("ascii"),
        pickle.BINSTRING: lambda run: run.take(run.number("<i")).decode("ascii"),
        pickle.SHORT_BINUNICODE: lambda run: run.take(run.byte()).decode("utf-8", "surrogatepass"),
        pickle.BINUNICODE: lambda run: run.take(run.number("<I")).decode("utf-8", "surrogatepass"),
        pickle.BINUNICODE8: lambda run: run.take(run.number("<Q")).decode("utf-8", "surrogatepass"),
        pickle.SHORT_BINBYTES: lambda run: run.take(run.byte()),
        pickle.BINBYTES: lambda run: run.take(run.number("<I")),
        pickle.BINBYTES8: lambda run: run.take(run.number("<Q")),
        pickle.BYTEARRAY8: lambda run: bytearray(run.take(run.number("<Q"))),
        pickle.EMPTY_LIST: lambda run: [],
        pickle.EMPTY_TUPLE: lambda run: (),
        pickle.EMPTY_DICT: lambda run: {},
        pickle.EMPTY_SET: lambda run: set(),
        pickle.LIST: lambda run: run.pop_marked(),
        pickle.TUPLE: lambda run: tuple(run.pop_marked()),
        pickle.TUPLE1: lambda run: (run.stack.pop(),),
        pickle.TUPLE2: lambda run: _last(run, 2),
        pickle.TUPLE3: lambda run: _last(run, 3),
        pickle.GLOBAL: lambda run: run.find(f"{run.line()}.{run.line()}"),
        pickle.BINGET: lambda run: _recall(run, run.byte()),
        pickle.LONG_BINGET: lambda run: _recall(run, run.number("<I")),
        pickle.GET: lambda run: _recall(run, _decimal(run.line())),
        pickle.BINPERSID: lambda run: run.memory(run.stack.pop()),
    }
    for opcode, value in values.items():
        step(opcode)(lambda run, value=value: run.push(value(run)))  # type: ignore[misc]
    positions: dict[bytes, Callable[[Interpreter], int]] = {
        pickle.BINPUT: lambda run: run.byte(),
        pickle.LONG_BINPUT: lambda run: run.number("<I"),
        pickle.PUT: lambda run: int(_decimal(run.line())),
        pickle.MEMOIZE: lambda run: len(run.memo),
    }
    for opcode, position in positions.items():
        step(opcode)(lambda run, position=position: run.memo.__setitem__(position(run), run.stack[-1]))  # type: ignore[misc]


def _decimal(text: str) -> int | bool:
    if text in ("00", "01"):  # bools in the first protocols of pickle
        return text == "01"
    if not 0 < len(text) <= 1000:
        raise error("a number in the file has too many digits")
    return int(text)


def _last(run: Interpreter, count: int) -> tuple[Any, ...]:
    if len(run.stack) < count:
        raise error("the structure in the file takes more values than are on the stack")
    result = tuple(run.stack[-count:])
    del run.stack[-count:]
    return result


def _recall(run: Interpreter, position: int) -> Any:
    try:
        return run.memo[position]
    except KeyError:
        raise error(f"the structure in the file refers to value {position}, which it has not stored") from None


@step(pickle.PROTO)
def _proto(run: Interpreter) -> None:
    protocol = run.byte()
    if protocol > pickle.HIGHEST_PROTOCOL:
        raise error(f"the structure in the file is of pickle's unknown protocol {protocol}")


@step(pickle.FRAME)
def _frame(run: Interpreter) -> None:
    if run.number("<Q") > len(run.data) - run.at:
        raise error("the structure in the file ends too soon")


@step(pickle.MARK)
def _mark(run: Interpreter) -> None:
    run.below.append(run.stack)
    run.stack = []


@step(pickle.POP)
def _pop(run: Interpreter) -> None:
    if run.stack:
        run.stack.pop()
    else:
        run.pop_marked()


@step(pickle.POP_MARK)
def _pop_mark(run: Interpreter) -> None:
    run.pop_marked()


@step(pickle.APPEND)
def _append(run: Interpreter) -> None:
    item = run.stack.pop()
    run.extend(run.stack[-1], [item])


@step(pickle.APPENDS)
def _appends(run: Interpreter) -> None:
    items = run.pop_marked()
    run.extend(run.stack[-1], items)


@step(pickle.SETITEM)
def _setitem(run: Interpreter) -> None:
    items = list(_last(run, 2))
    run.put(run.stack[-1], items)


@step(pickle.SETITEMS)
def _setitems(run: Interpreter) -> None:
    items = run.pop_marked()
    run.put(run.stack[-1], items)


@step(pickle.ADDITEMS)
def _additems(run: Interpreter) -> None:
    items = run.pop_marked()
    run.add(run.stack[-1], items)


@step(pickle.DICT)
def _dict(run: Interpreter) -> None:
    items = run.pop_marked()
    run.push({})
    run.put(run.stack[-1], items)


@step(pickle.FROZENSET)
def _frozenset(run: Interpreter) -> None:
    items: set[Any] = set()
    run.add(items, run.pop_marked())
    run.push(frozenset(items))


@step(pickle.STACK_GLOBAL)
def _stack_global(run: Interpreter) -> None:
    module, name = _last(run, 2)
    if type(module) is not str or type(name) is not str:
        raise error("the file refers to an object by a name that is not a string")
    run.push(run.find(f"{module}.{name}"))


@step(pickle.REDUCE)
def _reduce(run: Interpreter) -> None:
    function, args = _last(run, 2)
    run.push(run.call(function, args))


@step(pickle.NEWOBJ)
def _newobj(run: Interpreter) -> None:
    cls, args = _last(run, 2)
    run.push(run.make_object(cls, args))


@step(pickle.NEWOBJ_EX)
def _newobj_ex(run: Interpreter) -> None:
    cls, args, named = _last(run, 3)
    run.push(run.make_object(cls, args, check_names(named, "call")))


@step(pickle.BUILD)
def _build(run: Interpreter) -> None:
    state = run.stack.pop()
    run.build(run.stack[-1], state)


_install()
