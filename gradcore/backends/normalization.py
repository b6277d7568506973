"""Kernels of normalization: statistics in two passes, then scale and shift in place.

Statistics are taken over the rows of a matrix. NumPy sums rows fastest as a product with a vector.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

__all__ = ["Normalization"]

# From rows of this length on, a product of each pair of rows is faster than a product of matrices and a sum.
_LONG = 32


class Normalization:
    """Normalized arrays with the mean and the variance (not corrected for the sample's size) that were used."""

    xp: Any

    def native_layer_norm(
        self, x: Any, weight: Any, bias: Any, ndims: int, eps: float
    ) -> tuple[Any, Any, Any]:
        lead, last = x.shape[: x.ndim - ndims], x.shape[x.ndim - ndims :]
        rows, width = prod(lead), prod(last)
        out, mean, var = _centered(self.xp, x.reshape(rows, width))
        out *= _inverse_root(self.xp, var, eps)
        if weight is not None:
            out *= weight.reshape(width)
        if bias is not None:
            out += bias.reshape(width)
        kept = lead + (1,) * ndims
        return out.reshape(x.shape), mean.reshape(kept), var.reshape(kept)

    def native_group_norm(
        self, x: Any, weight: Any, bias: Any, groups: int, eps: float
    ) -> tuple[Any, Any, Any]:
        batch, channels, points = *x.shape[:2], prod(x.shape[2:])
        out, mean, var = _centered(self.xp, x.reshape(batch * groups, channels // groups * points))
        scale = _inverse_root(self.xp, var, eps)
        if weight is None:
            out *= scale
        out = out.reshape(batch, channels, points)
        if weight is not None:
            scale = scale.reshape(batch, groups, 1) * weight.reshape(groups, channels // groups)
            out *= scale.reshape(batch, channels, 1)
        if bias is not None:
            out += bias.reshape(channels, 1)
        return out.reshape(x.shape), mean.reshape(batch, groups), var.reshape(batch, groups)

    def native_batch_norm(self, x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
        batch, channels, points = *x.shape[:2], prod(x.shape[2:])
        count = batch * points
        parts = x.reshape(batch, channels, points)
        mean = _channel_sums(self.xp, parts) / count
        out = parts - mean.reshape(channels, 1)
        var = _channel_sums(self.xp, out, out) / count
        scale = _inverse_root(self.xp, var, eps)
        out *= (scale if weight is None else scale * weight).reshape(channels, 1)
        if bias is not None:
            out += bias.reshape(channels, 1)
        return out.reshape(x.shape), mean, var

    def softmax_or_zero(self, x: Any) -> Any:
        """Softmax over the last dim; rows of minus infinity give zeros."""
        xp = self.xp
        highest = x.max(axis=-1, keepdims=True)
        out = x - xp.where(highest == -xp.inf, xp.zeros((), x.dtype), highest)
        xp.exp(out, out=out)
        total = _row_sums(xp, out.reshape(prod(x.shape[:-1]), x.shape[-1])).reshape(*x.shape[:-1], 1)
        out /= xp.where(total == 0, xp.ones((), x.dtype), total)
        return out


def _centered(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    """Rows less their mean, the means and the variances, as columns."""
    count = x.shape[1]
    mean = (_row_sums(xp, x) / count).reshape(-1, 1)
    out = x - mean
    return out, mean, (_row_products(xp, out, out) / count).reshape(-1, 1)


def _inverse_root(xp: Any, var: Any, eps: float) -> Any:
    return 1 / xp.sqrt(var + eps)


def _row_sums(xp: Any, x: Any) -> Any:
    return x @ np.ones(x.shape[1], x.dtype) if xp is np else xp.add.reduce(x, axis=1)


def _row_products(xp: Any, x: Any, y: Any) -> Any:
    """The inner product of each row of `x` with that of `y`."""
    return np.vecdot(x, y) if xp is np and x.shape[1] >= _LONG else _row_sums(xp, x * y)


def _channel_sums(xp: Any, x: Any, y: Any = None) -> Any:
    """Sums of `x`, ``(batch, channels, n)``, or of ``x * y``, over batch and positions."""
    batch, channels, n = x.shape
    if n == 1:
        parts = x if y is None else x * y
    elif y is None:
        parts = _row_sums(xp, x.reshape(batch * channels, n))
    else:
        parts = _row_products(xp, x.reshape(batch * channels, n), y.reshape(batch * channels, n))
    return xp.add.reduce(parts.reshape(batch, channels), axis=0)

