"""Layer norm and its gradient for large NumPy arrays, computed in blocks of rows that threads share.

In one thread, blocks are as fast as whole arrays up to a million elements and faster for larger ones, and they need
half of the memory. For statistics of channels, blocks were not faster.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for, packed
from gradcore.backends.numpy.matmul import blas_alone
from gradcore.backends.numpy.row_blocks import number_of_blocks, ones, row_sums, run_in_blocks
from gradcore.backends.portable.normalization import Normalization, NormGradients, Triple

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["NumpyNormalization"]

#: Elements from which blocks are as fast as whole arrays, within 3 %. For fewer elements, fewer calls are faster.
_LARGE = 1 << 17


def _takes_layer(backend: Any, x: Array, weight: Array, bias: Array, ndims: int, eps: float) -> bool:
    return _usual(x, weight, bias)


class NumpyNormalization(Normalization):
    """Normalization of arrays of float32 and float64."""

    @kernel_for(_takes_layer)
    def native_layer_norm(self, x: Array, weight: Array | None, bias: Array | None, ndims: int, eps: float) -> Triple:
        lead, width = x.shape[: x.ndim - ndims], prod(x.shape[x.ndim - ndims :])
        rows = np.ascontiguousarray(x).reshape(-1, width)
        scale, shift = (None if each is None else each.reshape(width) for each in (weight, bias))
        out, (mean, var) = np.empty(rows.shape, x.dtype), np.empty((2, len(rows)), x.dtype)

        def work(part: slice, _: int) -> None:
            a, result = rows[part], out[part]
            mean[part] = row_sums(a) / width
            np.subtract(a, mean[part, None], result)
            var[part] = np.vecdot(result, result) / width
            result *= _inverse_roots(var[part], eps)[:, None]
            if scale is not None:
                result *= scale
            if shift is not None:
                result += shift

        run_in_blocks(work, rows)
        stats_shape = lead + (1,) * ndims
        return out.reshape(x.shape), mean.reshape(stats_shape), var.reshape(stats_shape)

    @packed(NormGradients)
    def layer_norm_backward(self, arguments: NormGradients) -> Triple:
        grad, grad_mean, grad_var, x, weight, mean, var, eps, needs, ndims = arguments
        if grad_mean is not None or grad_var is not None or not _usual(x, grad, weight):
            with blas_alone(x.size):
                return super().layer_norm_backward(arguments)
        weight_shape = x.shape[x.ndim - ndims :]
        width = prod(weight_shape)
        rows, grads = (np.ascontiguousarray(a).reshape(-1, width) for a in (x, grad))
        scale = None if weight is None else weight.reshape(width)
        means, roots = mean.reshape(-1, 1), _inverse_roots(var.reshape(-1), eps)
        out = np.empty(rows.shape, x.dtype) if needs[0] else None
        count = number_of_blocks(rows)
        to_weight, to_bias = (np.empty((count, width), x.dtype) if is_needed else None for is_needed in needs[1:])

        def work(part: slice, i: int) -> None:
            g, r = grads[part], roots[part]
            c = rows[part] - means[part]
            p = g * c
            if to_weight is not None:
                to_weight[i] = r @ p
            if to_bias is not None:
                to_bias[i] = ones(len(g), x.dtype) @ g
            if out is None:
                return
            of_var = (row_sums(p) if scale is None else p @ scale) * r * r * r
            of_mean = (row_sums(g) if scale is None else g @ scale) * r
            result = np.multiply(g, r[:, None] if scale is None else scale, out[part])
            if scale is not None:
                result *= r[:, None]
            _subtract_line(result, c, (of_var / width)[:, None], (of_mean / width)[:, None])

        run_in_blocks(work, rows)
        return (
            _reshape_optional(out, x.shape),
            _reshape_optional(_add_blocks(to_weight), weight_shape),
            _reshape_optional(_add_blocks(to_bias), weight_shape),
        )

    def rms_norm_backward(self, grad: Any, grad_scale: Any, x: Any, *rest: Any) -> tuple[Any, Any]:
        with blas_alone(x.size):
            return super().rms_norm_backward(grad, grad_scale, x, *rest)


def _usual(*arrays: Any) -> bool:
    """Return whether the kernels above support these arrays: large arrays of one floating-point dtype."""
    dtype = arrays[0].dtype
    if dtype.kind != "f" or dtype.itemsize < 4 or arrays[0].size < _LARGE:
        return False
    return all(a is None or a.dtype == dtype for a in arrays)


def _inverse_roots(var: Any, eps: float) -> Any:
    roots = var + eps
    return np.divide(1, np.sqrt(roots, roots), roots)


def _add_blocks(sums: Any) -> Any:
    """Return the sum over blocks, or None if `sums` is None."""
    return sums if sums is None else sums[0] if len(sums) == 1 else sums.sum(0)


def _reshape_optional(x: Any, shape: tuple[int, ...]) -> Any:
    """Reshape `x`, unless it is None."""
    return x if x is None else x.reshape(shape)


def _subtract_line(result: Any, x: Any, slope: Any, shift: Any) -> None:
    """Compute ``result -= x * slope + shift`` in place. Overwrites `x`."""
    x *= slope
    x += shift
    result -= x
