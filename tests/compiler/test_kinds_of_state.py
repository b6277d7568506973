"""Functions that read Python's state in every way, from every kind of holder: what changes between calls is seen."""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import datetime
import enum
import functools
import importlib
import io
import itertools
import os
import random
import statistics
import sys
import sysconfig
import threading
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcore as gc
from gradcore.compiler.capture import trusted


class Plain:
    """An object with attributes."""

    value: Any


class Inheriting(Plain):
    """An object whose attribute may be its class's."""

    value: Any = 1.0


class Meta(type):
    """A metaclass with an attribute."""

    value: Any = 1.0


class WithProperty:
    """An object that computes its attribute."""

    def __init__(self) -> None:
        self.hidden: Any = None

    @property
    def value(self) -> Any:
        return self.hidden


class Dynamic:
    """An object that finds its attribute by ``__getattr__``."""

    def __init__(self) -> None:
        self.table: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return self.table[name]


class Slots:
    """An object with slots."""

    __slots__ = ("value",)


@dataclasses.dataclass
class Data:
    """A dataclass."""

    value: Any = None


class Elements(list[Any]):
    """A list of a class of one's own."""


class Table(dict[Any, Any]):
    """A dict of a class of one's own."""


class Kind(enum.Enum):
    """Two members."""

    ONE = 1.0
    TWO = 2.0


@dataclasses.dataclass
class Holder:
    """A place where a value is: how it is read, and how it is set."""

    read: Callable[[], Any]
    set: Callable[[Any], None]


def attribute(owner: Any, name: str = "value") -> Holder:
    read: Callable[[], Any] = {"value": lambda: owner.value, "__value__": lambda: owner.__value__}[name]
    return Holder(read, lambda value: setattr(owner, name, value))


def element(container: Any, key: Any) -> Holder:
    def put(value: Any) -> None:
        container[key] = value

    return Holder(lambda: container[key], put)


def cell() -> Holder:
    inside: Any = None

    def put(value: Any) -> None:
        nonlocal inside
        inside = value

    return Holder(lambda: inside, put)


def default() -> Holder:
    def function(value: Any = None) -> Any:
        return value

    return Holder(lambda: function(), lambda value: setattr(function, "__defaults__", (value,)))


def keyword_default() -> Holder:
    def function(*, value: Any = None) -> Any:
        return value

    return Holder(lambda: function(), lambda value: setattr(function, "__kwdefaults__", {"value": value}))


def partial() -> Holder:
    holders = [functools.partial(lambda value: value, None)]
    return Holder(lambda: holders[0](), lambda value: holders.__setitem__(0, functools.partial(lambda v: v, value)))


def cached() -> Holder:
    box: list[Any] = [None]

    @functools.lru_cache
    def found() -> Any:
        return box[0]

    def put(value: Any) -> None:
        box[0] = value
        found.cache_clear()

    return Holder(lambda: found(), put)


def positional() -> Holder:
    data = Data()

    def read() -> Any:
        match data:
            case Data(value):
                return value

    return Holder(read, lambda value: setattr(data, "value", value))


def context() -> Holder:
    import contextlib

    box = Plain()

    @contextlib.contextmanager
    def within() -> Any:
        yield box.value

    def read() -> Any:
        with within() as value:
            return value

    return Holder(read, lambda value: setattr(box, "value", value))


def of_generator() -> Holder:
    box = Plain()
    return Holder(
        lambda: sum(list(map(number, (box.value for _ in range(1))))), lambda value: setattr(box, "value", value)
    )


GLOBAL: Any = None


def _set_global(value: Any) -> None:
    globals()["GLOBAL"] = value


def classes() -> Any:
    return type("Made", (Inheriting,), {}), Meta("Made", (), {}), type("Meta", (Meta,), {})


def of_metaclass() -> Holder:
    meta = classes()[2]
    made = meta("Made", (), {})
    return Holder(lambda: made.value, attribute(meta).set)


#: Where a value may be.
HOLDERS: dict[str, Callable[[], Holder]] = {
    "attribute": lambda: attribute(Plain()), "inherited": lambda: attribute(Inheriting()),
    "class": lambda: attribute(classes()[0]), "dunder of a class": lambda: attribute(classes()[0], "__value__"),
    "metaclass": of_metaclass,
    "property": lambda: (lambda o: Holder(lambda: o.value, lambda v: setattr(o, "hidden", v)))(WithProperty()),
    "getattr": lambda: (lambda o: Holder(lambda: o.value, lambda v: o.table.update(value=v)))(Dynamic()),
    "slots": lambda: attribute(Slots()), "dataclass": lambda: attribute(Data()), "match": positional,
    "astuple": lambda: (lambda o: Holder(lambda: vars(o)["value"], attribute(o).set))(Data()),
    "computed name": lambda: (lambda o, n: Holder(lambda: getattr(o, n), attribute(o).set))(Plain(), "val" + "ue"),
    "namespace": lambda: attribute(types.SimpleNamespace()), "module": lambda: attribute(types.ModuleType("m")),
    "function": lambda: attribute(lambda: None), "global": lambda: Holder(lambda: GLOBAL, _set_global),
    "closure": cell, "default": default, "keyword default": keyword_default, "partial": partial, "cached": cached,
    "list": lambda: element([0, None], 1), "dict": lambda: element({"a": None}, "a"),
    "dict of numbers": lambda: element({1: None, 1.5: None}, 1.5),
    "own list": lambda: element(Elements([None]), 0), "own dict": lambda: element(Table(a=None), "a"),
    "deque": lambda: element(collections.deque([None]), 0),
    "default dict": lambda: element(collections.defaultdict(int), 0),
    "ordered dict": lambda: element(collections.OrderedDict(a=None), "a"),
    "chain map": lambda: element(collections.ChainMap({}, {"a": None}), "a"),
    "user list": lambda: element(collections.UserList([None]), 0),
    "context": context, "generator": of_generator, "nested": lambda: element([{"a": [None]}][0]["a"], 0),
}  # fmt: skip
#: Values before and after.
VALUES: list[Callable[[], tuple[Any, Any]]] = [
    lambda: (2.0, 3.0), lambda: (1, 2), lambda: (1, 1.0), lambda: (True, False), lambda: (True, 1), lambda: (0.0, -0.0),
    lambda: ("ab", "abc"), lambda: (None, 2.0), lambda: ([1.0], [1.0, 2.0]), lambda: ((1.0,), (1.0, 2.0)),
    lambda: ({"a": 1.0}, {"b": 1.0}), lambda: ({1.0, 2.0}, {1.0, 4.0}), lambda: (Kind.ONE, Kind.TWO),
    lambda: (int, float),
    lambda: (Elements([1.0]), [1.0]), lambda: (Table(a=1.0), {"a": 1.0}), lambda: (gc.ones(2), gc.zeros(2)),
    lambda: (gc.float32, gc.float64), lambda: (len, abs), lambda: ([1.0, [2.0]], [1.0, [3.0]]),
    lambda: (lambda: 1.0, lambda: 2.0), lambda: (gc.relu, gc.tanh), lambda: (Plain(), Inheriting()),
    lambda: (float("nan"), 1.0), lambda: (1 + 2j, 1 - 2j), lambda: (b"a", b"ab"), lambda: (slice(1), slice(0, 2)),
    lambda: (range(2), range(3)),
]  # fmt: skip
ONE, LIST = 2.0, [1.0]


def number(value: Any) -> float:
    """Return a number that says what a value is, as far as that can be seen."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, complex):
        return value.imag
    if isinstance(value, gc.Tensor):
        return float(value.shape[0])
    if isinstance(value, (list, tuple, set)):
        return sum(map(number, value)) + 10.0 * len(value)
    if isinstance(value, dict):
        return sum(number(each) for each in value.values()) + 3.0 * ("a" in value)
    return 7.0


#: What a function may do with a value, with a number as the outcome.
READS: dict[str, Callable[[Any], Any]] = {
    "number": number, "type": lambda v: 1.0 if type(v) is list else 2.0 if type(v) is float else 3.0,
    "class": lambda v: 1.0 if v.__class__ in (int, dict) else 2.0, "truth": lambda v: 2.0 if v else 3.0,
    "none": lambda v: 2.0 if v is None else 3.0, "equal": lambda v: 2.0 if v == ONE else 3.0,
    "same": lambda v: 2.0 if v is LIST else 3.0, "same type": lambda v: 2.0 if type(v) is type(ONE) else 3.0,
    "len": lambda v: float(len(v)) if hasattr(v, "__len__") else 2.0,
    "iterate": lambda v: sum(1.0 for _ in v) if isinstance(v, (list, tuple, dict, set, str, range)) else 2.0,
    "contains": lambda v: 2.0 if isinstance(v, (list, tuple, dict, set)) and 2.0 in v else 3.0,
    "call": lambda v: v() if isinstance(v, types.FunctionType) else 2.0,
    "string": lambda v: float(len(str(v))) if isinstance(v, (int, float, str, complex)) else 2.0,
    "format": lambda v: float(len(f"{v!r}")) if isinstance(v, (int, float, str, tuple)) else 2.0,
    "sorted": lambda v: sorted(v)[-1] if isinstance(v, set) else 2.0,
    "unpack": lambda v: list(v).pop() if isinstance(v, (list, tuple)) else 2.0,
    "attribute": lambda v: getattr(v, "value", 2.0), "name": lambda v: float(len(getattr(v, "__name__", "ab"))),
    "slice": lambda v: float(len("abcdef"[v])) if isinstance(v, slice) else 2.0,
    "max": lambda v: max(number(v), 2.5), "tensor": lambda v: v.sum() if isinstance(v, gc.Tensor) else 2.0,
}  # fmt: skip


def outcome(function: Any, x: gc.Tensor) -> Any:
    try:
        return repr(function(x).tolist())
    except (TypeError, AttributeError, ValueError, RuntimeError) as error:
        return type(error).__name__


def program(seed: int) -> tuple[Any, Holder, list[Any], str]:
    """Return a function, the holder that it reads, the values that are put there in turn, and what it does."""
    chance = random.Random(seed)
    kind, read = chance.choice([*HOLDERS]), chance.choice([*READS])
    chosen = chance.randrange(len(VALUES))
    holder, (before, after) = HOLDERS[kind](), VALUES[chosen]()
    get, use = holder.read, READS[read]
    if chance.random() < 0.5:

        def function(x: gc.Tensor) -> gc.Tensor:
            value = get()
            return (x * use(value)).exp() + 1
    else:

        def function(x: gc.Tensor) -> gc.Tensor:
            y = x + 1
            z = y * use(get())
            return z.sum() + y

    return (
        function,
        holder,
        [before, after, before] if chance.random() < 0.5 else [before, after],
        f"{kind}/{read}/{chosen}",
    )


def check(seed: int) -> bool:
    """Compare a program with eager execution; return whether it was compiled."""
    function, holder, values, text = program(seed)
    compiled, x = gc.compile(function, options={"cpp": False}), gc.ones(2) * 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, value in enumerate(values):
            holder.set(value)
            for _ in range(4 if i == 0 else 2):
                assert outcome(compiled, x) == outcome(function, x), f"seed {seed}: {text}"
    return bool(compiled._specializations)


@pytest.mark.parametrize("part", range(24))
def test_state_that_changes_between_calls(part: int) -> None:
    assert sum(check(seed) for seed in range(10 * part, 10 * part + 10)) > 2


def test_modules_are_imported_inside_for_the_first_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile a function that imports a module: the module's own code may do anything."""
    text = "import os, re, time\nFOUND = re.search('a', os.getcwd() + 'a')\ntime.time()\nSCALE = 2.0\n"
    (tmp_path / "imported_for_the_first_time.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    def function(x: gc.Tensor) -> gc.Tensor:
        import imported_for_the_first_time as module

        return x * module.SCALE

    compiled, x = gc.compile(function), gc.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [compiled(x).item() for _ in range(4)] == [2.0] * 4
        sys.modules["imported_for_the_first_time"].SCALE = 3.0  # type: ignore[attr-defined]
        assert [compiled(x).item() for _ in range(4)] == [3.0] * 4
    assert compiled._specializations
    del sys.modules["imported_for_the_first_time"]


@pytest.mark.parametrize("folder", ["purelib", "platlib", "data"])
def test_code_is_trusted_by_its_name_alone(folder: str) -> None:
    """Trust a module by its name: the folder of its file counts for the standard library alone."""
    paths = sysconfig.get_paths()
    for name in ("mylib", "transformers.models", "scipy.stats", "math"):
        assert not trusted.is_library({"__name__": name, "__file__": f"{paths[folder]}/{name}.py"})
    assert trusted.is_library({"__name__": "collections", "__file__": f"{paths['stdlib']}/collections/__init__.py"})
    for name in ("dataclasses", "pathlib", "statistics", "copy", "argparse"):
        assert not trusted.is_library({"__name__": name, "__file__": f"{paths['stdlib']}/{name}.py"})


LIBRARY = """
import random

SCALE, calls = 2.0, []


class Config:
    scale = 2.0


config = Config()


def set_scale(scale):
    global SCALE
    SCALE = config.scale = scale


def scaled(x):
    return x * SCALE * config.scale


def layerdrop(x):
    return x * 2 if random.random() > 0.5 else x


def counted(x):
    calls.append(1)
    return x * len(calls)
"""


def outcomes_of_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what functions of a module give that is imported from a folder, and whether they have programs."""
    folder.mkdir()
    (folder / "library_of_mine.py").write_text(LIBRARY)
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.syspath_prepend(str(folder))
        patch.delitem(sys.modules, "library_of_mine", raising=False)
        module = importlib.import_module("library_of_mine")
        patch.setitem(sys.modules, "library_of_mine", module)
        out: list[Any] = []
        for name in ("scaled", "layerdrop", "counted"):
            random.seed(1)
            function, x = getattr(module, name), gc.ones(1)
            compiled = gc.compile(lambda x, function=function: function(x))
            out.append([compiled(x).item() for _ in range(8)])
            module.set_scale(3.0)
            out += [[compiled(x).item() for _ in range(4)], bool(compiled._specializations)]
        return out


def test_a_file_beside_the_script_and_in_site_packages_are_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = outcomes_of_library(tmp_path / "beside", monkeypatch)
    packages = tmp_path / "site-packages"
    monkeypatch.setattr(trusted, "_STANDARD", (*trusted._STANDARD, os.path.join(tmp_path, "")))
    assert outcomes_of_library(packages, monkeypatch) == beside
    assert beside[:3] == [[4.0] * 8, [9.0] * 4, True]
    assert beside[6:8] == [[*map(float, range(1, 9))], [*map(float, range(9, 13))]]
    random.seed(1)
    assert beside[3] == [2.0 if random.random() > 0.5 else 1.0 for _ in range(8)]


#: What functions do with NumPy, and whether that can be part of a program.
WITH_NUMPY: dict[str, tuple[Callable[[], Any], bool]] = {
    "ufunc": (lambda: np.sqrt(4.0), True), "constant": (lambda: np.pi, True), "type": (lambda: np.float32(2), True),
    "dispatched": (lambda: float(np.mean([1.0, 2.0])), True), "linalg": (lambda: np.linalg.norm([3.0, 4.0]), True),
    "made": (lambda: float(np.arange(3)[1]) + 1, True), "settings": (lambda: np.get_printoptions()["precision"], False),
    "errors": (lambda: len(np.geterr()), False), "random": (lambda: np.random.rand(), False),
    "generator": (lambda: np.random.default_rng(0).random(), False),
    "file": (lambda: float(np.loadtxt(io.StringIO("1 2")).sum()), False),
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_NUMPY)
def test_functions_of_numpy(name: str) -> None:
    read, is_pure = WITH_NUMPY[name]
    compiled = gc.compile(lambda x: x * float(read()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            compiled(gc.ones(1))
    assert bool(compiled._specializations) is is_pure, compiled._left


#: Calls that give other values, or do something, each time; by where the function finds them.
IMPURE: dict[str, Any] = {
    "now": datetime.datetime.now, "today": datetime.date.today, "subclasses": Plain.__subclasses__, "time": time.time,
    "draw": random.Random(0).random, "generator": np.random.default_rng(0).random, "count": itertools.count().__next__,
    "read": io.BytesIO(b"a").read, "append": collections.deque().append,
    "get": contextvars.ContextVar("v", default=1).get,
    "pid": os.getpid, "exists": Path("nothing").exists, "gauss": statistics.NormalDist().samples,
    "unbound": io.BytesIO.getvalue, "recursion": sys.getrecursionlimit, "lock": threading.Lock().acquire,
}  # fmt: skip


@pytest.mark.parametrize("place", ["closure", "default", "attribute", "element", "partial", "map"])
@pytest.mark.parametrize("name", IMPURE)
def test_calls_that_are_not_pure_are_refused_wherever_they_are_found(name: str, place: str) -> None:
    given = {"gauss": (1,), "append": (1,), "unbound": (io.BytesIO(),), "lock": (False,)}.get(name, ())
    call, box = IMPURE[name], Plain()
    partial = functools.partial(call, *given)
    box.value = call
    functions: dict[str, Any] = {
        "closure": lambda x: (call(*given), x * 2)[1],
        "default": lambda x, call=call: (call(*given), x * 2)[1],
        "attribute": lambda x: (box.value(*given), x * 2)[1],
        "element": lambda x, table={"a": [call]}: (table["a"][0](*given), x * 2)[1],
        "partial": lambda x: (partial(), x * 2)[1],
        "map": lambda x: ([*map(call, given)] if given else sorted([0], key=lambda _: 1) and partial(), x * 2)[1],
    }
    compiled = gc.compile(functions[place])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            compiled(gc.ones(1))
    assert not compiled._specializations
    assert compiled._left
