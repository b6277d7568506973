"""Softmax, cross entropy, normalization and cumulative sums by kernels of the compiled library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls, Work
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy import threads
from gradcore.backends.numpy.row_blocks import rows_of
from gradcore.backends.portable.normalization import NormGradients, Triple
from gradcore.core.typing import Array

__all__ = ["CompiledRows"]

#: Elements from which a kernel is faster than NumPy's functions, and that are worth a thread.
_LARGE, _WORTH_A_THREAD = 1 << 12, 1 << 14
#: Elements of the rows whose gradients of weights are added one after the other.
_PART = 1 << 15
#: The width of rows, or the points of a channel, from which a kernel is faster than NumPy's functions: in short rows
#: the lanes of the CPU have little to do.
_WIDTHS = {
    "softmax": 128, "log_softmax": 32, "row_powers": 32, "softmax_backward": 32, "log_softmax_backward": 32,
    "scaled_rows": 32, "cumulative_sum": 1, "cumulative_product": 1, "cumulative_extremum": 1, "layer_norm": 32,
    "layer_norm_backward": 32, "batch_norm": 128, "batch_norm_backward": 16, "group_norm": 16,
    "group_norm_backward": 16,
}  # fmt: skip


Condition = Callable[..., bool]


def _takes_rows(kernel: str) -> Condition:
    return lambda backend, x, dim: _fits(kernel, x, dim)


def _takes_pair(kernel: str) -> Condition:
    return lambda backend, t, y, dim: _fits(kernel, y, dim) and _alike(t, y)


def _takes_scale(backend: Any, rows: Array, scale: Array) -> bool:
    return _usual("scaled_rows", rows.shape[1], rows, scale) and len(scale) == len(rows)


def _takes_layer(backend: Any, x: Array, weight: Array, bias: Array, ndims: int, eps: float) -> bool:
    return _usual("layer_norm", prod(x.shape[x.ndim - ndims :]), x, weight, bias)


def _takes_images(kernel: str) -> Condition:
    return lambda backend, x, weight, bias, *settings: _usual(kernel, prod(x.shape[2:]), x, weight, bias)


def _takes_statistics(backend: Any, x: Array, *arrays: Any) -> bool:
    return _usual("batch_norm", prod(x.shape[2:]), x, *arrays[:-1])


def _takes_layer_gradients(backend: Any, given: NormGradients) -> bool:
    x = given.x
    width = prod(x.shape[x.ndim - given.size :])
    return given.of_result_alone and _usual("layer_norm_backward", width, x, given.grad, given.weight)


def _takes_group_gradients(backend: Any, given: NormGradients) -> bool:
    grad, _, _, x, *parameters = given.arrays
    return given.of_result_alone and _usual("group_norm_backward", prod(x.shape[2:]), x, grad, *parameters)


def _takes_batch_gradients(backend: Any, given: NormGradients) -> bool:
    x = given.x
    points = prod(x.shape[2:])
    return given.of_result_alone and _usual("batch_norm_backward", points, x, given.grad, given.weight)


class CompiledRows(CompiledCalls):
    """Kernels of contiguous rows of float32 and float64."""

    def _run(self, name: str, shape: tuple[int, int], *arrays: Any, parts: int | None = None, **more: Any) -> None:
        """Run a kernel on all rows, or on parts of more rows; arrays are contiguous and of one dtype."""
        height, width = shape
        function = self._function(name, arrays[-1].dtype.char, len(arrays))
        parts = parts or height
        grain = max(1, _WORTH_A_THREAD * parts // (height * width))
        function(ctypes.byref(Work(parts, height, width, **more)), grain, threads.available(), *arrays)

    # -- softmax ---------------------------------------------------------------------------------------------

    @kernel_for(_takes_rows("softmax"))
    def softmax_along(self, x: Array, dim: int) -> Array:
        return self._of_rows("softmax", x)

    @kernel_for(_takes_rows("log_softmax"))
    def log_softmax_along(self, x: Array, dim: int) -> Array:
        return self._of_rows("log_softmax", x)

    @kernel_for(_takes_pair("softmax_backward"))
    def softmax_product(self, t: Array, y: Array, dim: int) -> Array:
        return self._of_rows("softmax_backward", t, y)

    @kernel_for(_takes_pair("log_softmax_backward"))
    def log_softmax_transposed(self, t: Array, y: Array, dim: int) -> Array:
        return self._of_rows("log_softmax_backward", t, y)

    def _of_rows(self, name: str, *arrays: Any) -> Any:
        rows, out = [rows_of(a) for a in arrays], _like(arrays[0])
        self._run(name, rows[0].shape, *rows, out)
        return out

    @kernel_for(lambda self, rows: _fits("row_powers", rows, 1))
    def row_powers(self, rows: Array) -> Triple:
        powers, (top, total) = np.empty(rows.shape, rows.dtype), np.empty((2, len(rows)), rows.dtype)
        self._run("row_powers", rows.shape, rows, powers, top, total)
        return powers, top, total

    @kernel_for(_takes_scale)
    def scaled_rows(self, rows: Array, scale: Array) -> Array:
        out = _like(rows)
        self._run("scaled_rows", rows.shape, rows_of(rows), np.ascontiguousarray(scale), out)
        return out

    # -- cumulative sums -------------------------------------------------------------------------------------

    def cumsum_along(self, x: Any, dim: int, reverse: bool = False, dtype: Any = None) -> Any:
        if not _fits("cumulative_sum", x, dim) or (dtype is not None and dtype.numpy != x.dtype):
            return super().cumsum_along(x, dim, reverse, dtype)
        rows, out = rows_of(x), _like(x)
        self._run("cumulative_sum", rows.shape, rows, out, number=reverse)
        return out

    def cumprod_along(self, x: Any, dim: int, dtype: Any = None) -> Any:
        if not _fits("cumulative_product", x, dim) or (dtype is not None and dtype.numpy != x.dtype):
            return super().cumprod_along(x, dim, dtype)
        return self._of_rows("cumulative_product", x)

    @kernel_for(_takes_rows("cumulative_extremum"))
    def cummax_along(self, x: Array, dim: int) -> tuple[Array, Array]:
        return self._cumulative_extremum(x, least=False)

    @kernel_for(_takes_rows("cumulative_extremum"))
    def cummin_along(self, x: Array, dim: int) -> tuple[Array, Array]:
        return self._cumulative_extremum(x, least=True)

    def _cumulative_extremum(self, x: Any, least: bool) -> tuple[Any, Any]:
        rows, out, index = rows_of(x), _like(x), np.empty(x.shape, np.int64)
        work = Work(len(rows), *rows.shape, number=least)
        self.run_kernel("cumulative_extremum", x.dtype.char, work, x.size, rows, out, index)
        return out, index

    # -- normalization over the last dims --------------------------------------------------------------------

    @kernel_for(_takes_layer)
    def native_layer_norm(self, x: Array, weight: Array, bias: Array, ndims: int, eps: float) -> Triple:
        lead, last = x.shape[: x.ndim - ndims], x.shape[x.ndim - ndims :]
        rows = _matrix(x, prod(last))
        out, (mean, var) = _like(x), np.empty((2, len(rows)), x.dtype)
        factors, terms = _vector(weight, 1, rows.shape[1], x.dtype), _vector(bias, 0, rows.shape[1], x.dtype)
        self._run("layer_norm", rows.shape, rows, factors, terms, out, mean, var, number=eps)
        kept = lead + (1,) * ndims
        return out, mean.reshape(kept), var.reshape(kept)

    @kernel_for(_takes_layer_gradients, NormGradients)
    def layer_norm_backward(self, given: NormGradients) -> Triple:
        grad, _, _, x, weight, mean, var, eps, needs, ndims = given
        last = x.shape[x.ndim - ndims :]
        width = prod(last)
        rows, grads = _matrix(x, width), _matrix(grad, width)
        factors, means, variances = _vector(weight, 1, width, x.dtype), *(np.ascontiguousarray(a) for a in (mean, var))
        out, parts = _like(x), min(max(rows.size // _PART, 1), len(rows))
        to_weight, to_bias = np.empty((2, parts, *last), x.dtype)
        arrays = grads, rows, factors, means, variances, out, to_weight, to_bias
        self._run("layer_norm_backward", rows.shape, *arrays, number=eps, parts=parts)
        return (
            out if needs[0] else None,
            np.add.reduce(to_weight, 0) if needs[1] else None,
            np.add.reduce(to_bias, 0) if needs[2] else None,
        )

    # -- normalization of channels ---------------------------------------------------------------------------

    @kernel_for(_takes_images("group_norm"))
    def native_group_norm(self, x: Array, weight: Array, bias: Array, groups: int, eps: float) -> Triple:
        (batch, channels), points = x.shape[:2], prod(x.shape[2:])
        rows = _matrix(x, channels // groups * points)
        out, (mean, var) = _like(x), np.empty((2, batch, groups), x.dtype)
        given = rows, _vector(weight, 1, channels, x.dtype), _vector(bias, 0, channels, x.dtype), out, mean, var
        self._run("group_norm", rows.shape, *given, inner=points, cycle=groups, number=eps)
        return out, mean, var

    @kernel_for(_takes_images("batch_norm"))
    def native_batch_norm(self, x: Array, weight: Array, bias: Array, eps: float) -> Triple:
        (batch, channels), points = x.shape[:2], prod(x.shape[2:])
        planes, count = _matrix(x, points), batch * points
        mean = self._moments(planes, np.zeros(batch * channels, x.dtype))[0].reshape(batch, channels).sum(0) / count
        var = self._moments(planes, np.tile(mean, batch))[1].reshape(batch, channels).sum(0) / count
        scale = 1 / np.sqrt(var + x.dtype.type(eps))
        center, scale = (np.tile(a, (batch, 1)) for a in (mean, scale))
        return self._line(x, center, scale, weight, bias), mean, var

    @kernel_for(_takes_statistics)
    def batch_norm_given(self, x: Array, mean: Array, var: Array, weight: Array, bias: Array, eps: float) -> Array:
        center, scale = (np.tile(a, (len(x), 1)) for a in (mean, 1 / np.sqrt(var + x.dtype.type(eps))))
        return self._line(x, center, scale, weight, bias)

    @kernel_for(_takes_group_gradients, NormGradients)
    def group_norm_backward(self, given: NormGradients) -> Triple:
        grad, _, _, x, weight, mean, var, eps, needs, groups = given
        (batch, channels), points = x.shape[:2], prod(x.shape[2:])
        rows, grads = (_matrix(a, channels // groups * points) for a in (x, grad))
        means, variances = (np.ascontiguousarray(a) for a in (mean, var))
        out, (to_weight, to_bias) = _like(x), np.empty((2, batch, channels), x.dtype)
        arrays = grads, rows, _vector(weight, 1, channels, x.dtype), means, variances, out, to_weight, to_bias
        self._run("group_norm_backward", rows.shape, *arrays, inner=points, cycle=groups, number=eps)
        return (
            out if needs[0] else None,
            np.add.reduce(to_weight, 0) if needs[1] else None,
            np.add.reduce(to_bias, 0) if needs[2] else None,
        )

    @kernel_for(_takes_batch_gradients, NormGradients)
    def batch_norm_backward(self, given: NormGradients) -> Triple:
        grad, _, _, x, weight, mean, var, eps, needs, _ = given
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
        """Return the sums of planes less their centers, and of the squares."""
        total, squares = np.empty((2, len(planes)), planes.dtype)
        self._run("plane_moments", planes.shape, planes, center, total, squares)
        return total, squares

    def _products(self, grad: Any, x: Any, center: Any) -> tuple[Any, Any]:
        """Return the sums of `grad`, and of its product with `x` less its centers."""
        points = prod(x.shape[2:])
        grads, planes = _matrix(grad, points), _matrix(x, points)
        total, product = np.empty((2, *x.shape[:2]), x.dtype)
        self._run("plane_products", planes.shape, grads, planes, center, total, product)
        return total, product

    def _line(self, x: Any, center: Any, scale: Any, weight: Any, bias: Any) -> Any:
        """``(x - center) * scale * weight + bias``, the latter for each channel."""
        planes = _matrix(x, prod(x.shape[2:]))
        if weight is not None:
            scale = scale * weight
        shift = np.zeros_like(scale) if bias is None else np.tile(bias, (len(scale), 1))
        out = _like(x)
        self._run("plane_line", planes.shape, planes, center, scale, shift, out)
        return out

    def _plane(self, grad: Any, x: Any, center: Any, scale: Any, slope: Any, shift: Any) -> Any:
        """``grad * scale + ((x - center) * slope + shift)``."""
        points = prod(x.shape[2:])
        grads, planes = _matrix(grad, points), _matrix(x, points)
        out = _like(x)
        self._run("plane_plane", planes.shape, grads, planes, center, scale, slope, shift, out)
        return out


def _fits(kernel: str, x: Any, dim: int) -> bool:
    """Return whether a kernel is made for it: along the last dim."""
    return bool(x.ndim and dim % x.ndim == x.ndim - 1) and _usual(kernel, x.shape[-1], x)


def _alike(x: Any, y: Any) -> bool:
    return bool(x.dtype == y.dtype and x.shape == y.shape and x.flags.aligned)


def _usual(kernel: str, width: int, x: Any, *others: Any) -> bool:
    """Return whether a kernel is made for it: many floats of one dtype, in rows that are wide enough."""
    dtype = x.dtype
    if dtype.char not in "fd" or x.size < _LARGE or width < _WIDTHS[kernel] or not x.flags.aligned:
        return False
    return all(a is None or (a.dtype == dtype and a.flags.aligned) for a in others)


def _like(x: Any) -> Any:
    """Return a contiguous array for a result; not a view of one, which a leaf would have to copy."""
    return np.empty(x.shape, x.dtype)


def _matrix(x: Any, width: int) -> Any:
    """`x` as contiguous rows of that width."""
    return np.ascontiguousarray(x).reshape(-1, width)


def _vector(x: Any, default: int, count: int, dtype: Any) -> Any:
    """Numbers in a row, `default` where there are none."""
    return np.full(count, default, dtype) if x is None else np.ascontiguousarray(x)
