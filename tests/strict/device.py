"""The strict device: NumPy underneath, CuPy's manners on top.

Its arrays refuse conversion to NumPy, arrays of the other index, NumPy arrays as operands, and every function, method
or keyword argument that CuPy does not have; reductions return 0-d arrays. Waiting for the device and copies to the host
are counted, also those that CuPy makes on its own. Where CuPy's functions are narrower than NumPy's of the same name,
or fail in silence, so do these.
"""

from __future__ import annotations

import contextlib
import operator
import shutil
import threading
import time
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcore.backends import sync_debug
from gradcore.backends.base import Backend
from gradcore.backends.cupy.backend import CupyBackend
from gradcore.backends.numpy.openblas import SCIPY
from gradcore.backends.portable.elementwise import Elementwise
from gradcore.backends.portable.linear_algebra import LinearAlgebra
from gradcore.backends.portable.movement import Movement
from gradcore.backends.random import philox
from tests.strict import api, capture
from tests.strict.blas import FakeCublas
from tests.strict.capture import queued
from tests.strict.watching import tell

API = api.load()


class _Current(threading.local):
    """The current device of each thread."""

    index = 0


_current = _Current()


class StrictError(AssertionError):
    """The code did something that would fail, or be slow in silence, on a GPU."""


class Counts(Counter[str]):
    """How often the host waited, and what was copied; neither can be captured."""

    def __setitem__(self, name: str, value: int) -> None:
        if capture.is_on() and name != "between devices":
            capture.refuse(f"operation not permitted when stream is capturing: {name}")
        if name == "sync":
            tell().waited()
        super().__setitem__(name, value)


COUNTS = Counts()


def made(compute: Callable[[], Any]) -> Any:
    """Return the new result of a function. During a capture, return memory that a replay fills."""
    if not capture.is_on():
        return _outside(compute())
    with np.errstate(all="ignore"):
        result = _outside(compute())
    queued(lambda: _refill(result, compute()))
    return result


def _refill(old: Any, new: Any) -> None:
    if isinstance(old, StrictArray):
        if not np.may_share_memory(old._a, new):  # a view shows what its memory holds
            old._a[...] = new
    elif isinstance(old, (list, tuple)):
        for a, b in zip(old, new, strict=True):
            _refill(a, b)


def current() -> int:
    return _current.index


@contextlib.contextmanager
def use(index: int) -> Any:
    before, _current.index = _current.index, index
    try:
        yield
    finally:
        _current.index = before


def _inside(value: Any) -> Any:
    """Return the NumPy arrays of strict arrays, for use on the current device."""
    if isinstance(value, StrictArray):
        if value.index != current():
            raise StrictError(f"an array of device {value.index} is used while device {current()} is current")
        tell().read(value._a)
        return value._a
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {np.ndarray}")
    if isinstance(value, (list, tuple)):
        return type(value)(_inside(v) for v in value)
    return value


def _outside(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return StrictArray(np.asarray(value), current())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_outside, value))
    return type(value)(map(_outside, value)) if isinstance(value, (list, tuple)) else value


def _checked(name: str, known: list[str] | None, named: dict[str, Any]) -> None:
    unknown = [] if known is None else [n for n in named if n not in known]
    if unknown:
        raise StrictError(f"cupy's {name} has no keyword argument {unknown}; it has {known}")


#: Strict arrays by the identity of the NumPy arrays in them, which they keep alive.
_wrappers: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def owner(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array that owns the memory."""
    while True:
        base: Any = a.base
        while base is not None and not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)  # NumPy's as_strided puts something in between
        if base is None:
            return a
        a = base


class StrictArray:
    """An array of one strict device."""

    __slots__ = ("__weakref__", "_a", "_parent", "index")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, a: np.ndarray[Any, Any], index: int) -> None:
        self._a, self.index = a, index
        self._parent = _wrappers.get(id(owner(a)))  # a view keeps what it is a view of
        tell().made(a, index)
        _wrappers.setdefault(id(a), self)

    @property
    def base(self) -> Any:
        """The array that this is a view of: always the same object, as CuPy's."""
        found = owner(self._a)
        if found is self._a:
            return None
        if self._parent is None:
            self._parent = StrictArray(found, self.index)
        return self._parent

    def __array__(self, *args: Any, **named: Any) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array."
        )

    def __array_ufunc__(self, *args: Any, **named: Any) -> Any:
        raise StrictError("a NumPy function was called with an array of the device; go through xp")

    def __array_function__(self, *args: Any, **named: Any) -> Any:
        raise StrictError("a NumPy function was called with an array of the device; go through xp")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in API["methods"]:
            raise AttributeError(f"cupy.ndarray has no attribute {name!r}")
        if name == "data":
            return types.SimpleNamespace(ptr=self._a.__array_interface__["data"][0], mem=owner(self._a))
        if name == "device":
            return type("Device", (), {"id": self.index})
        value = getattr(self._a, name) if name not in ("get", "set") else None
        known = API["methods"][name]
        if known == "attribute":
            return (
                value
                if name in ("shape", "dtype", "ndim", "size", "strides", "itemsize", "nbytes", "flags")
                else _outside(value)
            )

        def method(*args: Any, **named: Any) -> Any:
            _checked(f"ndarray.{name}", known, named)
            if name in ("get", "item", "tolist", "tobytes"):
                COUNTS["to host"] += 1
                tell().read(self._a)
                tell().waited()
                return self._a.copy() if name == "get" else value(*args, **named)
            if name == "nonzero":
                COUNTS["sync"] += 1
            if name == "set":  # from memory of the host, which is read when the stream comes to it
                tell().read(args[0])
                tell().written(_inside(self))
                return queued(lambda: self._a.__setitem__(..., args[0]))
            _inside(self)
            inside = [_inside(self), *_inside(args)], {k: _inside(v) for k, v in named.items()}

            def compute() -> Any:
                given, settings = list(inside[0]), dict(inside[1])
                _wrapping(name, given, settings)
                return value(*given[1:], **settings)

            if name in WRITING_METHODS:
                tell().written(self._a)
                return queued(compute)
            return _written(named, compute)

        return method

    def __getitem__(self, index: Any) -> Any:
        _count_masks(index)
        a, index = _inside(self), _index(index)
        return made(lambda: a[_wrapped(a, index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        _count_masks(index)
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError(f"Unsupported type {np.ndarray}")
        if _is_advanced(index) and not isinstance(value, StrictArray):
            COUNTS["to device"] += 1
        index = _index(index)
        a, inside = _inside(self), value if isinstance(value, np.ndarray) else _inside(value)
        tell().written(a)
        if isinstance(value, StrictArray):
            _apart("assignment", a if _is_advanced(index) else a[index], inside)
        queued(lambda: a.__setitem__(_wrapped(a, index), inside))

    def __len__(self) -> int:
        return len(self._a)

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(self._a))])

    def _scalar(self, convert: Any) -> Any:
        COUNTS["sync"] += 1
        tell().read(self._a)
        tell().waited()
        return convert(self._a)

    def __bool__(self) -> bool:
        return self._scalar(bool)  # type: ignore[no-any-return]

    def __float__(self) -> float:
        return self._scalar(float)  # type: ignore[no-any-return]

    def __int__(self) -> int:
        return self._scalar(int)  # type: ignore[no-any-return]

    def __index__(self) -> int:
        return self._scalar(operator.index)  # type: ignore[no-any-return]

    def __complex__(self) -> complex:
        return self._scalar(complex)  # type: ignore[no-any-return]

    def __copy__(self) -> Any:
        return made(self._a.copy)

    def __repr__(self) -> str:
        return f"StrictArray({self._a!r}, index={self.index})"


def _index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_index(i) for i in index)
    return _inside(index) if isinstance(index, StrictArray) else index


def _wrapped(a: np.ndarray[Any, Any], index: Any) -> Any:
    """Return an index with integer arrays taken modulo the size, as CuPy does silently."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if not any(isinstance(i, np.ndarray) and i.dtype.kind in "iu" for i in parts):
        return index
    used = sum(
        i.ndim if isinstance(i, np.ndarray) and i.dtype == bool else i is not None and i is not ... for i in parts
    )
    dim = 0
    for place, i in enumerate(parts):
        if isinstance(i, np.ndarray) and i.dtype.kind in "iu":
            parts[place] = i % (a.shape[dim] or 1)
        dim += a.ndim - used if i is ... else i.ndim if isinstance(i, np.ndarray) and i.dtype == bool else i is not None
    return tuple(parts)


def _wrapping(name: str, args: list[Any], named: dict[str, Any]) -> None:
    """Make the indices that a function takes wrap around."""
    if name == "take":  # not by NumPy's mode "wrap", which counts: memory that a replay will fill has any indices
        axis = named.get("axis", args[2] if len(args) > 2 else None)
        args[1] = args[1] % ((args[0].size if axis is None else args[0].shape[axis]) or 1)
    elif name == "take_along_axis":
        args[1] = args[1] % (args[0].shape[named.get("axis", args[2] if len(args) > 2 else -1)] or 1)
    elif name.endswith(".at"):
        args[1] = _wrapped(args[0], args[1])


def _is_advanced(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(i, (StrictArray, list, np.ndarray)) for i in parts)


def _count_masks(index: Any) -> None:
    for i in index if isinstance(index, tuple) else (index,):
        if isinstance(i, StrictArray) and i._a.dtype == bool and i._a.ndim:
            COUNTS["sync"] += 1
        elif isinstance(i, (list, np.ndarray)):
            COUNTS["to device"] += 1


def _takes_over(other: Any) -> bool:
    """Whether the other operand's own operator runs, as in CuPy: that of arrays without the protocol."""
    return getattr(other, "__array_ufunc__", 0) is None


def _operators() -> None:
    names = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
    for name in names:
        function = getattr(operator, f"{name}_" if name in ("and", "or") else name)
        inplace = getattr(operator, f"i{name}")

        def forward(self: Any, other: Any, f: Any = function, name: str = name) -> Any:
            if _takes_over(other):
                return NotImplemented
            _refuse_products(name)
            a, b = _inside(self), _inside(other)
            return made(lambda: f(a, b))

        def backward(self: Any, other: Any, f: Any = function) -> Any:
            a, b = _inside(other), _inside(self)
            return made(lambda: f(a, b))

        def in_place(self: Any, other: Any, f: Any = inplace) -> Any:
            if _takes_over(other):
                return NotImplemented
            a, b = _inside(self), _inside(other)
            _apart("in-place arithmetic", a, b)
            tell().written(a)
            queued(lambda: f(a, b))
            return self

        setattr(StrictArray, f"__{name}__", forward)
        setattr(StrictArray, f"__r{name}__", backward)
        setattr(StrictArray, f"__i{name}__", in_place)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        f = getattr(operator, name)

        def compare(self: Any, other: Any, f: Any = f) -> Any:
            if _takes_over(other):
                return NotImplemented
            a, b = _inside(self), _inside(other)
            return made(lambda: f(a, b))

        setattr(StrictArray, f"__{name}__", compare)
    for name in ("neg", "pos", "abs", "invert"):
        f = getattr(operator, name)
        setattr(StrictArray, f"__{name}__", lambda self, f=f: _applied(f, _inside(self)))


def _apart(name: str, out: Any, operand: Any) -> None:
    """Refuse to read what is written meanwhile, elsewhere: NumPy makes a copy first, CuPy does not."""
    if not isinstance(operand, np.ndarray) or not isinstance(out, np.ndarray) or not np.may_share_memory(out, operand):
        return
    same = out.__array_interface__["data"] == operand.__array_interface__["data"] and out.strides == operand.strides
    if not (same and out.shape == operand.shape) and np.shares_memory(out, operand, max_work=100_000):
        raise StrictError(f"{name} reads memory that it writes in another order")


def _outputs(out: Any) -> tuple[Any, ...]:
    return () if out is None else out if isinstance(out, tuple) else (out,)


def _applied(f: Callable[[Any], Any], a: Any) -> Any:
    return made(lambda: f(a))


def _written(named: dict[str, Any], compute: Callable[[], Any]) -> Any:
    """Return the result of a function that may write to ``out``."""
    out = named.get("out")
    if out is None:
        return made(compute)
    for each in out if isinstance(out, tuple) else (out,):
        tell().written(each._a)
    queued(compute)
    return out


def _refuse_products(name: str) -> None:
    """cuBLAS, as CuPy calls it, allocates and chooses as it runs; so do the libraries of linear algebra."""
    if capture.is_on() and (name.rpartition(".")[2] in PRODUCTS or name.startswith(("linalg.", "scipy_linalg."))):
        capture.refuse(name)


_operators()


class _Function:
    """A function of CuPy, computed by NumPy's (or SciPy's) function of that name."""

    def __init__(self, name: str, function: Any, known: list[str] | None) -> None:
        self.name, self.function, self.known = name, function, known

    def __call__(self, *args: Any, **named: Any) -> Any:
        _checked(self.name, self.known, named)
        if self.name == "asnumpy":
            COUNTS["to host"] += 1
            tell().read(args[0]._a)
            tell().waited()
            return np.array(args[0]._a)
        if self.name in CONVERSIONS and args and not isinstance(args[0], StrictArray):
            COUNTS["to device"] += 1
            named.pop("blocking", None)
            return _outside(np.array(_inside_list(args[0]), *args[1:], **named))
        if self.name == "array" and isinstance(args[0], StrictArray) and args[0].index != current():
            COUNTS["between devices"] += 1
            tell().copied(args[0]._a, args[0].index)
            return StrictArray(args[0]._a.copy(), current())
        if self.name in EMPTY:  # which a graph does not write to
            return _outside(self.function(*(_inside(a) for a in args), **named))
        if self.name in WAITING:
            COUNTS["sync"] += 1
        if self.name in api.AT_DTYPES and args[0].dtype.name not in api.AT_DTYPES[self.name]:
            raise StrictError(f"cupy's {self.name} does not do {args[0].dtype}")
        if self.name == "linalg.solve" and args[0].shape[:-1] != args[1].shape[: args[0].ndim - 1]:
            raise StrictError(f"cupy's linalg.solve does not broadcast {args[0].shape} and {args[1].shape}")
        if not (self.name == "dot" and args[0].ndim == args[1].ndim == 1):  # a sum of products
            _refuse_products(self.name)
        inside = list(_inside(args)), {k: _inside(v) for k, v in named.items()}
        if self.name == "copyto":
            _apart(self.name, *inside[0])
        for out in _outputs(inside[1].get("out")):
            for operand in inside[0]:
                _apart(self.name, out, operand)
        if self.name.endswith(".at") or self.name in WRITING:
            tell().written(inside[0][0])
            return queued(lambda: self._computed(*inside[0], **inside[1]))
        return _written(named, lambda: self._computed(*inside[0], **inside[1]))

    def _computed(self, *given: Any, **named: Any) -> Any:
        args = list(given)
        _wrapping(self.name, args, named)
        try:
            found = self.function(*args, **named)
            return np.asarray(found) if self.name == "count_nonzero" else found  # an int with NumPy before 2.4
        except np.linalg.LinAlgError:
            if self.name not in ("linalg.inv", "linalg.solve"):
                raise
            return _each_matrix(self.function, *args)


#: What copies from the host when it is given something else than an array of the device.
CONVERSIONS = ("array", "asanyarray", "asarray", "ascontiguousarray")

#: What hands out memory as it is.
EMPTY = ("empty", "empty_like")

#: Functions and methods that write to their first argument.
WRITING = ("copyto", "put", "place", "putmask", "fill_diagonal")
WRITING_METHODS = ("fill", "sort", "partition", "put", "itemset", "set")

PRODUCTS = ("matmul", "dot", "vdot", "inner", "tensordot", "einsum", "tensorsolve")

#: Functions that read something from the device: a size, or whether they failed.
WAITING = ("nonzero", "flatnonzero", "argwhere", "unique", "bincount", "digitize", "extract", "histogram", "put",
           "choose")  # fmt: skip


def _inside_list(value: Any) -> Any:
    return (
        _inside(value) if isinstance(value, (list, tuple)) and any(isinstance(v, StrictArray) for v in value) else value
    )


def _each_matrix(function: Any, a: Any, *rest: Any) -> Any:
    """One matrix after the other, NaN for the singular ones, where NumPy would raise."""
    if a.ndim > 2:
        return np.stack([_each_matrix(function, *parts) for parts in zip(a, *rest, strict=True)])
    try:
        return function(a, *rest)
    except np.linalg.LinAlgError:
        return np.full(rest[0].shape if rest else a.shape, np.nan, a.dtype)


class _Ufunc(_Function):
    def __init__(self, name: str, function: Any, known: dict[str, list[str]]) -> None:
        super().__init__(name, function, api.UFUNC_KEYWORDS)
        self.types = known["types"]
        for method in known["methods"]:
            if hasattr(function, method):
                setattr(
                    self, method, _Function(f"{name}.{method}", getattr(function, method), api.UFUNC_METHODS[method])
                )

    def __call__(self, *args: Any, **named: Any) -> Any:
        result = super().__call__(*args, **named)
        if not named:
            self._check_dtypes(args, result)
        return result

    def _check_dtypes(self, args: tuple[Any, ...], result: Any) -> None:
        """CuPy takes the first of its loops to which all inputs can be cast safely."""
        args = _strong(args)
        for loop in self.types:
            ins, _, outs = loop.partition("->")
            if "E" not in loop and len(ins) == len(args) and all(map(_fits, args, ins)):
                break
        else:
            dtypes = [getattr(a, "dtype", type(a).__name__) for a in args]
            raise StrictError(f"cupy's {self.name} has no loop for {dtypes}")
        found = [r.dtype.char for r in (result if isinstance(result, tuple) else (result,))]
        if [np.dtype(c) for c in found] != [np.dtype(c) for c in outs]:
            raise StrictError(
                f"cupy's {self.name} gives {outs} of {[getattr(a, 'dtype', a) for a in args]}, not {found}"
            )


def _fits(value: Any, char: str) -> bool:
    """Whether CuPy casts a value to that dtype: arrays and NumPy scalars safely, Python numbers by their kind."""
    if hasattr(value, "dtype"):
        return np.can_cast(value.dtype, char, "safe")
    kinds = {bool: "?biufc", int: "biufc", float: "fc", complex: "c"}[type(value)]
    return ("?" if char == "?" else np.dtype(char).kind) in kinds


def _strong(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert Python numbers of a higher kind than all arrays to arrays of their default dtype."""
    highest = max("biufc".find(a.dtype.kind) for a in args if hasattr(a, "dtype"))
    least = {bool: 0, int: 1, float: 3, complex: 4}
    return tuple(a if hasattr(a, "dtype") or least[type(a)] <= highest else np.asarray(a) for a in args)


class Event:
    """A mark in the stream of the device that is current when it is recorded; the stream never waits."""

    def __init__(self) -> None:
        self.time: float | None = None

    def record(self) -> None:
        self.device, self.time = current(), time.perf_counter()

    def synchronize(self) -> None:
        COUNTS["sync"] += 1

    @staticmethod
    def elapsed(start: Event, end: Event) -> float:
        if start.time is None or end.time is None or start.device != end.device:
            raise StrictError("marks that are not recorded, or on two devices")
        return 1000 * (end.time - start.time)


def _solve_triangular(a: Any, b: Any, **options: Any) -> Any:
    """CuPy's takes batches, SciPy's from 1.15 on."""
    import scipy.linalg

    if a.ndim == 2:
        with SCIPY.alone():  # for a few numbers, threads take a thousand times as long
            return scipy.linalg.solve_triangular(a, b, **options)
    found = [_solve_triangular(*each, **options) for each in zip(a, b, strict=True)]
    return np.stack(found) if found else np.zeros_like(b)


class StrictNamespace:
    """CuPy's namespace, or a part of it."""

    def __init__(self, prefix: str, module: Any) -> None:
        self._prefix, self._module = prefix, module

    def __getattr__(self, name: str) -> Any:
        key = f"{self._prefix}{name}"
        if key in ("linalg", "fft", "lib"):
            return StrictNamespace(f"{key}.", getattr(np, name))
        if key == "fft.config":
            return types.SimpleNamespace(get_plan_cache=PlanCache)
        if key == "lib.stride_tricks":
            return StrictNamespace("lib.stride_tricks.", np.lib.stride_tricks)
        if key == "asnumpy":
            return _Function(key, None, None)
        if key == "RawModule":  # kernels are compiled for the host
            from tests.cuda.host import HostModule

            return HostModule
        if key == "cuda":
            return types.SimpleNamespace(
                runtime=types.SimpleNamespace(getDevice=current),
                Device=lambda index: types.SimpleNamespace(compute_capability="90"),
                Event=Event,
                get_elapsed_time=Event.elapsed,
                get_current_stream=lambda: types.SimpleNamespace(ptr=0, synchronize=lambda: None),
            )
        if key in API["ufuncs"]:
            found: Any = _Ufunc(key, getattr(self._module, name), API["ufuncs"][key])
        elif key in API["functions"]:
            found = _Function(key, getattr(self._module, name), API["functions"][key])
        elif hasattr(np, name) and (isinstance(getattr(np, name), type) or not callable(getattr(np, name))):
            found = getattr(np, name)
        else:
            raise AttributeError(f"cupy has no function {key!r}")
        setattr(self, name, found)
        return found


class PlanCache:
    """CuPy's cache of FFTs, without any plan."""

    def get_size(self) -> int:
        return 16

    def get_memsize(self) -> int:
        return -1

    def set_size(self, size: int) -> None:
        assert size in (16, -1)

    def set_memsize(self, size: int) -> None:
        assert size == -1

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class StrictBackend(CupyBackend):
    """The CUDA backend on strict arrays: two devices, ``strict:0`` and ``strict:1``.

    The package's kernels are compiled for the host, by g++ if it is there. Generated kernels, of which there are many,
    are left to the tests that turn them on (`tests/cuda`).
    """

    type = "strict"
    packages = ("tests.strict", "tests.cuda.host")
    supports_fusion = has_fused_gradients = False  # type: ignore[assignment]
    scipy_name = None  # cupyx needs CuPy
    has_streams = False
    own_kernels = shutil.which("g++") is not None

    def __init__(self) -> None:
        Backend.__init__(self, StrictNamespace("", np), StrictArray)
        self._count = 2

    def uses(self, family: str) -> bool:
        return family != "reductions" and super().uses(family)  # which are for CuPy to compile: the rig runs them

    @property
    def _as_unsigned(self) -> Any:
        """NumPy's conversion on the host, by which negative numbers wrap around, in the place of CuPy's kernel."""

        def convert(x: Any, out: Any) -> Any:
            out[...] = x.astype(out.dtype)
            return out

        return convert

    #: By NumPy's functions, in the place of the ufuncs and kernels that CuPy makes.
    clamp, relu, join_arrays = Elementwise.clamp, Elementwise.relu, Movement.join_arrays  # type: ignore[assignment]
    permutation = LinearAlgebra.permutation

    def _triangle(self, name: str, x: Any, diagonal: int) -> Any:
        return self.bodies[name](self, x, diagonal)

    def shares_memory(self, view: Any, x: Any) -> bool:
        return owner(view._a) is owner(x._a)

    def restride(self, x: Any, shape: Any, strides: Any) -> Any:
        return self.xp.lib.stride_tricks.as_strided(x, shape, strides)

    @property
    def special(self) -> Any:
        import scipy.special

        return StrictNamespace("special.", scipy.special)

    @property
    def scipy_linalg(self) -> Any:
        import scipy.linalg

        return StrictNamespace("scipy_linalg.", types.SimpleNamespace(**{
            **vars(scipy.linalg), "solve_triangular": _solve_triangular,
        }))  # fmt: skip

    def reporting_errors(self) -> Any:
        COUNTS["sync"] += 1
        sync_debug.note("wait")
        return contextlib.nullcontext()  # NumPy always does

    def factor_columns(self, columns: Any) -> tuple[Any, Any]:
        """As cuBLAS does, by SciPy's LAPACK, and without a wait."""
        import scipy.linalg

        (getrf,) = scipy.linalg.get_lapack_funcs(("getrf",), (columns._a,))
        pivots, info = np.empty(columns.shape[:-1], np.int32), np.empty(len(columns), np.int32)
        with SCIPY.alone():
            for i, matrix in enumerate(columns._a):
                matrix.T[...], exchanged, info[i] = getrf(matrix.T)
                pivots[i] = exchanged + 1
        return made(lambda: pivots), made(lambda: info)

    def solve_columns(self, columns: Any, pivots: Any, b: Any, system: int) -> None:
        import scipy.linalg

        (getrs,) = scipy.linalg.get_lapack_funcs(("getrs",), (columns._a,))
        n = columns.shape[-1]
        matrices = np.broadcast_to(columns._a, (*b.shape[:-2], n, n)).reshape(-1, n, n)
        sides = b._a.reshape(-1, *b.shape[-2:])
        with SCIPY.alone():
            for matrix, exchanged, side in zip(matrices, pivots._a.reshape(-1, n), sides, strict=True):
                side.T[...] = getrs(matrix.T, exchanged - 1, side.T, system)[0]

    cublas = FakeCublas()  # type: ignore[assignment]
    cutensor = None  # type: ignore[assignment]
    cublas_library = None

    def cublas_handle(self) -> int:
        return 1

    def current_index(self) -> int:
        return current()

    def use_index(self, index: int | None) -> Any:
        return contextlib.nullcontext() if index is None else use(index)

    def address(self, x: Any) -> int:
        return int(x._a.__array_interface__["data"][0])

    def wait(self) -> None:
        COUNTS["sync"] += 1

    def random_words(self, n: int, key: Any, counter: int) -> Any:
        if isinstance(key, int):
            return made(lambda: philox.words(n, key, counter))
        base = _inside(key)

        def words() -> Any:
            first, at = (sum(int(w) << 64 * i for i, w in enumerate(part)) for part in (base[:2], base[2:]))
            return philox.words(n, first, (at + counter) % 2**256)

        return made(words)

    def write_place(self, memory: Any, key: int, counter: int) -> None:
        base, pieces = memory._a, [key >> 64 * i & 2**64 - 1 for i in range(2)]
        pieces += [counter >> 64 * i & 2**64 - 1 for i in range(4)]
        tell().written(base)
        queued(lambda: base.__setitem__(..., np.array(pieces, np.uint64)))

    random_numbers = Backend.random_numbers

    def note_bad_index(self, index: Any, low: int, high: int, number: int, first: Any) -> None:
        values, found = _inside(index), _inside(first)
        tell().updated(first._a)

        def note() -> None:
            bad = values[(values < low) | (values >= high)]
            if bad.size and not found[0]:
                found[:] = number, bad.flat[0]

        queued(note)
