"""Structured matrices built from tensors (Toeplitz, Hankel, circulant, ...), and solvers that use the structure."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.autograd.function import Function
from gradcore.core.errors import LinAlgError
from gradcore.core.typing import AnyTensor
from gradcore.func import vjp
from gradcore.numpy.conversion import common, promote, tensor_of
from gradcore.scipy.conversion import floating, like, on_device
from gradcore.scipy.required import scipy_module

__all__ = [
    "block_diag", "circulant", "companion", "hankel", "khatri_rao", "kron", "leslie", "matmul_toeplitz",
    "solve_circulant", "solve_toeplitz", "toeplitz",
]  # fmt: skip


def _gather(values: AnyTensor, index: Any) -> AnyTensor:
    """Return the elements of the last dim of `values` at the positions in the 2-dim array `index`."""
    return values[..., on_device(index, values)]


def _vectors(*values: Any) -> list[AnyTensor]:
    """Convert the arguments to vectors of one dtype and with the same batch dims; a number becomes one element."""
    vectors = [v if v.ndim else v[None] for v in promote(*map(tensor_of, values))]
    batch = np.broadcast_shapes(*(v.shape[:-1] for v in vectors))
    return [v if v.shape[:-1] == batch else F.broadcast_to(v, (*batch, v.shape[-1])) for v in vectors]


def _column_and_row(c: Any, r: Any) -> list[AnyTensor]:
    return _vectors(c, F.conj(tensor_of(c)) if r is None else r)


def toeplitz(c: Any, r: Any = None) -> AnyTensor:
    """Return the Toeplitz matrix with first column `c` and first row `r`; leading dims are batch dims.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.toeplitz([1, 2], [1, 3])
    tensor([[1, 3],
            [2, 1]])
    """
    column, row = _column_and_row(c, r)
    m, n = column.shape[-1], row.shape[-1]
    return _gather(F.cat([F.flip(column, (-1,)), row[..., 1:]], -1), m - 1 + np.arange(n) - np.arange(m)[:, None])


def hankel(c: Any, r: Any = None) -> AnyTensor:
    """Return the Hankel matrix with first column `c` and last row `r` (zeros by default); leading dims are batch dims.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.hankel([1, 2], [2, 3])
    tensor([[1, 2],
            [2, 3]])
    """
    column, row = _vectors(c, F.zeros_like(tensor_of(c)) if r is None else r)
    m, n = column.shape[-1], row.shape[-1]
    return _gather(F.cat([column, row[..., 1:]], -1), np.arange(n) + np.arange(m)[:, None])


def circulant(c: Any) -> AnyTensor:
    """Return the circulant matrix with first column `c`: each column is the previous one, rotated by one.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.circulant([1, 2, 3])
    tensor([[1, 3, 2],
            [2, 1, 3],
            [3, 2, 1]])
    """
    (column,) = _vectors(c)
    n = column.shape[-1]
    return _gather(column, (np.arange(n)[:, None] - np.arange(n)) % n)


def block_diag(*arrs: Any) -> AnyTensor:
    """Return the block diagonal matrix of the given matrices; vectors are rows.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.block_diag([[1.0]], [[2.0, 3.0]])
    tensor([[1., 0., 0.],
            [0., 2., 3.]], dtype=torch.float64)
    """
    blocks = [F.reshape(t, (1,) * (2 - t.ndim) + tuple(t.shape)) for t in promote(*map(tensor_of, arrs or ([],)))]
    width, columns_before, rows = sum(b.shape[-1] for b in blocks), 0, []
    batch = np.broadcast_shapes(*(tuple(b.shape[:-2]) for b in blocks))
    for block in blocks:
        padded = F.pad(block, (columns_before, width - columns_before - block.shape[-1]))
        rows.append(F.broadcast_to(padded, (*batch, *padded.shape[-2:])))
        columns_before += block.shape[-1]
    return F.cat(rows, -2)


def companion(a: Any) -> AnyTensor:
    """Return the companion matrix of a polynomial; its eigenvalues are the polynomial's roots.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.companion([1.0, -3.0, 2.0])
    tensor([[ 3., -2.],
            [ 1.,  0.]], dtype=torch.float64)
    """
    coefficients = floating(a)
    n = (coefficients.shape[-1] if coefficients.ndim else 1) - 1
    if n < 1:
        raise ValueError("The length of `a` along the last axis must be at least 2.")
    first = F.unsqueeze(-coefficients[..., 1:] / coefficients[..., :1], -2)
    shift = F.broadcast_to(like(np.eye(n)[:-1], coefficients), (*coefficients.shape[:-1], n - 1, n))
    return F.cat([first, shift], -2)


def leslie(f: Any, s: Any) -> AnyTensor:
    """Return the Leslie matrix of fecundities and survival rates.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.leslie([1.0, 2.0], [0.5])
    tensor([[1.0000, 2.0000],
            [0.5000, 0.0000]], dtype=torch.float64)
    """
    first, below = _vectors(f, s)
    if first.shape[-1] != below.shape[-1] + 1:
        raise ValueError("The length of s along the last axis must be one less than that of f.")
    return F.cat([F.unsqueeze(first, -2), F.pad(F.diag_embed(below), (0, 1))], -2)


def khatri_rao(a: Any, b: Any) -> AnyTensor:
    """Return the Khatri-Rao product: the Kronecker products of corresponding columns.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.khatri_rao([[1, 2]], [[3, 4], [5, 6]])
    tensor([[ 3,  8],
            [ 5, 12]])
    """
    left, right = promote(tensor_of(a), tensor_of(b))
    if left.ndim < 2 or right.ndim < 2:
        raise ValueError("The both arrays should be 2-dimensional.")
    if left.shape[-1] != right.shape[-1]:
        raise ValueError("The number of columns for both arrays should be equal.")
    return F.flatten(F.unsqueeze(left, -2) * F.unsqueeze(right, -3), -3, -2)


def kron(a: Any, b: Any) -> AnyTensor:
    """Return the Kronecker product.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.kron([[1, 2]], [[1], [3]])
    tensor([[1, 2],
            [3, 6]])
    """
    return F.kron(*promote(tensor_of(a), tensor_of(b)))


def _pair(c_or_cr: Any) -> tuple[Any, Any]:
    return c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)


class _ToeplitzSolved(Function):
    """Solution of a Toeplitz system by Levinson's recursion on the host, with its derivatives."""

    @staticmethod
    def forward(ctx: Any, column: Any, row: Any, b: Any) -> Any:
        hosts = [t.detach().host() for t in (column, row, b)]
        try:
            solution = scipy_module("linalg").solve_toeplitz((hosts[0], hosts[1]), hosts[2], check_finite=False)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(str(error)) from None
        x = like(solution, b)
        ctx.save_for_backward(column, row, x)
        ctx.save_for_forward(column, row, x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        column, row, x = ctx.saved_tensors
        by_b = _ToeplitzSolved.apply(F.conj(row), F.conj(column), grad)
        _, pull = vjp(lambda c, r: matmul_toeplitz((c, r), x), column, row)
        return (*pull(-by_b), by_b)

    @staticmethod
    def jvp(ctx: Any, column_t: Any, row_t: Any, b_t: Any) -> Any:
        column, row, x = ctx.saved_tensors
        change = F.zeros_like(x) if b_t is None else b_t
        if column_t is not None or row_t is not None:
            moved = [
                F.zeros_like(t) if tangent is None else tangent for t, tangent in ((column, column_t), (row, row_t))
            ]
            change = change - matmul_toeplitz((moved[0], moved[1]), x)
        return _ToeplitzSolved.apply(column, row, change)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        samples = [
            _ToeplitzSolved.apply(*(t if d is None else F.select(t, d, i) for t, d in zip(args, in_dims, strict=True)))
            for i in range(info.batch_size)
        ]
        return F.stack(samples), 0


def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> AnyTensor:
    """Solve a system with a Toeplitz matrix, given by its first column or by a pair of first column and first row.

    On the CPU this uses Levinson's recursion, which raises if a leading principal submatrix is singular. On other
    devices it uses an LU factorisation.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.solve_toeplitz(([2.0, 1.0], [2.0, 0.0]), [2.0, 3.0])
    tensor([1., 1.], dtype=torch.float64)
    """
    column, row, right = common(*_column_and_row(*_pair(c_or_cr)), tensor_of(b))
    row = F.cat([column[..., :1], row[..., 1:]], -1)  # the corner is the column's, also in the adjoint system
    if column.ndim == 1 and right.device.type == "cpu":
        return _ToeplitzSolved.apply(column, row, right)
    matrices = toeplitz(column, row)
    if right.ndim == 1:
        return F.squeeze(F.linalg_solve(matrices, F.unsqueeze(right, -1)), -1)
    # The right side gets as many dims as the matrices have. Otherwise columns would be taken for a batch of vectors.
    return F.linalg_solve(matrices, F.reshape(right, (1,) * (matrices.ndim - right.ndim) + tuple(right.shape)))


def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: Any = None) -> AnyTensor:
    """Multiply a Toeplitz matrix by a vector or matrix `x`, using Fourier transforms.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.matmul_toeplitz(([2.0, 1.0], [2.0, 0.0]), [1.0, 1.0])
    tensor([2., 3.], dtype=torch.float64)
    """
    column, row, columns = common(*_column_and_row(*_pair(c_or_cr)), tensor_of(x))
    m, n = column.shape[0], row.shape[0]
    kernel = F.cat([column, F.flip(row[1:], (0,))])
    flat = F.reshape(columns, (n, -1)).mT
    product = F.fft_ifft(F.fft_fft(kernel) * F.fft_fft(flat, m + n - 1))[:, :m].mT
    return F.reshape(product if F.is_complex(kernel) else F.real(product), (m, *columns.shape[1:]))


def solve_circulant(
    c: Any, b: Any, singular: str = "raise", tol: Any = None, caxis: int = -1, baxis: int = 0, outaxis: int = 0
) -> AnyTensor:
    """Solve a system with a circulant matrix, using Fourier transforms.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.solve_circulant([2.0, 1.0], [3.0, 3.0])
    tensor([1., 1.], dtype=torch.float64)
    """
    column, right = (t if t.ndim else t[None] for t in common(tensor_of(c), tensor_of(b)))
    column, right = F.movedim(column, caxis, -1), F.movedim(right, baxis, -1)
    if column.shape[-1] != right.shape[-1]:
        raise ValueError(f"Shapes of c {tuple(column.shape)} and b {tuple(right.shape)} are incompatible")
    values = F.fft_fft(column)
    sizes = F.abs(values.detach())
    bound = (
        F.amax(sizes, -1, True) * (column.shape[-1] * float(np.finfo(sizes.dtype.numpy).eps)) if tol is None else tol
    )
    small = sizes <= bound
    if singular == "raise" and bool(F.any(small)):
        raise np.linalg.LinAlgError("near singular circulant matrix.")
    quotient = F.fft_fft(right) / F.where(small, F.full_like(values, 1.0), values)
    solution = F.fft_ifft(F.where(small, F.zeros_like(quotient), quotient))
    return F.movedim(solution if F.is_complex(column) else F.real(solution), -1, outaxis)
