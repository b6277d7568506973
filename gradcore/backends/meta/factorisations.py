"""Kernels of linear algebra that would look at data, or at one matrix after another: their shapes are enough."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.meta.array import Traced
from gradcore.backends.portable.linear_algebra import LinearAlgebra

__all__ = ["TracedLinearAlgebra"]


def _info(a: Traced) -> Traced:
    return Traced(a.shape[:-2], "int32")


def _complex(a: Traced) -> Any:
    return np.result_type(a.dtype, "complex64")


def _solution(a: Traced, b: Traced) -> Traced:
    return Traced((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)


class TracedLinearAlgebra(LinearAlgebra):
    """Factors and solutions without data: every matrix is regular."""

    def check_info(self, info: Traced, caller: str) -> None:
        """Nothing fails."""

    def assert_small(self, x: Traced, text: str) -> Traced:
        return x

    def is_regular(self, a: Traced) -> bool:
        return True

    def factor_lu(self, a: Traced) -> tuple[Traced, Traced, Traced]:
        return a.copy(), Traced((*a.shape[:-2], min(a.shape[-2:])), "int32"), _info(a)

    def solve_lu(self, lu: Traced, pivots: Traced, b: Traced, adjoint: bool = False) -> Traced:
        return _solution(lu, b)

    def factor_ldl(self, a: Traced, hermitian: bool = False) -> tuple[Traced, Traced, Traced]:
        return a.copy(), Traced(a.shape[:-1], "int32"), _info(a)

    def solve_ldl(self, ld: Traced, pivots: Traced, b: Traced, hermitian: bool = False) -> Traced:
        return _solution(ld, b)

    def solve_triangle(self, a: Traced, b: Traced, upper: bool, unitriangular: bool = False) -> Traced:
        return _solution(a, b)

    def factor_cholesky(self, a: Traced) -> tuple[Traced, Traced]:
        return a.copy(), _info(a)

    def factor_eig(self, a: Traced) -> tuple[Traced, Traced]:
        return Traced(a.shape[:-1], _complex(a)), Traced(a.shape, _complex(a))

    def eigenvalues(self, a: Traced) -> Traced:
        return Traced(a.shape[:-1], _complex(a))

    def invert(self, a: Traced) -> tuple[Traced, Traced]:
        return a.copy(), _info(a)

    def adjugate(self, a: Traced) -> Traced:
        return a.copy()

    def matrix_exponential(self, a: Traced) -> Traced:
        return a.copy()

    def raw_qr(self, x: Traced) -> tuple[Traced, Traced]:
        return x.copy(), Traced((*x.shape[:-2], min(x.shape[-2:])), x.dtype)

    def permutation(self, like: Traced, pivots: Traced, rows: int) -> Traced:
        return Traced((*pivots.shape[:-1], rows, rows), like.dtype)

    def has_full_rank(self, kept: Traced) -> bool:
        return True
