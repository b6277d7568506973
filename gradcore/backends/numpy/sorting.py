"""Sorting and selection for NumPy, by algorithms that use the CPU's vector instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy import threads
from gradcore.backends.portable.sorting import Sorting, comparable

__all__ = ["NumpySorting", "sort_integers"]

#: Elements below which NumPy's stable sort is as fast.
SMALL = 2048
#: Integers from which sorted elements are taken from the keys rather than gathered.
LARGE = 1 << 21
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
    else:
        return None
    return ~keys if descending else keys


def sort_integers(x: Any, dim: int, descending: bool, with_values: bool) -> tuple[Any, Any]:
    """Sort int64 elements stably. Return the indices, and the sorted elements (or None) if `with_values`.

    This is a radix sort of one or two digits, each of which fits into one uint64 together with the index. Each pass
    sorts plain integers, which is several times as fast as sorting indices. Return None for the indices if the range of
    the elements is too large.
    """
    low, high, n = int(x.min()), int(x.max()), x.shape[dim]
    bits = (n - 1).bit_length()
    digit, span = 64 - bits, high - low
    if span.bit_length() > (digit if descending else 2 * digit):  # NumPy's unstable sort takes less than two passes
        return None, None
    keys = (high - x if descending else x - low).view(np.uint64)  # differences that overflow are right modulo 2**64
    indices = np.arange(n, dtype=np.uint64).reshape((-1,) + (1,) * (x.ndim - dim - 1))
    shift, mask, values = np.uint64(bits), np.uint64((1 << bits) - 1), None
    if not span >> digit:
        order = keys
        order <<= shift
        order |= indices
        order.sort(axis=dim)
        if with_values:
            values = (order >> shift).view(np.int64)
            np.subtract(high, values, out=values) if descending else np.add(values, low, out=values)
        order &= mask
        return order.view(np.int64), values
    if x.size == n:
        order, values = _sort_by_high_bits(x.reshape(-1), keys.reshape(-1) >> np.uint64(span.bit_length() - digit))
        if order is not None:
            return order.reshape(x.shape), values.reshape(x.shape)
    order = keys << shift  # the bits of the second digit are lost
    order |= indices
    order.sort(axis=dim)
    order &= mask
    order = order.view(np.int64)
    keys >>= np.uint64(digit)
    last = np.take_along_axis(keys, order, dim)
    last <<= shift
    last |= indices
    last.sort(axis=dim)
    last &= mask
    return np.take_along_axis(order, last.view(np.int64), dim), None


def _sort_by_high_bits(x: Any, high: Any) -> tuple[Any, Any]:
    """Sort a vector by `high`, the high bits of its elements, then the few elements whose high bits are equal.

    Return the indices and the sorted elements, or None for both if the high bits of many elements are equal.
    """
    order, _ = sort_integers(high.view(np.int64), 0, False, False)
    values = x.take(order)
    if not (values[1:] < values[:-1]).any():
        return order, values
    high = high.take(order)
    is_equal = high[1:] == high[:-1]
    is_tied = np.zeros(x.size, bool)
    is_tied[1:] = is_equal
    is_tied[:-1] |= is_equal
    tied = np.flatnonzero(is_tied)
    if tied.size > x.size >> 3:
        return None, None
    again = np.argsort(values[tied], kind="stable")
    order[tied], values[tied] = order[tied[again]], values[tied[again]]
    return order, values


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
        if x.dtype == np.int64:
            order, _ = sort_integers(x, dim, descending, False)
            if order is not None:
                return order
        order = np.argsort(x if not descending else -x if x.dtype.kind == "f" else ~x, axis=dim)
        rows = np.moveaxis(self.take_along(x, order, dim), dim, 0)
        if (rows[1:] == rows[:-1]).any() or np.isnan(rows).any():
            return super().argsort_along(x, dim, descending)
        return order

    @kernel_for(lambda self, x, dim, *_: x.size >= LARGE and x.dtype == np.int64 and 16 <= x.shape[dim] < 1 << 31)
    def sort_along(self, x: Any, dim: int, descending: bool = False) -> tuple[Any, Any]:
        order, values = sort_integers(x, dim, descending, True)
        if order is None:
            return super().sort_along(x, dim, descending)
        return self.take_along(x, order, dim) if values is None else values, order

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

    def select_range(start: int, stop: int) -> None:
        remaining, row_numbers = rows[start:stop].copy(), np.arange(stop - start)
        for i in range(k):
            columns = remaining.argmax(axis=1) if largest else remaining.argmin(axis=1)
            index[start:stop, i] = columns
            remaining[row_numbers, columns] = sentinel

    threads.spread(select_range, len(rows), k * rows.size // WORTH_A_THREAD)
    values = rows[np.arange(len(rows))[:, None], index]
    if (values == sentinel).any() or (not largest and np.isnan(values).any()):
        return None
    return values.reshape(*shape, k), index.reshape(*shape, k)
