"""Matrix functions: exponential, logarithm, square root, powers, trigonometric and hyperbolic functions."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.dtypes import finfo
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import common, tensor_of
from gradcore.scipy.conversion import floating
from gradcore.scipy.linalg.decompositions import number_as_matrix

__all__ = [
    "coshm", "cosm", "expm", "expm_frechet", "fractional_matrix_power", "funm", "logm", "signm", "sinhm", "sinm",
    "sqrtm", "tanhm", "tanm",
]  # fmt: skip


def _square(A: Any) -> AnyTensor:
    matrix = floating(A)
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError("expected square array_like input")
    return matrix


def expm(A: Any) -> AnyTensor:
    """Return the exponential of matrices.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.expm([[0.0, 1.0], [0.0, 0.0]]).round(decimals=4)
    tensor([[1., 1.],
            [0., 1.]], dtype=torch.float64)
    """
    return F.linalg_matrix_exp(_square(number_as_matrix(tensor_of(A))))


def expm_frechet(
    A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True
) -> Any:
    """Return the exponential of a matrix `A`, and its derivative in the direction `E`.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.expm_frechet([[0.0]], [[2.0]])[1].round(decimals=4)
    tensor([[2.]], dtype=torch.float64)
    """
    matrix, direction = common(_square(A), tensor_of(E))
    n = matrix.shape[-1]
    rows = F.cat([matrix, direction], -1), F.cat([F.zeros_like(matrix), matrix], -1)
    block = F.linalg_matrix_exp(F.cat(rows, -2))
    return (block[..., :n, :n], block[..., :n, n:]) if compute_expm else block[..., :n, n:]


def _complex_where_needed(A: Any) -> AnyTensor:
    """Convert `A` to complex if an eigenvalue is negative, because its principal functions are not real then."""
    matrix = _square(A)
    if F.is_complex(matrix):
        return matrix
    values = F.linalg_eigvals(matrix.detach()).host()
    on_axis = np.abs(values.imag) <= 1e-14 * np.abs(values).max(initial=0.0)
    return F.to(matrix, matrix.dtype.to_complex()) if bool(np.any(on_axis & (values.real < 0))) else matrix


def _root_beside_cut(matrix: AnyTensor) -> AnyTensor:
    """Return the principal square root of complex matrices with negative eigenvalues, whose roots are above the axis.

    The negative axis is the cut of the root, and rounding puts eigenvalues on either side of it. So the matrix is
    turned by a small angle before, and its root is turned back.
    """
    angle = finfo(matrix.dtype).eps ** (2 / 3)
    return F.matrix_sqrt(matrix * cmath.exp(-1j * angle)) * cmath.exp(0.5j * angle)


def sqrtm(A: Any) -> AnyTensor:
    """Return the principal square root of matrices, complex where an eigenvalue is negative.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.sqrtm([[4.0, 0.0], [0.0, 9.0]]).round(decimals=4)
    tensor([[2., 0.],
            [0., 3.]], dtype=torch.float64)
    """
    real = number_as_matrix(tensor_of(A))
    matrix = _complex_where_needed(real)
    return _root_beside_cut(matrix) if F.is_complex(matrix) and not F.is_complex(real) else F.matrix_sqrt(matrix)


def logm(A: Any) -> AnyTensor:
    """Return the principal logarithm of matrices, complex where an eigenvalue is negative.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.logm([[2.0, 0.0], [0.0, 3.0]])
    tensor([[0.6931, 0.0000],
            [0.0000, 1.0986]], dtype=torch.float64)
    """
    matrix = _complex_where_needed(A)
    if F.is_complex(matrix) and not F.is_complex(tensor_of(A)):
        # The root's eigenvalues are not on the negative axis, where the logarithm has its cut.
        return 2 * F.matrix_log(_root_beside_cut(matrix))
    return F.matrix_log(matrix)


def signm(A: Any) -> AnyTensor:
    """Return the sign function of matrices without eigenvalues on the imaginary axis.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.signm([[2.0, 1.0], [0.0, 3.0]]).round(decimals=6).abs()
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    matrix = _square(A)
    return F.linalg_solve(F.matrix_sqrt(F.matmul(matrix, matrix)), matrix)


def fractional_matrix_power(A: Any, t: Any) -> AnyTensor:
    """Return the power of a matrix with a real exponent, differentiable with respect to both.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.fractional_matrix_power([[4.0, 0.0], [0.0, 9.0]], 0.5).round(decimals=4)
    tensor([[2., 0.],
            [0., 3.]], dtype=torch.float64)
    """
    if not hasattr(t, "ndim") and float(t).is_integer():
        return F.linalg_matrix_power(_square(A), int(t))
    return F.linalg_matrix_exp(logm(A) * t)


def _cosine_and_sine(A: Any) -> tuple[AnyTensor, AnyTensor]:
    """Return the cosine and the sine of matrices."""
    matrix = _square(A)
    positive = F.linalg_matrix_exp(1j * F.to(matrix, matrix.dtype.to_complex()))
    if not F.is_complex(matrix):
        return F.real(positive), F.imag(positive)
    negative = F.linalg_matrix_exp(-1j * matrix)
    return (positive + negative) / 2, (positive - negative) / 2j


def cosm(A: Any) -> AnyTensor:
    """Return the cosine of matrices.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.cosm([[0.0]]).round(decimals=4)
    tensor([[1.]], dtype=torch.float64)
    """
    return _cosine_and_sine(A)[0]


def sinm(A: Any) -> AnyTensor:
    """Return the sine of matrices.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.sinm([[0.5]])
    tensor([[0.4794]], dtype=torch.float64)
    """
    return _cosine_and_sine(A)[1]


def tanm(A: Any) -> AnyTensor:
    """Return the tangent of matrices.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.tanm([[0.5]])
    tensor([[0.5463]], dtype=torch.float64)
    """
    return F.linalg_solve(*_cosine_and_sine(A))


def coshm(A: Any) -> AnyTensor:
    """Return the hyperbolic cosine of matrices.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.coshm([[0.5]])
    tensor([[1.1276]], dtype=torch.float64)
    """
    matrix = _square(A)
    return (F.linalg_matrix_exp(matrix) + F.linalg_matrix_exp(-matrix)) / 2


def sinhm(A: Any) -> AnyTensor:
    """Return the hyperbolic sine of matrices.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.sinhm([[0.5]])
    tensor([[0.5211]], dtype=torch.float64)
    """
    matrix = _square(A)
    return (F.linalg_matrix_exp(matrix) - F.linalg_matrix_exp(-matrix)) / 2


def tanhm(A: Any) -> AnyTensor:
    """Return the hyperbolic tangent of matrices.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.tanhm([[0.5]])
    tensor([[0.4621]], dtype=torch.float64)
    """
    return F.linalg_solve(coshm(A), sinhm(A))


def funm(A: Any, func: Any, disp: bool = True) -> Any:
    """Raise a TypeError: a function that is known by its values only has no derivative."""
    raise TypeError(
        "funm() does not take tensors; use expm, logm, sqrtm, cosm ..., or, for Hermitian matrices with distinct "
        "eigenvalues, apply the function to the eigenvalues: w, v = eigh(A); (v * f(w)) @ v.mH"
    )
