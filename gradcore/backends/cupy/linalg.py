"""Linear algebra on CUDA by cupyx.scipy.linalg, where NumPy's interface lacks a function."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends import sync_debug
from gradcore.backends.cupy.lu import CudaLU
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy.lapack import Lapack

__all__ = ["CudaLinearAlgebra"]


class CudaLinearAlgebra(CudaLU):
    """Linear algebra of CuPy arrays. Factorisations that can fail wait for the device, as PyTorch's do."""

    xp: Any
    from_host: Any
    to_host: Any

    @property
    def scipy_linalg(self) -> Any:
        """Module cupyx.scipy.linalg, imported on first use."""
        import cupyx.scipy.linalg

        return cupyx.scipy.linalg

    def reporting_errors(self) -> Any:
        """Return a context in which a failed factorisation raises an error."""
        import cupyx

        sync_debug.note("wait")
        return cupyx.errstate(linalg="raise")

    # -- systems of equations --------------------------------------------------------------------------------

    def _expand_batches(self, *arrays: Any) -> tuple[Any, ...]:
        """Return matrices expanded to their common batch dims."""
        batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
        return tuple(self.xp.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays)

    def solve_with_factors(self, a: Any, lu: Any, pivots: Any, b: Any, adjoint: bool = False) -> Any:
        if lu.shape[-1] != a.shape[-1]:  # Another backend did not keep the factors.
            lu, pivots, _ = self.factor_lu(a)
        return self.solve_lu(lu, pivots, b, adjoint)

    # -- symmetric matrices: CuPy has no routine, so the CPU computes -----------------------------------------

    def factor_ldl(self, a: Any, hermitian: bool = False) -> tuple[Any, Any, Any]:
        ld, pivots, info = _CPU.factor_ldl(self.to_host(a), hermitian)
        return self.from_host(ld), self.from_host(pivots), self.from_host(info)

    def solve_ldl(self, ld: Any, pivots: Any, b: Any, hermitian: bool = False) -> Any:
        return self.from_host(_CPU.solve_ldl(self.to_host(ld), self.to_host(pivots), self.to_host(b), hermitian))

    # -- triangles -------------------------------------------------------------------------------------------

    def solve_triangle(self, a: Any, b: Any, upper: bool, unitriangular: bool = False) -> Any:
        a, b = self._expand_batches(a, b)
        if not b.size:
            return self.xp.zeros(b.shape, b.dtype)
        a = self.xp.ascontiguousarray(a)
        return self.scipy_linalg.solve_triangular(
            a, b, lower=not upper, unit_diagonal=unitriangular, check_finite=False
        )

    # -- factorisations --------------------------------------------------------------------------------------

    def factor_cholesky(self, a: Any) -> tuple[Any, Any]:
        try:
            with self.reporting_errors():
                factor = self.xp.linalg.cholesky(a)
            if not a.size:
                return factor, self.xp.zeros(a.shape[:-2], "int32")
            diagonal = self.xp.diagonal(factor, 0, -2, -1)
            # NaN in `a` gives NaN on the diagonal, which LAPACK does not report as a failure.
            is_invalid = self.xp.isnan(diagonal)
            is_invalid[..., 1:] |= self.xp.isinf(diagonal[..., :-1])  # The rows below are divided by this pivot.
            return factor, self.xp.where(is_invalid.any(-1), is_invalid.argmax(-1) + 1, 0).astype("int32")
        except ValueError:
            # CuPy does not tell which matrix failed, so the CPU repeats the factorization.
            factor, info = _CPU.factor_cholesky(self.to_host(a))
            return self.from_host(factor), self.from_host(info)

    def factor_eigh(self, a: Any, uplo: str = "L") -> tuple[Any, Any]:
        with self.reporting_errors():
            return super().factor_eigh(a, uplo)

    def eigenvalues_hermitian(self, a: Any, uplo: str = "L") -> Any:
        with self.reporting_errors():
            return super().eigenvalues_hermitian(a, uplo)

    def factor_eig(self, a: Any) -> tuple[Any, Any]:
        with self.reporting_errors():
            return super().factor_eig(a)

    def eigenvalues(self, a: Any) -> Any:
        with self.reporting_errors():
            return super().eigenvalues(a)

    def factor_svd(self, a: Any, full_matrices: bool = False) -> tuple[Any, Any, Any]:
        with self._report_svd_errors(a):
            return super().factor_svd(a, full_matrices)

    def singular_values(self, a: Any) -> Any:
        with self._report_svd_errors(a):
            return super().singular_values(a)

    def _report_svd_errors(self, a: Any) -> Any:
        """Return the context `reporting_errors`.

        Raise an error if `a` is not finite, for which the SVD would return NaN.
        """
        errors = self.reporting_errors()
        if not self.xp.isfinite(a).all():
            raise self._no_convergence("linalg.svd", a)
        return errors

    # -- complex matrices: iterations do not converge to roots of negative eigenvalues, so the CPU computes ----

    @kernel_for(lambda self, a: a.dtype.kind == "c")
    def square_root(self, a: Any) -> Any:
        return self.from_host(_CPU.square_root(self.to_host(a)))

    @kernel_for(lambda self, a: a.dtype.kind == "c")
    def logarithm(self, a: Any) -> Any:
        return self.from_host(_CPU.logarithm(self.to_host(a)).astype(a.dtype, copy=False))


_CPU = Lapack()
