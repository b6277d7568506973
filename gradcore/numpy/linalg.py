"""``numpy.linalg`` of tensors."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.errors import LinAlgError
from gradcore.core.typing import AnyTensor, ArrayLike, Axis, DTypeLike
from gradcore.numpy import mathematics, shaping
from gradcore.numpy.conversion import axes_of, cast, common, inexact, promote, tensor_of
from gradcore.numpy.ufuncs import UFUNCS
from gradcore.tensor import Tensor

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv",
    "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer",
    "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot",
    "vector_norm",
]  # fmt: skip

EigResult = namedtuple("EigResult", "eigenvalues eigenvectors")
EighResult = namedtuple("EighResult", "eigenvalues eigenvectors")
QRResult = namedtuple("QRResult", "Q R")
SlogdetResult = namedtuple("SlogdetResult", "sign logabsdet")
SVDResult = namedtuple("SVDResult", "U S Vh")


def _matrix(a: Any) -> AnyTensor:
    x = inexact(tensor_of(a))
    if x.ndim < 2:
        raise LinAlgError(f"{x.ndim}-dimensional array given. Array must be at least two-dimensional")
    return x


def _square(a: Any) -> AnyTensor:
    x = _matrix(a)
    if x.shape[-1] != x.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return x


def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Tensor:
    return F.linalg_cholesky(_square(a), upper=upper)


def cond(x: ArrayLike, p: ArrayLike | None = None) -> Tensor:
    matrix = _matrix(x)
    result = F.linalg_cond(matrix, p)
    has_no_nan = F.logical_not(F.any(F.isnan(matrix), (-2, -1)))
    return F.where(F.isnan(result) & has_no_nan, np.inf, result)  # of matrices of zeros


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Tensor:
    x, y = (F.movedim(t, axis, -1) for t in promote(x1, x2))
    return F.movedim(F.linalg_cross(*F.broadcast_tensors(x, y)), -1, axis)


def det(a: ArrayLike) -> Tensor:
    return F.linalg_det(_square(a))


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Tensor:
    return shaping.diagonal(x, offset, -2, -1)


def eig(a: ArrayLike) -> Any:
    return EigResult(*F.linalg_eig(_square(a)))


def eigvals(a: ArrayLike) -> Tensor:
    return F.linalg_eigvals(_square(a))


def eigh(a: ArrayLike, UPLO: str = "L") -> Any:
    return EighResult(*F.linalg_eigh(_square(a), UPLO))


def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Tensor:
    return F.linalg_eigvalsh(_square(a), UPLO)


def inv(a: ArrayLike) -> Tensor:
    return F.linalg_inv(_square(a))


def pinv(
    a: ArrayLike, rcond: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Tensor:
    if rtol is not None and rcond is not None:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    bound = rtol if rcond is None else rcond
    return F.linalg_pinv(_matrix(a), 1e-15 if bound is None and rtol is None else bound, hermitian)


def lstsq(a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None = None) -> Any:
    A, B = common(a, b)
    columns = B if B.ndim > 1 else B[:, None]
    m, n = A.shape[-2:]
    values = F.linalg_svdvals(A)
    rcond = float(np.finfo(A._dtype.numpy).eps) * max(m, n) if rcond is None else rcond
    rank = int((values > rcond * values.max()).sum()) if values.numel() else 0
    x = F.matmul(F.linalg_pinv(A, rcond), columns)
    residuals = F.sum(F.square(F.abs(columns - F.matmul(A, x))), -2)
    if rank != n or m <= n:
        residuals = F.new_zeros(residuals, (0,))
    return (x if B.ndim > 1 else x[:, 0]), residuals, rank, values


def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    return UFUNCS[np.matmul](x1, x2)


def matrix_transpose(x: ArrayLike, /) -> Tensor:
    return shaping.matrix_transpose(x)


def matrix_power(a: ArrayLike, n: int) -> Tensor:
    x = tensor_of(a)
    try:
        n = index(n)
    except TypeError:
        raise TypeError("exponent must be an integer") from None
    return F.linalg_matrix_power(x if x._dtype.is_differentiable or n >= 0 else inexact(x), n)


def matrix_rank(
    A: ArrayLike, tol: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Tensor:
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    x = inexact(tensor_of(A))
    if x.ndim < 2:
        return cast((x != 0).any(), dtypes.int64)
    values = F.abs(F.linalg_eigvalsh(x)) if hermitian else F.linalg_svdvals(x)
    if tol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x._dtype.numpy).eps) if rtol is None else rtol
        bound = F.amax(values, -1, True) * (tensor_of(rtol)[..., None] if np.ndim(rtol) else rtol)
    else:
        bound = cast(tensor_of(tol), values._dtype)[..., None]
    return (values > bound).sum(-1)


def multi_dot(arrays: ArrayLike, *, out: Tensor | None = None) -> Tensor:
    from gradcore.numpy.conversion import write_out

    return write_out(F.linalg_multi_dot(promote(*arrays)), out)


def norm(x: ArrayLike, ord: int | float | str | None = None, axis: Axis = None, keepdims: bool = False) -> Tensor:
    t = inexact(tensor_of(x))
    if axis is None and ord is None:
        flat = F.linalg_vector_norm(t.reshape(-1))
        return flat.reshape((1,) * t.ndim) if keepdims else flat
    axes = axes_of(axis, t.ndim)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"Invalid norm order '{ord}' for vectors")
        return F.linalg_vector_norm(t, 2 if ord is None else ord, axes, keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    return F.linalg_matrix_norm(t, "fro" if ord is None else ord, axes, keepdims)


def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: int | float | str | None = 2
) -> Tensor:
    t = inexact(tensor_of(x))
    return F.linalg_vector_norm(t, ord, axes_of(axis, t.ndim), keepdims)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: int | float | str | None = "fro") -> Tensor:
    return F.linalg_matrix_norm(_matrix(x), ord, (-2, -1), keepdims)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    x, y = tensor_of(x1), tensor_of(x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={x.ndim} and x2.ndim={y.ndim}.")
    return mathematics.outer(x, y)


def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    if mode == "raw":
        raise TypeError("linalg.qr(mode='raw') is not implemented for tensors; use gradcore.geqrf")
    result = F.linalg_qr(_matrix(a), "reduced" if mode == "r" else mode)  # derivatives of R need Q
    return result[1] if mode == "r" else QRResult(*result)


def slogdet(a: ArrayLike) -> Any:
    return SlogdetResult(*F.linalg_slogdet(_square(a)))


def solve(a: ArrayLike, b: ArrayLike) -> Tensor:
    A, B = common(a, b)
    return F.linalg_solve(A, B[:, None])[..., 0] if B.ndim == 1 else F.linalg_solve(*_with_equal_batches(A, B))


def _with_equal_batches(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Broadcast the batch dims of both; as in NumPy 2, a `B` of two or more dims is a stack of matrices."""
    batch = np.broadcast_shapes(tuple(A.shape[:-2]), tuple(B.shape[:-2]))
    return F.broadcast_to(A, (*batch, *A.shape[-2:])), F.broadcast_to(B, (*batch, *B.shape[-2:]))


def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    x = _matrix(a)
    return SVDResult(*F.linalg_svd(x, full_matrices)) if compute_uv else F.linalg_svdvals(x)


def svdvals(x: ArrayLike, /) -> Tensor:
    return F.linalg_svdvals(_matrix(x))


def tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: Axis = 2) -> Tensor:
    return mathematics.tensordot(x1, x2, axes)


def tensorinv(a: ArrayLike, ind: int = 2) -> Tensor:
    return F.linalg_tensorinv(inexact(tensor_of(a)), ind)


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Tensor:
    return F.linalg_tensorsolve(*common(a, b), axes if axes is None else tuple(axes))


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike = None) -> Tensor:
    return shaping.trace(x, offset, -2, -1, dtype)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Tensor:
    return UFUNCS[np.vecdot](x1, x2, axis=axis)


def __dir__() -> list[str]:
    return [*__all__]
