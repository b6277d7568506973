"""Fused kernels of a backend: formulas are traced on first use, compiled on first use, and launched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.codegen.expressions import Unfusable
from gradcore.backends.codegen.functions import computed
from gradcore.backends.codegen.layout import Layout, layout_of
from gradcore.backends.codegen.programs import Operand, Program, Traced, traced

__all__ = ["Fusion"]

#: Threads of a block, and blocks at most: each thread goes on with what is left.
THREADS, MOST_BLOCKS = 256, 1 << 16
#: The largest index, and number of elements, for kernels with indices of 32 bits: a grid's last threads may exceed it.
MOST_OF_32_BITS = 2**31 - 1 - 8 * THREADS

_BLOCK = (THREADS,)

#: Formulas that are remembered, over all dtypes and settings, and layouts for each.
_MOST_FORMULAS, _MOST_LAYOUTS = 10_000, 1_000


class Fusion:
    """Runs elementwise formulas as one kernel each.

    Parameters
    ----------
    xp : module
        CuPy, or what takes its part.
    array_type : type
        The class of its arrays.
    bodies : dict
        Bodies of the operations by name.
    compile : callable
        ``(source, name) -> kernel``, which is launched as ``kernel(grid, block, arguments)``.
    address : callable
        From an array to the address of its first element.
    """

    def __init__(
        self,
        xp: Any,
        array_type: Any,
        bodies: dict[str, Callable[..., Any]],
        compile: Callable[[str, str], Callable[..., Any]],
        address: Callable[[Any], int],
    ) -> None:
        self.xp, self.array_type, self.bodies, self.compile, self.address = xp, array_type, bodies, compile, address
        self._ready: dict[Any, _Ready | None] = {}
        #: Compiled kernels by program, so that formulas that come to the same share them.
        self._kernels: dict[Program, dict[tuple[int, int], Callable[..., Any]]] = {}
        #: How many kernels were compiled and launched, and formulas traced.
        self.counts: Counter[str] = Counter()

    def run(
        self,
        name: str,
        key: Any,
        formula: Callable[..., Sequence[Any]],
        operands: Sequence[tuple[str, Any]],
        compute: tuple[np.dtype[Any] | None, ...] | None = None,
        stored: tuple[np.dtype[Any] | None, ...] | None = None,
    ) -> list[Any] | None:
        """The results of a formula; None if it cannot be fused, or gains nothing by it.

        Parameters
        ----------
        name : str
            A name for the kernel.
        key : hashable
            What identifies the formula, along with what the operands are.
        formula : callable
            ``(F, *operands) -> results``.
        operands : sequence of (str, operand)
            Names and values: arrays, NumPy scalars, settings.
        compute : tuple of dtype or None, optional
            What each operand is converted to first.
        stored : tuple of dtype or None, optional
            What each result is converted to at the end.
        """
        array_type: Any = self.array_type
        kinds: list[Any] = []
        values: list[Any] = []
        for _, value in operands:
            if isinstance(value, array_type):
                kinds.append(value.dtype)
                values.append(value)
            elif isinstance(value, np.generic):
                kinds.append((None, value.dtype))
                values.append(value)
            else:
                kinds.append((type(value), value))
        full_key = key, tuple(kinds), compute, stored
        if full_key not in self._ready:
            self._ready[full_key] = self._trace(name, formula, operands, compute, stored)
        ready = self._ready[full_key]
        return None if ready is None else self._results(ready, values)

    def _trace(self, name: str, formula: Any, operands: Any, compute: Any, stored: Any) -> _Ready | None:
        """What to launch for a call of this kind."""
        if len(self._ready) >= _MOST_FORMULAS:
            self._ready.clear()
        described: list[tuple[str, Any]] = []
        for i, (label, value) in enumerate(operands):
            wanted = None if compute is None else compute[i]
            if isinstance(value, self.array_type):
                value = Operand(label, value.dtype, True, wanted)
            elif isinstance(value, np.generic):
                value = Operand(label, value.dtype, False, wanted)
            described.append((label, value))
        self.counts["traced"] += 1
        try:
            found = traced(name, formula, described, self.bodies, stored)
        except Unfusable:
            return None
        program = found.program
        types = [o.dtype for o in program.operands] + [dtype for _, dtype in program.outputs]
        steps = program.functions + sum(computed(dtype) != dtype for dtype in types)
        if program.outputs and steps < 2 and not program.differs:  # the array library has one kernel for that
            return None
        return _Ready(found, self._kernels.setdefault(program, {}), {})

    def _results(self, ready: _Ready, values: list[Any]) -> list[Any]:
        found = ready.found
        outputs: list[Any] = []
        if found.program.outputs:
            arrays = [v for v in values if isinstance(v, self.array_type)]
            key = tuple([(a.shape, a.strides) for a in arrays])
            launch = ready.launches.get(key)
            if launch is None:
                if len(ready.launches) >= _MOST_LAYOUTS:
                    ready.launches.clear()
                launch = ready.launches[key] = self._prepared(ready, values, arrays)
            outputs = [self._empty(launch.layout, dtype) for _, dtype in found.program.outputs]
            if launch.kernel is not None:
                read = [values[i] for i in launch.arrays]
                if launch.packs and any(self.address(a) % n for a, n in zip(read, launch.packs, strict=True)):
                    launch = self._one_by_one(ready, launch)
                numbers = [part for i in launch.numbers for part in _parts(values[i])]
                kernel: Any = launch.kernel
                kernel(launch.grid, _BLOCK, (launch.size, *read, *outputs, *numbers, *launch.rest))
                self.counts["launched"] += 1
        return [outputs[place] if fresh else values[place] for fresh, place in found.results]

    def _empty(self, layout: Layout, dtype: np.dtype[Any]) -> Any:
        """An array for a result, dense and in the order of the layout."""
        if layout.order is None:
            return self.xp.empty(layout.shape, dtype)
        places = [layout.order.index(d) for d in range(len(layout.shape))]
        return self.xp.empty(tuple(layout.shape[d] for d in layout.order), dtype).transpose(places)

    def _prepared(self, ready: _Ready, values: list[Any], arrays: list[Any]) -> _Launch:
        """What does not change between calls with operands that lie in memory in the same way."""
        found, layout = ready.found, layout_of(arrays)
        program, dims, size = found.program, len(layout.extents), prod(layout.shape)
        is_array = [isinstance(v, self.array_type) for v in values]
        chosen = [i for i in found.used if is_array[i]]
        steps = [n for i in chosen for n in (layout.steps[sum(is_array[:i])] if dims else ())]
        width = 0 if max(size, _reach(layout)) > MOST_OF_32_BITS else 1 if dims else program.width
        index, extent = (np.int32, np.uint32) if width else (np.int64, np.int64)
        rest = [dtype.type(p) for p, dtype in zip(found.parameters, program.parameters, strict=True)]
        rest += [*map(extent, layout.extents[1:]), *map(index, steps)]
        packs = [values[i].dtype.itemsize * width for i in chosen] if width > 1 else []
        return _Launch(
            layout=layout,
            kernel=self._kernel(ready, dims, width) if size else None,
            grid=_grid(size, width),
            size=index(size),
            arrays=chosen,
            numbers=[i for i in found.used if not is_array[i]],
            rest=rest,
            packs=packs,
        )

    def _one_by_one(self, ready: _Ready, launch: _Launch) -> _Launch:
        """The same launch for arrays that do not begin at a multiple of what is loaded together."""
        return launch._replace(kernel=self._kernel(ready, 0, 1), grid=_grid(int(launch.size), 1))

    def _kernel(self, ready: _Ready, dims: int, width: int) -> Callable[..., Any]:
        kernel = ready.kernels.get((dims, width))
        if kernel is None:
            program = ready.found.program
            kernel = ready.kernels[dims, width] = self.compile(program.source(dims, width), program.name)
            self.counts["compiled"] += 1
        return kernel


def _reach(layout: Layout) -> int:
    """The largest distance of an element from the first one."""
    return max(
        (sum((n - 1) * abs(s) for n, s in zip(layout.extents, row, strict=True)) for row in layout.steps), default=0
    )


def _grid(size: int, width: int) -> tuple[int]:
    """Blocks: enough for all elements where each thread computes `width` of them, or has a loop (0)."""
    return (-(-size // (THREADS * width)) if width else min(-(-size // THREADS), MOST_BLOCKS),)


class _Ready(NamedTuple):
    """A traced formula, its compiled kernels by dims and elements of a thread, and prepared launches by layout."""

    found: Traced
    kernels: dict[tuple[int, int], Callable[..., Any]]
    launches: dict[Any, _Launch]


class _Launch(NamedTuple):
    """Everything about a launch but the operands; no kernel where there are no elements.

    `arrays` and `numbers` are the positions of the operands that the kernel reads, `rest` its further arguments,
    `packs` the bytes of each array that it loads together, if it does.
    """

    layout: Layout
    kernel: Callable[..., Any] | None
    grid: tuple[int]
    size: Any
    arrays: list[int]
    numbers: list[int]
    rest: list[Any]
    packs: list[int]


def _parts(value: Any) -> list[Any]:
    """A NumPy scalar as arguments of a kernel."""
    if value.dtype.kind == "c":
        return [value.real, value.imag]
    return [computed(value.dtype).type(value)]
