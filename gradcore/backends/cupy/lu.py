"""LU factorisations on CUDA without waiting: cuBLAS for batches of small matrices, cuSOLVER for large ones.

Matrices are column-major, as in LAPACK. Whether a factorisation failed is read from `info` only: the libraries do not
specify the factors after a failure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.portable.linear_algebra import LinearAlgebra
from gradcore.core.errors import LinAlgError
from gradcore.core.typing import AnyArray

__all__ = ["CudaLU"]

#: Largest size of matrices for cuBLAS's routines for batches, which are slow on larger ones.
_LARGEST = 256

#: Systems to solve with a column-major matrix: with the matrix itself, its transpose, or its conjugate transpose.
_PLAIN, _TRANSPOSED, _ADJOINT = range(3)


class CudaLU(LinearAlgebra):
    """LU factors, and solutions of linear systems. Failures are reported by `info`."""

    xp: Any
    address: Any
    cublas: Any
    cublas_handle: Any

    def factor_lu(self, a: Any) -> tuple[Any, Any, Any]:
        xp, (*batch, m, n) = self.xp, a.shape
        if not a.size:
            return xp.zeros(a.shape, a.dtype), xp.zeros((*batch, min(m, n)), "int32"), xp.zeros(batch, "int32")
        count, size = prod(batch), max(m, n)
        if m == n:
            columns = xp.array(a.reshape(count, m, n).swapaxes(-1, -2), order="C")
        else:  # zeros make it square: the other pivots and factors are the same
            columns = xp.zeros((count, size, size), a.dtype)
            columns[:, :n, :m] = a.reshape(count, m, n).swapaxes(-1, -2)
        pivots, info = self.factor_columns(columns)
        if m != n:
            info = xp.where(info > min(m, n), 0, info).astype("int32")
        lu = columns.swapaxes(-1, -2)[:, :m, :n]
        return lu.reshape(a.shape), pivots[:, : min(m, n)].reshape(*batch, min(m, n)), info.reshape(batch)

    def permutation(self, like: AnyArray, pivots: AnyArray, rows: int) -> AnyArray:
        batch = pivots.shape[:-1]
        order = self.xp.empty((*batch, 1, rows), np.int64)
        self._order_kernel(self.xp.ascontiguousarray(pivots), pivots.shape[-1], rows, order)
        return (order == self.xp.arange(rows)[:, None]).astype(like.dtype)

    @functools.cached_property
    def _order_kernel(self) -> Callable[..., AnyArray]:
        """Kernel that returns which row comes to each place by exchanges, by following the place back."""
        body = """
            const long long matrix = i / rows;
            origin = i % rows;
            for (long long step = count - 1; step >= 0; --step) {
                const long long other = exchanged[matrix * count + step] - 1;
                origin = origin == step ? other : origin == other ? step : origin;
            }"""
        inputs, output = "raw T exchanged, int64 count, int64 rows", "int64 origin"
        kernel: Callable[..., AnyArray] = self.xp.ElementwiseKernel(inputs, output, body, "gradcore_order_of_rows")
        return kernel

    def solve_lu(self, lu: Any, pivots: Any, b: Any, adjoint: bool = False) -> Any:
        xp, (n, rows) = self.xp, b.shape[-2:]
        own_batch = np.broadcast_shapes(lu.shape[:-2], pivots.shape[:-1])
        batch = np.broadcast_shapes(own_batch, b.shape[:-2])
        if not prod(batch) * n * rows:
            return xp.zeros((*batch, n, rows), b.dtype)
        columns = xp.ascontiguousarray(lu.swapaxes(-1, -2))
        solution = xp.array(xp.broadcast_to(b, (*batch, n, rows)).swapaxes(-1, -2), lu.dtype, order="C")
        exchanged = xp.ascontiguousarray(xp.broadcast_to(pivots, (*batch, n)), "int32")
        system = _PLAIN if not adjoint else _ADJOINT if lu.dtype.kind == "c" else _TRANSPOSED
        self.solve_columns(columns, exchanged, solution, system)
        return solution.swapaxes(-1, -2)

    def solve_and_factor(self, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
        """Return the solution of ``a @ x = b``, the factors and info. `a` may have fewer batch dims than `b`."""
        lu, pivots, info = self.factor_lu(a)
        return self.solve_lu(lu, pivots, b), lu, pivots, info

    def invert(self, a: Any) -> tuple[Any, Any]:
        eye = self.xp.eye(a.shape[-1], dtype=a.dtype)
        x, _, _, info = self.solve_and_factor(a, self.xp.broadcast_to(eye, a.shape))
        return x, info

    # -- calls of the libraries ----------------------------------------------------------------------------------

    def factor_columns(self, columns: Any) -> tuple[Any, Any]:
        """Overwrite contiguous column-major square matrices with their LU factors. Return pivots and info."""
        xp, (count, n, _) = self.xp, columns.shape
        pivots, info = xp.empty((count, n), "int32"), xp.empty(count, "int32")
        letter = _letter(columns)
        if count << 16 >= n * n:
            factor = getattr(self.cublas, f"{letter}getrfBatched")
            pointers = self._pointers(columns)
            factor(self.cublas_handle(), n, *self._addresses(pointers), n, *self._addresses(pivots, info), count)
            return pivots, info
        routines, handle = self._cusolver
        factor, sized = (getattr(routines, f"{letter}getrf{suffix}") for suffix in ("", "_bufferSize"))
        workspace = xp.empty(sized(handle, n, n, self.address(columns), n), columns.dtype)
        for i in range(count):
            factor(handle, n, n, self.address(columns[i]), n, *self._addresses(workspace, pivots[i], info[i : i + 1]))
        return pivots, info

    def solve_columns(self, columns: Any, pivots: Any, b: Any, system: int) -> None:
        """Overwrite contiguous column-major right-hand sides with the solutions of the systems.

        Parameters
        ----------
        columns : array
            Factors, with batch dims that broadcast to those of `b`: several systems may share a matrix.
        pivots : array
            ``(..., n)``, those of each system.
        b : array
            ``(..., right-hand sides, n)``.
        system : int
        """
        (*batch, rows, n), letter = b.shape, _letter(columns)
        own_batch, count = columns.shape[:-2], prod(batch)
        if n <= _LARGEST:
            solve, info = getattr(self.cublas, f"{letter}getrsBatched"), np.zeros(1, np.int32)
            matrices = self._pointers(columns.reshape(-1, n, n)).reshape(own_batch)
            matrices, b_pointers = self.xp.ascontiguousarray(self.xp.broadcast_to(matrices, batch)), self._pointers(b)
            at, at_pivots, at_sides = self._addresses(matrices, pivots, b_pointers)
            handle = self.cublas_handle()
            solve(handle, system, n, rows, at, n, at_pivots, at_sides, n, info.ctypes.data, count)
            if info[0]:
                raise LinAlgError(f"cuBLAS's {letter}getrsBatched rejects its argument {-int(info[0])}")
            return
        routines, handle = self._cusolver
        solve, info = getattr(routines, f"{letter}getrs"), self.xp.empty(1, "int32")
        matrix_numbers = np.broadcast_to(np.arange(prod(own_batch)).reshape(own_batch), batch).ravel().tolist()
        columns, pivots, b = columns.reshape(-1, n, n), pivots.reshape(-1, n), b.reshape(-1, rows, n)
        for i, matrix in enumerate(matrix_numbers):
            at, at_pivots, at_b, at_info = self._addresses(columns[matrix], pivots[i], b[i], info)
            solve(handle, system, n, rows, at, n, at_pivots, at_b, n, at_info)

    @property
    def _cusolver(self) -> tuple[Any, int]:
        """CuPy's cuSOLVER module, and its handle."""
        from cupy.cuda import device
        from cupy_backends.cuda.libs import cusolver

        return cusolver, device.get_cusolver_handle()

    def _addresses(self, *arrays: Any) -> Sequence[int]:
        return [self.address(a) for a in arrays]

    def _pointers(self, matrices: Any) -> Any:
        """Return the address of each matrix, as an array on the device."""
        count, start = prod(matrices.shape[:-2]), self.address(matrices)
        step = prod(matrices.shape[-2:]) * matrices.itemsize
        return self.xp.arange(start, start + step * count, step, dtype=np.uintp)


def _letter(x: Any) -> str:
    """Return the letter of a dtype in LAPACK's routine names."""
    return {"f": "s", "d": "d", "F": "c", "D": "z"}[x.dtype.char]
