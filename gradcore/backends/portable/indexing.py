"""Kernels that read and write elements at given indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradcore.backends.kernel_rules import all_samples, along, indexes, writes
from gradcore.core import dtypes
from gradcore.core.errors import OutOfBoundsError

if TYPE_CHECKING:
    from gradcore.core.arrays import Array, Namespace

__all__ = ["Indexing", "distinct", "linear"]

#: A tuple with an index array (of integers or bools) for some dims and None for the others.
Indices = Sequence[Any]
UNSIGNED = {4: "uint32", 8: "uint64"}
OUT_OF_BOUNDS = "index {index} is out of bounds for dimension {dim} with size {size}"


class Indexing:
    """Kernels of indexing, gathering and scattering.

    Indices are checked. NumPy checks them itself, so only its errors are translated to PyTorch's words. CuPy would wrap
    them around silently.
    """

    xp: Namespace
    div: Any
    host_scalars: bool
    array_type: type
    shares_memory: Any

    def is_tensor(self, value: Array) -> bool:
        """Return whether a value is an array of this backend."""
        return isinstance(value, self.array_type)

    # -- indexing with ints, slices and None ----------------------------------------------------------------------

    def getitem(self, x: Array, key: Array, name: str = "") -> Array:
        """Return the view ``x[key]``, for a `key` of integers, slices, None and an ellipsis."""
        try:
            return x[key]
        except IndexError as error:
            raise index_error(error, x.shape) from None

    def getitem_backward(self, grad: Array, shape: Sequence[int], key: Array) -> Array:
        """Return zeros of `shape` with `grad` at `key`."""
        out = self.xp.zeros(shape, grad.dtype)
        out[key] = grad
        return out

    # -- indexing with arrays ---------------------------------------------------------------------------------------

    @indexes("take", "tuple", "x index")
    def index(self, x: Array, indices: Indices) -> Array:
        """Return the elements at `indices`."""
        key = None if self.host_scalars else self._key_of(x.shape, indices)  # which checks bounds
        try:
            single_index = self._find_single_index(x, indices)
            if single_index is not None:
                taken, dim, positions = single_index
                if not taken.shape[dim] and positions.size:  # NumPy raises no error where the result is empty.
                    raise IndexError("non-empty take from an empty dim")
                return self.taken_along(taken, dim, positions, True)
            return self.xp.ascontiguousarray(x[self._key_of(x.shape, indices) if key is None else key])
        except (IndexError, ValueError) as error:
            raise index_error(error, x.shape, self._replace_masks(indices)) from None

    @indexes("take", "dim", "x dim index", index_select="x dim index")
    def taken_along(
        self, x: Array, dim: int, index: Array, negative: bool = False, message: str = OUT_OF_BOUNDS
    ) -> Array:
        """Return the slices at `index` along a dim. Without `negative`, an index out of bounds raises `message`."""
        if not negative:
            self.check_bounds(index, x.shape[dim], dim, 0, message)
        return x.take(index, dim)

    @indexes("put", "tuple", "x values index accumulate")
    def index_write(self, x: Array, values: Any, indices: Indices, accumulate: bool = False) -> Array:
        """Return a copy of `x` with `values` written, or added, at `indices`."""
        out = self.xp.array(x)
        self.index_into(out, values, indices, accumulate)
        return out

    @indexes("put", "tuple", "out values index accumulate")
    @writes("out")
    def index_into(self, out: Array, values: Any, indices: Indices, accumulate: bool = False) -> None:
        """Write `values` to `out` at `indices`, or add them (an index may then occur more than once)."""
        key = self._key_of(out.shape, indices)
        try:
            if accumulate and not distinct(indices):
                indices = self._replace_masks(indices)
                if self.host_scalars:
                    # The next step computes flat indices, among which NumPy does not detect an index out of bounds.
                    self._check_each(out.shape, indices)
                self._accumulate_into(out, indices, values)
                return
            target = out
            single_index = self._find_single_index(out, indices)
            if single_index is not None and self.shares_memory(single_index[0], out):
                target, dim, positions = single_index
                key = (slice(None),) * dim + (positions,)
            if accumulate:
                target[key] += values
            else:
                target[key] = values
        except (IndexError, ValueError) as error:
            raise index_error(error, out.shape, self._replace_masks(indices), values.shape) from None

    @indexes("add", "tuple", "values shape index")
    def index_backward(self, grad: Array, shape: Sequence[int], indices: Indices) -> Array:
        """Return zeros of `shape` with `grad` added at `indices`."""
        if not distinct(indices):
            return self._accumulate(shape, indices, grad)
        out = self.xp.zeros(shape, grad.dtype)
        self.index_into(out, grad, indices)
        return out

    def _find_single_index(self, x: Array, indices: Indices) -> tuple[Array, int, Array] | None:
        """If there is a single index array, return `x`, the indexed dim and integer indices along it; else None.

        A mask is turned into the indices of its True elements, and the dims that it covers are merged into one. Reading
        and writing by integers is several times faster than by the mask.
        """
        present = [(dim, index) for dim, index in enumerate(indices) if index is not None]
        if len(present) != 1:
            return None
        dim, index = present[0]
        if index.dtype.kind == "b":
            if index.ndim != 1:
                x = x.reshape(*x.shape[:dim], index.size, *x.shape[dim + index.ndim :])
            index = index.reshape(-1).nonzero()[0]
        return x, dim, index

    def _key_of(self, shape: Sequence[int], indices: Indices) -> tuple[slice | Array, ...]:
        """Return the key for the library's indexing, after a bounds check if the library makes none."""
        if not self.host_scalars:
            self._check_each(shape, indices)
        return tuple(slice(None) if index is None else index for index in indices)

    def _check_each(self, shape: Sequence[int], indices: Indices) -> None:
        """Raise unless every index is within the bounds of its own dim."""
        dim = 0
        for index in indices:
            if index is None or index.dtype.kind == "b":
                dim += 1 if index is None else index.ndim
                continue
            if index.size and not shape[dim]:
                raise IndexError("index is out of bounds for dimension with size 0")
            self.check_bounds(index, shape[dim], dim, -shape[dim])
            dim += 1

    @all_samples
    def check_bounds(self, index: Array, size: int, dim: int, low: int = 0, message: str = OUT_OF_BOUNDS) -> None:
        """Raise unless all of ``low <= index < size`` holds."""
        if not index.size:
            return
        if low and self.host_scalars:
            is_outside = int(index.max()) >= size or int(index.min()) < low
        elif low:
            is_outside = bool(((index >= size) | (index < low)).any())
        else:
            # As unsigned integers, negative indices are larger than any size.
            is_outside = int(index.view(UNSIGNED[index.itemsize]).max()) >= size
        if is_outside:
            wrong = index[(index >= size) | (index < low)].reshape(-1)[0]
            raise OutOfBoundsError(message.format(index=int(wrong), dim=dim, size=size))

    @writes("out")
    def masked_write(self, out: Array, mask: Array, source: Array) -> None:
        """Write the first elements of the vector `source` to the elements of `out` where `mask` is True."""
        positions = mask.reshape(-1).nonzero()[0]
        if positions.size > source.size:
            raise RuntimeError("Number of elements of source < number of ones in mask")
        out.reshape(-1)[positions] = source[: positions.size]

    def _accumulate(self, shape: Sequence[int], indices: Indices, values: Any) -> Array:
        """Return zeros of `shape` with `values` added at `indices`, which may repeat."""
        flat, rows, dims = self._as_rows(shape, indices, values)
        total = self.sum_into_rows(math.prod(shape[d] for d in dims), flat, rows)
        order = [*dims, *(d for d in range(len(shape)) if d not in dims)]
        inverse_order = sorted(range(len(shape)), key=order.__getitem__)
        return total.reshape([shape[d] for d in order]).transpose(inverse_order)

    @writes("out")
    def _accumulate_into(self, out: Array, indices: Indices, values: Any) -> None:
        """Add `values` to `out` at `indices`, without a pass over all of `out` if they are few."""
        flat, rows, dims = self._as_rows(out.shape, indices, values)
        if not rows.size:
            return
        touches_few = 4 * rows.size < out.size or rows.shape[1] < 8
        if touches_few and out.flags.c_contiguous and dims == list(range(len(dims))):
            total = self.add_rows(out.reshape(-1, rows.shape[1]), flat, rows)
            if not self.shares_memory(total, out):  # computed in another dtype
                out[...] = total.reshape(out.shape)
        else:
            out += self._accumulate(out.shape, indices, values)

    def _as_rows(self, shape: Sequence[int], indices: Indices, values: Any) -> tuple[Array, Array, list[int]]:
        """Return flat indices over the indexed dims, the values as a row for each, and the indexed dims."""
        indices = self._replace_masks(indices)
        dims = [d for d, index in enumerate(indices) if index is not None]
        arrays, full, order = self._layout(shape, indices)
        if values.shape != full:
            values = self.xp.broadcast_to(values, full)
        flat = linear(arrays, [shape[d] for d in dims]).reshape(-1)
        rest = math.prod(n for d, n in enumerate(shape) if d not in dims)
        return flat, values.transpose(order).reshape(flat.size, rest), dims

    def _layout(self, shape: Sequence[int], indices: Indices) -> tuple[Sequence[Any], tuple[int, ...], tuple[int, ...]]:
        """Return the broadcast indices, the shape of ``x[indices]``, and an order of its dims, indexed dims first."""
        dims = [d for d, index in enumerate(indices) if index is not None]
        arrays = [indices[d] for d in dims]
        if len(arrays) > 1:
            arrays = self.xp.broadcast_arrays(*arrays)
        index_shape = arrays[0].shape
        rest = [n for d, n in enumerate(shape) if d not in dims]
        # The indexed dims come first in the result, unless they are adjacent.
        first_dim = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
        full = (*rest[:first_dim], *index_shape, *rest[first_dim:])
        order = (
            *range(first_dim, first_dim + len(index_shape)),
            *range(first_dim),
            *range(first_dim + len(index_shape), len(full)),
        )
        return arrays, full, order

    def _replace_masks(self, indices: Indices) -> list[Any]:
        """Replace each mask by the integer indices of its True elements, one array per dim."""
        results: list[Any] = []
        for index in indices:
            if index is not None and index.dtype.kind == "b":
                results.extend(index.nonzero())
            else:
                results.append(index)
        return results

    def sum_into_rows(self, height: int, index: Array, rows: Array) -> Array:
        """Return `height` rows of zeros with each row of `rows` added to the row that `index` says."""
        out = self.xp.zeros((height, rows.shape[1]), rows.dtype)
        return self.add_rows(out, index, rows) if rows.size else out

    @writes("out")
    def add_rows(self, out: Array, index: Array, rows: Array) -> Array:
        """Add `rows` to the rows `index` of the new matrix `out`, and return it. Halves are summed in float32."""
        if _is_reduced(out):
            return self.add_rows(out.astype("float32"), index, rows.astype("float32")).astype(out.dtype)
        width = out.shape[1]
        if width > 1:  # on single elements `add.at` is many times faster than on rows
            index = (index.astype("int64", copy=False)[:, None] * width + self.xp.arange(width)).reshape(-1)
        self.xp.add.at(out.reshape(-1), index, rows.reshape(-1).astype(out.dtype, copy=False))
        return out

    # -- one index per element --------------------------------------------------------------------------------------

    @along(1)
    @indexes("take", "each", "x dim index", gather="x dim index -")
    def gather_along(self, x: Array, dim: int, index: Array) -> Array:
        """Return ``out[i, j] = x[index[i, j], j]`` for dim 0, and accordingly for others."""
        if not x.ndim or not index.size:
            rows = x.reshape(-1)
            self.check_bounds(index, rows.size, 0)
            return rows[index.reshape(-1)].reshape(index.shape)
        self.check_bounds(index, x.shape[dim], dim)
        if x.flags.c_contiguous:
            return x.reshape(-1).take(self._places(x.shape, dim, index))
        return _cut(x, index.shape, dim)[self._index_key(index, dim)]

    @along(1)
    @indexes("put", "each", "x dim index values", scatter_src="x values dim index")
    def scatter_along(self, x: Array, dim: int, index: Array, src: Array) -> Array:
        """Return a copy of `x` with ``out[index[i, j], j] = src[i, j]`` for dim 0; `src` may be a number."""
        out = self.xp.array(x, order="C")
        rows, index = _row(out), _row(index)
        self.check_bounds(index, rows.shape[dim], dim)
        if index.size:
            if getattr(src, "ndim", 0):
                src = self.cut(src, index)
            self.write_at(rows.reshape(-1), self._places(rows.shape, dim, index), src)
        return out

    @writes("out")
    def write_at(self, out: Array, places: Array, values: Any) -> None:
        """Write `values`, an array or a number, to the elements `places` of the vector `out`."""
        out[places] = values

    @indexes("add", "each", gather_backward="values shape dim index")
    @writes("out")
    def added_along(self, out: Array, dim: int, index: Array, src: Array) -> Array:
        """Compute ``out[index[i, j], j] += src[i, j]`` for dim 0 in the new array `out`, and return it."""
        if not index.size:
            return out
        shape, out, index = out.shape, _row(out), _row(index)
        self.check_bounds(index, out.shape[dim], dim)
        out = self.xp.ascontiguousarray(out)
        positions = self._places(out.shape, dim, index).reshape(-1)
        return self.add_rows(out.reshape(-1, 1), positions, src.reshape(-1, 1)).reshape(shape)

    def cut(self, x: Array, index: Array) -> Array:
        """Return the part of `x` that starts at its first element and has the shape of an index array."""
        return x if x.shape == index.shape or not x.ndim else x[tuple(slice(n) for n in index.shape)]

    def _index_key(self, index: Array, dim: int) -> tuple[Array, ...]:
        """Return the key with which ``x[key]`` reads `index` along a dim."""
        key = [self._range_along(n, 1, d, index.ndim) for d, n in enumerate(index.shape)]
        key[dim] = index
        return tuple(key)

    def _range_along(self, n: int, step: int, dim: int, ndim: int) -> Array:
        """Return ``0, step, ...`` as an array of `ndim` dims whose elements lie along `dim`."""
        return self.xp.arange(0, n * step, step).reshape((1,) * dim + (n,) + (1,) * (ndim - dim - 1))

    def _places(self, shape: Sequence[int], dim: int, index: Array) -> Array:
        """Return the flat positions, in an array of `shape`, of the elements that `index` selects along a dim."""
        step, rest = 1, None
        for d in range(len(shape) - 1, -1, -1):
            if d == dim:
                positions = index.astype("int64", copy=False)
                positions = positions if step == 1 else positions * step
            elif index.shape[d] > 1:
                part = self._range_along(index.shape[d], step, d, index.ndim)
                rest = part if rest is None else rest + part
            step *= shape[d]
        return positions if rest is None else positions + rest

    # -- reductions at given places ---------------------------------------------------------------------------------

    @along(1)
    def reduced_along(self, x: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool) -> Array:
        """Return a copy of `x` whose elements at `index` along `dim` are reduced with the elements of `src`."""
        if not index.size:
            return self.xp.array(x)
        rows, index = _row(x), _row(index)
        self.check_bounds(index, rows.shape[dim], dim)
        positions = self._places(rows.shape, dim, index).reshape(-1)
        out, values = rows.reshape(-1).copy(), src.reshape(-1)
        if not include_self:
            self.write_at(out, positions, self._identity(reduce, x.dtype))
        if reduce in ("sum", "mean"):
            out = self.add_rows(out.reshape(-1, 1), positions, values.reshape(-1, 1)).reshape(-1)
            if reduce == "mean":
                count = (
                    self.sum_into_rows(out.size, positions, self.xp.ones((positions.size, 1), "int64")) + include_self
                )
                out = self._divide(out, self.xp.maximum(count.reshape(-1), 1))
        else:
            out = self.reduce_at(out, positions, values, reduce)
        return out.reshape(x.shape)

    def _divide(self, x: Array, count: Any) -> Array:
        if x.dtype.kind in "iub":
            return (x // count).astype(x.dtype)
        return self.div(x, count.astype(x.real.dtype))

    def _identity(self, reduce: str, dtype: Any) -> bool | float:
        """Return the neutral element of a reduction."""
        if reduce in ("sum", "mean", "prod"):
            return reduce == "prod"
        if dtype.kind == "b":
            return reduce == "amin"
        low = reduce == "amax"
        if dtype.kind in "iu":
            return self.xp.iinfo(dtype).min if low else self.xp.iinfo(dtype).max
        return -float("inf") if low else float("inf")

    @writes("out")
    def reduce_at(self, out: Array, places: Array, values: Any, reduce: str) -> Array:
        """Reduce the elements `places` of the new vector `out` with `values` by ``prod``, ``amax`` or ``amin``."""
        ufunc = {"prod": self.xp.multiply, "amax": self.xp.maximum, "amin": self.xp.minimum}[reduce]
        if self.host_scalars or reduce != "prod":  # CuPy has no `multiply.at`
            ufunc.at(out, places, values)
            return out
        # One pass for each occurrence of the most frequent position.
        order = self.xp.argsort(places, kind="stable")
        places, values = places[order], values[order]
        starts = self.xp.searchsorted(places, places)
        rank = self.xp.arange(places.size) - starts
        for k in range(int(rank.max()) + 1 if places.size else 0):
            chosen = rank == k
            out[places[chosen]] = ufunc(out[places[chosen]], values[chosen])
        return out


def _is_reduced(x: Array) -> bool:
    entry = dtypes.FROM_NUMPY.get(x.dtype)
    return entry is not None and entry.is_reduced


def distinct(indices: Indices) -> bool:
    """Return whether `indices` are a single mask, which cannot select an element twice."""
    present = [index for index in indices if index is not None]
    return len(present) == 1 and present[0].dtype.kind == "b"


def _row(x: Array) -> Array:
    """Return a 0-dim array as a vector of one element, and others unchanged."""
    return x if x.ndim else x.reshape(1)


def _cut(x: Array, shape: Sequence[int], dim: int) -> Array:
    """Return the part of `x` that starts at its first element and has the sizes `shape`, except along `dim`."""
    return x[tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(shape))]


def linear(arrays: Sequence[Any], sizes: Sequence[int]) -> Array:
    """Return index arrays along several dims as one array of flat indices. Negative ones count from the end."""
    arrays = [index.astype("int64", copy=False) for index in arrays]
    flat: Any = arrays[0]
    if len(arrays) > 1:
        flat = 0
        for index, size in zip(arrays, sizes, strict=True):
            flat = flat * size + (index + (index < 0) * size)
    return flat


def index_error(
    error: Exception, shape: Sequence[int], indices: Indices = (), values: Sequence[int] | None = None
) -> Exception:
    """Return an exception in PyTorch's words for an error that the library raised."""
    text = str(error)
    if "too many indices" in text:
        return IndexError(f"too many indices for tensor of dimension {len(shape)}")
    if "indexing arrays could not be broadcast" in text:
        shapes = ", ".join(str(list(i.shape)) for i in indices if i is not None)
        return IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}")
    if "non-empty take from an empty" in text or (indices and text.endswith("with size 0")):
        return IndexError("index is out of bounds for dimension with size 0")
    if isinstance(error, ValueError) and values is not None:
        return RuntimeError(
            f"shape mismatch: value tensor of shape {list(values)} cannot be broadcast to indexing result ({text})"
        )
    if isinstance(error, ValueError):
        return error
    return IndexError(text.replace(" axis ", " dimension "))
