"""Products with sparse matrices, differentiable with respect to both factors."""

from __future__ import annotations

from typing import Any

from gradcore import functional
from gradcore.autograd.variables import wrap
from gradcore.backends.sparsity import Pattern, flat_places, unravel_places
from gradcore.core.typing import AnyArray
from gradcore.sparse.arithmetic import add, distinct
from gradcore.sparse.conversion import coalesce, places, sparse_dim, to_sparse, transpose
from gradcore.sparse.indices import raw
from gradcore.sparse.tensor import BLOCKED, COO, CSR, SparseTensor, known_as, on, sparse
from gradcore.tensor import Tensor
from gradcore.tensor.operators import as_operand

__all__ = ["addmm", "elements", "largest", "mm", "sampled_addmm", "smm", "spmm"]


def elements(t: SparseTensor) -> Tensor:
    """Return the stored elements of a matrix as a vector, in the order of its pattern."""
    return t.stored.reshape(-1) if t.layout in BLOCKED else t.stored


def _check_factors(a: Any, b: Any) -> None:
    """Raise if two factors differ in dtype or device."""
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected scalar type {_scalar(a)} but found {_scalar(b)}")
    if a.device != b.device:
        raise RuntimeError(f"Expected all tensors to be on the same device, but got {a.device} and {b.device}")


def _scalar(t: Tensor) -> str:
    names = {"float32": "Float", "float64": "Double", "float16": "Half", "int64": "Long", "complex64": "ComplexFloat"}
    name = repr(t.dtype).removeprefix("torch.")
    return names.get(name, name)


def _times_dense(a: SparseTensor, b: Tensor) -> Any:
    """Return a sparse matrix times a dense vector, matrix or batch of matrices."""
    if not b.ndim:
        raise RuntimeError("both arguments to matmul need to be at least 1D, but they are 2D and 0D")
    inner = b.shape[0] if b.ndim == 1 else b.shape[-2]
    if a.sizes[1] != inner:
        if b.ndim == 1:
            raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.sizes[0]}x{a.sizes[1]} and {inner}x{b.shape[-1]})"
        )
    _check_factors(a, b)
    if b.ndim <= 2:
        return functional.sparse_product(elements(a), b, a.pattern, False)
    columns = b.movedim(-2, 0)
    product = functional.sparse_product(elements(a), columns.reshape(inner, -1), a.pattern, False)
    return product.reshape(a.sizes[0], *columns.shape[1:]).movedim(0, -2)


def _dense_times(a: Tensor, b: SparseTensor) -> Any:
    """Return a dense vector, matrix or batch of matrices times a sparse matrix."""
    if not a.ndim:
        raise RuntimeError("both arguments to matmul need to be at least 1D, but they are 0D and 2D")
    if a.shape[-1] != b.sizes[0]:
        rows = a.shape[-2] if a.ndim > 1 else 1
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a.shape[-1]} and {b.sizes[0]}x{b.sizes[1]})"
        )
    _check_factors(a, b)
    if a.ndim == 1:
        return functional.sparse_product(elements(b), a, b.pattern, True)
    rows = a.reshape(-1, a.shape[-1])
    result = functional.sparse_product(elements(b), rows.mT, b.pattern, True).mT
    return result if a.ndim == 2 else result.reshape(*a.shape[:-1], b.sizes[1])


# -- sparse by sparse --------------------------------------------------------------------------------------------------


def _times_sparse(a: SparseTensor, b: SparseTensor) -> Any:
    """Return the product of two sparse matrices: products of pairs of elements, summed by position in the result."""
    if a.sizes[1] != b.sizes[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.sizes[0]}x{a.sizes[1]} and {b.sizes[0]}x{b.sizes[1]})"
        )
    _check_factors(a, b)
    xp, device = a.xp, a.home
    left, right, positions, flat = _meetings(xp, a.pattern, b.pattern)
    terms = elements(a)[wrap(left, device)] * elements(b)[wrap(right, device)]
    values = functional.rows_summed(terms, wrap(positions, device), int(flat.size))
    index = wrap(unravel_places(xp, flat, (a.sizes[0], max(b.sizes[1], 1))), device)
    out = sparse(COO, (a.sizes[0], b.sizes[1]), (index,), known_as(values, "SparseSparseMatmulBackward0"), True)
    return out if a.layout is COO or a.layout in BLOCKED else to_sparse(out, CSR)


def _meetings(xp: Any, a: Pattern, b: Pattern) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Return the positions of the factors of each product in `a` and `b`, and of its result, and the flat indices."""
    order = xp.argsort(b.rows, kind="stable")
    ends = xp.searchsorted(b.rows[order], xp.arange(b.shape[0] + 1))
    counts = (ends[1:] - ends[:-1])[a.cols]
    firsts = xp.cumsum(counts) - counts
    total = int(counts.sum())
    left = xp.searchsorted(firsts + counts, xp.arange(total), side="right")
    right = order[ends[a.cols[left]] + xp.arange(total) - firsts[left]]
    places = flat_places([a.rows[left], b.cols[right]], (a.shape[0], max(b.shape[1], 1)))
    flat, positions = xp.unique(places, return_inverse=True)
    return left, right, positions.reshape(-1), flat


# -- functions ---------------------------------------------------------------------------------------------------------


@on("matmul mm mv __matmul__ __rmatmul__ dot")
def matmul(self: Any, other: Any, out_dtype: Any = None) -> Any:
    """Return the product of matrices, of which at least one is sparse."""
    for t in (self, other):
        if isinstance(t, SparseTensor) and t.ndim != 2:
            if t.ndim == 1 or sparse_dim(t) != 2:
                raise RuntimeError(f"matmul: a sparse factor must be a matrix, but has {t.ndim} dims; use to_dense()")
            return bmm(self, other)
    if not isinstance(other, SparseTensor):
        return _times_dense(self, other)
    return _times_sparse(self, other) if isinstance(self, SparseTensor) else _dense_times(self, other)


@on("bmm")
def bmm(self: Any, mat2: Any) -> Any:
    """Multiply a batch of sparse matrices with dense ones, as one product with a block diagonal matrix."""
    if not isinstance(self, SparseTensor) or isinstance(mat2, SparseTensor) or self.layout is not COO:
        raise RuntimeError("bmm: only the first factor may be sparse, of the layout sparse_coo")
    if self.ndim != 3 or mat2.ndim != 3 or sparse_dim(self) != 3:
        raise RuntimeError("batch1 must be a 3D tensor" if self.ndim != 3 else "batch2 must be a 3D tensor")
    (batch, height, inner), index = self.sizes, raw(self.index[0])
    if mat2.shape[:2] != (batch, inner):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {inner}] but got: "
            f"[{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    _check_factors(self, mat2)
    xp = self.xp
    pattern = Pattern(xp, (batch * height, batch * inner), index[0] * height + index[1], index[0] * inner + index[2])
    result = functional.sparse_product(self.stored, mat2.reshape(batch * inner, -1), pattern, False)
    return result.reshape(batch, height, mat2.shape[2])


@on("addmm")
def addmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return ``beta * self + alpha * (mat1 @ mat2)``."""
    product = (
        known_as(matmul(mat1, mat2), "SparseAddmmBackward0") if not _all_sparse(mat1, mat2) else matmul(mat1, mat2)
    )
    if isinstance(self, SparseTensor):
        if not isinstance(product, SparseTensor):
            raise RuntimeError("addmm: a sparse matrix to add to needs a sparse product; use sspaddmm, or to_dense()")
        return add(self * beta, product, alpha=alpha)
    return add(self * beta, product, alpha=alpha) if isinstance(product, SparseTensor) else functional.add(
        self * beta, product, alpha=alpha
    )  # fmt: skip


def _all_sparse(*tensors: Any) -> bool:
    return all(isinstance(t, SparseTensor) for t in tensors)


@on("addmv")
def addmv(self: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return ``beta * self + alpha * (mat @ vec)``."""
    return functional.add(self * beta, matmul(mat, vec), alpha=alpha)


@on("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """Return ``input @ weight.T + bias``, where `input` or `weight` is sparse."""
    transposed = transpose(weight, 0, 1) if isinstance(weight, SparseTensor) else weight.mT
    out = matmul(input, transposed)
    return out if bias is None else out + bias


def mm(mat1: Any, mat2: Any, reduce: str = "sum") -> Any:
    """Return the product of matrices, of which at least one is sparse.

    Parameters
    ----------
    mat1, mat2 : Tensor
    reduce : str
        How the products along a row of a sparse matrix are reduced: ``"sum"``, ``"mean"`` (of the stored elements),
        ``"amax"`` or ``"amin"``; ``"max"`` and ``"min"`` are the same.

    Returns
    -------
    Tensor
        Sparse if both matrices are, else dense.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.sparse.mm(gc.eye(2).to_sparse(), gc.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[1., 2.],
            [3., 4.]])
    """
    mat1, mat2 = as_operand(mat1), as_operand(mat2)
    if not isinstance(mat1, SparseTensor) and not isinstance(mat2, SparseTensor):
        return functional.mm(mat1, mat2)
    if reduce == "sum":
        out = matmul(mat1, mat2)
        return out if isinstance(out, SparseTensor) else known_as(out, "SparseAddmmBackward0")
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("mean", "amax", "amin"):
        raise RuntimeError(f"sparse.mm: reduce must be one of sum, mean, amax, amin, but got {reduce}")
    if not isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor):
        raise RuntimeError("sparse.mm: a reduction other than a sum is for a sparse matrix times a dense one")
    mat1 = distinct(mat1)
    rows, cols = places(mat1)
    terms = elements(mat1).unsqueeze(1) * mat2[cols]
    if reduce == "mean":
        counts = mat1.xp.maximum(mat1.xp.bincount(raw(rows), minlength=mat1.sizes[0]), 1)
        return functional.rows_summed(terms, rows, mat1.sizes[0]) / wrap(counts, mat1.home).to(terms.dtype)[:, None]
    groups, firsts, group = mat1.xp.unique(raw(rows), return_index=True, return_inverse=True)
    result = largest(terms, wrap(firsts, mat1.home), wrap(group.reshape(-1), mat1.home), reduce)
    return functional.rows_summed(result, wrap(groups, mat1.home), mat1.sizes[0])


def largest(values: Tensor, firsts: Tensor, group: Tensor, reduce: str) -> Tensor:
    """Return the largest or smallest value of each group; `firsts` are the positions of one value per group."""
    return functional.index_reduce(values[firsts], 0, group, values, reduce)  # type: ignore[no-any-return]


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """Return ``beta * input + alpha * (mat1 @ mat2)`` at the indices of the sparse matrix `input`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.sparse.sampled_addmm(gc.eye(2).to_sparse_csr(), gc.ones(2, 3), gc.ones(3, 2)).values()
    tensor([4., 4.])
    """
    if not isinstance(input, SparseTensor):
        raise RuntimeError("sampled_addmm: Expected self to be a sparse matrix")
    input = distinct(input)
    if (mat1.shape[0], mat2.shape[1]) != input.sizes or mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({mat1.shape[0]}x{mat1.shape[1]} and "
            f"{mat2.shape[0]}x{mat2.shape[1]}) into {input.sizes[0]}x{input.sizes[1]}"
        )
    sampled = functional.sampled_product(mat1, mat2.mT, input.pattern).reshape(input.stored.shape)
    return input.like(input.stored * beta + sampled * alpha)


@on("spmm")
def spmm(input: Any, mat2: Any) -> Any:
    """Return the product of a sparse matrix with a matrix.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.spmm(gc.eye(2).to_sparse(), gc.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return mm(input, mat2)


@on("smm")
def smm(input: Any, mat2: Any) -> Any:
    """Return the product of a sparse matrix with a dense one, as a sparse matrix that stores each element.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.smm(gc.eye(2).to_sparse(), gc.ones(2, 1)).indices()
    tensor([[0, 1],
            [0, 0]])
    """
    result, xp = matmul(input, mat2), input.xp
    rows = xp.unique(raw(coalesce(to_sparse(input)).index[0])[0])
    index = xp.stack([rows.repeat(result.shape[1]), xp.tile(xp.arange(result.shape[1]), rows.size)])
    indices = wrap(index, input.home)
    return sparse(COO, result.shape, (indices,), result[indices[0], indices[1]], True)


@on("hspmm")
def hspmm(mat1: Any, mat2: Any) -> Any:
    """Return the product of a sparse and a dense matrix as a hybrid tensor, which stores only the nonzero rows.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.hspmm(gc.sparse_coo_tensor([[1], [0]], [2.0], (3, 1)), gc.ones(1, 2)).values()
    tensor([[2., 2.]])
    """
    result = matmul(mat1, mat2)
    rows = mat1.xp.unique(raw(coalesce(to_sparse(mat1)).index[0])[0])
    indices = wrap(rows[None], mat1.home)
    return sparse(COO, result.shape, (indices,), result[indices[0]], True)


@on("sspaddmm")
def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return the sparse matrix ``beta * input + alpha * smm(mat1, mat2)``."""
    return add(input * beta, smm(mat1, mat2), alpha=alpha)
