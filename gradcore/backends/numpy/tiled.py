"""Evaluation of elementwise formulas of several steps in cache-sized tiles, for large arrays.

A formula that is called with arrays passes over memory once for every step, and allocates each result. Here, it is
traced once for each combination of dtypes and settings, and compiled to a sequence of calls of the same NumPy
functions, which run on one tile of the arrays after another. The results equal those of the formula, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gradcore.backends.numpy import bits, malloc, threads
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from gradcore.backends.codegen.emit_numpy import NumpyFunction

__all__ = ["evaluate", "pays", "run"]

#: Bytes of a tile of each array in one thread, and in several threads. The latter is larger, because each call of a
#: function takes the interpreter's lock.
TILE, SHARED_TILE = 1 << 18, 1 << 20

#: Elements times steps, and elements, from which a thread pays off; shorter calls would mostly wait for the
#: interpreter's lock. Elements from which it pays off if threads share each call without that lock.
WORTH_A_THREAD, LEAST_OF_A_THREAD, POOLED = 1 << 20, 1 << 18, 1 << 15

#: Number of steps from which tiles are faster for arrays that fit into a cache; bytes from which arrays do not fit; and
#: number of steps from which tiles are faster for these.
MANY_STEPS, NO_CACHE, SOME_STEPS = 7, 1 << 24, 3

#: Dtypes of operands.
_DTYPES = np.dtype("f4"), np.dtype("f8"), np.dtype(bool)

_functions: dict[Any, NumpyFunction | None] = {}

#: Largest number of entries of the cache, which has one for each formula, dtypes and settings.
_MOST_FUNCTIONS = 10_000


def evaluate(formula: Callable[..., AnyArray], F: Any, operands: tuple[Any, ...]) -> AnyArray:
    """Compute ``formula(F, *operands)``, in tiles if that is faster. The first operand has the shape of the result."""
    if malloc.waiting:
        malloc.begin()
    key = formula, F.pooled, *[o.dtype if isinstance(o, np.ndarray) else (o.__class__, o or repr(o)) for o in operands]
    try:
        function = _functions[key]
    except KeyError:
        function = _functions[key] = _compile(formula, F, operands)
    if function is None or not pays(function, operands[0].size):
        return formula(F, *operands)
    shape = operands[0].shape
    order: Literal["C", "F"]
    for order in ("C", "F"):
        flat = [_flat_view(o, shape, order) for o in operands if isinstance(o, np.ndarray)]
        if all(a is not None for a in flat):
            result = np.empty(shape, function.dtype, order)
            run(function, [flat[i] for i in function.inputs], result.ravel(order))
            return result
    return formula(F, *operands)


def _compile(formula: Callable[..., AnyArray], F: Any, operands: tuple[Any, ...]) -> NumpyFunction | None:
    if len(_functions) >= _MOST_FUNCTIONS:  # the program creates new formulas or settings for each call
        _functions.clear()
    if any(isinstance(o, np.ndarray) and o.dtype not in _DTYPES for o in operands):
        return None
    from gradcore.backends.codegen.emit_numpy import emit, trace_tile  # only when something large is computed
    from gradcore.backends.codegen.expr import NotFusible

    try:
        return emit(trace_tile(formula, operands, F.bodies), bits.select, F.pooled)
    except NotFusible:
        return None


def pays(function: NumpyFunction, size: int) -> bool:
    """Return whether tiles are faster than the plain formula for arrays of that size."""
    if _useful_threads(function, size) > 1 and threads.get_num_threads() > 1:
        return True
    return function.calls >= (MANY_STEPS if size * function.dtype.itemsize < NO_CACHE else SOME_STEPS)


def _useful_threads(function: NumpyFunction, size: int) -> int:
    if function.pooled:
        return size // POOLED
    return min(size * function.calls // WORTH_A_THREAD, size // LEAST_OF_A_THREAD)


def run(function: NumpyFunction, operands: list[AnyArray], *results: AnyArray) -> None:
    """Compute one-dimensional `results` from operands of the same size or of a single element, in tiles."""
    size = len(results[0])
    number = max(1, min(threads.available(), _useful_threads(function, size)))
    in_pool = function.pooled and number > 1
    count = threads.even_parts(results[0].nbytes, TILE if number == 1 else SHARED_TILE, 1 if in_pool else number)
    tile_size = -(-size // count)

    def compute(tiles: Iterator[int]) -> None:
        scratch = [np.empty(tile_size, dtype) for dtype in function.scratch]
        for i in tiles:
            start, stop = size * i // count, size * (i + 1) // count
            buffers = scratch if stop - start == tile_size else [a[: stop - start] for a in scratch]
            function.call(
                *[a[start:stop] if a.ndim else a for a in operands], *buffers, *[a[start:stop] for a in results]
            )

    if count == 1:
        function.call(*operands, *[np.empty(size, dtype) for dtype in function.scratch], *results)
    elif in_pool:
        compute(iter(range(count)))
    else:
        threads.share(compute, count, number)


def _flat_view(a: AnyArray, shape: tuple[int, ...], order: Literal["C", "F"]) -> AnyArray | None:
    """Return `a` as a flat view in the given memory order, as a 0-dim array if it has one element, or else None."""
    if a.shape != shape:
        return a.reshape(()) if a.size == 1 and a.ndim <= len(shape) else None
    if a.flags.c_contiguous if order == "C" else a.flags.f_contiguous:
        return a.ravel(order)
    return None if any(a.strides) else a.reshape(-1)
