"""Kernels of sparse matrices, given as a vector of elements and a `Pattern`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.kernel_rules import Result, shaped
from gradcore.backends.sparsity import Pattern
from gradcore.core.typing import NUMPY, NamedTuple

__all__ = ["Iteration", "SparseMatrices", "scipy_matrix"]


class Iteration(NamedTuple):
    """An iterative method of `scipy.sparse.linalg` with its settings."""

    name: str
    settings: dict[str, Any]
    x0: Any = None
    M: Any = None

    def adjoint(self) -> Iteration:
        """Return the method for the conjugate transpose of the matrix, starting from zero."""
        from scipy.sparse.linalg import aslinearoperator

        return self._replace(x0=None, M=None if self.M is None else aslinearoperator(self.M).H)


def _sides(values: Any, dense: Any, pattern: Pattern, transposed: bool) -> Result:
    return Result((pattern.shape[transposed], *dense.shape[1:]), np.result_type(values.dtype, dense.dtype))


class SparseMatrices:
    """Products with sparse matrices, their adjoints, and systems of equations."""

    xp: Any
    sum_into_rows: Any
    to_host: Any
    from_host: Any

    @shaped(_sides)
    def sparse_product(self, values: Any, dense: Any, pattern: Pattern, transposed: bool) -> Any:
        """Return the product of a matrix, or of its transpose, with a vector or a matrix."""
        out, inner = (pattern.cols, pattern.rows) if transposed else (pattern.rows, pattern.cols)
        vector = dense.ndim == 1
        parts = dense[inner]
        parts = (values * parts)[:, None] if vector else values[:, None] * parts
        total = self.sum_into_rows(pattern.shape[transposed], out, parts)
        return total[:, 0] if vector else total

    @shaped(lambda left, right, pattern: Result((pattern.size,), np.result_type(left.dtype, right.dtype)))
    def sampled_product(self, left: Any, right: Any, pattern: Pattern) -> Any:
        """Return the elements of ``left @ right.T`` at the positions of the pattern."""
        parts = left[pattern.rows] * right[pattern.cols]
        return parts.sum(1) if parts.ndim > 1 else parts

    @shaped(lambda values, b, pattern, *_: (b, Result((), np.dtype("int64"))))
    def sparse_solve(
        self, values: Any, b: Any, pattern: Pattern, transposed: bool, method: Iteration | None, strict: bool = True
    ) -> Any:
        """Solve a system by SciPy on the host, and return the solution and SciPy's status code.

        If `strict`, a solution that did not converge is an error.
        """
        values, right, pattern = self.to_host(values), self.to_host(b), _to_host(pattern, self.to_host)
        dtype = np.result_type(values.dtype, right.dtype, np.float32)
        values, right = values.astype(dtype, copy=False), right.astype(dtype, copy=False)
        if method is None:
            solution, info = _direct(values, right, pattern, transposed), 0
        else:
            matrix = scipy_matrix(values, pattern, transposed)
            solution, info = _iterate(matrix, right, method)
            if strict and info < 0:  # a breakdown: no more can be had of this method
                solution, info = _iterate(matrix, right, method._replace(name="gmres"))
            if strict and info:
                raise RuntimeError(f"{method.name} did not converge for the gradient (info={info})")
        return self.from_host(solution.reshape(right.shape)), self.from_host(np.array(info))

    @shaped(lambda values, start, pattern, *_: (Result(start.shape[1:], start.dtype), start))
    def sparse_eigenpairs(self, values: Any, start: Any, pattern: Pattern, settings: dict[str, Any]) -> Any:
        """Return eigenvalues and eigenvectors of a Hermitian matrix, computed by LOBPCG on the host."""
        from scipy.sparse.linalg import lobpcg

        matrix = scipy_matrix(self.to_host(values), _to_host(pattern, self.to_host), False)
        w, V = lobpcg(matrix, self.to_host(start), **settings)
        return self.from_host(w.astype(start.dtype, copy=False)), self.from_host(np.ascontiguousarray(V))


def scipy_matrix(values: Any, pattern: Pattern, transposed: bool = False) -> Any:
    """Return a sparse array of SciPy on the host, built from a cached index structure of the pattern."""
    order = pattern.compressed_form[2]
    key = "transposed" if transposed else "scipy"
    if key not in pattern.kept:
        pattern.kept[key] = _skeleton(pattern).T if transposed else _skeleton(pattern)
    skeleton = pattern.kept[key]
    matrix = object.__new__(type(skeleton))  # a fifth of the time of `copy.copy`
    matrix.__dict__.update(skeleton.__dict__)
    matrix.data = values if order is None else values[order]
    return matrix


def _skeleton(pattern: Pattern) -> Any:
    from scipy.sparse import csc_array, csr_array

    ends, inner, _ = pattern.compressed_form
    small = max(*pattern.shape, inner.size) < 2**31
    ends, inner = (x.astype(np.int32 if small else np.int64) for x in (ends, inner))
    compress = csr_array if pattern.by_rows else csc_array
    return compress((np.zeros(inner.size), inner, ends), shape=pattern.shape)


def _to_host(pattern: Pattern, to_host: Any) -> Pattern:
    """Return the pattern with its arrays on the host."""
    if pattern.xp is NUMPY:
        return pattern
    if "host" not in pattern.kept:
        rows, cols = to_host(pattern.rows), to_host(pattern.cols)
        pattern.kept["host"] = Pattern(NUMPY, pattern.shape, rows, cols)
    result: Pattern = pattern.kept["host"]
    return result


def _direct(values: Any, b: Any, pattern: Pattern, transposed: bool) -> Any:
    """Solve by an LU factorization, which is cached because backward needs it again."""
    cached, factors = pattern.kept.get("factors", (None, None))
    mode = "T" if transposed else "N"
    if cached is not None and cached.dtype == values.dtype:
        if np.array_equal(cached, values):
            return factors.solve(b, mode)
        if np.iscomplexobj(values) and np.array_equal(cached, values.conj()):
            return factors.solve(b.conj(), mode).conj()
    from scipy.sparse.linalg import splu

    matrix = scipy_matrix(values, pattern).tocsc()
    matrix.sum_duplicates()
    factors = splu(matrix)
    pattern.kept["factors"] = values.copy(), factors
    return factors.solve(b, mode)


def _iterate(matrix: Any, b: Any, method: Iteration) -> tuple[Any, int]:
    from scipy.sparse import linalg

    solve = getattr(linalg, method.name)
    columns = b.reshape(b.shape[0], -1)
    x0 = None if method.x0 is None else method.x0.reshape(columns.shape)
    solutions, infos = np.empty_like(columns), []
    for i, column in enumerate(columns.T):
        start = None if x0 is None else x0[:, i]
        solutions[:, i], info = solve(matrix, column, x0=start, M=method.M, **method.settings)
        infos.append(info)
    return solutions, max(infos, key=abs, default=0)
