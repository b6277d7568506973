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
#: The points of a channel from which batch norm, its gradient, and group norm are faster than NumPy's functions, and
#: the width of rows that are not declared. Short rows leave SIMD lanes unused.
_BATCH_NORM, _BATCH_NORM_BACKWARD, _GROUP_NORM, _ROW = 128, 16, 16, 32
#: Columns of a part, as in `rows.h`; plans of calls that are cached.
_COLUMNS, _MOST_PLANS = 64, 1_000


Condition = Callable[..., bool]


def _takes_logsumexp(backend: object, x: Array, dims: Sequence[int] | None, keepdim: bool) -> bool:
    # A single row is computed elsewhere, by threads that share its parts.
    last_dim = x.ndim - 1
    return last_dim > 0 and dims == (last_dim,) and x.size > x.shape[last_dim] and _usual(_ROW, x.shape[last_dim], x)


def _takes_images(points: int) -> Condition:
    return lambda backend, x, weight, bias, *settings: _usual(points, prod(x.shape[2:]), x, weight, bias)


def _takes_batch(backend: object, x: Array, weight: Array | None, bias: Array | None, eps: float) -> bool:
    if x.ndim == 2:
        return _are_columns(x, weight, bias)
    return _usual(_BATCH_NORM, prod(x.shape[2:]), x, weight, bias)


def _are_columns(x: Array, *others: Array | None) -> bool:
    """Return whether the columns of a matrix of floats are normalized, and the other arrays have its dtype."""
    return x.size > 0 and x.dtype.char in "fd" and all(a is None or a.dtype is x.dtype for a in others)


def _takes_statistics(backend: object, x: Array, *arrays: Any) -> bool:
    return _usual(_BATCH_NORM, prod(x.shape[2:]), x, *arrays[:-1])


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
    x = arguments.x
    points = prod(x.shape[2:])
    if x.ndim == 2:
        return arguments.of_result_alone and _are_columns(x, arguments.grad, arguments.weight)
    return arguments.of_result_alone and _usual(_BATCH_NORM_BACKWARD, points, x, arguments.grad, arguments.weight)


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
        if x.ndim == 2:
            out, (width, kind) = _like(x), (x.shape[1], x.dtype)
            mean, var = np.empty(width, kind), np.empty(width, kind)
            arrays = as_dense(x), _vector(weight, 1, width, kind), _vector(bias, 0, width, kind), out
            self._run("batch_norm_columns", x.shape, *arrays, mean, var, parts=_count_columns(width), number=eps)
            return out, mean, var
        (batch, channels), points = x.shape[:2], prod(x.shape[2:])
        planes, count = _matrix(x, points), batch * points
        mean = self._moments(planes, np.zeros(batch * channels, x.dtype))[0].reshape(batch, channels).sum(0) / count
        var = self._moments(planes, np.tile(mean, batch))[1].reshape(batch, channels).sum(0) / count
        scale = 1 / np.sqrt(var + x.dtype.type(eps))
        center, scale = (np.tile(a, (batch, 1)) for a in (mean, scale))
        return self._line(x, center, scale, weight, bias), mean, var

    @kernel_for(_takes_statistics)
    def batch_norm_given(
        self, x: Array, mean: Array, var: Array, weight: Array | None, bias: Array | None, eps: float
    ) -> Array:
        center, scale = (np.tile(a, (len(x), 1)) for a in (mean, 1 / np.sqrt(var + x.dtype.type(eps))))
        return self._line(x, center, scale, weight, bias)

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
        if x.ndim == 2:
            out, (width, kind) = _like(x), (x.shape[1], x.dtype)
            to_weight, to_bias = np.empty(width, kind), np.empty(width, kind)
            inputs = map(as_dense, (grad, x, _vector(weight, 1, width, kind), mean, var))
            parts = _count_columns(width)
            self._run("batch_norm_columns_backward", x.shape, *inputs, out, to_weight, to_bias, parts=parts, number=eps)
            return out if needs[0] else None, to_weight if needs[1] else None, to_bias if needs[2] else None
        batch, points = len(x), prod(x.shape[2:])
        r = 1 / np.sqrt(var + x.dtype.type(eps))
        center = np.tile(mean, (batch, 1))
        total, product = (a.sum(0) for a in self._products(grad, x, center))
        result = None
        if needs[0]:
            scale, count = r if weight is None else r * weight, batch * points
            lines = scale, product * (scale * r * r) / -count, total * scale / -count
            result = self._plane(grad, x, center, *(np.tile(a, (batch, 1)) for a in lines))
        return result, product * r if needs[1] else None, total if needs[2] else None

    # -- planes: numbers for each image and channel ----------------------------------------------------------

    def _moments(self, planes: Any, center: Any) -> tuple[Any, Any]:
        """Return, for each plane, the sums of its elements minus its center, and of their squares."""
        total, squares = np.empty((2, len(planes)), planes.dtype)
        self._run("plane_moments", planes.shape, planes, center, total, squares)
        return total, squares

    def _products(self, grad: Any, x: Any, center: Any) -> tuple[Any, Any]:
        """Return, for each plane, the sums of `grad` and of ``grad * (x - center)``."""
        points = prod(x.shape[2:])
        grads, planes = _matrix(grad, points), _matrix(x, points)
        total, product = np.empty((2, *x.shape[:2]), x.dtype)
        self._run("plane_products", planes.shape, grads, planes, center, total, product)
        return total, product

    def _line(self, x: Any, center: Any, scale: Any, weight: Any, bias: Any) -> Any:
        """Compute ``(x - center) * scale * weight + bias``, with a weight and bias per channel."""
        planes = _matrix(x, prod(x.shape[2:]))
        if weight is not None:
            scale = scale * weight
        shift = np.zeros_like(scale) if bias is None else np.tile(bias, (len(scale), 1))
        out = _like(x)
        self._run("plane_line", planes.shape, planes, center, scale, shift, out)
        return out

    def _plane(self, grad: Any, x: Any, center: Any, scale: Any, slope: Any, shift: Any) -> Any:
        """Compute ``grad * scale + ((x - center) * slope + shift)``."""
        points = prod(x.shape[2:])
        grads, planes = _matrix(grad, points), _matrix(x, points)
        out = _like(x)
        self._run("plane_plane", planes.shape, grads, planes, center, scale, slope, shift, out)
        return out


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


def _count_columns(width: int) -> int:
    """Return the number of parts of a matrix whose columns are normalized."""
    return -(-width // _COLUMNS)


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
