"""Fused kernels on CUDA: traced and compiled on first use, cached, and launched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradcore.backends.codegen import emit_cuda
from gradcore.backends.codegen.expr import Expr, NotFusible
from gradcore.backends.codegen.layout import Layout, layout_of
from gradcore.backends.codegen.schedule import Input, Kernel, Result
from gradcore.backends.codegen.trace import Formula, compute_dtype, trace

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["Fusion"]

#: Threads of a block, and largest number of blocks. A grid-stride loop handles the remaining elements.
THREADS, MOST_BLOCKS = 256, 1 << 16
#: The largest index, and number of elements, for kernels with 32-bit indices: a grid's last threads may exceed it.
MOST_OF_32_BITS = 2**31 - 1 - 8 * THREADS

_BLOCK = (THREADS,)

#: Largest numbers of entries of the caches: of formulas with dtypes and settings, of launches of all formulas, and of
#: layouts of one compiled group.
_MOST_FORMULAS, _MOST_LAUNCHES, _MOST_LAYOUTS = 10_000, 20_000, 1_000

#: Functions that CuPy computes differently from NumPy, or with undefined behaviour. They become kernels even alone.
_NOT_LEFT_TO_CUPY = {"floor_divide", "lcm", "left_shift", "remainder", "right_shift", "xlog1py"}

_Dtypes = tuple[np.dtype[Any] | None, ...]
_Values = Sequence[Any]
_Operands = Sequence[tuple[str, Any]]
#: How to allocate an output: the shape, the dtype, and the dims to transpose it by, or None.
_Output = tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...] | None]


class Fusion:
    """Runs each elementwise formula as one fused kernel.

    Parameters
    ----------
    array_type : type
        The class of arrays.
    bodies : dict
        Bodies of the operations by name.
    compile : callable
        ``(source, name) -> kernel``, which is launched as ``kernel(grid, block, arguments)``.
    address : callable
        From an array to the address of its first element.
    allocate : callable
        ``(shape, dtype) -> array``, whose elements have any values.
    as_argument : callable
        From a NumPy scalar to an argument of kernels that is passed many times.
    """

    def __init__(
        self,
        array_type: type[Any],
        bodies: dict[str, Callable[..., Any]],
        compile: Callable[[str, str], Callable[..., Any]],
        address: Callable[[Array], int],
        allocate: Callable[..., Array],
        as_argument: Callable[[np.generic], object],
    ) -> None:
        self.array_type, self.bodies, self.compile = array_type, bodies, compile
        self.address, self.allocate, self.as_argument = address, allocate, as_argument
        self._formulas: dict[Any, _Compiled | None] = {}
        #: Launches by formula, dtypes, settings and layouts; None for formulas that are not fused.
        self._launches: dict[tuple[object, ...], _Launch | None] = {}
        #: Compiled kernels by their source, so that formulas with the same source share a kernel.
        self._kernels: dict[str, Callable[..., Any]] = {}
        #: Numbers of compiled kernels, of launches, and of traced formulas.
        self.counts: Counter[str] = Counter()

    def run(
        self,
        name: str,
        key: object,
        formula: Formula,
        names: Iterable[str],
        values: _Values,
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
        names : iterable of str
            The names of the operands.
        values : sequence
            The operands: arrays, NumPy scalars, settings.
        compute : tuple of dtype or None, optional
            The dtypes that operands are converted to first.
        stored : tuple of dtype or None, optional
            The dtypes that results are converted to at the end.
        """
        array_type = self.array_type
        parts: list[object] = [key, compute, stored]  # in one list, as a tuple for each operand takes longer
        inputs: list[object] = []
        for value in values:
            if isinstance(value, array_type):
                parts += (value.dtype, value.shape, value.strides)
                inputs.append(value)
            elif isinstance(value, np.generic):
                parts += (None, value.dtype)
                inputs.append(value)
            else:
                parts += (type(value), value or repr(value))  # 0.0 is not -0.0
        full_key = tuple(parts)
        try:
            launch = self._launches[full_key]
        except KeyError:
            if len(self._launches) >= _MOST_LAUNCHES:
                self._launches.clear()
            operands = list(zip(names, values, strict=False))
            launch = self._launches[full_key] = self._find(name, key, formula, operands, compute, stored)
        return None if launch is None else self._run(launch, inputs)

    def launcher(self, kernel: Kernel) -> Callable[[_Values], list[Array]]:
        """Return a function that launches a traced kernel: it takes a list of arrays and returns the results."""
        compiled, launches = _Compiled(kernel, {}), dict[object, _Launch]()

        def run(arrays: _Values) -> list[Array]:
            key = tuple([(a.shape, a.strides) for a in arrays])
            launch = launches.get(key)
            if launch is None:
                if len(launches) >= _MOST_LAYOUTS:
                    launches.clear()
                launch = launches[key] = self._prepare(compiled, arrays)
            return self._run(launch, arrays)

        return run

    def _find(
        self,
        name: str,
        key: object,
        formula: Formula,
        operands: _Operands,
        compute: _Dtypes | None,
        stored: _Dtypes | None,
    ) -> _Launch | None:
        """Return the launch of a formula for these operands, or None if it is not fused."""
        kinds: list[Any] = []
        inputs: list[object] = []
        for _, value in operands:
            if isinstance(value, self.array_type):
                kinds.append(value.dtype)
                inputs.append(value)
            elif isinstance(value, np.generic):
                kinds.append((None, value.dtype))
                inputs.append(value)
            else:
                kinds.append((type(value), value or repr(value)))
        formula_key = key, tuple(kinds), compute, stored
        if formula_key not in self._formulas:
            self._formulas[formula_key] = self._trace(name, formula, operands, compute, stored)
        compiled = self._formulas[formula_key]
        return None if compiled is None else self._prepare(compiled, inputs)

    def _trace(
        self,
        name: str,
        formula: Formula,
        operands: _Operands,
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
        return _Compiled(kernel, {})

    def _run(self, launch: _Launch, values: _Values) -> list[Array]:
        """Launch a kernel for the operands that are no settings, and return the results of the formula."""
        allocate = self.allocate
        outputs: list[Array] = []
        for shape, dtype, dims in launch.outputs:
            output = allocate(shape, dtype)
            outputs.append(output if dims is None else output.transpose(dims))
        if launch.function is not None:
            arguments = [launch.size]
            for i, width in launch.arrays:
                array = values[i]
                arguments.append(array)
                if width and launch.for_unaligned and self.address(array) % width:
                    launch = launch.for_unaligned()
            arguments += outputs
            for i in launch.scalars:
                arguments += _arguments(values[i])
            arguments += launch.rest
            function: Any = launch.function
            function(launch.grid, _BLOCK, tuple(arguments))
            self.counts["launched"] += 1
        if launch.results is None:
            return outputs
        return [outputs[i] if is_output else values[i] for is_output, i in launch.results]

    def _prepare(self, compiled: _Compiled, values: _Values) -> _Launch:
        """Return the launch of a kernel for operands of these shapes, strides and dtypes."""
        kernel = compiled.kernel
        are_outputs = all(is_output and i == n for n, (is_output, i) in enumerate(kernel.results))
        results = None if are_outputs and len(kernel.results) == len(kernel.outputs) else kernel.results
        if not kernel.outputs:
            return _Launch([], None, (0,), None, [], [], [], results, None)
        is_array = [isinstance(v, self.array_type) for v in values]
        layout = layout_of([v for v in values if isinstance(v, self.array_type)])
        dims, size = len(layout.extents), prod(layout.shape)
        positions = [i.position for i in kernel.arrays]
        strides = [n for i in positions for n in (layout.strides[sum(is_array[:i])] if dims else ())]
        too_far = max(size, _reach(layout)) > MOST_OF_32_BITS
        width = 0 if too_far else 1 if dims else emit_cuda.vector_width(kernel)
        index, extent = (np.int32, np.uint32) if width else (np.int64, np.int64)
        rest = [p.dtype.type(float(p.scalar)) for p in kernel.parameters]
        rest += [*map(extent, layout.extents[1:]), *map(index, strides)]
        launch = _Launch(
            outputs=[_output_of(layout, dtype) for _, dtype in kernel.outputs],
            function=self._function(compiled, dims, width) if size else None,
            grid=_grid(size, width),
            size=self.as_argument(index(size)),
            arrays=[(i.position, i.dtype.itemsize * width if width > 1 else 0) for i in kernel.arrays],
            scalars=[i.position for i in kernel.inputs if not i.is_array],
            rest=[self.as_argument(number) for number in rest],
            results=results,
            for_unaligned=None,
        )
        if width <= 1 or not size:
            return launch

        def replace_function() -> _Launch:
            return launch._replace(function=self._function(compiled, 0, 1), grid=_grid(size, 1))

        return launch._replace(for_unaligned=replace_function)

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
    """A kernel with its compiled functions, by dims and vector width."""

    kernel: Kernel
    functions: dict[tuple[int, int], Callable[..., Any]]


class _Launch(NamedTuple):
    """A launch without its operands.

    Attributes
    ----------
    outputs : list of (shape, dtype, dims)
        How to allocate the outputs, and the dims to transpose them by, or None.
    function : callable or None
        The compiled kernel; None if there are no elements.
    grid : tuple of int
    size : object
        The number of elements, as an argument of the kernel.
    arrays : list of (int, int)
        The positions of the arrays that the kernel reads, each with the bytes that are loaded together, or 0 if
        elements are loaded singly.
    scalars : list of int
        The positions of the NumPy scalars that the kernel reads.
    rest : list
        The further arguments of the kernel.
    results : tuple of Result or None
        The results of the formula; None if they are the outputs.
    for_unaligned : callable or None
        Returns the launch for arrays that are not aligned for vector loads.
    """

    outputs: list[_Output]
    function: Callable[..., Any] | None
    grid: tuple[int]
    size: Any
    arrays: list[tuple[int, int]]
    scalars: list[int]
    rest: list[Any]
    results: Sequence[Result] | None
    for_unaligned: Callable[[], _Launch] | None


def _output_of(layout: Layout, dtype: np.dtype[Any]) -> _Output:
    """Return how to allocate an output, dense and in the memory order of the layout."""
    if layout.order is None:
        return layout.shape, dtype, None
    dims = tuple([layout.order.index(d) for d in range(len(layout.shape))])
    return tuple([layout.shape[d] for d in layout.order]), dtype, dims


def _arguments(scalar: Any) -> list[Any]:
    """Return a NumPy scalar as arguments of a kernel."""
    if scalar.dtype.kind == "c":
        return [scalar.real, scalar.imag]
    return [compute_dtype(scalar.dtype).type(scalar)]
