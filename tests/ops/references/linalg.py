"""References of products, linear algebra, Fourier transforms and windows over signals."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from tests.ops.references.elementwise import gelu
from tests.ops.references.reductions import vector_norm

Array = Any
Reference = Callable[..., Any]


def batched(function: Callable[..., Any], ndim: int = 2) -> Reference:
    """Return a function of one matrix as a function of a batch."""

    def apply(x: Array, *args: Any, **settings: Any) -> Any:
        if x.ndim == ndim:
            return function(x, *args, **settings)
        each = [apply(m, *args, **settings) for m in x]
        return tuple(map(np.stack, zip(*each, strict=True))) if isinstance(each[0], tuple) else np.stack(each)

    return apply


def hermitian(x: Array) -> Array:
    return x.conj().swapaxes(-1, -2)


def scaled_sum(product: Callable[..., Array]) -> Reference:
    """``beta * x + alpha * (a @ b)``."""
    return lambda x, a, b, beta=1, alpha=1: (beta * x if beta else 0) + alpha * product(a, b)


def linear(x: Array, weight: Array, bias: Any = None) -> Array:
    return x @ weight.T + (0 if bias is None else bias)


def cross(x: Array, y: Array, dim: int | None = None) -> Array:
    shape = np.broadcast_shapes(x.shape, y.shape)
    axis = shape.index(3) if dim is None else dim
    return np.cross(np.broadcast_to(x, shape), np.broadcast_to(y, shape), axis=axis)


def triangle(A: Array, upper: bool, unitriangular: bool = False) -> Array:
    T = np.triu(A) if upper else np.tril(A)
    if unitriangular:
        i = np.arange(A.shape[-1])
        T[..., i, i] = 1
    return T


def solve(A: Array, B: Array, left: bool = True) -> Array:
    if B.ndim == 1 or B.shape == A.shape[:-1]:
        return np.linalg.solve(A, B[..., None])[..., 0]
    return np.linalg.solve(A, B) if left else np.linalg.solve(A.swapaxes(-1, -2), B.swapaxes(-1, -2)).swapaxes(-1, -2)


def solve_triangular(A: Array, B: Array, upper: bool, left: bool = True, unitriangular: bool = False) -> Array:
    T = triangle(A, upper, unitriangular)
    return np.linalg.inv(T) @ B if left else B @ np.linalg.inv(T)


def triangular_solve(B: Array, A: Array, upper: bool = True, transpose: bool = False) -> tuple[Array, Array]:
    T = triangle(A, upper)
    return np.linalg.solve(T.T if transpose else T, B), A


def cholesky(A: Array, upper: bool = False) -> Array:
    return np.linalg.cholesky(A, upper=upper)


def of_factor(L: Array, upper: bool) -> Array:
    T = triangle(L, upper)
    return hermitian(T) @ T if upper else T @ hermitian(T)


def with_info(function: Reference) -> Reference:
    """Return a function that also returns an error code of zero."""
    return lambda A, *args, **settings: (function(A, *args, **settings), np.zeros(A.shape[:-2], np.int32))


def lu(A: Array) -> tuple[Array, Array, Array]:
    return scipy.linalg.lu(A)


def lu_packed(A: Array) -> tuple[Array, Array]:
    """Both factors in one matrix, and the rows that were exchanged, counted from 1."""
    packed, pivots = (np.zeros(A.shape), np.zeros(0)) if A.size == 0 else scipy.linalg.lu_factor(A)
    return packed, pivots.astype(np.int32) + 1


def lu_unpack(LU: Array, pivots: Array) -> tuple[Array, Array, Array]:
    """Return the permutation matrix and both factors."""
    m, n = LU.shape
    P = np.eye(m)
    for i, row in enumerate(pivots):
        P[:, [i, row - 1]] = P[:, [row - 1, i]]
    k = min(m, n)
    return P, np.tril(LU, -1)[:, :k] + np.eye(m, k), np.triu(LU)[:k]


def lu_solve(LU: Array, pivots: Array, B: Array, left: bool = True, adjoint: bool = False) -> Array:
    P, L, U = lu_unpack(LU, pivots)
    A = (P @ L @ U).T if adjoint else P @ L @ U
    return np.linalg.solve(A, B) if left else np.linalg.solve(A.T, B.T).T


def ldl_packed(A: Array, hermitian: bool = False) -> tuple[Array, Array]:
    """As LAPACK packs the factors of a real matrix."""
    LD, pivots, _ = scipy.linalg.lapack.dsytrf(np.tril(A), lower=1)
    return LD, pivots


def ldl_solve(LD: Array, pivots: Array, B: Array, hermitian: bool = False) -> Array:
    """By the matrix itself: the product of factors and exchanges, from the last to the first."""
    n = len(pivots)
    A, k = np.zeros((n, n)), n
    while k:
        two = pivots[k - 1] < 0
        k -= 2 if two else 1
        end = k + 1 + two
        step = np.eye(n)
        step[end:, k:end] = LD[end:, k:end]
        block = np.tril(LD[k:end, k:end])
        A[k:end, k:end] = block + np.tril(block, -1).T
        exchange = np.eye(n)
        exchange[[end - 1, abs(pivots[k]) - 1]] = exchange[[abs(pivots[k]) - 1, end - 1]]
        A = exchange @ step @ A @ step.T @ exchange
    return np.linalg.solve(A, B)


def svd(A: Array, some: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        m, n = A.shape[-2:]
        return np.zeros((*A.shape[:-2], m, m)), np.linalg.svdvals(A), np.zeros((*A.shape[:-2], n, n))
    U, S, Vh = np.linalg.svd(A, full_matrices=not some)
    return U, S, hermitian(Vh)


def householder_product(A: Array, tau: Array) -> Array:
    return of_reflections(A, tau)[:, : A.shape[1]]


def of_reflections(A: Array, tau: Array) -> Array:
    """Multiply all reflections to a square matrix."""
    Q = np.eye(A.shape[0])
    for i, t in enumerate(tau):
        v = np.concatenate([np.zeros(i), [1], A[i + 1 :, i]])
        Q = Q @ (np.eye(len(v)) - t * np.outer(v, v))
    return Q


def orgqr(A: Array, tau: Array) -> Array:
    return householder_product(A, tau) if A.ndim == 2 else np.stack([orgqr(a, t) for a, t in zip(A, tau, strict=True)])


def ormqr(A: Array, tau: Array, other: Array, left: bool = True, transpose: bool = False) -> Array:
    m = other.shape[0 if left else 1]
    Q = of_reflections(np.pad(A, ((0, m - A.shape[0]), (0, 0))), tau)
    Q = Q.T if transpose else Q
    return Q @ other if left else other @ Q


def geqrf(A: Array) -> tuple[Array, Array]:
    (packed, tau), _ = scipy.linalg.qr(A, mode="raw")
    return np.ascontiguousarray(packed), tau


def pinv(A: Array, rcond: Any = None, hermitian: bool = False, rtol: Any = None) -> Array:
    return np.linalg.pinv(A, hermitian=hermitian)


def lstsq(A: Array, B: Array, driver: str = "gelsy") -> Any:
    """Return the solution with the information of LAPACK's routine of that name."""
    X = np.linalg.pinv(A) @ B
    none, tall = np.zeros(0), A.shape[-2] > A.shape[-1]
    residuals = ((A @ X - B) ** 2).sum(-2) if tall and driver != "gelsy" else none
    rank = np.linalg.matrix_rank(A) if driver != "gels" else np.zeros(0, np.int64)
    return X, residuals, rank, np.linalg.svdvals(A) if driver in ("gelsd", "gelss") else none


def tensorsolve(A: Array, B: Array, dims: Any = None) -> Array:
    return np.linalg.tensorsolve(A, B, dims)


def matrix_norm(A: Array, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False) -> Array:
    return np.linalg.norm(A, ord, tuple(dim), keepdim)


def norm(x: Array, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Array:
    if x.ndim < 2 or ord is None or isinstance(dim, int):
        return vector_norm(x, 2 if ord is None else ord, dim, keepdim)
    return np.linalg.norm(x, ord, dim, keepdim)


def any_norm(x: Array, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> Array:
    if p == "nuc":
        return np.linalg.norm(x, "nuc", dim, keepdim)
    return vector_norm(x, 2 if p == "fro" else p, dim, keepdim)


def vander(x: Array, N: int | None = None, increasing: bool = False) -> Array:
    n = x.shape[-1] if N is None else N
    powers = x[..., None] ** np.arange(n)
    return powers if increasing else powers[..., ::-1]


def tensordot(a: Array, b: Array, dims: Any = 2) -> Array:
    return np.tensordot(a, b, dims)


def transform(function: Callable[..., Array]) -> Reference:
    return lambda x, n=None, dim=-1, norm=None: function(x, n, dim, norm=norm)


def transforms(function: Callable[..., Array], dims: Any) -> Reference:
    def call(x: Array, s: Any = None, dim: Any = dims, norm: str | None = None) -> Array:
        return function(x, s, dim if dim is not None or s is None else tuple(range(-len(s), 0)), norm=norm)

    return call


def stft(
    x: Array, n_fft: int, hop: Any = None, win_length: Any = None, window: Any = None, center: bool = True,
    normalized: bool = False, return_complex: bool = False,
) -> Array:  # fmt: skip
    hop, win_length = hop or n_fft // 4, win_length or n_fft
    window = np.ones(win_length) if window is None else window
    left = (n_fft - win_length) // 2
    window = np.pad(window, (left, n_fft - win_length - left))
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2,) * 2], "reflect")
    frames = [x[..., i : i + n_fft] * window for i in range(0, x.shape[-1] - n_fft + 1, hop)]
    out = np.stack([np.fft.rfft(f) for f in frames], -1) / (math.sqrt(n_fft) if normalized else 1)
    return out if return_complex else np.stack([out.real, out.imag], -1)


def istft(
    x: Array, n_fft: int, hop: Any = None, win_length: Any = None, window: Any = None, center: bool = True,
    onesided: bool = True, length: Any = None, return_complex: bool = False,
) -> Array:  # fmt: skip
    hop = hop or n_fft // 4
    window = np.ones(n_fft) if window is None else window
    frames = (np.fft.irfft if onesided else np.fft.ifft)(x, n_fft, -2) * window[:, None]
    n = n_fft + hop * (x.shape[-1] - 1)
    out, weight = np.zeros((*x.shape[:-2], n), frames.dtype), np.zeros(n)
    for i in range(x.shape[-1]):
        out[..., i * hop : i * hop + n_fft] += frames[..., i]
        weight[i * hop : i * hop + n_fft] += window**2
    start = n_fft // 2 if center else 0
    end = n - start if length is None else start + length
    return out[..., start:end] / weight[start:end]


def addmm_activation(
    summand: Array, a: Array, b: Array, beta: float = 1, alpha: float = 1, use_gelu: bool = False
) -> Array:
    x = beta * summand + alpha * (a @ b)
    return gelu(x, "tanh") if use_gelu else np.maximum(x, 0)


PRODUCTS: dict[str, Reference] = {
    **dict.fromkeys(("matmul", "linalg_matmul", "mm", "bmm", "mv"), np.matmul),
    **{n: getattr(np, n) for n in ("dot", "vdot", "outer", "inner", "kron", "einsum", "trace")},
    "addmm": scaled_sum(np.matmul),
    "addmm_activation": addmm_activation,
    "baddbmm": scaled_sum(np.matmul),
    "addbmm": scaled_sum(lambda a, b: (a @ b).sum(0)),
    "addmv": scaled_sum(np.matmul),
    "addr": scaled_sum(np.outer),
    "linear": linear,
    "linalg_multi_dot": lambda matrices: functools.reduce(np.matmul, matrices),
    "chain_matmul": lambda *matrices: functools.reduce(np.matmul, matrices),
    "tensordot": tensordot,
    "linalg_vecdot": lambda x, y, dim=-1: (x.conj() * y).sum(dim),
    "linalg_cross": lambda x, y, dim=-1: cross(x, y, dim),
    "cross": cross,
}


def matrix_rank(A: Array, tol: Any = None, hermitian: bool = False) -> Any:
    if not A.size:  # older NumPy refuses it
        return np.zeros(A.shape[:-2], np.int64)
    return np.linalg.matrix_rank(A, tol, hermitian)


MATRICES: dict[str, Reference] = {
    "linalg_cholesky": cholesky,
    "cholesky": cholesky,
    "linalg_cholesky_ex": with_info(cholesky),
    "cholesky_solve": lambda B, L, upper=False: np.linalg.solve(of_factor(L, upper), B),
    "cholesky_inverse": lambda L, upper=False: np.linalg.inv(of_factor(L, upper)),
    "linalg_eigh": lambda A, UPLO="L": tuple(np.linalg.eigh(A, UPLO)),
    "linalg_eigvalsh": lambda A, UPLO="L": np.linalg.eigvalsh(A, UPLO),
    "linalg_eig": lambda A: tuple(part.astype(complex) for part in np.linalg.eig(A)),
    "linalg_eigvals": lambda A: np.linalg.eigvals(A).astype(complex),
    "linalg_svd": lambda A, full_matrices=True: tuple(np.linalg.svd(A, full_matrices)),
    "linalg_svdvals": np.linalg.svdvals,
    "svd": svd,
    "linalg_qr": lambda A, mode="reduced": tuple(np.linalg.qr(A, mode)),
    "qr": lambda A, some=True: tuple(np.linalg.qr(A, "reduced" if some else "complete")),
    "linalg_det": np.linalg.det,
    "det": np.linalg.det,
    "linalg_slogdet": lambda A: tuple(np.linalg.slogdet(A)),
    "slogdet": lambda A: tuple(np.linalg.slogdet(A)),
    "logdet": lambda A: np.log(np.linalg.det(A)),
    "linalg_inv": np.linalg.inv,
    "inverse": np.linalg.inv,
    "linalg_inv_ex": with_info(np.linalg.inv),
    "linalg_solve": solve,
    "linalg_solve_ex": lambda A, B, left=True: (solve(A, B, left), np.zeros(A.shape[:-2], np.int32)),
    "linalg_solve_triangular": solve_triangular,
    "triangular_solve": triangular_solve,
    "linalg_tensorsolve": tensorsolve,
    "linalg_tensorinv": lambda A, ind=2: np.linalg.tensorinv(A, ind),
    "linalg_lu": lu,
    "linalg_ldl_factor": batched(ldl_packed),
    "linalg_ldl_factor_ex": with_info(batched(ldl_packed)),
    "linalg_ldl_solve": ldl_solve,
    "linalg_lu_factor": batched(lu_packed),
    "linalg_lu_factor_ex": with_info(batched(lu_packed)),
    "lu": batched(lu_packed),
    "lu_unpack": lu_unpack,
    "linalg_lu_solve": lu_solve,
    "lu_solve": lambda B, LU, pivots: lu_solve(LU, pivots, B),
    "linalg_matrix_power": np.linalg.matrix_power,
    "matrix_power": np.linalg.matrix_power,
    "linalg_matrix_exp": scipy.linalg.expm,
    "matrix_exp": scipy.linalg.expm,
    "linalg_pinv": pinv,
    "pinverse": pinv,
    "linalg_matrix_rank": matrix_rank,
    "linalg_cond": lambda A, p=None: np.linalg.cond(A, p),
    "linalg_lstsq": lstsq,
    "linalg_vander": lambda x, N=None: vander(x, N, increasing=True),
    "vander": vander,
    "linalg_householder_product": orgqr,
    "orgqr": orgqr,
    "ormqr": ormqr,
    "geqrf": batched(geqrf),
    "linalg_matrix_norm": matrix_norm,
    "linalg_norm": norm,
    "norm": any_norm,
    "nuclear_norm": lambda A, dim=(-2, -1), keepdim=False: np.linalg.norm(A, "nuc", tuple(dim), keepdim),
}

SPECTRA: dict[str, Reference] = {
    **{f"fft_{n}": transform(getattr(scipy.fft, n)) for n in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]},
    **{
        f"fft_{n}": transforms(getattr(scipy.fft, n), (-2, -1))
        for n in ["fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"]
    },
    **{
        f"fft_{n}": transforms(getattr(scipy.fft, n), None)
        for n in ["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"]
    },
    "stft": stft,
    "istft": istft,
}
