"""Plans that describe how Python calls the native segments of a program, cached with the libraries.

A later process neither lowers the program nor emits C++: it reads the plan and loads the library.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import marshal
import os
import sys
import types
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gradcore
from gradcore.backends.compiled.building import BuildError
from gradcore.backends.compiled.cache import cache_folder
from gradcore.backends.compiled.library import distrust
from gradcore.backends.registry import CPU
from gradcore.compiler.program.effects import is_pure
from gradcore.compiler.program.program import ArrayType, Call, Literal, Program, Value
from gradcore.compiler.program.storage import empty_strided
from gradcore.compiler.targets.native import building
from gradcore.compiler.targets.native.files import is_library_name, is_whole_library, read_whole, write_whole
from gradcore.compiler.targets.native.steps import View
from gradcore.compiler.targets.python import emitter
from gradcore.core import dtypes
from gradcore.core.device import device
from gradcore.ops.declare.table import Formula

__all__ = ["LEAST_CALLS", "PartPlan", "Plan", "are_apart", "find_plan", "name_of", "store_plan"]

#: Folders of the package whose files determine the C++ of a program.
_SOURCES = (
    "compiler", "backends/codegen", "backends/compiled", "backends/cupy/sources", "backends/portable", "backends/numpy",
    "backends/random", "ops",
)  # fmt: skip
#: The smallest number of calls of a native segment.
LEAST_CALLS = 2
#: The largest number of elements of literals that become part of the cache key.
_MOST_HASHED = 1 << 12


class PartPlan(NamedTuple):
    """The call of a native segment.

    Attributes
    ----------
    calls : tuple of int
        The positions of the calls in the segment.
    computing : int
        The number of calls that compute, rather than make views.
    arguments : tuple of int
        The values whose memory is passed to the segment; literals have negative numbers.
    scratch : int
        The size in bytes of the scratch memory that is passed.
    in_threads : bool
        Whether the segment uses several threads and releases the GIL.
    multiplies : bool
        Whether the segment calls BLAS, which has to use a single thread then.
    """

    calls: tuple[int, ...]
    computing: int
    arguments: tuple[int, ...]
    scratch: int
    in_threads: bool
    multiplies: bool


class Plan:
    """The split of a program into native segments and calls made by Python.

    Parameters
    ----------
    program : Program
        The lowered program, including literals that segments have added.
    pieces : list
        The positions of calls that Python makes, and a `PartPlan` for each segment, in order.
    views : dict
        The `View` of each value.
    begun : set of int
        The values that are first written in segments.
    refused : list of str
        The calls that Python makes, and why.
    rolled : list of str
        The loops over calls that repeat.
    """

    def __init__(
        self, program: Program, pieces: list[Any], views: dict[int, View], begun: set[int], refused: list[str],
        rolled: list[str],
    ) -> None:  # fmt: skip
        self.program, self.pieces, self.views, self.begun = program, pieces, views, begun
        self.refused, self.rolled = refused, rolled
        self.parts = [piece for piece in pieces if isinstance(piece, PartPlan)]

    @property
    def state(self) -> str:
        """Return a summary of which calls are native."""
        text = f"{sum(part.computing for part in self.parts)} calls in {len(self.parts)} functions"
        return text if self.parts else "there is nothing for it"

    # -- Python -----------------------------------------------------------------------------------------------------

    def function(self, path: Path, first: int = 0) -> Any:
        """Return the Python function that calls a library's segments, numbered from `first`."""
        runs = building.load_functions(path, first, [(part.in_threads, part.multiplies) for part in self.parts])
        for run, part in zip(runs, self.parts, strict=True):
            vars(run)["again"] = functools.partial(_call_from_python, self, part, [])
        return emitter.function_of(self.link(runs))

    def link(self, functions: list[Callable[..., Any]]) -> Program:
        """Return the program with each segment replaced by a call of its native function."""
        program, out = self.program, self.program.copy()
        old_inputs = set(program.inputs)
        producers = {n: call for call in reversed(program.calls) for n in call.outputs}

        def make(number: int) -> None:
            """Add the call that creates the array of a value for Python: the original view call, or an allocation."""
            if number in old_inputs:
                return
            view = self.views.get(number)
            if view is not None and view.memory == number and number in self.begun:
                old_inputs.add(number)
                out.calls.append(_allocation(number, view))
                return
            add(producers[number])

        def add(call: Call) -> None:
            for n in call.read:
                make(n)
            out.calls.append(call)
            old_inputs.update(call.outputs)

        runs, arrays = iter(functions), {n for part in self.parts for n in part.arguments}
        for piece in self.pieces:
            if not isinstance(piece, PartPlan):
                add(call := program.calls[piece])
                # Native functions read arrays, also where Python calls would pass NumPy scalars on.
                out.scalars.update(n for n in call.outputs if n in arrays and not self.views[n].shape)
                continue
            for n in piece.arguments:
                if n >= 0:
                    make(n)
            arguments: list[Any] = [Value(n) if n >= 0 else Literal(-1 - n) for n in piece.arguments]
            if piece.scratch:
                scratch = out.new_value(ArrayType((piece.scratch,), np.dtype(np.uint8), (1,), -1))
                out.calls.append(Call("xp.empty", np.empty, (piece.scratch, np.uint8), {}, scratch))
                arguments.append(scratch)
            out.calls.append(Call("native.run", next(runs), (tuple(arguments),), {}, None))
        for n in out.outputs:
            make(n)
        return out

    def slow(self, part: PartPlan) -> Callable[..., None]:
        """Return a function that makes a segment's calls in Python, so that errors are those of eager execution."""
        program, subset = self.program, self.program.copy()
        producers = {n: call for call in reversed(program.calls) if is_pure(call) for n in call.outputs}
        computed, inputs = set[int](), set[int]()

        def add(call: Call) -> None:
            """Add a call, and those that make its views: arrays may have other strides than in the captured run."""
            for n in {*call.read} - computed:
                memory, made_by = self.views[n].memory, producers.get(n)
                if made_by is None or n == memory or {self.views[m].memory for m in made_by.read} != {memory}:
                    inputs.add(n)
                else:
                    add(made_by)
            subset.calls.append(call)
            computed.update(call.outputs)

        for call in map(program.calls.__getitem__, part.calls):
            if all(n in computed or self.views[n].memory in part.arguments for n in call.read):
                add(call)  # Others are views that only other segments read.
        subset.inputs = sorted(inputs)
        subset.outputs = sorted(n for n in part.arguments if n >= 0 and n in computed and n not in inputs)
        views = [(n, self.views[n]) for n in subset.inputs]
        run = emitter.function_of(subset)
        positions = {memory: i for i, memory in enumerate(part.arguments)}

        def again(given: tuple[Any, ...]) -> None:
            pairs = [(given[positions[view.memory]], n, view) for n, view in views]
            results = run(*[a if n == view.memory else np.asarray(_Interface(a, view)) for a, n, view in pairs])
            for n, array in zip(subset.outputs, results, strict=True):
                given[positions[n]][...] = array

        return again


def _call_from_python(plan: Plan, part: PartPlan, known: list[Any], given: tuple[Any, ...]) -> None:
    """Make the calls of a segment in Python, emitting them when first needed."""
    if not known:
        known.append(plan.slow(part))
    known[0](given)


class _Interface:
    """Array interface of a view at an address; keeps the owner alive."""

    def __init__(self, owner: Any, view: View) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (owner.ctypes.data + view.offset, False), "shape": view.shape, "strides": view.strides,
            "typestr": view.dtype.str, "version": 3,
        }  # fmt: skip


def _allocation(number: int, view: View) -> Call:
    """Return the call that allocates the memory of a value."""
    if view.is_contiguous:
        return Call("xp.empty", np.empty, (view.shape, view.dtype), {}, Value(number))
    return Call("native.empty_strided", empty_strided, (view.shape, view.strides, view.dtype), {}, Value(number))


# -- on disk -----------------------------------------------------------------------------------------------------------


def store_plan(plan: Plan, given: Program, name: str | None, library: str | None) -> None:
    """Store a plan for later processes, with the name of its library, which is None without native segments."""
    folder = cache_folder()
    if name is None or folder is None:
        return
    new_literals = plan.program.literals[len(given.literals) :]
    views = {n: (*view[:4], view.dtype.name) for n, view in plan.views.items()}
    literals = [(array.shape, array.dtype.name, array.tobytes()) for array in new_literals]
    pieces = [tuple(piece) if isinstance(piece, PartPlan) else piece for piece in plan.pieces]
    with suppress(OSError, ValueError):
        data = marshal.dumps((library, pieces, views, plan.begun, literals, plan.refused, plan.rolled))
        write_whole(Path(folder, "programs", name), data)


def find_plan(program: Program, name: str | None) -> tuple[Plan, Path | None] | None:
    """Return the stored plan of a program and the path of its library, if it needs one, or None."""
    folder = cache_folder()
    if name is None or folder is None:
        return None
    path = Path(folder, "programs", name)
    try:
        if distrust(path.parent) or distrust(path):
            return None
        data = read_whole(path)
        if data is None:
            return None
        file, pieces, views, begun, literals, refused, rolled = marshal.loads(data)
        parts = [piece if type(piece) is int else PartPlan(*piece) for piece in pieces]
        library = None if file is None and not pieces else path.parent / file
        if library is not None and not (is_library_name(file) and is_whole_library(library)):
            return None
        for used in (path, library or path):
            os.utime(used)
    except (OSError, ValueError, EOFError, TypeError):
        return None
    names = {view[4] for view in views.values()} | {dtype for _, dtype, _ in literals}
    types = {name: dtypes.as_dtype(name).numpy for name in names}
    lowered = program.copy(program.calls)
    lowered.literals += [np.frombuffer(data, types[dtype]).reshape(shape) for shape, dtype, data in literals]
    viewed = {n: View(view[0], view[1], view[2], view[3], types[view[4]]) for n, view in views.items()}
    return Plan(lowered, parts, viewed, begun, refused, rolled), library


def are_apart(program: Program) -> bool:
    """Return whether the inputs of a program shared no memory in the captured run."""
    types = [program.types[n] for n in program.inputs if n in program.types]  # Inputs without a type are numbers.
    types = [each for each in types if each.address]  # Values without an address share memory with no other.
    spans = sorted(View(0, each.address, each.shape, each.strides, each.dtype).extent for each in types)
    return all(stop <= start for (_, stop), (start, _) in pairwise(spans))


class _Unnamed(Exception):
    """Raised when a program refers to an object that has no stable name across processes."""


def name_of(program: Program) -> str | None:
    """Return the cache key of a program, by everything that decides its C++, or None if there is none."""
    try:
        fields = [
            _environment(),
            repr((LEAST_CALLS, are_apart(program), program.inputs, program.outputs, sorted(program.scalars))),
        ]
        fields += [f"{c.name}{_serialize(c.args)}{_serialize(c.named)}{_serialize(c.results)}" for c in program.calls]
        fields += [_literal(array) for array in program.literals]
    except (_Unnamed, OSError, BuildError, RecursionError):
        return None
    first_uses: dict[int, int] = {}
    for n, (shape, dtype, strides, memory, address) in program.types.items():
        distance = address - first_uses.setdefault(memory, address)
        fields.append(f"{n} {shape} {dtype.str} {strides} {memory} {distance}")
    return f"plan-{hashlib.sha256(chr(0).join(fields).encode()).hexdigest()[:32]}"


def _environment() -> str:
    """Return a text of everything except the program that C++ and plans depend on."""
    backend = type(CPU.backend).__qualname__, getattr(CPU.backend, "library", None) is None
    return repr((backend, building.has_blas(), building.describe_build(), _stamp(), np.__version__, sys.version))


@functools.cache
def _stamp() -> str:
    """Return the sizes and modification times of the package's files."""
    root, stamp = os.path.dirname(gradcore.__file__), [str(gradcore.__version__)]
    folders = [os.path.join(root, folder) for folder in _SOURCES]
    for folder in folders:  # Folders within it are added while the list is read.
        for entry in os.scandir(folder):
            if entry.is_dir():
                folders += [entry.path] if entry.name != "__pycache__" else []
            elif not entry.name.endswith(".pyc"):
                status = entry.stat()
                stamp.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256(chr(0).join(sorted(stamp)).encode()).hexdigest()


def _literal(array: Any) -> str:
    if array.dtype.hasobject:
        raise _Unnamed
    content = hashlib.sha256(array.tobytes()).hexdigest() if array.size <= _MOST_HASHED else ""
    return f"{array.shape} {array.dtype.str} {array.strides} {content}"


def _serialize(value: Any) -> str:
    """Return an argument or result as a text that is equal in all processes."""
    kind = type(value)
    if kind is Value:
        return f"v{value.number},"
    if kind is Literal:
        return f"l{value.number},"
    if value is None or value is ... or kind in (bool, int, float, complex, str):
        return f"{value!r},"
    if kind in (tuple, list):
        return f"{kind.__name__}({''.join(map(_serialize, value))}),"
    parts = _PARTS.get(kind) or next((each for cls, each in _PARTS_BY_BASE.items() if isinstance(value, cls)), None)
    if parts is None and not dataclasses.is_dataclass(value):
        raise _Unnamed
    fields = [getattr(value, each.name) for each in dataclasses.fields(value)] if parts is None else parts(value)
    return f"{kind.__module__}.{kind.__qualname__}({''.join(map(_serialize, fields))}),"


def _parts_of_function(function: types.FunctionType) -> tuple[object, ...]:
    """Return what a function of gradcore computes with: its code, defaults, constants and cells."""
    code, where = function.__code__, f"{function.__module__}.{function.__qualname__}"
    if not where.startswith("gradcore.") and not code.co_filename.startswith("<gradcore"):
        raise _Unnamed
    constants = [repr(each) for each in code.co_consts if not isinstance(each, types.CodeType)]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    text = f"{where} {code.co_firstlineno} {code.co_code.hex()} {code.co_names}"
    return text, function.__defaults__, function.__kwdefaults__, *constants, *cells


#: Functions that return the parts of a value, which decide what it is, by its class.
_PARTS: dict[Any, Callable[[Any], Iterable[Any]]] = {
    dict: lambda value: itertools.chain(*value.items()),
    slice: lambda value: (value.start, value.stop, value.step),
    Formula: lambda value: (value.function, value.names),
    functools.partial: lambda value: (value.func, value.args, value.keywords),
    types.FunctionType: _parts_of_function,
}
#: The same for values of classes and their subclasses.
_PARTS_BY_BASE: dict[Any, Callable[[Any], Iterable[Any]]] = {
    tuple: iter,
    np.generic: lambda value: (value.dtype.str, value.tobytes().hex()),
    np.dtype: lambda value: (value.str,),
    (dtypes.dtype, device): lambda value: (repr(value),),
    (type, types.BuiltinFunctionType): lambda value: (value.__module__, value.__qualname__),
    np.ufunc: lambda value: (value.__name__,),
}
