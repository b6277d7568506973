"""Normalization of large arrays in NumPy: passes over blocks of rows that stay in cache, shared among threads.

Means come first, and variances from the distances from them, as in the portable kernels. Sums along rows and columns
are BLAS's (see `numpy_reductions` for their errors); of columns, in blocks of rows, whose sums are added in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.normalization import Normalization, Triple
from gradcore.backends.numpy_rows import in_blocks, number_of_blocks, ones, row_sums

__all__ = ["NumpyNormalization"]

#: Elements from which blocks are faster, and threads take part: below them fewer calls count for more.
_LARGE = 1 << 19
#: Columns from which `numpy.vecdot` is faster than a product and a sum.
_WIDE = 64


class NumpyNormalization(Normalization):
    """Normalization of arrays of float32 and float64."""

    # -- the last dims -----------------------------------------------------------------------------------------

    def native_layer_norm(self, x: Any, weight: Any, bias: Any, ndims: int, eps: float) -> Triple:
        if not _usual(x, weight, bias):
            return super().native_layer_norm(x, weight, bias, ndims, eps)
        lead = x.shape[: x.ndim - ndims]
        rows = np.ascontiguousarray(x).reshape(prod(lead), -1)
        width = rows.shape[1]
        out, mean, var = np.empty(rows.shape, x.dtype), np.empty(len(rows), x.dtype), np.empty(len(rows), x.dtype)
        scale = None if weight is None else weight.reshape(width)
        shift = None if bias is None else bias.reshape(width)

        def work(part: slice, _: int) -> None:
            result = out[part]
            mean[part], var[part] = _centered(rows[part], result)
            result *= _inverse_roots(var[part], eps)[:, None]
            if scale is not None:
                result *= scale
            if shift is not None:
                result += shift

        in_blocks(work, rows)
        kept = lead + (1,) * ndims
        return out.reshape(x.shape), mean.reshape(kept), var.reshape(kept)

    def layer_norm_backward(
        self,
        grad: Any,
        grad_mean: Any,
        grad_var: Any,
        x: Any,
        weight: Any,
        mean: Any,
        var: Any,
        ndims: int,
        eps: float,
        needs: Sequence[bool],
    ) -> Triple:
        if grad_mean is not None or grad_var is not None or not _usual(x, grad, weight):
            return super().layer_norm_backward(grad, grad_mean, grad_var, x, weight, mean, var, ndims, eps, needs)
        last = x.shape[x.ndim - ndims :]
        width = prod(last)
        rows, grads = (np.ascontiguousarray(a).reshape(-1, width) for a in (x, grad))
        scale = None if weight is None else weight.reshape(width)
        means, roots = mean.reshape(-1, 1), _inverse_roots(var.reshape(-1), eps)
        out = np.empty(rows.shape, x.dtype) if needs[0] else None
        count = number_of_blocks(rows)
        to_weight, to_bias = (np.empty((count, width), x.dtype) if need else None for need in needs[1:])

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
            of_var = (row_sums(p) if scale is None else p @ scale) * (r * r * r)
            of_mean = (row_sums(g) if scale is None else g @ scale) * r
            result = np.multiply(g, r[:, None] if scale is None else scale, out[part])
            if scale is not None:
                result *= r[:, None]
            _subtract_line(result, c, (of_var / width)[:, None], (of_mean / width)[:, None])

        in_blocks(work, rows)
        return _shaped(out, x.shape), _shaped(_summed(to_weight), last), _shaped(_summed(to_bias), last)

    # -- groups of channels ------------------------------------------------------------------------------------

    def native_group_norm(self, x: Any, weight: Any, bias: Any, groups: int, eps: float) -> Triple:
        if not _usual(x, weight, bias):
            return super().native_group_norm(x, weight, bias, groups, eps)
        batch, channels = x.shape[0], x.shape[1] // groups
        rows = np.ascontiguousarray(x).reshape(batch * groups, -1)
        out, mean, var = np.empty(rows.shape, x.dtype), np.empty(len(rows), x.dtype), np.empty(len(rows), x.dtype)
        scale, shift = (_of_groups(each, batch, groups) for each in (weight, bias))

        def work(part: slice, _: int) -> None:
            result = out[part]
            mean[part], var[part] = _centered(rows[part], result)
            roots = _inverse_roots(var[part], eps)
            by_channel = result.reshape(len(result), channels, -1)
            if scale is None:
                result *= roots[:, None]
            else:
                by_channel *= (roots[:, None] * scale[part])[:, :, None]
            if shift is not None:
                by_channel += shift[part][:, :, None]

        in_blocks(work, rows)
        return out.reshape(x.shape), mean.reshape(batch, groups), var.reshape(batch, groups)

    def group_norm_backward(
        self,
        grad: Any,
        grad_mean: Any,
        grad_var: Any,
        x: Any,
        weight: Any,
        mean: Any,
        var: Any,
        groups: int,
        eps: float,
        needs: Sequence[bool],
    ) -> Triple:
        if grad_mean is not None or grad_var is not None or not _usual(x, grad, weight):
            return super().group_norm_backward(grad, grad_mean, grad_var, x, weight, mean, var, groups, eps, needs)
        batch, channels = x.shape[0], x.shape[1] // groups
        rows, grads = (np.ascontiguousarray(a).reshape(batch * groups, -1) for a in (x, grad))
        width = rows.shape[1]
        means, roots = mean.reshape(-1, 1), _inverse_roots(var.reshape(-1), eps)
        scale = _of_groups(weight, batch, groups)
        totals, products = (np.empty((len(rows), channels), x.dtype) for _ in range(2))
        out = np.empty(rows.shape, x.dtype) if needs[0] else None

        def work(part: slice, _: int) -> None:
            g = grads[part].reshape(-1, channels, width // channels)
            c = rows[part] - means[part]
            totals[part] = total = _row_sums(g)
            products[part] = product = np.vecdot(g, c.reshape(g.shape))
            if out is None:
                return
            r = roots[part][:, None]
            factor = r
            if scale is not None:
                total, product, factor = total * scale[part], product * scale[part], r * scale[part]
            result = out[part]
            np.multiply(g, factor[:, :, None], result.reshape(g.shape))
            slope, shift = product.sum(1, keepdims=True), total.sum(1, keepdims=True)
            _subtract_line(result, c, slope * (r * r * r / width), shift * (r / width))

        in_blocks(work, rows)
        to_weight = (products * roots[:, None]).reshape(batch, -1).sum(0) if needs[1] else None
        to_bias = totals.reshape(batch, -1).sum(0) if needs[2] else None
        return None if out is None else out.reshape(x.shape), to_weight, to_bias

    # -- channels of a batch -----------------------------------------------------------------------------------

    def native_batch_norm(self, x: Any, weight: Any, bias: Any, eps: float) -> Triple:
        if not _usual(x, weight, bias):
            return super().native_batch_norm(x, weight, bias, eps)
        channels = Channels(x.shape)
        rows = channels.rows(x)
        out, count = np.empty(rows.shape, x.dtype), number_of_blocks(rows)
        sums, squares = channels.sums(count, x.dtype), channels.sums(count, x.dtype)
        in_blocks(lambda part, i: channels.put(sums, part, i, rows[part]), rows)
        mean = channels.total(sums) / channels.count
        means = channels.spread(mean)

        def center(part: slice, i: int) -> None:
            c = np.subtract(rows[part], channels.part(means, part), out[part])
            channels.put(squares, part, i, c, c)

        in_blocks(center, rows)
        var = channels.total(squares) / channels.count
        scale = _inverse_roots(var, eps)
        if weight is not None:
            scale *= weight
        scale, shift = channels.spread(scale), None if bias is None else channels.spread(bias)

        def stretch(part: slice, _: int) -> None:
            result = out[part]
            result *= channels.part(scale, part)
            if shift is not None:
                result += channels.part(shift, part)

        in_blocks(stretch, rows)
        return out.reshape(x.shape), mean, var

    def batch_norm_backward(
        self,
        grad: Any,
        grad_mean: Any,
        grad_var: Any,
        x: Any,
        weight: Any,
        mean: Any,
        var: Any,
        eps: float,
        needs: Sequence[bool],
    ) -> Triple:
        if grad_mean is not None or grad_var is not None or not _usual(x, grad, weight):
            return super().batch_norm_backward(grad, grad_mean, grad_var, x, weight, mean, var, eps, needs)
        channels = Channels(x.shape)
        rows, grads = channels.rows(x), channels.rows(grad)
        means, count = channels.spread(mean), number_of_blocks(rows)
        totals, products = channels.sums(count, x.dtype), channels.sums(count, x.dtype)

        def add(part: slice, i: int) -> None:
            g = grads[part]
            channels.put(totals, part, i, g)
            channels.put(products, part, i, g, rows[part] - channels.part(means, part))

        in_blocks(add, rows)
        total, product, roots = channels.total(totals), channels.total(products), _inverse_roots(var, eps)
        result = None
        if needs[0]:
            scale = roots if weight is None else roots * weight
            slope = channels.spread(product * scale * roots * roots / channels.count)
            shift, scale = channels.spread(total * scale / channels.count), channels.spread(scale)
            out = np.empty(rows.shape, x.dtype)

            def combine(part: slice, _: int) -> None:
                c = rows[part] - channels.part(means, part)
                np.multiply(grads[part], channels.part(scale, part), out[part])
                _subtract_line(out[part], c, channels.part(slope, part), channels.part(shift, part))

            in_blocks(combine, rows)
            result = out.reshape(x.shape)
        return result, product * roots if needs[1] else None, total if needs[2] else None


class Channels:
    """A batch as rows: one for each image and channel, or one for each image where a channel is one number.

    Parameters
    ----------
    shape : tuple of int
        ``(batch, channels, *)``.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.batch, self.number = shape[:2]
        points = prod(shape[2:])
        self.count = self.batch * points
        self.in_columns = points == 1
        self.shape = shape[:2] if self.in_columns else (self.batch * self.number, points)

    def rows(self, x: Any) -> Any:
        """The rows of an array."""
        return np.ascontiguousarray(x).reshape(self.shape)

    def spread(self, numbers: Any) -> Any:
        """Numbers, one for each channel, in a shape that broadcasts with the rows."""
        return numbers if self.in_columns else np.tile(numbers, self.batch)[:, None]

    def part(self, spread: Any, part: slice) -> Any:
        """What of spread numbers belongs to a part of the rows."""
        return spread if self.in_columns else spread[part]

    def sums(self, blocks: int, dtype: Any) -> Any:
        """Room for sums over channels."""
        return np.empty((blocks, self.number) if self.in_columns else self.shape[0], dtype)

    def put(self, sums: Any, part: slice, i: int, x: Any, y: Any = None) -> None:
        """Note the sums of part `i` of the rows, or of its products with another one."""
        if self.in_columns:
            sums[i] = ones(len(x), x.dtype) @ (x if y is None else x * y)
        else:
            sums[part] = row_sums(x) if y is None else _dots(x, y)

    def total(self, sums: Any) -> Any:
        """The sums, one for each channel."""
        return sums.sum(0) if self.in_columns else sums.reshape(self.batch, self.number).sum(0)


def _usual(*arrays: Any) -> bool:
    """Whether the kernels above are made for it: many floats of one dtype."""
    dtype = arrays[0].dtype
    if dtype.kind != "f" or dtype.itemsize < 4 or arrays[0].size < _LARGE:
        return False
    return all(a is None or a.dtype == dtype for a in arrays)


def _inverse_roots(var: Any, eps: float) -> Any:
    roots = var + eps
    return np.divide(1, np.sqrt(roots, roots), roots)


def _summed(sums: Any) -> Any:
    """The sum of the sums of blocks, where they are wanted."""
    return sums if sums is None else sums[0] if len(sums) == 1 else sums.sum(0)


def _shaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x is None else x.reshape(shape)


def _dots(x: Any, y: Any) -> Any:
    """The inner products of rows."""
    return np.vecdot(x, y) if x.shape[-1] >= _WIDE else row_sums(x * y)


def _row_sums(x: Any) -> Any:
    """Sums over the last of three dims."""
    return row_sums(x.reshape(-1, x.shape[-1])).reshape(x.shape[:-1])


def _centered(x: Any, out: Any) -> tuple[Any, Any]:
    """Write rows less their mean to `out`; the means and the variances."""
    mean = row_sums(x) / x.shape[1]
    np.subtract(x, mean[:, None], out)
    return mean, _dots(out, out) / x.shape[1]


def _of_groups(numbers: Any, batch: int, groups: int) -> Any:
    """Numbers, one for each channel, as a row for each group of each image."""
    return None if numbers is None else np.tile(numbers.reshape(groups, -1), (batch, 1))


def _subtract_line(result: Any, x: Any, slope: Any, shift: Any) -> None:
    """``result -= x * slope + shift``; overwrites `x`."""
    x *= slope
    x += shift
    result -= x
