"""Kernels of linear algebra that would look at data, or at one matrix after another: their shapes are enough."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcore.backends.meta.array import MetaArray
from gradcore.backends.portable.linear_algebra import LinearAlgebra

__all__ = ["MetaLinearAlgebra"]


def _info(a: MetaArray) -> MetaArray:
    return MetaArray(a.shape[:-2], "int32")


def _complex(a: MetaArray) -> Any:
    return np.result_type(a.dtype, "complex64")


def _solution(a: MetaArray, b: MetaArray) -> MetaArray:
    return MetaArray((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)


class MetaLinearAlgebra(LinearAlgebra):
    """Factors and solutions without data: every matrix is regular."""

    def check_info(self, info: MetaArray, caller: str) -> None:
        """Nothing fails."""

    def assert_small(self, x: MetaArray, text: str) -> MetaArray:
        return x

    def is_regular(self, a: MetaArray) -> bool:
        return True

    def factor_lu(self, a: MetaArray) -> tuple[MetaArray, MetaArray, MetaArray]:
        return a.copy(), MetaArray((*a.shape[:-2], min(a.shape[-2:])), "int32"), _info(a)

    def solve_lu(self, lu: MetaArray, pivots: MetaArray, b: MetaArray, adjoint: bool = False) -> MetaArray:
        return _solution(lu, b)

    def factor_ldl(self, a: MetaArray, hermitian: bool = False) -> tuple[MetaArray, MetaArray, MetaArray]:
        return a.copy(), MetaArray(a.shape[:-1], "int32"), _info(a)

    def solve_ldl(self, ld: MetaArray, pivots: MetaArray, b: MetaArray, hermitian: bool = False) -> MetaArray:
        return _solution(ld, b)

    def solve_triangle(self, a: MetaArray, b: MetaArray, upper: bool, unitriangular: bool = False) -> MetaArray:
        return _solution(a, b)

    def factor_cholesky(self, a: MetaArray) -> tuple[MetaArray, MetaArray]:
        return a.copy(), _info(a)

    def factor_eig(self, a: MetaArray) -> tuple[MetaArray, MetaArray]:
        return MetaArray(a.shape[:-1], _complex(a)), MetaArray(a.shape, _complex(a))

    def eigenvalues(self, a: MetaArray) -> MetaArray:
        return MetaArray(a.shape[:-1], _complex(a))

    def invert(self, a: MetaArray) -> tuple[MetaArray, MetaArray]:
        return a.copy(), _info(a)

    def adjugate(self, a: MetaArray) -> MetaArray:
        return a.copy()

    def matrix_exponential(self, a: MetaArray) -> MetaArray:
        return a.copy()

    def raw_qr(self, x: MetaArray) -> tuple[MetaArray, MetaArray]:
        return x.copy(), MetaArray((*x.shape[:-2], min(x.shape[-2:])), x.dtype)

    def permutation(self, like: MetaArray, pivots: MetaArray, rows: int) -> MetaArray:
        return MetaArray((*pivots.shape[:-1], rows, rows), like.dtype)

    def has_full_rank(self, kept: MetaArray) -> bool:
        return True
