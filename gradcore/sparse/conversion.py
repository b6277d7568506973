"""Conversions between sparse layouts and dense tensors, and access to indices and values."""

from __future__ import annotations

from math import prod
from typing import Any

from gradcore import functional
from gradcore.autograd.variables import wrap
from gradcore.backends.sparsity import flat_places
from gradcore.sparse.indices import raw, sorted_indices
from gradcore.sparse.tensor import (
    BLOCKED,
    BSC,
    BSR,
    BY_ROWS,
    COMPRESSED,
    COO,
    CSC,
    CSR,
    SPOKEN,
    SparseTensor,
    known_as,
    on,
    sparse,
)
from gradcore.tensor import Tensor, layouts
from gradcore.utils._pytree import register_pytree_node

__all__ = ["apply_mask", "coalesce", "to_dense", "to_sparse"]


@on("coalesce")
def coalesce(t: SparseTensor) -> SparseTensor:
    """Return the tensor with sorted, distinct indices; the values of equal indices are added."""
    _expect(t, COO, "coalesce", "coordinate")
    if t.in_order:
        return t
    order, groups, index = sorted_indices(t)
    values = t.stored if order is None else t.stored[order]
    if groups is not None:
        values = functional.rows_summed(values, groups, index.shape[1])
    return sparse(COO, t.sizes, (index,), known_as(values, "CoalesceBackward0"), True)


def _expect(t: SparseTensor, layout: Any, name: str, words: str) -> None:
    if t.layout is not layout:
        raise RuntimeError(f"{name} expected sparse {words} tensor layout but got {SPOKEN[t.layout]}")


# -- parts -----------------------------------------------------------------------------------------------------------


@on("values")
def values(t: SparseTensor) -> Any:
    """Return the values of a coalesced tensor, with their history."""
    if t.layout is COO and not t.in_order:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return known_as(t.stored, "ValuesBackward0")


@on("indices")
def indices(t: SparseTensor) -> Any:
    """Return the indices of a coalesced tensor, ``(sparse_dim, nnz)``."""
    _expect(t, COO, "indices", "coordinate")
    if not t.in_order:
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return t.index[0]


@on("_values")
def _values(t: SparseTensor) -> Any:
    return t.stored.detach()


@on("_indices")
def _indices(t: SparseTensor) -> Any:
    _expect(t, COO, "_indices", "coordinate")
    return t.index[0]


@on("_nnz")
def _nnz(t: SparseTensor) -> int:
    return int(t.stored.shape[0])


@on("is_coalesced")
def is_coalesced(t: SparseTensor) -> bool:
    """Return whether the indices are known to be sorted and distinct."""
    _expect(t, COO, "is_coalesced", "coordinate")
    return t.in_order


@on("_coalesced_")
def _coalesced_(t: SparseTensor, coalesced: bool) -> SparseTensor:
    t.in_order = coalesced
    return t


def _part_of_compressed(name: str, position: int, of_rows: bool) -> None:
    def part(t: SparseTensor) -> Any:
        if t.layout is COO or (t.layout in BY_ROWS) is not of_rows:
            _expect(t, None, name, "row compressed" if of_rows else "column compressed")
        return t.index[position]

    part.__name__ = name
    on(name)(part)


for _name, _position, _of_rows in (
    ("crow_indices", 0, True), ("col_indices", 1, True), ("ccol_indices", 0, False), ("row_indices", 1, False)
):  # fmt: skip
    _part_of_compressed(_name, _position, _of_rows)


@on("sparse_dim _dimI")
def sparse_dim(t: SparseTensor) -> int:
    """Return the number of sparse dims, those that have indices."""
    return int(t.index[0].shape[0]) if t.layout is COO else 2


@on("dense_dim _dimV")
def dense_dim(t: SparseTensor) -> int:
    """Return the number of dense dims, those of each stored value."""
    return len(t.sizes) - int(sparse_dim(t))


# -- dense tensors ---------------------------------------------------------------------------------------------------


def places(t: SparseTensor) -> tuple[Tensor, ...]:
    """Return the index of each value along each sparse dim."""
    if t.layout is COO:
        return tuple(wrap(row, t.home) for row in raw(t.index[0]))
    return wrap(t.pattern.rows, t.home), wrap(t.pattern.cols, t.home)


@on("to_dense")
def to_dense(t: SparseTensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """Convert to a dense tensor."""
    values = t.stored.reshape(-1) if t.layout in BLOCKED else t.stored
    sizes = t.sizes[: sparse_dim(t)]
    flat = flat_places(raw(t.index[0]) if t.layout is COO else list(map(raw, places(t))), sizes)
    out = functional.rows_summed(values, wrap(flat, t.home), prod(sizes))
    out = known_as(out.reshape(t.sizes), "ToDenseBackward0")
    return out if dtype is None else out.to(dtype)


def dense_to_sparse(t: Tensor, layout: Any = None, *, blocksize: Any = None, sparse_dim: int | None = None) -> Any:
    """Convert a dense tensor to a sparse one, which stores its nonzero elements."""
    layout = COO if layout is None else layout
    if layout is layouts.strided:
        return t
    dims = t.ndim if sparse_dim is None else sparse_dim
    if not 0 < dims <= t.ndim and t.ndim:
        raise RuntimeError(f"sparse_dim argument must be in >0 range when self.dim()>0, but got {dims}")
    stored = t.detach() != 0
    if dims < t.ndim:
        stored = stored.reshape(*t.shape[:dims], -1).any(-1)
    xp = t._device.backend.xp
    index = wrap(xp.stack(stored._array.nonzero()) if dims else xp.zeros((0, 1), "int64"), t._device)
    values = known_as(t[tuple(wrap(row, t._device) for row in raw(index))] if dims else t[None], "ToSparseBackward0")
    return to_sparse(sparse(COO, t.shape, (index,), values, True), layout, blocksize=blocksize)


def apply_mask(t: Tensor, mask: SparseTensor) -> Any:
    """Return the elements of `t` at the indices of `mask`, as a sparse tensor with these indices."""
    if tuple(t.shape) != mask.sizes:
        raise RuntimeError(f"sparse_mask(): operands have incompatible sizes; self has size {list(t.shape)} but mask "
                           f"has size {list(mask.sizes)}")  # fmt: skip
    if isinstance(t, SparseTensor):
        t = to_dense(t)
    mask = mask if mask.layout is not COO else coalesce(mask)
    elements = t[places(mask)]
    return mask.like(known_as(elements.reshape(mask.stored.shape), "SparseMaskBackward0"))


@on("sparse_mask")
def sparse_mask(self: Tensor, mask: Tensor) -> Any:
    """Return the elements of `self` at the indices of the sparse tensor `mask`, as a sparse tensor."""
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask() expects mask to be a sparse tensor")
    return apply_mask(self, mask)


# -- layouts ---------------------------------------------------------------------------------------------------------


def _as_coo(t: SparseTensor) -> SparseTensor:
    """Convert a sparse tensor to a COO tensor, whose indices may be in any order."""
    if t.layout is COO:
        return t
    index = wrap(t.xp.stack([t.pattern.rows, t.pattern.cols]), t.home)
    values = t.stored.reshape(-1) if t.layout in BLOCKED else t.stored
    return sparse(COO, t.sizes, (index,), values, False)


@on("to_sparse")
def to_sparse(t: SparseTensor, layout: Any = None, *, blocksize: Any = None, **kwargs: Any) -> Any:
    """Convert to another sparse layout, by default COO."""
    layout = kwargs.pop("layout", layout)
    if isinstance(layout, int) or kwargs:
        raise RuntimeError("to_sparse: sparse_dim is not supported for sparse tensors")
    layout = COO if layout is None else layout
    if layout is t.layout and layout not in BLOCKED:
        return t
    if layout is COO:
        return coalesce(_as_coo(t))
    if layout not in COMPRESSED:
        raise RuntimeError(f"to_sparse: conversion from {SPOKEN[t.layout]} to {layout} layout is not supported")
    if len(t.sizes) != 2:
        raise RuntimeError(f"to_sparse: the layout {layout} is for matrices, but the tensor has {len(t.sizes)} dims")
    coordinates = _as_coo(t)
    result = (
        _split_into_blocks(coalesce(coordinates), layout, blocksize)
        if layout in BLOCKED
        else _compress(coordinates, layout)
    )
    if t.layout in COMPRESSED and t.index[0].dtype is not result.index[0].dtype:
        result = sparse(layout, t.sizes, tuple(part.to(t.index[0].dtype) for part in result.index), result.stored)
    return result


def _compress(t: SparseTensor, layout: Any) -> SparseTensor:
    """Convert a COO matrix to CSR or CSC. The columns of CSC are the rows of the transpose."""
    by_rows = coalesce(t if layout is CSR else transpose(t, 0, 1))
    xp, device = t.xp, t.home
    outer, inner = raw(by_rows.index[0])
    counts = xp.bincount(outer, minlength=by_rows.sizes[0])
    ends = xp.concatenate([xp.zeros(1, "int64"), xp.cumsum(counts)])
    name = "ToSparseCsrBackward0" if layout is CSR else "ToSparseCscBackward0"
    index = wrap(ends, device), wrap(inner, device)
    return sparse(layout, t.sizes, index, known_as(by_rows.stored, name))


def _split_into_blocks(t: SparseTensor, layout: Any, blocksize: Any) -> SparseTensor:
    """Convert a coalesced COO matrix to a layout of dense blocks."""
    if blocksize is None:
        raise RuntimeError(f"to_sparse: blocksize is required for the layout {layout}")
    height, width = map(int, blocksize)
    if t.sizes[0] % height or t.sizes[1] % width:
        raise RuntimeError(
            f"tensor sparse size ({t.sizes[0]},{t.sizes[1]}) must be divisible by given blocksize ({height},{width})"
        )
    xp, device = t.xp, t.home
    rows, cols = raw(t.index[0])
    block_rows, block_cols = t.sizes[0] // height, t.sizes[1] // width
    outer, inner, counts = (
        (rows // height, cols // width, block_cols) if layout is BSR else (cols // width, rows // height, block_rows)
    )
    blocks, block_numbers = xp.unique(outer * counts + inner, return_inverse=True)
    flat = (block_numbers.reshape(-1) * height + rows % height) * width + cols % width
    values = functional.rows_summed(t.stored, wrap(flat, device), int(blocks.size) * height * width)
    values = values.reshape(-1, height, width)
    ends = xp.searchsorted(blocks // max(counts, 1), xp.arange((block_rows if layout is BSR else block_cols) + 1))
    index = wrap(ends, device), wrap(blocks % max(counts, 1), device)
    return sparse(layout, t.sizes, index, values)


def _conversion(name: str, layout: Any, blocked: bool = False) -> Any:
    if blocked:

        def convert(self: Tensor, blocksize: Any) -> Any:
            make = to_sparse if isinstance(self, SparseTensor) else dense_to_sparse
            return make(self, layout, blocksize=blocksize)
    else:

        def convert(self: Tensor) -> Any:  # type: ignore[misc]
            return to_sparse(self, layout) if isinstance(self, SparseTensor) else dense_to_sparse(self, layout)

    convert.__name__ = name
    convert.__doc__ = f"Return the tensor in the layout ``gradcore.{layout._name}``."
    return on(name)(convert)


#: Methods of dense tensors that convert them to sparse layouts.
DENSE = {
    "to_sparse_csr": _conversion("to_sparse_csr", CSR),
    "_to_sparse_csr": _conversion("_to_sparse_csr", CSR),
    "to_sparse_csc": _conversion("to_sparse_csc", CSC),
    "to_sparse_coo": _conversion("to_sparse_coo", COO),
    "to_sparse_bsr": _conversion("to_sparse_bsr", BSR, True),
    "to_sparse_bsc": _conversion("to_sparse_bsc", BSC, True),
}


@on("transpose swapaxes swapdims")
def transpose(t: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    """Swap two dims; the transpose of a compressed matrix has the same indices in the other layout (CSR as CSC)."""
    n, dims = len(t.sizes), sparse_dim(t)
    a, b = dim0 % n, dim1 % n
    sizes = list(t.sizes)
    sizes[a], sizes[b] = sizes[b], sizes[a]
    if a == b:
        return t
    if t.layout is COO:
        if (a < dims) != (b < dims):
            raise RuntimeError("transpose: can't transpose sparse and dense dims of a sparse tensor")
        if a >= dims:
            return sparse(COO, sizes, t.index, t.stored.transpose(a - dims + 1, b - dims + 1), t.in_order)
        order = list(range(dims))
        order[a], order[b] = b, a
        return sparse(COO, sizes, (wrap(raw(t.index[0])[order], t.home),), t.stored, False)
    layout = {CSR: CSC, CSC: CSR, BSR: BSC, BSC: BSR}[t.layout]
    return sparse(layout, sizes, t.index, t.stored.mT if t.layout in BLOCKED else t.stored)


@on("t")
def t(self: SparseTensor) -> SparseTensor:
    """Return the transpose of a matrix."""
    if len(self.sizes) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but self is {self.ndim}D")
    return self if len(self.sizes) < 2 else transpose(self, 0, 1)


@on("permute")
def permute(t: SparseTensor, *dims: Any) -> SparseTensor:
    """Permute the sparse dims."""
    order = [d % len(t.sizes) for d in (dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)]
    if sorted(order) != list(range(sparse_dim(t))) or dense_dim(t):
        raise RuntimeError("permute: the dims of a sparse tensor to permute are all of its sparse dims")
    if t.layout is not COO:
        return transpose(t, 0, 1) if order == [1, 0] else t
    sizes = [t.sizes[d] for d in order]
    return sparse(COO, sizes, (wrap(raw(t.index[0])[order], t.home),), t.stored, False)


# -- in nested arguments -----------------------------------------------------------------------------------------------


def _taken_apart(t: SparseTensor) -> tuple[list[Any], Any]:
    t = coalesce(t) if t.layout is COO else t
    return [t.stored], (t.layout, t.sizes, t.index, t.stored.ndim)


def _put_together(children: Any, context: Any) -> Any:
    (values,), (layout, sizes, index, ndim) = children, context
    if not isinstance(values, Tensor):
        return values
    if values.ndim != ndim:
        raise RuntimeError("a sparse tensor has no batch dim: vmap takes it with in_dims=None, or its values")
    return sparse(layout, sizes, index, values, True)


register_pytree_node(SparseTensor, _taken_apart, _put_together)
