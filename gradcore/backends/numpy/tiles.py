"""Elementwise formulas of several steps on large arrays: traced, then computed in tiles that stay in cache.

A formula that is called with arrays goes through memory once for every step, and allocates what it writes. Here it is
traced once for given dtypes and settings, as for a generated CUDA kernel. The steps, each the function of NumPy that
the formula would have called, become a straight-line function with places for all results, which then runs on one tile
of the arrays after the other. The results are those of the formula itself, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.numpy import threads

__all__ = ["Program", "compute"]

#: The bytes of a tile of one array, and where several threads compute: they need the interpreter's lock between two
#: functions, of which there are to be few.
TILE, SHARED_TILE = 1 << 18, 1 << 20

#: Elements times steps that are worth a thread, and elements: of fewer, functions are too short for that lock.
WORTH_A_THREAD, LEAST_OF_A_THREAD = 1 << 20, 1 << 18

#: From how many steps a program is faster for arrays that fit into a cache; from how many bytes they do not, and from
#: how many steps it is faster for those.
MANY_STEPS, NO_CACHE, SOME_STEPS = 7, 1 << 24, 3

#: Dtypes of operands.
_DTYPES = np.dtype("f4"), np.dtype("f8"), np.dtype(bool)


class Program(NamedTuple):
    """A formula as steps of NumPy.

    Attributes
    ----------
    steps : int
        How many functions are called.
    scratch : tuple of dtype
        What is kept between steps, in arrays of the size of a tile.
    result : dtype
        The dtype of the result.
    tile : callable
        ``(*operands, *scratch, result)``: calls the functions for one tile.
    """

    steps: int
    scratch: tuple[np.dtype[Any], ...]
    result: np.dtype[Any]
    tile: Callable[..., None]

    def pays(self, size: int) -> bool:
        """Whether the program is faster than the formula for arrays of that size."""
        if self.worth(size) > 1 and threads.get_num_threads() > 1:
            return True
        return self.steps >= (MANY_STEPS if size * self.result.itemsize < NO_CACHE else SOME_STEPS)

    def worth(self, size: int) -> int:
        """How many threads arrays of that size are worth."""
        return min(size * self.steps // WORTH_A_THREAD, size // LEAST_OF_A_THREAD)

    def run(self, operands: list[Any], result: Any) -> None:
        """Compute `result`, in one dim, from operands of the same size or of a single element."""
        size = len(result)
        number = max(1, min(threads.available(), self.worth(size)))
        count = threads.even_parts(result.nbytes, TILE if number == 1 else SHARED_TILE, number)
        most = -(-size // count)

        def some(numbers: Iterator[int]) -> None:
            scratch = [np.empty(most, dtype) for dtype in self.scratch]
            for i in numbers:
                first, last = size * i // count, size * (i + 1) // count
                room = scratch if last - first == most else [a[: last - first] for a in scratch]
                self.tile(*[a[first:last] if a.ndim else a for a in operands], *room, result[first:last])

        if count == 1:
            self.tile(*operands, *[np.empty(size, dtype) for dtype in self.scratch], result)
        else:
            threads.share(some, count, number)


# -- calls ----------------------------------------------------------------------------------------------------------

_programs: dict[Any, Program | None] = {}

#: Formulas that are remembered, over all dtypes and settings.
_MOST_PROGRAMS = 10_000


def compute(formula: Callable[..., Any], F: Any, operands: tuple[Any, ...]) -> Any:
    """``formula(F, *operands)``, the first operand being the largest: by a program where there is one and it pays."""
    key = formula, *[o.dtype if isinstance(o, np.ndarray) else (o.__class__, o) for o in operands]
    try:
        program = _programs[key]
    except KeyError:
        program = _programs[key] = _program(formula, F, operands)
    if program is None or not program.pays(operands[0].size):
        return formula(F, *operands)
    shape = operands[0].shape
    order: Any
    for order in "CF":
        flat = [_flat(o, shape, order) for o in operands if isinstance(o, np.ndarray)]
        if all(a is not None for a in flat):
            result = np.empty(shape, program.result, order)
            program.run(flat, result.ravel(order))
            return result
    return formula(F, *operands)


def _program(formula: Callable[..., Any], F: Any, operands: tuple[Any, ...]) -> Program | None:
    if len(_programs) >= _MOST_PROGRAMS:  # formulas or settings that are made anew for each call
        _programs.clear()
    if any(isinstance(o, np.ndarray) and o.dtype not in _DTYPES for o in operands):
        return None
    from gradcore.backends.numpy.steps import Unfusable, program_of  # not before something large is computed

    try:
        return program_of(formula, operands, F.bodies)
    except Unfusable:
        return None


def _flat(a: Any, shape: tuple[int, ...], order: Any) -> Any:
    """A view of an array in one dim, in that order of the elements, or of a single element; None if there is none."""
    if a.shape != shape:
        return a.reshape(()) if a.size == 1 and a.ndim <= len(shape) else None
    if a.flags.c_contiguous if order == "C" else a.flags.f_contiguous:
        return a.ravel(order)
    return None if any(a.strides) else a.reshape(-1)
