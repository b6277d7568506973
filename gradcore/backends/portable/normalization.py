"""Kernels of normalization, which compute statistics in two passes and everything after them in place.

Statistics are computed over the rows of a matrix. Gradients are the formulas of `gradcore.ops.nn.normalization`, which
are computed in place here, because new memory costs more time than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.kernel_methods import packed
from gradcore.backends.kernel_rules import Settings, native_arrays, native_body, native_rows, writes
from gradcore.core.typing import NUMPY, NamedTuple

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["NormGradients", "Normalization", "Triple"]

# Length of rows from which an inner product of each pair of rows is faster than an elementwise product and a sum.
_LONG = 32

Triple = tuple[Any, Any, Any]


class NormGradients(NamedTuple):
    """Arguments of the backward of a normalization.

    Attributes
    ----------
    grad, grad_mean, grad_var : array
        Upstream gradients of the result, the mean and the variance; the latter two may be None.
    x, weight, mean, var : array
        The input, its weight (None without), and its statistics.
    eps : float
    needs : sequence of bool
        Whether the gradients by input, weight and bias are wanted.
    size : int
        The normalized dims of a layer, or the groups of channels.
    """

    grad: Array
    grad_mean: Array | None
    grad_var: Array | None
    x: Array
    weight: Array | None
    mean: Array
    var: Array
    eps: float
    needs: Sequence[bool]
    size: int = 0

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays, in the order in which kernels take them."""
        return self[:7]

    @property
    def of_result_alone(self) -> bool:
        """Whether the mean and the variance have no gradient."""
        return self.grad_mean is None and self.grad_var is None


def _rows_of_gradients(*arguments: Any) -> Settings:
    """Return the settings of the C++ function of the gradients of rows, if the mean and the variance have none."""
    given = NormGradients(*arguments)
    shape = given.x.shape
    width = prod(shape[len(shape) - given.size :])
    is_supported = arguments[0] is not None and given.of_result_alone
    return (given.x.size // width, width, float(given.eps)) if is_supported else None


class Normalization:
    """Kernels that return normalized arrays, and the mean and the biased variance that they used."""

    xp: Namespace
    div: Any
    reciprocal: Any
    sum_over: Any
    max_over: Any
    matmul: Any

    # -- values ----------------------------------------------------------------------------------------------

    @native_rows(
        "layer_norm", "rows column=1 column=0 -> rows kept kept", "dims number", 32, native_layer_norm="dims number"
    )
    def native_layer_norm(self, x: Array, weight: Array | None, bias: Array | None, ndims: int, eps: float) -> Triple:
        lead, normalized = x.shape[: x.ndim - ndims], x.shape[x.ndim - ndims :]
        width = prod(normalized)
        out, mean, var = self._centered_rows(x.reshape(prod(lead), width))
        out *= self._inverse_root(var, eps)
        if weight is not None:
            out *= weight.reshape(width)
        if bias is not None:
            out += bias.reshape(width)
        stats_shape = lead + (1,) * ndims
        return out.reshape(x.shape), mean.reshape(stats_shape), var.reshape(stats_shape)

    def fused_rms_norm(self, x: Array, weight: Array | None, ndims: int, eps: float) -> tuple[Array, Array]:
        lead, width = x.shape[: x.ndim - ndims], prod(x.shape[x.ndim - ndims :])
        rows = x.reshape(prod(lead), width)
        scale = self._inverse_root(self._row_products(rows, rows).reshape(-1, 1) / max(width, 1), eps)
        out = rows * scale
        if weight is not None:
            out *= weight.reshape(-1)
        return out.reshape(x.shape), scale.reshape(lead + (1,) * ndims)

    @native_body
    def native_group_norm(self, x: Array, weight: Array | None, bias: Array | None, groups: int, eps: float) -> Triple:
        (batch, channels), points = x.shape[:2], prod(x.shape[2:])
        out, mean, var = self._centered_rows(x.reshape(batch * groups, channels // groups * points))
        scale = self._inverse_root(var, eps)
        if weight is None:
            out *= scale
        out = out.reshape(batch, channels, points)
        if weight is not None:
            scale = scale.reshape(batch, groups, 1) * weight.reshape(groups, channels // groups)
            out *= scale.reshape(batch, channels, 1)
        if bias is not None:
            out += bias.reshape(channels, 1)
        return out.reshape(x.shape), mean.reshape(batch, groups), var.reshape(batch, groups)

    @native_body
    def native_batch_norm(self, x: Array, weight: Array | None, bias: Array | None, eps: float) -> Triple:
        shape, dims, column = _channels(x)
        count = prod(x.shape) // max(x.shape[1], 1)
        parts = x.reshape(shape)
        mean = self.sum_over(parts, dims) / count
        out = parts - mean.reshape(column)
        var = self._channel_products(out, out) / count
        scale = self._inverse_root(var, eps)
        out *= (scale if weight is None else scale * weight).reshape(column)
        if bias is not None:
            out += bias.reshape(column)
        return out.reshape(x.shape), mean, var

    @native_body
    def batch_norm_given(
        self, x: Array, mean: Array, var: Any, weight: Array | None, bias: Array | None, eps: float
    ) -> Array:
        shape, _, column = _channels(x)
        scale = self._inverse_root(var, eps)
        if weight is not None:
            scale = scale * weight
        out = x.reshape(shape) * scale.reshape(column)
        out += (-mean * scale if bias is None else bias - mean * scale).reshape(column)
        return out.reshape(x.shape)

    @native_rows("softmax_or_zero", "rows -> rows", "", softmax_or_zero="")
    def softmax_or_zero(self, x: Array) -> Array:
        """Return the softmax over the last dim, and zeros for rows of minus infinity."""
        return self._softmax_in_place(x.copy())

    def keeps_weights(self, scores: int, dtype: str) -> bool:
        """Return whether attention with so many scores saves its weights for gradients, or computes them again."""
        return True

    @native_body
    def attention(
        self, query: Array, key: Array, value: Array, mask: Array | None, scale: float, causal: bool = False
    ) -> tuple[Array, Array]:
        scores = self.matmul(query * scale, key.swapaxes(-1, -2))
        if causal:
            is_visible = self.xp.tri(*scores.shape[-2:], dtype="bool")
            scores = self.xp.where(is_visible, scores, self.xp.full((), -self.xp.inf, scores.dtype))
        if mask is not None:
            scores = scores + mask
        weights = self._softmax_in_place(scores)
        return self.matmul(weights, value), weights

    @writes("x")
    def _softmax_in_place(self, x: Array) -> Array:
        """Compute `softmax_or_zero` in the memory of `x`."""
        if not x.size:
            return x
        xp, last_dim = self.xp, (x.ndim - 1,)
        highest = self.max_over(x, last_dim, True)
        x -= xp.where(highest == -xp.inf, xp.zeros((), x.dtype), highest)
        xp.exp(x, out=x)
        total = self.sum_over(x, last_dim, True)
        return self.div(x, xp.where(total == 0, xp.ones((), x.dtype), total))

    # -- gradients -------------------------------------------------------------------------------------------

    @native_arrays("normed_rows_back", "grad x weight mean var -> value value value", _rows_of_gradients)
    @packed(NormGradients)
    def layer_norm_backward(self, arguments: NormGradients) -> Triple:
        grad, grad_mean, grad_var, x, weight, mean, var, eps, needs, ndims = arguments
        xp, normalized = self.xp, x.shape[x.ndim - ndims :]
        rows, width = prod(x.shape[: x.ndim - ndims]), prod(normalized)
        grad = grad.reshape(rows, width)
        c = x.reshape(rows, width) - mean.reshape(rows, 1)
        r = self._inverse_root(var.reshape(rows), eps)
        product = grad * c
        to_weight = self.matmul(r, product).reshape(normalized) if needs[1] else None
        to_bias = self.sum_over(grad, (0,)).reshape(normalized) if needs[2] else None
        if not needs[0]:
            return None, to_weight, to_bias
        weight = xp.ones(width, x.dtype) if weight is None else weight.reshape(width)
        of_var = _plus(self.matmul(product, weight) * r * r * (r / -2), grad_var) * (2 / max(width, 1))
        of_mean = _plus(self.matmul(grad, weight) * -r, grad_mean) / max(width, 1)
        c *= of_var.reshape(rows, 1)
        c += of_mean.reshape(rows, 1)
        result = xp.multiply(grad, weight, out=product)
        result *= r.reshape(rows, 1)
        result += c
        return result.reshape(x.shape), to_weight, to_bias

    def rms_norm_backward(
        self,
        grad: Array,
        grad_scale: Any,
        x: Array,
        weight: Array | None,
        scale: Any,
        ndims: int,
        needs: Sequence[bool],
    ) -> tuple[Array | None, Array | None]:
        xp, normalized = self.xp, x.shape[x.ndim - ndims :]
        rows, width = prod(x.shape[: x.ndim - ndims]), prod(normalized)
        grad, flat, r = grad.reshape(rows, width), x.reshape(rows, width), scale.reshape(rows)
        product = grad * flat
        to_weight = self.matmul(r, product).reshape(normalized) if needs[1] else None
        if not needs[0]:
            return None, to_weight
        weight = xp.ones(width, x.dtype) if weight is None else weight.reshape(width)
        of_scale = _plus(self.matmul(product, weight), grad_scale) * r * r * r / -max(width, 1)
        result = xp.multiply(grad, weight, out=product)
        result *= r.reshape(rows, 1)
        result += flat * of_scale.reshape(rows, 1)
        return result.reshape(x.shape), to_weight

    @native_body
    @packed(NormGradients)
    def group_norm_backward(self, arguments: NormGradients) -> Triple:
        grad, grad_mean, grad_var, x, weight, mean, var, eps, needs, groups = arguments
        batch, channels, points = x.shape[0], x.shape[1] // groups, prod(x.shape[2:])
        shape, of_group = (batch, groups, channels, points), (batch, groups, 1)
        grad = grad.reshape(shape)
        c = x.reshape(shape) - mean.reshape(*of_group, 1)
        r = self._inverse_root(var.reshape(of_group), eps)
        total, product = self.sum_over(grad, (3,)), self._row_products(grad, c)
        to_weight = (product * r).sum(axis=0).reshape(-1) if needs[1] else None
        to_bias = total.sum(axis=0).reshape(-1) if needs[2] else None
        if not needs[0]:
            return None, to_weight, to_bias
        scale = r
        if weight is not None:
            weight = weight.reshape(groups, channels)
            total, product, scale = total * weight, product * weight, r * weight
        count = max(channels * points, 1)
        of_var = product.sum(axis=2, keepdims=True) * r * r * (r / -2)
        slope = _plus(of_var, grad_var) * (2 / count)
        shift = _plus(total.sum(axis=2, keepdims=True) * -r, grad_mean) / count
        scale, slope, shift = (each[..., None] for each in (scale, slope, shift))
        result = _affine(self.xp, grad, scale, c, slope, shift)
        return result.reshape(x.shape), to_weight, to_bias

    @native_body
    @packed(NormGradients)
    def batch_norm_backward(self, arguments: NormGradients) -> Triple:
        grad, grad_mean, grad_var, x, weight, mean, var, eps, needs, _ = arguments
        shape, dims, column = _channels(x)
        grad = grad.reshape(shape)
        c = x.reshape(shape) - mean.reshape(column)
        r = self._inverse_root(var, eps)
        total, product = self.sum_over(grad, dims), self._channel_products(grad, c)
        result = None
        if needs[0]:
            scale, count = r if weight is None else r * weight, max(prod(x.shape) // max(x.shape[1], 1), 1)
            slope = _plus(product * r * scale * (r / -2), grad_var) * (2 / count)
            shift = _plus(-total * scale, grad_mean) / count
            scale, slope, shift = (each.reshape(column) for each in (scale, slope, shift))
            result = _affine(self.xp, grad, scale, c, slope, shift).reshape(x.shape)
        return result, product * r if needs[1] else None, total if needs[2] else None

    # -- rows ------------------------------------------------------------------------------------------------

    def _inverse_root(self, var: Any, eps: float) -> Array:
        return self.reciprocal(self.xp.sqrt(var + eps))

    def _centered_rows(self, x: Array) -> Triple:
        """Return the rows minus their means, and the means and variances as columns."""
        count = x.shape[1]
        mean = self.sum_over(x, (1,), True) / count
        out = x - mean
        return out, mean, self._row_products(out, out).reshape(-1, 1) / count

    def _row_products(self, x: Array, y: Array) -> Array:
        """Return the inner products of the rows of `x` and `y`."""
        if self.xp is NUMPY and x.shape[-1] >= _LONG:
            return np.vecdot(x, y)
        return self.sum_over(x * y, (x.ndim - 1,))

    def _channel_products(self, x: Array, y: Array) -> Array:
        """Return the inner products of the channels of `x` and `y`."""
        if x.ndim == 3 and self.xp is NUMPY:
            return self._row_products(x, y).sum(axis=0)
        return self.sum_over(x * y, (0, 2)[: x.ndim - 1])


def _channels(x: Array) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return `x`'s shape as images, the dims to reduce for a channel's statistics, and the shape of statistics."""
    (batch, channels), points = x.shape[:2], prod(x.shape[2:])
    if points == 1:  # NumPy is slow along dims of size 1
        return (batch, channels), (0,), (channels,)
    return (batch, channels, points), (0, 2), (channels, 1)


def _plus(x: Array, grad: Array | None) -> Array:
    """Return `x` plus `grad`, the gradient of a statistic, which may be None."""
    return x if grad is None else x + grad.reshape(x.shape)


def _affine(xp: Namespace, grad: Array, scale: Any, c: Array, slope: Any, shift: Any) -> Array:
    """Compute ``grad * scale + (c * slope + shift)`` in the memory of `c`."""
    c *= slope
    c += shift
    result = xp.multiply(grad, scale)
    result += c
    return result
