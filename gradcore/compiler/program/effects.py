"""Effects of calls: the values that they write to, and whether they can be removed, moved or merged."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from gradcore.backends import kernel_rules
from gradcore.backends.base import Backend
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.portable.elementwise import RENAMED, SPECIAL
from gradcore.compiler.program.program import Call, Program, values_in
from gradcore.ops.declare.table import OPS
from gradcore.ops.products import collectives

__all__ = ["COPIES", "Effects", "is_pure", "is_total", "written_arguments", "written_values"]

#: Methods of arrays, and functions of NumPy, that write to their first argument.
_WRITERS = {
    "method": frozenset(["fill", "partition", "put", "setfield", "sort"]),
    "xp": frozenset(["add.at", "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "subtract.at"]),
}
#: Functions that return their first argument, a view of it or a copy. A copy has its elements dim by dim (``"dims"``,
#: also with broadcasting), in C order (``"order"``), or only if the result has the argument's shape (``""``).
COPIES = {
    "alias": "", "astype": "dims", "clone": "dims", "contiguous": "dims", "copy": "dims", "copy_elements": "dims",
    "expand": "", "permute": "", "positive": "", "ravel": "", "reshape": "order", "squeeze": "", "to": "dims",
    "transpose": "", "unsafe_view": "order", "view": "order", "view_shape": "order",
}  # fmt: skip
#: Functions and methods of NumPy that never raise an error because of values.
_TOTAL = {
    "xp": frozenset(["empty", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]),
    "method": frozenset((
        "astype", "conj", "copy", "max", "mean", "min", "ravel", "reshape", "squeeze", "sum", "swapaxes", "transpose",
    )),
    "operator": frozenset((
        "abs", "add", "and", "eq", "ge", "gt", "iadd", "imul", "isub", "le", "lt", "mul", "ne", "neg", "or", "pos",
        "sub", "truediv", "xor",
    )),
}  # fmt: skip


def written_values(call: Call) -> list[int] | None:
    """Return the numbers of the values that `call` modifies in place, or None if unknown."""
    attributes = vars(call)
    try:
        return attributes["written"]  # type: ignore[no-any-return]
    except KeyError:
        arguments = written_arguments(call.name, call.function, call.args, call.named)
        result = attributes["written"] = None if arguments is None else values_in(arguments) if arguments else []
        return result


def written_arguments(name: str, function: object, args: tuple[object, ...], named: dict[str, object]) -> Any:
    """Return the arguments that a call modifies in place, in a list or a nested structure, or None if unknown."""
    if "out" in named:
        return [named["out"]]
    if name[:3] == "xp." and len(args) > getattr(function, "nin", len(args)):
        return args
    positions = _written_positions(name)
    return positions and [each for i, each in enumerate(args) if i in positions]


@functools.cache
def _written_positions(name: str) -> Sequence[int] | None:
    """Return the positions of the arguments that a call with this name modifies in place, or None if unknown."""
    kind, _, function_name = name.partition(".")
    if kind == "operator":
        is_in_place = function_name[0] == "i" and function_name not in ("index", "inv", "invert")
        return (0,) if is_in_place or function_name == "setitem" else ()
    if kind in ("method", "xp"):
        return range(1 << 62) if function_name in _WRITERS[kind] else ()
    if name in ("copy", "fused", "listed") or kind == "random":
        return ()
    return _targets(function_name) if kind in ("kernels", "backend") and _is_own(function_name) else None


def is_pure(call: Call) -> bool:
    """Return whether a call returns equal results for equal arguments, and has no other effect."""
    return written_values(call) == [] and call.name != "random.draw"


def is_total(call: Call, program: Program) -> bool:
    """Return whether a call never raises, whatever the values, so that it can be removed if its results are unused."""
    kind, _, name = call.name.partition(".")
    if call.name == "copy":
        return True
    if kind in _TOTAL:
        return name in _TOTAL[kind] or (name in ("getitem", "setitem") and not values_in(call.args[1]))
    if kind not in ("kernels", "backend"):
        return False
    types = [program.types.get(n) for n in call.read]
    if any(each is None or each.dtype.kind not in "fc" for each in types):  # Integers divide by zero and index.
        return False
    op = OPS.get(name)
    return _is_ufunc(name) or name in Backend.elementwise or (op is not None and op.kind in ("linear", "bilinear"))


def _is_own(name: str) -> bool:
    """Return whether a kernel is defined by gradcore: kernels of other packages may have any effect."""
    op = OPS.get(name)
    if op is not None:
        module = op.declaration.__module__
        return module.startswith("gradcore.ops.") and module != collectives.__name__ and not name.endswith(("r_", "l_"))
    return _is_formula(name) or hasattr(_class_of(name), name)


def _is_formula(name: str) -> bool:
    """Return whether a kernel is an elementwise formula, which writes to no argument."""
    return name in Backend.elementwise or name in Backend.bodies or _is_ufunc(name)


def _class_of(name: str) -> type:
    """Return the NumPy backend if it has a method `name`, and otherwise the CuPy backend, which is slow to import."""
    if hasattr(NumpyBackend, name) or _is_formula(name):
        return NumpyBackend
    from gradcore.backends.cupy.backend import CupyBackend

    return CupyBackend


def _is_ufunc(name: str) -> bool:
    return name in RENAMED or name in SPECIAL


def _targets(name: str) -> tuple[int, ...]:
    """Return the positions of the arguments that a kernel declares to write to."""
    return () if name in OPS else kernel_rules.written_arguments(_class_of(name)).get(name, ())


class _Memories(dict[int, int]):
    """Mapping from value numbers to memory numbers; inputs share one memory."""

    given: set[int]

    def __missing__(self, number: int) -> int:
        return -1 if number in self.given else number


class Effects:
    """Alias analysis: the memory that each call of a program reads and writes.

    The memory of all inputs counts as one, as one may be a view of another.

    Parameters
    ----------
    program : Program
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        types, memories = program.types, _Memories()
        input_memories = memories.given = {types[n].memory for n in program.inputs if n in types}.union(program.inputs)
        for n, array_type in types.items():
            memories[n] = -1 if array_type.memory in input_memories else array_type.memory
        #: The number of the memory of a value.
        self.memory: Callable[[int], int] = memories.__getitem__
        self.escaping = {self.memory(n) for n in program.outputs}
        self.writes: list[frozenset[int]] = []
        self._positions: dict[int, list[int]] = {}
        for position, call in enumerate(program.calls):
            numbers = written_values(call)
            if numbers is None:  # An unknown call may write to its arguments and to memory from outside.
                numbers = [*call.read, *program.inputs[:1]]
            writes = frozenset(map(self.memory, numbers))
            self.writes.append(writes)
            for memory in writes:
                self._positions.setdefault(memory, []).append(position)
        self.written = frozenset(self._positions)
        #: Whether calls may write to inputs of the program.
        self.writes_to_given = -1 in self.written

    def written_inputs(self) -> set[int]:
        """Return the inputs whose memory the program writes to, by the aliasing of the captured run."""
        inputs, types = self.program.inputs, self.program.types
        memories: set[int] = set()
        for call in self.program.calls:
            numbers = written_values(call)
            if numbers is None:
                return {*inputs}
            memories |= {types[n].memory for n in numbers if n in types}
        return {n for n in inputs if n in types and types[n].memory in memories}

    def is_constant(self, number: int) -> bool:
        """Return whether the program never writes to the memory of a value."""
        return self.memory(number) not in self.written

    def reads(self, call: Call) -> frozenset[int]:
        """Return the memory numbers of a call's arguments."""
        return frozenset(map(self.memory, call.read))

    def changes(self, memory: frozenset[int], start: int, stop: int) -> bool:
        """Return whether a call from position `start` up to `stop` (excluded) writes to this memory."""
        for positions in (self._positions[m] for m in memory & self.written):
            index = bisect_left(positions, start)
            if index < len(positions) and positions[index] < stop:
                return True
        return False

    def is_private(self, number: int) -> bool:
        """Return whether the memory of a value is never written to and not returned, so that a copy can replace it."""
        memory = self.memory(number)
        return memory != -1 and memory not in self.escaping and memory not in self.written
