"""Sorting and selection for NumPy, by algorithms that use the CPU's vector instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy import threads
from gradcore.backends.portable.sorting import Sorting, comparable

__all__ = ["NumpySorting"]

#: Elements below which NumPy's stable sort is as fast.
SMALL = 2048
#: Number of largest elements up to which `topk` finds them one after another.
FEW = 16
#: Elements in the sample of a vector, and a margin that is added to the expected number of elements beyond the bound.
SAMPLE, _MORE = 4096, 16
#: Elements times searches from which a thread pays off.
WORTH_A_THREAD = 1 << 20


def _order_keys(x: Any, descending: bool) -> Any:
    """Return int64 keys below 2**32 in magnitude that have the order of the elements, or None if this is impossible."""
    if x.dtype == np.float32:
        bits = (x + np.float32(0)).view(np.int32)  # -0.0 counts as 0.0
        keys = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # negative numbers in ascending order
        unordered = np.isnan(x)
        if unordered.any():
            keys[unordered] = 0x7FFFFFFF
        keys = keys.astype(np.int64)
    elif x.dtype.kind in "biu" and x.itemsize < 8:
        keys = x.astype(np.int64)
    elif x.dtype == np.int64:
        low = x.min()
        if int(x.max()) - int(low) >= 1 << 31:
            return None
        keys = x - low
    else:
        return None
    return ~keys if descending else keys


def _order_of_wide(x: Any, dim: int) -> Any:
    """Return indices that sort int64 elements stably, or None if their range is too large.

    This is a radix sort of up to two digits, each of which fits into one int64 together with the index. Each pass sorts
    plain integers, which is several times as fast as sorting indices.
    """
    low, n = x.min(), x.shape[dim]
    bits = n.bit_length()
    digit, span = 63 - bits, int(x.max()) - int(low)
    if span.bit_length() > min(2 * digit, 62):
        return None
    keys, indices = x - low, np.arange(n).reshape((-1,) + (1,) * (x.ndim - dim - 1))
    order = (keys & ((1 << digit) - 1)) << bits | indices
    order.sort(axis=dim)
    order &= (1 << bits) - 1
    if span >> digit:
        high = np.take_along_axis(keys >> digit, order, dim) << bits | indices
        high.sort(axis=dim)
        order = np.take_along_axis(order, high & ((1 << bits) - 1), dim)
    return order


class NumpySorting(Sorting):
    """Sorting of NumPy arrays."""

    def argsort_along(self, x: Any, dim: int, descending: bool = False) -> Any:
        """Return indices that sort `x` stably along `dim`.

        Elements are sorted together with their indices if both fit into one int64. Otherwise the elements are sorted
        unstably, and if there are ties, once more by the general kernel.
        """
        n, x = x.shape[dim], comparable(x)
        if not descending and (x.size < SMALL or n < 16):
            return x.argsort(axis=dim, kind="stable")
        if x.size < SMALL and (x.dtype.kind in "biu" or (x.dtype.kind == "f" and not np.isnan(x).any())):
            return (-x if x.dtype.kind == "f" else ~x).argsort(axis=dim, kind="stable")
        if x.size < SMALL or n < 16 or n >= 1 << 31:
            return super().argsort_along(x, dim, descending)
        keys = _order_keys(x, descending)
        if keys is not None:
            keys <<= 31
            keys |= np.arange(n).reshape((-1,) + (1,) * (x.ndim - dim - 1))
            keys.sort(axis=dim)
            keys &= (1 << 31) - 1
            return keys
        if x.dtype == np.int64 and not descending:
            order_of_wide = _order_of_wide(x, dim)
            if order_of_wide is not None:
                return order_of_wide
        order = np.argsort(x if not descending else -x if x.dtype.kind == "f" else ~x, axis=dim)
        rows = np.moveaxis(self.take_along(x, order, dim), dim, 0)
        if (rows[1:] == rows[:-1]).any() or np.isnan(rows).any():
            return super().argsort_along(x, dim, descending)
        return order

    def partition_along(self, x: Any, k: int, dim: int) -> Any:
        return np.partition(x, k, axis=dim)

    @kernel_for(lambda self, x, inverse, counts, dim: dim is None and x.size >= SMALL and x.dtype.kind in "biuf")
    def unique_of(self, x: Any, inverse: bool, counts: bool, dim: int | None) -> tuple[Any, Any, Any]:
        """Return the distinct elements, the inverse indices and the counts.

        Integers of a moderate range are counted, other numbers are sorted.
        """
        flat, nothing = x.reshape(-1), np.zeros(0, np.int64)
        if x.dtype.kind in "iu" and x.dtype != np.uint64:
            low = int(flat.min())
            value_range = int(flat.max()) - low
            if value_range < 4 * flat.size:
                shifted = flat.astype(np.int64, copy=False) - low
                number = np.bincount(shifted, minlength=value_range + 1)
                is_present = number > 0
                values = (np.flatnonzero(is_present) + low).astype(x.dtype)
                inverse_indices = (np.cumsum(is_present) - 1).take(shifted).reshape(x.shape) if inverse else nothing
                return values, inverse_indices, number[is_present] if counts else nothing
        order = self.argsort_along(flat, 0) if inverse else None
        values = np.sort(flat) if order is None else flat.take(order)
        starts = np.ones(flat.size, bool)
        np.not_equal(values[1:], values[:-1], out=starts[1:])
        inverse_indices = nothing
        if order is not None:
            inverse_indices = np.empty(flat.size, np.int64)
            inverse_indices[order] = np.cumsum(starts) - 1
            inverse_indices = inverse_indices.reshape(x.shape)
        ends = np.append(np.flatnonzero(starts), flat.size) if counts else None
        return values[starts], inverse_indices, nothing if ends is None else np.diff(ends)

    def topk_along(self, x: Any, dim: int, k: int, largest: bool = True) -> tuple[Any, Any]:
        n = x.shape[dim]
        if x.size < SMALL or not k or k > n // 4:
            return super().topk_along(x, dim, k, largest)
        rows = np.moveaxis(x, dim, -1)
        extrema = _first_extrema(rows, k, largest) if k <= FEW else None
        if extrema is None and x.size == n:
            extrema = self._extrema_of_vector(rows, k, largest)
        if extrema is None:
            part = np.argpartition(rows, n - k if largest else k - 1, axis=-1)
            index = np.sort(part[..., n - k :] if largest else part[..., :k], axis=-1)
            last_dim = x.ndim - 1
            values = self.take_along(rows, index, last_dim)
            order = self.argsort_along(values, last_dim, largest)
            extrema = self.take_along(values, order, last_dim), self.take_along(index, order, last_dim)
        return tuple(np.ascontiguousarray(np.moveaxis(a, -1, dim)) for a in extrema)  # type: ignore[return-value]

    def _extrema_of_vector(self, rows: Any, k: int, largest: bool) -> tuple[Any, Any] | None:
        """Return the `k` maxima (or minima) of a single row and their indices, or None if there are NaN.

        NumPy finds the value of the k-th element many times faster than its index, so the elements beyond that value
        are searched for afterwards.
        """
        flat = rows.reshape(-1)
        if flat.dtype.kind == "f" and np.isnan(flat).any():
            return None
        candidates = _outer_places(flat, k, largest)
        considered = flat if candidates is None else flat.take(candidates)
        kth = np.partition(considered, considered.size - k if largest else k - 1)[
            considered.size - k if largest else k - 1
        ]
        beyond = np.flatnonzero(considered > kth if largest else considered < kth)
        ties = np.flatnonzero(considered == kth)[: k - beyond.size]
        index = np.sort(np.append(beyond, ties))
        if candidates is not None:
            index = candidates.take(index)
        order = self.argsort_along(flat.take(index), 0, largest)
        index = index.take(order)
        return flat.take(index).reshape(*rows.shape[:-1], k), index.reshape(*rows.shape[:-1], k)


def _outer_places(flat: Any, k: int, largest: bool) -> Any:
    """Return the positions of a subset of a vector that includes its `k` maxima (or minima), or None.

    The subset has the elements beyond a bound, which is taken from a sample such that about ``2 * k`` elements are
    beyond it. None means that `k` is too large for the sample, or that too few elements are beyond the bound.
    """
    sample = np.sort(flat[:: flat.size // SAMPLE or 1])
    number = 2 * k * sample.size // flat.size + _MORE
    if number >= sample.size // 2:
        return None
    positions = np.flatnonzero(flat >= sample[-number] if largest else flat <= sample[number - 1])
    return positions if positions.size >= k else None


def _first_extrema(rows: Any, k: int, largest: bool) -> tuple[Any, Any] | None:
    """Return the first `k` maxima (or minima) of each row and their indices.

    Each extremum is overwritten before the search for the next one. Returns None if an element equals the value used
    for that, or if NaN would be taken for a minimum.
    """
    shape, n = rows.shape[:-1], rows.shape[-1]
    rows = rows.reshape(-1, n)
    index = np.empty((len(rows), k), np.int64)
    info = np.finfo(rows.dtype) if rows.dtype.kind == "f" else np.iinfo(rows.dtype)
    sentinel = (-np.inf if largest else np.inf) if rows.dtype.kind == "f" else (info.min if largest else info.max)

    def some(start: int, stop: int) -> None:
        remaining, row_numbers = rows[start:stop].copy(), np.arange(stop - start)
        for i in range(k):
            columns = remaining.argmax(axis=1) if largest else remaining.argmin(axis=1)
            index[start:stop, i] = columns
            remaining[row_numbers, columns] = sentinel

    threads.spread(some, len(rows), k * rows.size // WORTH_A_THREAD)
    values = rows[np.arange(len(rows))[:, None], index]
    if (values == sentinel).any() or (not largest and np.isnan(values).any()):
        return None
    return values.reshape(*shape, k), index.reshape(*shape, k)
