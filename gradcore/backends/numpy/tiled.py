"""Elementwise formulas of several steps on large arrays, computed in cache-sized tiles.

A formula that is called with arrays passes over memory once for every step, and allocates each result. Here it is
traced once for given dtypes and settings, and compiled to straight-line calls of the NumPy functions that it would have
called, which then run on one tile of the arrays after the other. The results are those of the formula, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gradcore.backends.numpy import bits, malloc, threads
from gradcore.core.typing import Array

if TYPE_CHECKING:
    from gradcore.backends.codegen.emit_numpy import NumpyFunction

__all__ = ["evaluate", "pays", "run"]

#: The bytes of a tile of one array, and of one that threads share: each call of a function takes the interpreter's
#: lock, so there should be few.
TILE, SHARED_TILE = 1 << 18, 1 << 20

#: Elements times steps that are worth a thread, and elements: calls on fewer are too short for that lock. Elements that
#: are worth one where threads share each call without it.
WORTH_A_THREAD, LEAST_OF_A_THREAD, POOLED = 1 << 20, 1 << 18, 1 << 15

#: From how many steps tiles are faster for arrays that fit into a cache; from how many bytes they do not, and from
#: how many steps tiles are faster for those.
MANY_STEPS, NO_CACHE, SOME_STEPS = 7, 1 << 24, 3

#: Dtypes of operands.
_DTYPES = np.dtype("f4"), np.dtype("f8"), np.dtype(bool)

_functions: dict[Any, NumpyFunction | None] = {}

#: Entries of that cache: formulas over all dtypes and settings.
_MOST_FUNCTIONS = 10_000


def evaluate(formula: Callable[..., Array], F: Any, operands: tuple[Any, ...]) -> Array:
    """Compute ``formula(F, *operands)``, in tiles if that is faster. The first operand is the largest."""
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


def _compile(formula: Callable[..., Array], F: Any, operands: tuple[Any, ...]) -> NumpyFunction | None:
    if len(_functions) >= _MOST_FUNCTIONS:  # formulas or settings that are made anew for each call
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


def run(function: NumpyFunction, operands: list[Array], *results: Array) -> None:
    """Compute `results`, in one dim, from operands of the same size or of a single element."""
    size = len(results[0])
    number = max(1, min(threads.available(), _useful_threads(function, size)))
    in_pool = function.pooled and number > 1
    count = threads.even_parts(results[0].nbytes, TILE if number == 1 else SHARED_TILE, 1 if in_pool else number)
    most = -(-size // count)

    def compute(tiles: Iterator[int]) -> None:
        scratch = [np.empty(most, dtype) for dtype in function.scratch]
        for i in tiles:
            first, last = size * i // count, size * (i + 1) // count
            buffers = scratch if last - first == most else [a[: last - first] for a in scratch]
            function.call(
                *[a[first:last] if a.ndim else a for a in operands], *buffers, *[a[first:last] for a in results]
            )

    if count == 1:
        function.call(*operands, *[np.empty(size, dtype) for dtype in function.scratch], *results)
    elif in_pool:
        compute(iter(range(count)))
    else:
        threads.share(compute, count, number)


def _flat_view(a: Array, shape: tuple[int, ...], order: Literal["C", "F"]) -> Array | None:
    """Return an array as a flat view in this memory order, a single element as a 0-dim array, or else None."""
    if a.shape != shape:
        return a.reshape(()) if a.size == 1 and a.ndim <= len(shape) else None
    if a.flags.c_contiguous if order == "C" else a.flags.f_contiguous:
        return a.ravel(order)
    return None if any(a.strides) else a.reshape(-1)
