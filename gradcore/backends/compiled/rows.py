"""Softmax, cross entropy, normalization and cumulative sums by kernels of the compiled library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls, as_dense
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.kernel_rules import RowKernel, row_kernels, width_of_rows
from gradcore.backends.numpy import threads
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.backends.numpy.row_blocks import rows_of
from gradcore.backends.portable.normalization import NormGradients, Triple
from gradcore.core.typing import AnyArray

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["ROW_KERNELS", "CompiledRows"]

#: Elements from which a kernel is faster than NumPy's functions (declared ones always are, but for narrow rows from so
#: many elements on), and elements from which a thread pays off. Tests that set the former to 1 switch off the least
#: widths, too.
_LARGE, _WORTH_A_THREAD = 1 << 12, 1 << 14
#: Elements of a group of rows whose gradients of weights are added in sequence.
_PART = 1 << 15
#: The declared kernels by the names of their methods.
ROW_KERNELS = row_kernels(NumpyBackend)
#: The points of a channel from which group norm is faster than NumPy's functions, and the width of rows that are not
#: declared. Short rows leave SIMD lanes unused.
_GROUP_NORM, _ROW = 16, 32
#: Columns of a part, as in `rows.h`; plans of calls that are cached.
_COLUMNS, _MOST_PLANS = 64, 1_000


Condition = Callable[..., bool]


def _takes_logsumexp(backend: object, x: Array, dims: Sequence[int] | None, keepdim: bool) -> bool:
    if not x.ndim or dims != (x.ndim - 1,) or not _are_floats(x) or x.shape[-1] < _ROW <= _LARGE or not x.flags.aligned:
        return False
    # A single long row is computed elsewhere if several threads can share its parts.
    return x.size > x.shape[-1] or x.size < 2 * _WORTH_A_THREAD or threads.available() < 2


def _takes_images(points: int) -> Condition:
    return lambda backend, x, weight, bias, *settings: _usual(points, prod(x.shape[2:]), x, weight, bias)


def _takes_batch(backend: object, x: Array, weight: Array | None, bias: Array | None, eps: float) -> bool:
    return _are_floats(x, weight, bias)


def _are_floats(x: Array, *others: Array | None) -> bool:
    """Return whether `x` has elements, which are floats, and the other arrays have its dtype."""
    return x.size > 0 and x.dtype.char in "fd" and all(a is None or a.dtype is x.dtype for a in others)


def _takes_statistics(backend: object, x: Array, *arrays: Any) -> bool:
    return x.ndim > 2 and _are_floats(x, *arrays[:-1])


def _takes_cross_entropy(backend: object, rows: Array, target: Array) -> bool:
    # Instead of some twenty calls of NumPy, there is one of the kernel: it is faster for arrays of any size.
    return rows.dtype.char in "fd" and rows.flags.aligned


def _takes_cross_entropy_gradients(backend: object, grad: Array, target: Array, powers: Array, total: Array) -> bool:
    dtype = powers.dtype
    if dtype.char not in "fd" or not powers.size or not powers.flags.c_contiguous:
        return False
    return all(a.dtype is dtype and a.flags.aligned for a in (grad, powers, total))


def _takes_softmax_in_place(backend: object, x: Array) -> bool:
    return x.ndim > 0 and x.flags.c_contiguous and _usual(_ROW, x.shape[-1], x)


def _takes_layer_gradients(backend: object, arguments: NormGradients) -> bool:
    x = arguments.x
    width = prod(x.shape[x.ndim - arguments.size :])
    return arguments.of_result_alone and _usual(_ROW, width, x, arguments.grad, arguments.weight)


def _takes_group_gradients(backend: object, arguments: NormGradients) -> bool:
    grad, _, _, x, *parameters = arguments.arrays
    return arguments.of_result_alone and _usual(_GROUP_NORM, prod(x.shape[2:]), x, grad, *parameters)


def _takes_batch_gradients(backend: object, arguments: NormGradients) -> bool:
    grad, _, _, x, *parameters = arguments.arrays
    return arguments.of_result_alone and _are_floats(x, grad, *parameters)


class CompiledRows(CompiledCalls):
    """Kernels of contiguous rows of float32 and float64: those declared by `native_rows`, and normalizations."""

    @cached_property
    def _plans(self) -> dict[tuple[Any, ...], _Plan | None]:
        return {}

    def _run(
        self,
        name: str,
        shape: tuple[int, ...],
        *arrays: Any,
        parts: int | None = None,
        inner: int = 0,
        cycle: int = 0,
        number: float = 0.0,
    ) -> None:
        """Run a kernel on all rows (or parts of rows) of contiguous arrays of one dtype."""
        height, width = shape
        work = parts or height, height, width, inner, cycle, number  # the fields of `Work`
        count, function = threads.available(), self._function(name, arrays[0].dtype.char)
        if not function(*work, height * width, _WORTH_A_THREAD, count, *arrays):
            raise AssertionError(f"the arrays of {name} are not contiguous and aligned")

    # -- exponentials ----------------------------------------------------------------------------------------

    @kernel_for(_takes_logsumexp)
    def logsumexp_over(self, x: Array, dims: Sequence[int] | None, keepdim: bool) -> Array:
        rows = rows_of(x)
        out = np.empty(x.shape[:-1] + (1,) * keepdim, x.dtype)
        self._run("logsumexp", rows.shape, rows, out)
        return out

    @kernel_for(_takes_softmax_in_place)
    def _softmax_in_place(self, x: Array) -> Array:
        rows = x.reshape(-1, x.shape[-1])
        self._run("softmax_or_zero", rows.shape, rows, rows)
        return x

    @kernel_for(_takes_cross_entropy)
    def cross_entropy_rows(self, rows: Array, target: Array) -> Triple:
        height, width = rows.shape
        powers, losses, total = [np.empty(shape, rows.dtype) for shape in (rows.shape, height, height)]
        classes = as_dense(target, np.int64)
        self._run("cross_entropy_rows", (height, width), rows, classes, powers, losses, total)
        return powers, losses, total

    @kernel_for(_takes_cross_entropy_gradients)
    def cross_entropy_rows_backward(self, grad: Array, target: Array, powers: Array, total: Array) -> Array:
        upstream, classes = as_dense(grad), as_dense(target, np.int64)
        out, inner = np.empty(powers.shape, powers.dtype), int(upstream.size > 1)
        arrays = upstream, classes, powers, as_dense(total), out
        self._run("cross_entropy_rows_backward", powers.shape, *arrays, inner=inner)
        return out

    # -- normalization over the last dims --------------------------------------------------------------------

    @kernel_for(_takes_layer_gradients, NormGradients)
    def layer_norm_backward(self, arguments: NormGradients) -> Triple:
        grad, _, _, x, weight, mean, var, eps, needs, ndims = arguments
        normalized = x.shape[x.ndim - ndims :]
        width = prod(normalized)
        rows, grads = _matrix(x, width), _matrix(grad, width)
        factors, means, variances = _vector(weight, 1, width, x.dtype), *(as_dense(a) for a in (mean, var))
        out, parts = _like(x), min(max(rows.size // _PART, 1), len(rows))
        shape = normalized if parts == 1 else (parts, *normalized)
        to_weight, to_bias = np.empty(shape, x.dtype), np.empty(shape, x.dtype)
        arrays = grads, rows, factors, means, variances, out, to_weight, to_bias
        self._run("layer_norm_backward", rows.shape, *arrays, number=eps, parts=parts)
        if parts > 1:
            to_weight, to_bias = np.add.reduce(to_weight, 0), np.add.reduce(to_bias, 0)
        return out if needs[0] else None, to_weight if needs[1] else None, to_bias if needs[2] else None

    # -- normalization of channels ---------------------------------------------------------------------------

    @kernel_for(_takes_images(_GROUP_NORM))
    def native_group_norm(self, x: Array, weight: Array | None, bias: Array | None, groups: int, eps: float) -> Triple:
        (batch, channels), points = x.shape[:2], prod(x.shape[2:])
        rows = _matrix(x, channels // groups * points)
        out, (mean, var) = _like(x), np.empty((2, batch, groups), x.dtype)
        arrays = rows, _vector(weight, 1, channels, x.dtype), _vector(bias, 0, channels, x.dtype), out, mean, var
        self._run("group_norm", rows.shape, *arrays, inner=points, cycle=groups, number=eps)
        return out, mean, var

    @kernel_for(_takes_batch)
    def native_batch_norm(self, x: Array, weight: Array | None, bias: Array | None, eps: float) -> Triple:
        channels, dtype = x.shape[1], x.dtype
        out, mean, var = _like(x), np.empty(channels, dtype), np.empty(channels, dtype)
        vectors = _vector(weight, 1, channels, dtype), _vector(bias, 0, channels, dtype)
        name, shape, parts = _parts_of_batch(x)
        self._run(name, shape, as_dense(x), *vectors, out, mean, var, parts=parts, number=eps)
        return out, mean, var

    @kernel_for(_takes_statistics)
    def batch_norm_given(
        self, x: Array, mean: Array, var: Array, weight: Array | None, bias: Array | None, eps: float
    ) -> Array:
        channels, planes = x.shape[1], _matrix(x, prod(x.shape[2:]))
        scale = 1 / np.sqrt(var + x.dtype.type(eps))
        factor = scale if weight is None else scale * weight
        out, vectors = _like(x), (as_dense(mean), factor, _vector(bias, 0, channels, x.dtype))
        self._run("plane_line", planes.shape, planes, *vectors, out, cycle=channels)
        return out

    @kernel_for(_takes_group_gradients, NormGradients)
    def group_norm_backward(self, arguments: NormGradients) -> Triple:
        grad, _, _, x, weight, mean, var, eps, needs, groups = arguments
        (batch, channels), points = x.shape[:2], prod(x.shape[2:])
        rows, grads = (_matrix(a, channels // groups * points) for a in (x, grad))
        means, variances = (as_dense(a) for a in (mean, var))
        out, (to_weight, to_bias) = _like(x), np.empty((2, batch, channels), x.dtype)
        arrays = grads, rows, _vector(weight, 1, channels, x.dtype), means, variances, out, to_weight, to_bias
        self._run("group_norm_backward", rows.shape, *arrays, inner=points, cycle=groups, number=eps)
        return (
            out if needs[0] else None,
            np.add.reduce(to_weight, 0) if needs[1] else None,
            np.add.reduce(to_bias, 0) if needs[2] else None,
        )

    @kernel_for(_takes_batch_gradients, NormGradients)
    def batch_norm_backward(self, arguments: NormGradients) -> Triple:
        grad, _, _, x, weight, mean, var, eps, needs, _ = arguments
        channels, dtype = x.shape[1], x.dtype
        out, to_weight, to_bias = _like(x), np.empty(channels, dtype), np.empty(channels, dtype)
        inputs = map(as_dense, (grad, x, _vector(weight, 1, channels, dtype), mean, var))
        name, shape, parts = _parts_of_batch(x)
        outs, settings = (out, to_weight, to_bias), {"parts": parts, "inner": int(needs[0])}
        self._run(f"{name}_backward", shape, *inputs, *outs, **settings, number=eps)
        return out if needs[0] else None, to_weight if needs[1] else None, to_bias if needs[2] else None


class _Plan(NamedTuple):
    """A call of a declared kernel for arguments of one shape and dtype, which later calls reuse."""

    height: int
    width: int
    dtype: np.dtype[Any]
    #: Shape and dtype of each result.
    results: list[tuple[tuple[int, ...], Any]]
    #: Whether rows are so narrow that NumPy's functions are faster on many elements.
    is_narrow: bool


def _eager(kernel: RowKernel) -> Any:
    """Return a method of the backend that calls a declared kernel, or the next one for arguments that it declines."""
    # Values that depend on the declaration alone are computed once, because a call only takes two microseconds.
    symbol, call, further_reads, number = kernel.symbol, kernel.call, kernel.reads[1:], kernel.call.value
    count = len(further_reads)
    dims, setting = (at if at < 0 else at + count for at in (call.dims, call.number))
    of_elements = all(word == "rows" for word in kernel.writes)
    least_width, empty, available = kernel.least_width, np.empty, threads.available
    defaults = [word.partition("=")[2] for word in further_reads]
    width_of = width_of_rows(kernel, call)

    def prepare(x: Any, rest: tuple[Any, ...]) -> _Plan | None:
        shape, kind = x.shape, x.dtype
        width = width_of(x, rest) if x.size else 0
        if width == 0:
            return None
        number_of_dims = 1 if dims < 0 else rest[dims]
        height = x.size // width
        kept = shape[: x.ndim - number_of_dims] + (1,) * number_of_dims
        shapes = {"row": (height,), "kept": kept}
        results = [(shapes.get(word, shape), np.int64 if word == "index" else kind) for word in kernel.writes]
        return _Plan(height, width, kind, results, width < least_width)

    def run(backend: CompiledRows, x: Any, *rest: Any) -> Any:
        key: tuple[Any, ...] = symbol, x.shape, x.dtype, rest
        if count:
            arrays = [None if a is None else (a.shape, a.dtype) for a in rest[:count]]
            key = symbol, x.shape, x.dtype, rest[count:], *arrays
        plans = backend._plans
        try:
            plan = plans[key]
        except KeyError:
            if len(plans) >= _MOST_PLANS:
                plans.clear()
            plan = plans[key] = prepare(x, rest)
        if plan is None or (plan.is_narrow and least_width <= _LARGE <= x.size):
            return NotImplemented
        height, width, kind, formats, _ = plan
        inputs = [x]
        for default, array in zip(defaults, rest, strict=False):
            inputs.append(_repeat(int(default), width, kind.char) if array is None else array)
        # No result is a view of a longer array, which a leaf would have to copy.
        results = [empty(*each) for each in formats]
        value = number if setting < 0 else rest[setting] if setting < len(rest) else 0
        work = height, height, width, 0, 0, value, height * width, _WORTH_A_THREAD, available()
        function = backend._function(symbol, kind.char)
        if not function(*work, *inputs, *results):
            function(*work, *[as_dense(a) for a in inputs], *results)
        return results[0] if of_elements else tuple(results)

    return kernel_for(None)(run)


def _usual(least_width: int, width: int, x: Any, *others: Any) -> bool:
    """Return whether a kernel supports `x`: many floats of one dtype, in rows of at least `least_width` elements."""
    dtype = x.dtype
    if dtype.char not in "fd" or x.size < _LARGE or width < least_width <= _LARGE or not x.flags.aligned:
        return False
    return all(a is None or (a.dtype == dtype and a.flags.aligned) for a in others)


def _parts_of_batch(x: Any) -> tuple[str, tuple[int, int], int]:
    """Return the kernel of batch norm, the shape of its matrices, and the number of parts of whole channels."""
    batch, channels, *size = x.shape
    if not size:
        return "batch_norm_columns", x.shape, -(-channels // _COLUMNS)
    return "batch_norm_images", (batch * channels, prod(size)), channels


def _like(x: Any) -> Any:
    """Return a new contiguous array of the shape of `x`, which is no view: a leaf would have to copy one."""
    return np.empty(x.shape, x.dtype)


def _matrix(x: Any, width: int) -> Any:
    """Return `x` as contiguous rows of this width."""
    return as_dense(x).reshape(-1, width)


def _vector(x: Any, default: int, count: int, dtype: Any) -> Any:
    """Return `x` as a vector, or `count` times the default if it is None."""
    return _repeat(default, count, dtype.char) if x is None else as_dense(x)


#: The largest number of elements of a vector that `_repeat` keeps.
_LONGEST_REPEATED = 1 << 12


def _repeat(value: int, count: int, char: str) -> AnyArray:
    """Return a vector of `count` elements `value`, which nobody may write to. Short vectors are cached."""
    return _make_repeated(value, count, char) if count <= _LONGEST_REPEATED else np.full(count, value, char)


@lru_cache(64)
def _make_repeated(value: int, count: int, char: str) -> AnyArray:
    return np.full(count, value, char)


for _name, _kernel in ROW_KERNELS.items():
    setattr(CompiledRows, _name, _eager(_kernel))
    vars(CompiledRows)[_name].__set_name__(CompiledRows, _name)
