"""Fused kernels on CUDA: traced and compiled on first use, cached, and launched."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradcore.backends.codegen import emit_cuda
from gradcore.backends.codegen.expr import Expr, NotFusible
from gradcore.backends.codegen.layout import Layout, layout_of
from gradcore.backends.codegen.schedule import Input, Kernel
from gradcore.backends.codegen.trace import Formula, compute_dtype, trace

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["Fusion"]

#: Threads of a block, and largest number of blocks. A grid-stride loop handles the remaining elements.
THREADS, MOST_BLOCKS = 256, 1 << 16
#: The largest index, and number of elements, for kernels with 32-bit indices: a grid's last threads may exceed it.
MOST_OF_32_BITS = 2**31 - 1 - 8 * THREADS

_BLOCK = (THREADS,)

#: Largest numbers of entries of the caches: of formulas with dtypes and settings, and of layouts for each of them.
_MOST_FORMULAS, _MOST_LAYOUTS = 10_000, 1_000

#: Functions that CuPy computes differently from NumPy, or with undefined behaviour. They become kernels even alone.
_NOT_LEFT_TO_CUPY = {"floor_divide", "lcm", "left_shift", "remainder", "right_shift", "xlog1py"}

_Dtypes = tuple[np.dtype[Any] | None, ...]


class Fusion:
    """Runs each elementwise formula as one fused kernel.

    Parameters
    ----------
    xp : module
        CuPy, or a library with its interface.
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
        array_type: type[Any],
        bodies: dict[str, Callable[..., Any]],
        compile: Callable[[str, str], Callable[..., Any]],
        address: Callable[[Array], int],
    ) -> None:
        self.xp, self.array_type, self.bodies, self.compile, self.address = xp, array_type, bodies, compile, address
        self._formulas: dict[Any, _Compiled | None] = {}
        #: Compiled kernels by their source, so that formulas with the same source share a kernel.
        self._kernels: dict[str, Callable[..., Any]] = {}
        #: Numbers of compiled kernels, of launches, and of traced formulas.
        self.counts: Counter[str] = Counter()

    def run(
        self,
        name: str,
        key: Any,
        formula: Formula,
        operands: Sequence[tuple[str, Any]],
        compute: _Dtypes | None = None,
        stored: _Dtypes | None = None,
    ) -> list[Array] | None:
        """Return the results of a formula, or None if it cannot be fused or gains nothing by it.

        Parameters
        ----------
        name : str
            A name for the kernel.
        key : hashable
            Identifies the formula, along with the dtypes and settings of its operands.
        formula : callable
            ``(F, *operands) -> results``.
        operands : sequence of (str, operand)
            Names and values: arrays, NumPy scalars, settings.
        compute : tuple of dtype or None, optional
            The dtypes that operands are converted to first.
        stored : tuple of dtype or None, optional
            The dtypes that results are converted to at the end.
        """
        array_type = self.array_type
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
                kinds.append((type(value), value or repr(value)))  # 0.0 is not -0.0
        full_key = key, tuple(kinds), compute, stored
        if full_key not in self._formulas:
            self._formulas[full_key] = self._trace(name, formula, operands, compute, stored)
        compiled = self._formulas[full_key]
        return None if compiled is None else self._results(compiled, values)

    def launcher(self, kernel: Kernel) -> Callable[[list[Any]], list[Array]]:
        """Return a function that launches a traced kernel: it takes a list of operands and returns the results."""
        return functools.partial(self._results, _Compiled(kernel, {}, {}))

    def _trace(
        self,
        name: str,
        formula: Formula,
        operands: Sequence[tuple[str, Any]],
        compute: _Dtypes | None,
        stored: _Dtypes | None,
    ) -> _Compiled | None:
        if len(self._formulas) >= _MOST_FORMULAS:
            self._formulas.clear()
        operands_by_name: list[tuple[str, Any]] = []
        for i, (label, value) in enumerate(operands):
            if isinstance(value, (self.array_type, np.generic)):
                is_array, compute_type = not isinstance(value, np.generic), None if compute is None else compute[i]
                operands_by_name.append((label, Input(value.dtype, is_array, compute_type)))
            else:
                operands_by_name.append((label, value))
        self.counts["traced"] += 1
        try:
            kernel = trace(f"fused_{name}", formula, operands_by_name, emit_cuda.CudaTracer(self.bodies), stored)
        except NotFusible:
            return None
        computed = kernel.computed
        steps = len(computed) + sum(compute_dtype(dtype) != dtype for dtype in kernel.dtypes)
        if kernel.outputs and steps < 2 and not any(map(_differs, computed)):
            return None  # The array library has a kernel for a single step.
        if kernel.outputs and not any(isinstance(value, self.array_type) for _, value in operands):
            return None  # All operands are numbers of the host.
        return _Compiled(kernel, {}, {})

    def _results(self, compiled: _Compiled, values: list[Any]) -> list[Array]:
        kernel = compiled.kernel
        outputs: list[Array] = []
        if kernel.outputs:
            arrays = [v for v in values if isinstance(v, self.array_type)]
            key = tuple([(a.shape, a.strides) for a in arrays])
            launch = compiled.launches.get(key)
            if launch is None:
                if len(compiled.launches) >= _MOST_LAYOUTS:
                    compiled.launches.clear()
                launch = compiled.launches[key] = self._prepare(compiled, values, arrays)
            outputs = [self._empty(launch.layout, dtype) for _, dtype in kernel.outputs]
            if launch.function is not None:
                arrays_read = [values[i] for i in launch.arrays]
                if launch.alignments and any(
                    self.address(a) % n for a, n in zip(arrays_read, launch.alignments, strict=True)
                ):
                    launch = self._make_unaligned_launch(compiled, launch)
                scalars = [part for i in launch.scalars for part in _arguments(values[i])]
                function: Any = launch.function
                function(launch.grid, _BLOCK, (launch.size, *arrays_read, *outputs, *scalars, *launch.rest))
                self.counts["launched"] += 1
        return [outputs[i] if is_output else values[i] for is_output, i in kernel.results]

    def _empty(self, layout: Layout, dtype: np.dtype[Any]) -> Array:
        """Return a new array for an output, dense and in the memory order of the layout."""
        if layout.order is None:
            return self.xp.empty(layout.shape, dtype)
        dims = [layout.order.index(d) for d in range(len(layout.shape))]
        return self.xp.empty(tuple(layout.shape[d] for d in layout.order), dtype).transpose(dims)

    def _prepare(self, compiled: _Compiled, values: list[Any], arrays: list[Array]) -> _Launch:
        kernel, layout = compiled.kernel, layout_of(arrays)
        dims, size = len(layout.extents), prod(layout.shape)
        is_array = [isinstance(v, self.array_type) for v in values]
        positions = [i.position for i in kernel.arrays]
        strides = [n for i in positions for n in (layout.strides[sum(is_array[:i])] if dims else ())]
        too_far = max(size, _reach(layout)) > MOST_OF_32_BITS
        width = 0 if too_far else 1 if dims else emit_cuda.vector_width(kernel)
        index, extent = (np.int32, np.uint32) if width else (np.int64, np.int64)
        rest = [p.dtype.type(float(p.scalar)) for p in kernel.parameters]
        rest += [*map(extent, layout.extents[1:]), *map(index, strides)]
        return _Launch(
            layout=layout,
            function=self._function(compiled, dims, width) if size else None,
            grid=_grid(size, width),
            size=index(size),
            arrays=positions,
            scalars=[i.position for i in kernel.inputs if not i.is_array],
            rest=rest,
            alignments=[i.dtype.itemsize * width for i in kernel.arrays] if width > 1 else [],
        )

    def _make_unaligned_launch(self, compiled: _Compiled, launch: _Launch) -> _Launch:
        """Return a launch like this one for arrays that are not aligned for vector loads."""
        return launch._replace(function=self._function(compiled, 0, 1), grid=_grid(int(launch.size), 1))

    def _function(self, compiled: _Compiled, dims: int, width: int) -> Callable[..., Any]:
        function = compiled.functions.get((dims, width))
        if function is None:
            source = emit_cuda.emit(compiled.kernel, dims, width)
            function = self._kernels.get(source)
            if function is None:
                function = self._kernels[source] = self.compile(source, compiled.kernel.name)
                self.counts["compiled"] += 1
            compiled.functions[dims, width] = function
        return function


def _differs(expr: Expr) -> bool:
    """Return whether CuPy computes this expression differently, or C++ leaves it undefined."""
    name = expr.function
    return name in _NOT_LEFT_TO_CUPY or (expr.dtype.kind == "c" and name in emit_cuda.OF_COMPLEX)


def _reach(layout: Layout) -> int:
    """Return the largest distance of an element from the first one, in elements."""
    return max(
        (sum((n - 1) * abs(s) for n, s in zip(layout.extents, row, strict=True)) for row in layout.strides), default=0
    )


def _grid(size: int, width: int) -> tuple[int]:
    """Return the number of blocks, enough for `size` elements if a thread computes `width` (0: has a loop)."""
    return (-(-size // (THREADS * width)) if width else min(-(-size // THREADS), MOST_BLOCKS),)


class _Compiled(NamedTuple):
    """A kernel with its compiled functions, by dims and vector width, and its launches, by layout."""

    kernel: Kernel
    functions: dict[tuple[int, int], Callable[..., Any]]
    launches: dict[Any, _Launch]


class _Launch(NamedTuple):
    """A launch without its operands. The function is None if there are no elements.

    `arrays` and `scalars` are the positions of the operands that the kernel reads. `rest` are its further arguments.
    `alignments` has, for each array, the bytes that are loaded together; it is empty if elements are loaded singly.
    """

    layout: Layout
    function: Callable[..., Any] | None
    grid: tuple[int]
    size: Any
    arrays: list[int]
    scalars: list[int]
    rest: list[Any]
    alignments: list[int]


def _arguments(scalar: Any) -> list[Any]:
    """Return a NumPy scalar as arguments of a kernel."""
    if scalar.dtype.kind == "c":
        return [scalar.real, scalar.imag]
    return [compute_dtype(scalar.dtype).type(scalar)]
