"""Selection, indexing, concatenation and stacking of sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.autograd.variables import wrap
from gradcore.core.typing import AnyArray
from gradcore.sparse.conversion import coalesce, dense_dim, sparse_dim, to_sparse
from gradcore.sparse.indices import raw
from gradcore.sparse.tensor import BLOCKED, COO, SparseTensor, on, sparse
from gradcore.tensor import Tensor

__all__ = ["cat", "index_select", "select", "unbind"]


def _wrap_dim(dim: int, n: int) -> int:
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim % n


def _select_entries(t: SparseTensor, index: AnyArray, which: AnyArray, sizes: Sequence[int], in_order: bool) -> Any:
    """Return a COO tensor of the values of `t` at the positions `which`, with the given indices."""
    return sparse(COO, sizes, (wrap(index, t.home),), t.stored[wrap(which, t.home)], in_order)


@on("select")
def select(t: SparseTensor, dim: int, index: int) -> Any:
    """Return the slice at one index of a dim, without that dim."""
    t = to_sparse(t)
    d, dims = _wrap_dim(dim, len(t.sizes)), sparse_dim(t)
    size = t.sizes[d]
    if not -size <= index < size:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(t.sizes)} at dimension {dim}")
    sizes = [n for e, n in enumerate(t.sizes) if e != d]
    if d >= dims:
        return sparse(COO, sizes, t.index, t.stored.select(d - dims + 1, index), t.in_order)
    indices = raw(t.index[0])
    positions = (indices[d] == index % size).nonzero()[0]
    if dims == 1:
        return t.stored[wrap(positions, t.home)].sum(0)
    kept_indices = indices[[e for e in range(dims) if e != d]][:, positions]
    return _select_entries(t, kept_indices, positions, sizes, t.in_order)


@on("index_select")
def index_select(t: SparseTensor, dim: int, index: Tensor) -> Any:
    """Return the slices at the indices of a dim, in the order of `index`."""
    original, t = t, to_sparse(t)
    d, dims, xp, _device = _wrap_dim(dim, len(t.sizes)), sparse_dim(t), t.xp, t.home
    sizes = [index.numel() if e == d else n for e, n in enumerate(t.sizes)]
    if d >= dims:
        return sparse(COO, sizes, t.index, t.stored.index_select(d - dims + 1, index), t.in_order)
    indices, rows = index._array.reshape(-1), raw(t.index[0])
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= t.sizes[d]):
        raise IndexError("index out of range in self")
    order = xp.argsort(indices, kind="stable")
    first = xp.searchsorted(indices[order], rows[d])
    counts = xp.searchsorted(indices[order], rows[d], side="right") - first
    total, starts = int(counts.sum()), xp.cumsum(counts) - counts
    positions = xp.searchsorted(starts + counts, xp.arange(total), side="right")
    at = order[first[positions] + xp.arange(total) - starts[positions]]
    by = xp.argsort(at, kind="stable")
    new_indices, positions = rows[:, positions[by]], positions[by]
    new_indices[d] = at[by]
    out = _select_entries(t, new_indices, positions, sizes, d == 0 and t.in_order)
    return _convert_layout(original, out)


def _convert_layout(original: SparseTensor, coo: Any) -> Any:
    """Convert the COO tensor `coo` to the layout and block size of `original`."""
    if original.layout is COO:
        return coo
    return to_sparse(coo, original.layout, blocksize=original.stored.shape[1:] if original.layout in BLOCKED else None)


@on("narrow narrow_copy")
def narrow(t: SparseTensor, dim: int, start: int, length: int) -> Any:
    """Return a copy of `length` slices of a dim, beginning with `start`."""
    t = to_sparse(t)
    d, dims = _wrap_dim(dim, len(t.sizes)), sparse_dim(t)
    start = start + t.sizes[d] if start < 0 else start
    if length < 0 or start + length > t.sizes[d]:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({t.sizes[d]}).")
    sizes = [length if e == d else n for e, n in enumerate(t.sizes)]
    if d >= dims:
        return sparse(COO, sizes, t.index, t.stored.narrow(d - dims + 1, start, length), t.in_order)
    indices = raw(t.index[0])
    positions = ((indices[d] >= start) & (indices[d] < start + length)).nonzero()[0]
    kept_indices = indices[:, positions]
    kept_indices[d] -= start
    return _select_entries(t, kept_indices, positions, sizes, t.in_order)


@on("unbind")
def unbind(t: SparseTensor, dim: int = 0) -> Any:
    """Return a tuple of all slices along a dim."""
    return tuple(select(t, dim, i) for i in range(t.sizes[_wrap_dim(dim, len(t.sizes))]))


@on("unsqueeze")
def unsqueeze(t: SparseTensor, dim: int) -> Any:
    """Return the tensor with a new dim of size 1 at `dim`."""
    d, t = _wrap_dim(dim, len(t.sizes) + 1), to_sparse(t)
    dims = sparse_dim(t)
    sizes = [*t.sizes[:d], 1, *t.sizes[d:]]
    if d > dims:
        return sparse(COO, sizes, t.index, t.stored.unsqueeze(d - dims + 1), t.in_order)
    indices = raw(t.index[0])
    xp = t.xp
    new_indices = xp.concatenate([indices[:d], xp.zeros((1, indices.shape[1]), indices.dtype), indices[d:]])
    return sparse(COO, sizes, (wrap(new_indices, t.home),), t.stored, t.in_order)


@on("squeeze")
def squeeze(t: Any, dim: int | None = None) -> Any:
    """Return a tensor without dims of size 1."""
    if dim is None:
        for d in range(len(t.sizes) - 1, -1, -1):
            t = squeeze(t, d) if isinstance(t, SparseTensor) else t
        return t
    return select(t, dim, 0) if t.sizes[_wrap_dim(dim, len(t.sizes))] == 1 else t


@on("cat concat concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Concatenate sparse tensors along a dim."""
    if not all(isinstance(t, SparseTensor) for t in tensors):
        raise RuntimeError("Concatenating sparse tensors, but a dense tensor was found; use to_sparse() or to_dense()")
    parts = [to_sparse(t) for t in tensors]
    first = parts[0]
    d, dims, xp = _wrap_dim(dim, len(first.sizes)), sparse_dim(first), first.xp
    for t in parts[1:]:
        if (sparse_dim(t), dense_dim(t)) != (dims, dense_dim(first)) or any(
            a != b for e, (a, b) in enumerate(zip(t.sizes, first.sizes, strict=True)) if e != d
        ):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.sizes)} and {list(t.sizes)}, except in the "
                f"concatenating dimension {dim}"
            )
    sizes = [sum(t.sizes[d] for t in parts) if e == d else n for e, n in enumerate(first.sizes)]
    if d >= dims:
        return _cat_dense(parts, sizes, d - dims + 1)
    columns, offset = [], 0
    for t in parts:
        index = raw(t.index[0]) * 1
        index[d] += offset
        columns.append(index)
        offset += t.sizes[d]
    index = wrap(xp.concatenate(columns, 1), first.home)
    in_order = d == 0 and all(t.in_order for t in parts)
    out = sparse(COO, sizes, (index,), functional.cat([t.stored for t in parts]), in_order)
    return _convert_layout(tensors[0], out)


def _cat_dense(parts: list[SparseTensor], sizes: list[int], d: int) -> Any:
    """Concatenate along a dense dim; an element that one tensor does not store is zero there."""
    widths = [t.stored.shape[d] for t in parts]
    xp, device = parts[0].xp, parts[0].home
    padded = []
    for i, t in enumerate(parts):
        shape = list(t.stored.shape)
        sides = [
            functional.new_zeros(t.stored, (*shape[:d], n, *shape[d + 1 :]))
            for n in (sum(widths[:i]), sum(widths[i + 1 :]))
        ]
        padded.append(functional.cat([sides[0], t.stored, sides[1]], d))
    index = wrap(xp.concatenate([raw(t.index[0]) for t in parts], 1), device)
    return coalesce(sparse(COO, sizes, (index,), functional.cat(padded), False))


@on("stack")
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Stack sparse tensors along a new dim."""
    return cat([unsqueeze(t, dim) for t in tensors], dim)


@on("__getitem__")
def getitem(t: SparseTensor, key: Any) -> Any:
    """Index with integers, slices with step 1 and None."""
    keys = key if isinstance(key, tuple) else (key,)
    if Ellipsis in [k for k in keys if not isinstance(k, Tensor)]:
        at = keys.index(Ellipsis)
        key_count = sum(k is not None for k in keys) - 1
        keys = (*keys[:at], *[slice(None)] * (len(t.sizes) - key_count), *keys[at + 1 :])
    dim = 0
    for k in keys:
        if k is None:
            t, dim = unsqueeze(t, dim), dim + 1
        elif isinstance(k, slice):
            start, stop, step = k.indices(t.sizes[dim])
            if step != 1:
                raise RuntimeError("slices of sparse tensors must have step 1")
            if (start, stop) != (0, t.sizes[dim]):
                t = narrow(t, dim, start, max(stop - start, 0))
            dim += 1
        elif isinstance(k, Tensor) and k.ndim == 1 and not k.is_floating_point() and str(k.dtype) != "torch.bool":
            t, dim = index_select(t, dim, k), dim + 1
        elif isinstance(k, int) or (isinstance(k, Tensor) and not k.ndim):
            t = select(t, dim, int(k))
        else:
            raise RuntimeError(f"sparse tensors cannot be indexed with {type(k).__name__}; use to_dense()")
    return t
