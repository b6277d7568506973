"""Factorisations: Cholesky, LU, QR, eigenvalues, singular values.

The derivatives are those of functions that do not depend on what a factorisation leaves open (signs or phases of
vectors); a complex loss that does depend on a phase is refused.
"""

from __future__ import annotations

from gradcore.ops.matrix_checks import check_floating, check_matrix, check_square
from gradcore.ops.samples import case, floats
from gradcore.ops.table import composite, general

_PRIVATE = {"function": False, "method": False}


def _rows(F, x):
    """Numbers for the rows of matrices."""
    return F.unsqueeze(x, -1)


def _columns(F, x):
    """Numbers for the columns of matrices."""
    return F.unsqueeze(x, -2)


def _sandwich(F, left, middle, right):
    return F.matmul(F.matmul(left, middle), right)


def _gaps(F, values):
    """``values[j] - values[i]`` at ``[i, j]``, and ones on the diagonal."""
    n = values.shape[-1]
    return _columns(F, values) - _rows(F, values) + F.new_eye(values, n, n)


def _over_gaps(F, x, gaps):
    """``x / gaps``, but zero where both are: equal values do no harm to what does not depend on their vectors."""
    return x / F.where((gaps == 0) & (x == 0), F.ones_like(gaps), gaps)


def _diagonal(F, x):
    return F.diagonal(x, 0, -2, -1)


def _check_phase(F, x, name, vectors):
    """Refuse a loss that depends on the phases of complex vectors; `x` would then not be real on the diagonal."""
    F.assert_small(
        F.imaginary(_diagonal(F, x)),
        f"{name}: The {vectors} in the complex case are specified up to multiplication by e^{{i phi}}. The specified loss "
        "function depends on this quantity, so it is ill-defined.",
    )
