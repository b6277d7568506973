"""Elementwise formulas by loops of the compiled library; what has no loop is computed by NumPy."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from math import prod
from operator import mod
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.compiled.library import address
from gradcore.backends.fusion.layout import layout_of
from gradcore.backends.fusion.programs import Traced
from gradcore.backends.numpy import threads
from gradcore.backends.numpy.backend import NumpyBackend

__all__ = ["CompiledElementwise", "Forward"]

#: The least width of rows that are copied to be contiguous: a row costs as much as some 20 elements.
_NARROW = 16
#: Elements times steps that are worth the call of a loop, and that are worth a thread.
_WORTH_A_LOOP, _WORTH_A_THREAD = 1 << 16, 1 << 20
#: Settings of a formula for which loops are looked up, as tracing costs as much as NumPy on a million elements; layouts
#: of a loop that are remembered.
_MOST_SETTINGS, _MOST_LAYOUTS = 16, 1_000


class Launch(NamedTuple):
    """What does not change between calls with operands that lie in memory in the same way.

    `order` has the dims of the result from the slowest to the fastest, if these are not as they are numbered; `call` is
    what `gradcore_run_loop` reads.
    """

    size: int
    shape: tuple[int, ...]
    order: tuple[int, ...] | None
    call: Any


class Loop:
    """A compiled loop.

    Parameters
    ----------
    run : callable
        The library's `gradcore_run_loop`.
    function : int
        The loop's address.
    found : Traced
        The program, and what it takes.
    """

    def __init__(self, run: Any, function: int, found: Traced) -> None:
        program = found.program
        self.run, self.function, self.used = run, function, found.used
        self.dtype = program.outputs[0][1]
        self.work = max(program.functions, 2)
        self.sizes = [o.dtype.itemsize for o in program.operands] + [self.dtype.itemsize]
        self.parameters = (ctypes.c_double * len(found.parameters))(*found.parameters)
        self.arrays: Any = ctypes.c_void_p * len(self.sizes)
        self.launches: dict[Any, Launch | None] = {}

    def __call__(self, operands: tuple[Any, ...]) -> Any:
        """The result; None if the operands lie in a way for which the loop is not made."""
        key = tuple([(o.shape, o.strides) for o in operands if o.__class__ is np.ndarray])
        try:
            launch = self.launches[key]
        except KeyError:
            if len(self.launches) >= _MOST_LAYOUTS:
                self.launches.clear()
            launch = self.launches[key] = self._prepared(operands)
        if launch is None:
            return None
        places = [address(operands[i]) for i in self.used]
        if any(map(mod, places, self.sizes)):  # the compiler takes elements to be aligned
            return None
        size, shape, order, call = launch
        if order is None:
            result = np.empty(shape, self.dtype)
        else:
            numbers = [order.index(d) for d in range(len(order))]
            result = np.empty([shape[d] for d in order], self.dtype).transpose(numbers)
        arrays = self.arrays(*places, address(result))
        run, most = self.run, size * self.work // _WORTH_A_THREAD
        if most < 2:
            run(call, 0, size, arrays)
        else:
            threads.spread(lambda start, stop: run(call, start, stop, arrays), size, most)
        return result

    def _prepared(self, operands: tuple[Any, ...]) -> Launch | None:
        every = {i: o for i, o in enumerate(operands) if isinstance(o, np.ndarray)}
        layout = layout_of(list(every.values()))
        size = prod(layout.shape)
        if (
            not size
            or size * self.work < _WORTH_A_LOOP
            or any(step % o.itemsize for o in every.values() for step in o.strides)
        ):
            return None
        extents = layout.extents or (size,)
        rows = dict(zip(every, layout.steps or [(1,)] * len(every), strict=True))
        if extents[-1] < _NARROW and (len(extents) > 1 or any(row[-1] != 1 for row in rows.values())):
            return None
        steps = [step * operands[i].itemsize for i in self.used for step in rows[i]]
        parameters = ctypes.addressof(self.parameters)
        call = [self.function, parameters, len(extents), len(self.used), 1, *extents, *self.sizes, *steps]
        return Launch(size, layout.shape, layout.order, (ctypes.c_int64 * len(call))(*call))


class Forward:
    """The forward computation of an operation as a formula."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, F: Any, *operands: Any) -> Any:
        return getattr(F, self.name)(*operands)


class CompiledElementwise(NumpyBackend):
    """Elementwise operations and their derivatives."""

    #: Elements from which a loop is faster than the functions of NumPy that it replaces.
    LARGE = 1 << 13

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__()
        self.library = library
        self._loops: dict[Any, Loop | None] = {}
        self._settings: Counter[Any] = Counter()
        self._run_loop = self.library.gradcore_run_loop
        self._run_loop.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
        self._run_loop.restype = None

    def kernel_of(self, name: str) -> Callable[..., Any]:
        plain = super().kernel_of(name)
        if name not in self.elementwise:
            return plain
        formula: Any = Forward(name)

        def kernel(x: Any, *rest: Any) -> Any:
            if x.__class__ is not np.ndarray or x.size < self.LARGE:
                return plain(x, *rest)
            result = self.by_loop(formula, (x, *rest))
            return plain(x, *rest) if result is None else result

        return kernel

    def large(self, formula: Callable[..., Any], *operands: Any) -> Any:
        result = self.by_loop(formula, operands)
        return super().large(formula, *operands) if result is None else result

    def by_loop(self, formula: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
        """``formula(F, *operands)`` by a loop; None if there is none for it."""
        key = formula, *[o.dtype if o.__class__ is np.ndarray else repr(o) for o in operands]
        try:
            loop = self._loops[key]
        except KeyError:
            if any(isinstance(o, np.generic) for o in operands):  # to formulas, an array without dims
                arrays = [np.asarray(o) if isinstance(o, np.generic) else o for o in operands]
                return self.by_loop(formula, tuple(arrays))
            loop = self._looked_up(key, formula, operands)
        return None if loop is None else loop(operands)

    def _looked_up(self, key: Any, formula: Callable[..., Any], operands: tuple[Any, ...]) -> Loop | None:
        kinds = [o.dtype if isinstance(o, np.ndarray) else o for o in operands]
        but_for_settings = formula, *[k if isinstance(k, np.dtype) else type(k) for k in kinds]
        if self._settings[but_for_settings] == _MOST_SETTINGS:
            return None
        self._settings[but_for_settings] += 1
        loop = self._loops[key] = self._found(formula, kinds)
        return loop

    def _found(self, formula: Callable[..., Any], kinds: list[Any]) -> Loop | None:
        from gradcore.backends.compiled.loops import DTYPES, loop_name, traced_loop  # not before it is needed

        if not DTYPES.issuperset(k for k in kinds if isinstance(k, np.dtype)):
            return None
        found = traced_loop(formula, kinds, self.bodies)
        function = None if found is None else getattr(self.library, loop_name(found.program), None)
        if found is None or function is None:
            return None
        return Loop(self._run_loop, ctypes.cast(function, ctypes.c_void_p).value or 0, found)
