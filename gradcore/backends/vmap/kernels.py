"""Batching rules of kernels: run the inner backend's kernel on the whole batch at once.

Most kernels declare one of a few kinds (`gradcore.backends.kernel_rules`); the rest have rules of their own here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.base import Backend
from gradcore.backends.kernel_rules import batch_rules
from gradcore.backends.vmap import calls
from gradcore.backends.vmap.array import (
    BatchedArray,
    all_samples,
    arange_like,
    physical,
    rewrap,
    shift_axes,
    split_batch,
)
from gradcore.backends.vmap.functions import matmul
from gradcore.backends.vmap.messages import DYNAMIC

__all__ = ["KERNEL_RULES", "BatchedKernels"]

#: Rules by kernel: called with the level, the kernel of the arrays inside, the generic kernel, and the arguments.
KERNEL_RULES: dict[str, Callable[..., Any]] = {}

Ints = Sequence[int]


def _make_dim_rule(place: int) -> Callable[..., Any]:
    def run(level: Any, kernel: Any, generic: Any, *args: Any) -> Any:
        if not any(a.__class__ is BatchedArray and a.level is level for a in args):
            return kernel(*args)
        arrays = [physical(a, level) if calls.is_array(a) else a for a in args]
        ndim = arrays[0].ndim - 1
        arrays = [a.reshape(-1, *(1,) * ndim) if getattr(a, "ndim", 0) == 1 else a for a in arrays]
        if not ndim:  # Kernels treat 0-dim arrays differently.
            return generic(*args)
        dims = args[place] if len(args) > place else None
        arrays[place : place + 1] = [shift_axes(dims, ndim)]
        return rewrap(kernel(*arrays), level)

    return run


def _leading(cores: tuple[int, ...]) -> Callable[..., Any]:
    def run(level: Any, kernel: Any, generic: Any, *args: Any) -> Any:
        if not any(a.__class__ is BatchedArray and a.level is level for a in args):
            return kernel(*args)
        arrays = [physical(a, level) for a in args[: len(cores)]]
        batch_ndim = max(a.ndim - 1 - core for a, core in zip(arrays, cores, strict=True))
        for i, (a, core) in enumerate(zip(arrays, cores, strict=True)):
            missing = batch_ndim - (a.ndim - 1 - core)
            if missing and core:
                arrays[i] = a.reshape(a.shape[0], *(1,) * missing, *a.shape[1:])
        return rewrap(kernel(*arrays, *args[len(cores) :]), level)

    return run


def _images(place: int) -> Callable[..., Any]:
    def run(level: Any, kernel: Any, generic: Any, *args: Any) -> Any:
        if not any(a.__class__ is BatchedArray and a.level is level for a in args):
            return kernel(*args)
        n = args[place] if isinstance(args[place], int) else len(args[place])
        arrays = [physical(a, level) for a in args[:place]]
        merged = arrays[0].ndim == n + 3
        count = arrays[0].shape[1] if merged else 0
        if merged:
            arrays = [a.reshape(-1, *a.shape[2:]) for a in arrays]
        result = kernel(*arrays, *args[place:])
        if merged:
            parts = result if isinstance(result, tuple) else (result,)
            parts = tuple(p.reshape(level.size, count, *p.shape[1:]) for p in parts)
            result = parts if isinstance(result, tuple) else parts[0]
        return rewrap(result, level)

    return run


def _check(level: Any, kernel: Any, generic: Any, *args: Any) -> Any:
    result = kernel(*[a.array if a.__class__ is BatchedArray and a.level is level else a for a in args])
    return rewrap(result, level) if hasattr(result, "ndim") and result.ndim else result


_DECLARED: dict[str, Callable[..., Any]] = {
    "along": _make_dim_rule, "leading": lambda *dims: _leading(dims), "images": _images, "all_samples": lambda: _check,
}  # fmt: skip
KERNEL_RULES.update((name, _DECLARED[rule.kind](*rule.numbers)) for name, rule in batch_rules(Backend).items())


def rule(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register the decorated function as the rule of the kernel of that name."""
    KERNEL_RULES[function.__name__.lstrip("_")] = function
    return function


@rule
def _matmul(level: Any, kernel: Any, generic: Any, a: Any, b: Any) -> Any:
    return matmul(level, kernel, a, b)


KERNEL_RULES["batched_matmul"] = _matmul


@rule
def _flash_attention(level: Any, kernel: Any, generic: Any, *args: Any) -> Any:
    """Merge the batch into the batch dims of attention, which are broadcast."""
    return calls.call_elementwise(level, kernel, *args)


# Each sample has gradients of its own, also of operands that all samples share.
KERNEL_RULES["flash_attention_backward"] = lambda level, kernel, generic, *args: calls.call_elementwise(
    level, kernel, *(calls.as_batched(a, level) for a in args)
)
KERNEL_RULES.update(
    dict.fromkeys((f"special_of_{count}" for count in ("one", "two", "three", "four")), _flash_attention)
)


@rule
def _linear(level: Any, kernel: Any, generic: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    x, is_many = split_batch(x, level)
    if calls.is_batched(level, (weight, bias)) or (is_many and not weight.ndim):
        return generic(BatchedArray(x, level) if is_many else x, weight, bias)
    result = kernel(x, weight, bias)
    return BatchedArray(result, level) if is_many else result


@rule
def _col2im(level: Any, kernel: Any, generic: Any, x: Any, size: Ints, *settings: Any) -> Any:
    if not calls.is_batched(level, x):
        return kernel(x, size, *settings)
    a = x.array
    rows = a.reshape(-1, *a.shape[-2:])
    images = kernel(rows, size, *settings)
    return BatchedArray(images.reshape(*a.shape[:-2], *images.shape[1:]), level)


@rule
def _pad_with_own_backward(level: Any, kernel: Any, generic: Any, x: Any, shape: Ints, pad: Ints, mode: str) -> Any:
    if not calls.is_batched(level, x):
        return kernel(x, shape, pad, mode)
    return BatchedArray(kernel(x.array, (level.size, *shape), pad, mode), level)


@rule
def _permutation(level: Any, kernel: Any, generic: Any, like: Any, pivots: Any, rows: int) -> Any:
    return rewrap(kernel(physical(like, level), physical(pivots, level), rows), level)


@rule
def _copy_into(level: Any, kernel: Any, generic: Any, target: Any, source: Any) -> Any:
    target[...] = source


# -- convolutions: samples are images where only images are batched, and else groups of channels -------------------


def _as_channels(x: Any, level: Any) -> Any:
    """Return the images of all samples as one image, whose channels are those of all samples in turn."""
    a = physical(x, level).swapaxes(0, 1)
    return a.reshape(a.shape[0], a.shape[1] * a.shape[2], *a.shape[3:])


def _from_channels(a: Any, level: Any) -> Any:
    return BatchedArray(a.reshape(a.shape[0], level.size, a.shape[1] // level.size, *a.shape[2:]).swapaxes(0, 1), level)


def _convolve(level: Any, kernel: Any, generic: Any, x: Any, weight: Any, *settings: Any) -> Any:
    (a, many_images), (w, filters) = split_batch(x, level), split_batch(weight, level)
    if not calls.is_batched(level, (x, weight)):
        return kernel(a, w, *settings)
    if not (many_images or filters):
        return BatchedArray(physical(kernel(a, w, *settings), level).copy(), level)
    if not filters:
        result = kernel(a.reshape(-1, *a.shape[2:]), w, *settings)
        return BatchedArray(result.reshape(*a.shape[:2], *result.shape[1:]), level)
    groups = settings[-1] * level.size
    result = kernel(_as_channels(x, level), w.reshape(-1, *w.shape[2:]), *settings[:-1], groups)
    return _from_channels(result, level)


KERNEL_RULES.update(dict.fromkeys(("conv", "conv_output", "conv_input"), _convolve))


@rule
def _conv_with_bias(
    level: Any, kernel: Any, generic: Any, x: Any, weight: Any, bias: Any, size: Any, *settings: Any
) -> Any:
    if not calls.is_batched(level, (weight, bias)):
        if not calls.is_batched(level, x):
            return kernel(x, weight, bias, size, *settings)
        a = physical(x, level)
        result = kernel(a.reshape(-1, *a.shape[2:]), weight, bias, size, *settings)
        return BatchedArray(result.reshape(*a.shape[:2], *result.shape[1:]), level)
    w, b = physical(weight, level), physical(bias, level)
    groups = settings[-1] * level.size
    result = kernel(_as_channels(x, level), w.reshape(-1, *w.shape[2:]), b.reshape(-1), size, *settings[:-1], groups)
    return _from_channels(result, level)


@rule
def _conv_weight(level: Any, kernel: Any, generic: Any, x: Any, other: Any, *settings: Any) -> Any:
    if not calls.is_batched(level, (x, other)):
        return kernel(x, other, *settings)
    groups = settings[-1] * level.size
    gradients = kernel(_as_channels(x, level), _as_channels(other, level), *settings[:-1], groups)
    return BatchedArray(gradients.reshape(level.size, gradients.shape[0] // level.size, *gradients.shape[1:]), level)


# -- kernels of their own -------------------------------------------------------------------------------------------


class BatchedKernels:
    """Kernels that depend on where samples lie in memory, or that need another shape for each sample."""

    inner: Any
    level: Any
    xp: Any
    factor_lu: Any
    solve_lu: Any

    def keeps_weights(self, scores: int, dtype: str) -> bool:
        """Return whether attention saves its weights, by the number of scores of all samples.

        Halves always do, so that their weights are rounded as without a batch.
        """
        return dtype in ("float16", "bfloat16") or bool(self.inner.keeps_weights(scores * self.level.size, dtype))

    def shares_memory(self, view: Any, x: Any) -> bool:
        """Return whether `view`, which was made from `x`, is a view of its memory rather than a copy."""
        return bool(self.inner.shares_memory(*(split_batch(a, self.level)[0] for a in (view, x))))

    def memory_of(self, x: Any) -> Any:
        """Return the whole memory block that `x` belongs to, as a vector, seen from the first sample."""
        return self.inner.memory_of(x.array[0] if calls.is_batched(self.level, x) else x)

    def geometry_of(self, x: Any) -> tuple[tuple[int, ...], int]:
        """Return the strides and the offset of one sample, in elements."""
        return self.inner.geometry_of(x.array[0] if calls.is_batched(self.level, x) else x)

    def address(self, x: Any) -> int:
        """Return the address of the first element."""
        return int(self.inner.address(x.array if calls.is_batched(self.level, x) else x))

    def view_memory(self, x: Any, shape: Ints, strides: Ints, offset: int) -> Any:
        """Return a view of each sample's memory. `offset` counts from the sample's first element."""
        if not calls.is_batched(self.level, x):
            return self.inner.view_memory(x, shape, strides, offset)
        a = x.array
        step = a.strides[0] // a.itemsize
        return BatchedArray(self.inner.view_memory(a, (self.level.size, *shape), (step, *strides), offset), self.level)

    def solve_and_factor(self, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
        """Return the solution and the factors of `a`, which can have fewer batch dims than `b`."""
        if not calls.is_batched(self.level, (a, b)):
            return self.inner.solve_and_factor(a, b)
        if a.ndim == b.ndim:
            solve = self.inner.kernels["solve_and_factor"]
            x, lu, pivots, info = solve(physical(a, self.level), physical(b, self.level))
            if lu.ndim == a.ndim + 1:
                lu, pivots = rewrap((lu, pivots), self.level)
            return (
                BatchedArray(x, self.level),
                lu,
                pivots,
                BatchedArray(info, self.level),
            )  # Empty factors were not worth keeping.
        lu, pivots, info = self.factor_lu(a)
        return self.solve_lu(lu, pivots, b), lu, pivots, info

    def search_in(self, sequence: Any, values: Any, right: bool = False) -> Any:
        """Return the positions at which to insert values. Each sample has a sequence for each row of values."""
        if sequence.ndim == 1 and calls.is_batched(self.level, sequence):
            shape = values.shape
            rows = values.reshape(1, prod(shape))
            return super().search_in(sequence.reshape(1, -1), rows, right).reshape(shape)  # type: ignore[misc]
        return super().search_in(sequence, values, right)  # type: ignore[misc]

    def sum_into_rows(self, height: int, index: Any, rows: Any) -> Any:
        """Sum rows by index, in one long matrix of all samples."""
        if not calls.is_batched(self.level, (index, rows)):
            return self.inner.sum_into_rows(height, index, rows)
        index, rows = self._index_in_one_matrix(height, index, rows)
        total = self.inner.sum_into_rows(self.level.size * height, index, rows)
        return BatchedArray(total.reshape(self.level.size, height, rows.shape[1]), self.level)

    def add_rows(self, out: Any, index: Any, rows: Any) -> Any:
        """Add rows by index to the new matrix `out`, and return it."""
        if not calls.is_batched(self.level, (out, index, rows)):
            return self.inner.add_rows(out, index, rows)
        shape = out.shape
        index, rows = self._index_in_one_matrix(shape[0], index, rows)
        total = self.inner.add_rows(physical(out, self.level).reshape(-1, shape[1]), index, rows)
        return BatchedArray(total.reshape(self.level.size, *shape), self.level)

    def _index_in_one_matrix(self, height: int, index: Any, rows: Any) -> tuple[Any, Any]:
        """Return indices into the rows of all samples in one matrix, and the rows to add there."""
        positions = self._index_in_one_vector(height, index)
        return positions, physical(rows, self.level).reshape(positions.size, rows.shape[1])

    def _index_in_one_vector(self, n: int, index: Any) -> Any:
        """Return indices into `n` numbers of each sample as indices into one vector for all samples."""
        positions = physical(index, self.level).astype("int64", copy=False)
        return (positions % max(n, 1) + (arange_like(self.level.size, index) * n)[:, None]).reshape(-1)

    def reduce_at(self, out: Any, places: Any, values: Any, reduce: str) -> Any:
        """Reduce elements of rows with values, in one long row of all samples."""
        arrays = [physical(a, self.level) for a in (out, places, values)]
        n = arrays[0].shape[1]
        flat = self._index_in_one_vector(n, places)
        reduced = self.inner.reduce_at(arrays[0].reshape(-1), flat, arrays[2].reshape(-1), reduce)
        return BatchedArray(reduced.reshape(self.level.size, n), self.level)

    def masked_write(self, out: Any, mask: Any, source: Any) -> None:
        """Write the first elements of a vector to the elements where the mask is True."""
        if not calls.is_batched(self.level, (out, mask, source)):
            self.inner.masked_write(out, mask, source)
            return
        ranks = mask.reshape(-1).cumsum() - 1
        last = all_samples(ranks)
        if last.size and source.size <= int(last.max()):
            raise RuntimeError("Number of elements of source < number of ones in mask")
        if source.size:
            chosen = np.take_along_axis(source, self.xp.maximum(ranks, 0), 0).reshape(out.shape)
            out[...] = np.where(mask, chosen, out)

    def index(self, x: Any, indices: Sequence[Any]) -> Any:
        """Return the elements at `indices`."""
        if not calls.is_batched(self.level, (x, *indices)):
            return self.inner.index(x, indices)
        return super().index(calls.as_batched(x, self.level), self._shared_masks(indices))  # type: ignore[misc]

    def _shared_masks(self, indices: Sequence[Any]) -> Sequence[Any]:
        """Return the indices with masks that all samples share as arrays that are not batched."""
        results = []
        for index in indices:
            if index is not None and index.dtype.kind == "b":
                shared, differs = split_batch(index, self.level)
                index = index if differs else shared
            results.append(index)
        return tuple(results)

    def index_write(self, x: Any, values: Any, indices: Sequence[Any], accumulate: bool = False) -> Any:
        """Return a copy with `values` at `indices`, in which each sample has memory of its own."""
        if not calls.is_batched(self.level, (x, values, *indices)):
            return self.inner.index_write(x, values, indices, accumulate)
        out = self.xp.empty(x.shape, x.dtype)
        out[...] = x
        self.index_into(out, values, indices, accumulate)
        return out

    def index_into(self, out: Any, values: Any, indices: Sequence[Any], accumulate: bool = False) -> None:
        """Write or add `values` at `indices`. With a mask per sample, `values` has to be one value."""
        indices = self._shared_masks(indices)
        present = [(dim, index) for dim, index in enumerate(indices) if index is not None]
        dim, mask = present[0] if present else (0, np.zeros(0))
        if len(present) == 1 and mask.dtype.kind == "b" and mask.__class__ is BatchedArray and values.size == 1:
            mask = mask.reshape((1,) * dim + mask.shape + (1,) * (out.ndim - dim - mask.ndim))
            value = values.reshape(())
            out[...] = np.where(mask, out + value if accumulate else value, out)
            return
        super().index_into(out, values, indices, accumulate)  # type: ignore[misc]

    def bincount_of(self, x: Any, weights: Any = None, minlength: int = 0) -> Any:
        raise RuntimeError(DYNAMIC.format(name="bincount"))

    def histogram_of(self, x: Any, bins: int, low: float, high: float) -> Any:
        """Return the number of elements in each bin between two bounds, or those of each sample if both are equal."""
        flat = x.reshape(-1)
        first, last = (flat.min(), flat.max()) if low == high and flat.size else (low, high)
        if low == high:
            is_empty_range = first == last
            first, last = np.where(is_empty_range, first - 1, first), np.where(is_empty_range, last + 1, last)
        inside = (flat >= first) & (flat <= last)
        bin_index = np.where(inside, (flat - first) / (last - first) * bins, 0).astype("int64")
        out = self.xp.zeros(bins, x.dtype)
        self.xp.add.at(out, self.xp.minimum(bin_index, bins - 1), inside.astype(x.dtype))
        return out

    def diagonal_of(self, x: Any, offset: int, dim1: int, dim2: int) -> Any:
        """Return the diagonal as a view, which is writable if `x` is."""
        if not calls.is_batched(self.level, x):
            return self.inner.diagonal_of(x, offset, dim1, dim2)
        return BatchedArray(self.inner.diagonal_of(x.array, offset, *shift_axes((dim1, dim2), x.ndim)), self.level)

    def sum_rows(self, x: Any) -> Any:
        """Sum over all dims but the last."""
        return x.reshape(prod(x.shape[:-1]), x.shape[-1]).sum(axis=0)

    def degrees_up_to(self, n: Any) -> range:
        """Return the degrees that the polynomials of any sample need."""
        return self.inner.degrees_up_to(split_batch(n, self.level)[0])
