"""Kernels of sorting, selecting, distinct elements and searching, for any array library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradcore.backends.kernel_rules import along

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Sorting", "comparable"]


class Sorting:
    """Order, selection and search along one dimension, which is counted from the front."""

    xp: Namespace
    host_scalars: bool
    number: Any  # `number` and the following kernels are defined by other families.
    equal_or_nan: Any
    take_along: Any
    running_max: Any

    # -- sorting --------------------------------------------------------------------------------------------------

    @along(1)
    def argsort_along(self, x: Array, dim: int, descending: bool = False) -> Array:
        """Return the indices that sort `x`, stable in both directions. NaN is greater than everything else."""
        xp = self.xp
        x = comparable(x)
        if not descending:
            return xp.argsort(x, axis=dim, kind="stable")
        # Sorting the reversed elements reverses the order of equal ones, which reading the result backwards restores.
        return x.shape[dim] - 1 - xp.flip(xp.argsort(xp.flip(x, dim), axis=dim, kind="stable"), dim)

    @along(1)
    def sort_along(self, x: Array, dim: int, descending: bool = False) -> tuple[Array, Array]:
        """Return the sorted elements and their indices."""
        order = self.argsort_along(x, dim, descending)
        return self.take_along(x, order, dim), order

    @along(1)
    def topk_along(self, x: Array, dim: int, k: int, largest: bool = True) -> tuple[Any, Any]:
        """Return the k largest or smallest elements, sorted, and their indices."""
        # The copy frees the memory of the whole order.
        order = self.argsort_along(x, dim, largest)[(slice(None),) * dim + (slice(k),)].copy()
        return self.take_along(x, order, dim), order

    # -- one element of the order ---------------------------------------------------------------------------------

    @along(1)
    def kthvalue_along(self, x: Array, dim: int, k: int, keepdim: bool = False) -> tuple[Array, Array]:
        """Return the k-th smallest element (from 1), and the index of the first one equal to it."""
        values = self.partition_along(x, k - 1, dim)[(slice(None),) * dim + (slice(k - 1, k),)].copy()
        return self.where_equal(x, values, dim, keepdim)

    @along(2)
    def partition_along(self, x: Array, k: int, dim: int) -> Array:
        """Return the elements partitioned so that element `k` (from 0) is the one at that position after a sort."""
        return self.xp.sort(x, axis=dim)

    @along(1)
    def median_along(self, x: Array, dim: int, keepdim: bool = False, ignore_nan: bool = False) -> tuple[Array, Array]:
        """Return the (lower) median, and the index of the first element equal to it."""
        xp = self.xp
        nan = xp.isnan(x) if x.dtype.kind == "f" else None
        if nan is not None and ignore_nan:
            valid_count = x.shape[dim] - nan.sum(axis=dim, keepdims=True)
            values = self.take_along(xp.sort(x, axis=dim), xp.maximum(valid_count - 1, 0) // 2, dim)
            return self.where_equal(x, values, dim, keepdim)
        values, index = self.kthvalue_along(x, dim, (x.shape[dim] + 1) // 2, True)
        if nan is not None:
            has_nan = nan.any(axis=dim, keepdims=True)
            values = xp.where(has_nan, xp.full((), float("nan"), x.dtype), values)
            index = xp.where(has_nan, xp.expand_dims(nan.argmax(axis=dim), dim), index)
        return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))

    def where_equal(self, x: Array, values: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
        """Return `values`, one for each slice along a dim, and the index of the first element equal to each."""
        index = self.equal_or_nan(x, values).argmax(axis=dim)
        return (values, self.xp.expand_dims(index, dim)) if keepdim else (values.squeeze(dim), index)

    @along(1)
    def mode_along(self, x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        """Return the most frequent element (the smallest if several are), and the index of its last occurrence."""
        xp = self.xp
        values, order = self.sort_along(xp.moveaxis(x, dim, -1), x.ndim - 1)
        starts = xp.ones(values.shape, "bool")
        starts[..., 1:] = values[..., 1:] != values[..., :-1]
        position = xp.arange(values.shape[-1])
        run = position - self.running_max(xp.where(starts, position, 0))
        best = run.argmax(axis=-1)[..., None]  # the end of the first of the longest runs of equal elements
        results = (self.take_along(a, best, x.ndim - 1) for a in (values, order))
        values, indices = (xp.moveaxis(a, -1, dim) if keepdim else a.squeeze(-1) for a in results)
        return values, indices

    # -- distinct elements ----------------------------------------------------------------------------------------

    def unique_of(self, x: Array, inverse: bool, counts: bool, dim: int | None) -> tuple[Array, Array, Array]:
        """Return the sorted distinct elements (or slices along a dim), the inverse indices, and the counts."""
        results = self.xp.unique(x, return_inverse=inverse, return_counts=counts, axis=dim, equal_nan=False)
        values, *rest = results if inverse or counts else (results,)
        nothing = self.xp.zeros(0, "int64")
        inverse_indices = rest[0].reshape(x.shape if dim is None else (x.shape[dim],)) if inverse else nothing
        return values, inverse_indices, rest[-1] if counts else nothing

    def unique_consecutive_of(
        self, x: Array, inverse: bool, counts: bool, dim: int | None
    ) -> tuple[Array, Array, Array]:
        """Return the first element of each run of equal elements, the inverse indices, and the counts."""
        xp = self.xp
        rows = x.reshape(-1) if dim is None else xp.moveaxis(x, dim, 0)
        starts = xp.ones(len(rows), "bool")
        starts[1:] = (rows[1:] != rows[:-1]).any(axis=tuple(range(1, rows.ndim)))
        values = rows[starts]
        nothing = xp.zeros(0, "int64")
        run_numbers = xp.cumsum(starts) - 1
        number = xp.bincount(run_numbers, minlength=len(values)) if counts and len(rows) else nothing
        if dim is not None:
            values = xp.moveaxis(values, 0, dim)
        return values, run_numbers.reshape(x.shape if dim is None else (-1,)) if inverse else nothing, number

    # -- search ---------------------------------------------------------------------------------------------------

    def search_in(self, sequence: Array, values: Array, right: bool = False) -> Array:
        """Return the positions at which to insert `values` into a sorted sequence, or rows into rows of sequences."""
        xp = self.xp
        n = sequence.shape[-1]
        if sequence.ndim == 1:
            return xp.searchsorted(sequence, values, side="right" if right else "left")
        low = xp.zeros(values.shape, "int64")
        high = xp.full(values.shape, n, "int64")
        for _ in range(n.bit_length()):
            middle = (low + high) // 2
            probe = xp.minimum(middle, n - 1)
            probed = self.take_along(sequence, probe, sequence.ndim - 1)
            above = probed > values if right else probed >= values
            is_found = low >= high
            high = xp.where(is_found | ~above, high, middle)
            low = xp.where(is_found | above, low, middle + 1)
        return low

    def is_in_of(self, x: Array, among: Any, invert: bool = False) -> Any:
        """Return whether each element of `x` is in `among`."""
        xp = self.xp
        if not among.size:
            return xp.full(x.shape, invert)
        x, among = comparable(x), xp.sort(comparable(among.reshape(-1)))
        result = among[xp.minimum(self.search_in(among, x), among.size - 1)]
        return result != x if invert else result == x

    # -- counts ---------------------------------------------------------------------------------------------------

    def bincount_of(self, x: Array, weights: Array | None = None, minlength: int = 0) -> Array:
        """Return the number of occurrences of each integer, or the sum of the weights of these."""
        xp = self.xp
        if not x.size:
            return xp.zeros(minlength, "int64" if weights is None else self.sum_type(weights))
        self.check_counted(x.min(), self.number(x.max()))
        counts = xp.bincount(x, weights, minlength)
        return counts if weights is None else counts.astype(self.sum_type(weights))

    def check_counted(self, least: Any, largest: Any) -> None:
        """Raise PyTorch's errors unless `bincount` can count numbers from `least` to `largest`."""
        if least < 0:
            raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
        limit = 2**63 - 1
        # The number of counts would exceed int64, and NumPy would write outside of its array.
        if largest >= limit:
            raise RuntimeError(f"maximum value of input overflowed, it should be < {limit} but got {limit}")

    def sum_type(self, weights: Array) -> str:
        """Return the dtype of sums of weights."""
        return "float32" if weights.dtype == "float32" else "float64"

    def histogram_of(self, x: Array, bins: int, low: float, high: float) -> Array:
        """Return the number of elements in each bin between `low` and `high`; if these are equal, those of the data."""
        xp = self.xp
        flat = x.reshape(-1)
        if low == high:
            low, high = self.check_range(*((float(flat.min()), float(flat.max())) if flat.size else (low, high)))
        flat = flat[(flat >= low) & (flat <= high)]
        scaled = (flat - low) * bins / (high - low)
        # The product may overflow. If the width does, too, elements without a bin are left out.
        scaled = xp.where(scaled - scaled == 0, scaled, (flat - low) / (high - low) * bins)
        bin_index = scaled[scaled - scaled == 0].astype("int64")
        return xp.bincount(xp.minimum(bin_index, bins - 1), minlength=bins).astype(x.dtype)

    def check_range(self, low: float, high: float) -> tuple[float, float]:
        """Return the range of the data, or one of width 2 if it has none; raise PyTorch's error if it is infinite."""
        if not (low - low == 0 == high - high):
            raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
        return (low - 1, high + 1) if low == high else (low, high)


def comparable(x: Array) -> Array:
    """Return bools as the numbers 0 and 1, whatever bytes represent True, and everything else unchanged."""
    return (x.astype("uint8") != 0).astype("uint8") if x.dtype.kind == "b" else x
