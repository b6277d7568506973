"""Sums and softmax along dims of sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradcore import functional
from gradcore.autograd.variables import wrap
from gradcore.backends.sparsity import flat_places
from gradcore.sparse.arithmetic import distinct
from gradcore.sparse.conversion import coalesce, sparse_dim, to_sparse
from gradcore.sparse.indices import raw
from gradcore.sparse.products import largest
from gradcore.sparse.tensor import COO, CSR, SparseTensor, known_as, on, sparse

__all__ = ["log_softmax", "softmax", "sum"]


def sum(input: Any, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Any:
    """Return the sum over all elements, or over some dims.

    Parameters
    ----------
    input : Tensor
        Sparse.
    dim : int or sequence of int, optional
    dtype : dtype, optional

    Returns
    -------
    Tensor
        Sparse if a sparse dim remains, else dense.

    Examples
    --------
    >>> import gradcore as gc
    >>> s = gc.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0])
    >>> gc.sparse.sum(s), gc.sparse.sum(s, 0).to_dense()
    (tensor(12.), tensor([4., 0., 8.]))
    """
    return total(input, dim, dtype=dtype)


@on("mean")
def mean(t: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the mean over all elements, or over some dims; elements that are not stored count as zeros."""
    if not (dtype or t.dtype).is_differentiable:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
            f"{t.dtype.scalar_name}"
        )
    dims = range(len(t.sizes)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    result = total(t, dim, keepdim, dtype=dtype)
    return result / prod(t.sizes[d] for d in (dims or range(len(t.sizes))))


@on("sum")
def total(t: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the sum over all elements, or over some dims; `sum` as a method."""
    if dtype is not None:
        t = t.to(dtype)
    dims = () if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if dim is None or (not dims and not keepdim):
        return known_as(functional.sum(t.stored), "SumBackward0")
    n = len(t.sizes)
    for d in dims:
        if not -n <= d < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
    away = sorted({d % n for d in dims})
    if t.layout is not COO:
        result = _sum_coo(to_sparse(t), away, keepdim)
        return to_sparse(result, CSR) if isinstance(result, SparseTensor) and result.ndim == 2 else result
    return _sum_coo(coalesce(t), away, keepdim)


def _sum_coo(t: SparseTensor, away: list[int], keepdim: bool) -> Any:
    """Return the sum of a COO tensor over the dims `away`."""
    dims, device = sparse_dim(t), t.home
    values = t.stored
    dense = tuple(d - dims + 1 for d in away if d >= dims)
    if dense:
        values = values.sum(dense, keepdim)
    summed_dims = [d for d in away if d < dims]
    sizes = [1 if d in away else n for d, n in enumerate(t.sizes) if keepdim or d not in away]
    if len(summed_dims) == dims and not keepdim:
        return known_as(values.sum(0), "SparseSumBackward0")
    index = raw(t.index[0])
    rows = [index[d] * (d not in summed_dims) for d in range(dims) if keepdim or d not in summed_dims]
    indices = wrap(t.xp.stack(rows), device)
    out = coalesce(sparse(COO, sizes, (indices,), values, not summed_dims))
    out.stored = known_as(out.stored, "SparseSumBackward0")
    return out


def _apply_softmax(name: str, input: Any, dim: int, dtype: Any) -> Any:
    """Apply the softmax function `name` along a dim to the stored elements."""
    if not isinstance(input, SparseTensor):
        return getattr(functional, name)(input, dim, dtype=dtype)
    converted: Any = input if dtype is None else input.to(dtype)
    t = distinct(converted)
    if t.layout is not COO:
        block = {"blocksize": tuple(t.stored.shape[1:])} if t.stored.ndim > 1 else {}
        return to_sparse(_apply_softmax(name, to_sparse(t), dim, None), t.layout, **block)
    n, dims = len(t.sizes), sparse_dim(t)
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    d = dim % n
    values = getattr(functional, name)(t.stored, d - dims + 1) if d >= dims else _softmax_of_groups(name, t, d)
    return t.like(known_as(values, "SparseLogSoftmaxBackward0" if name == "log_softmax" else "SparseSoftmaxBackward0"))


def _softmax_of_groups(name: str, t: SparseTensor, d: int) -> Any:
    """Compute the softmax over groups of values whose indices differ in dim `d` only."""
    xp, device, index = t.xp, t.home, raw(t.index[0])
    other_dims = [e for e in range(index.shape[0]) if e != d]
    flat = flat_places(index[other_dims], [t.sizes[e] for e in other_dims]) if other_dims else index[d] * 0
    _, firsts, counts = xp.unique(flat, return_index=True, return_inverse=True)
    group, values = wrap(counts.reshape(-1), device), t.stored
    highest = largest(values.detach(), wrap(firsts, device), group, "amax")
    shifted = values - highest[group]
    total = functional.rows_summed(shifted.exp(), group, int(firsts.size))
    if name == "log_softmax":
        return shifted - total.log()[group]
    return shifted.exp() / total[group]


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Compute the softmax along a dim over the stored elements: the others count as minus infinity.

    Examples
    --------
    >>> import gradcore as gc
    >>> s = gc.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0])
    >>> gc.sparse.softmax(s, 1).values()
    tensor([1.0000, 0.2689, 0.7311])
    """
    return _apply_softmax("softmax", input, dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Return the logarithm of `softmax`.

    Examples
    --------
    >>> import gradcore as gc
    >>> s = gc.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0])
    >>> gc.sparse.log_softmax(s, 1).values()
    tensor([ 0.0000, -1.3133, -0.3133])
    """
    return _apply_softmax("log_softmax", input, dim, dtype)
