"""Special matrices that depend only on their size or on a few numbers, as tensors on the default device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import tensor_of
from gradcore.scipy.conversion import floating
from gradcore.scipy.linalg.structured import toeplitz
from gradcore.scipy.required import scipy_module

__all__ = [
    "convolution_matrix", "dft", "fiedler", "fiedler_companion", "hadamard", "helmert", "hilbert", "invhilbert",
    "invpascal", "pascal",
]  # fmt: skip


def _wrap_scipy(name: str, summary: str, call: str) -> Callable[..., AnyTensor]:
    def make(*args: Any, **settings: Any) -> AnyTensor:
        return F.as_tensor(np.asarray(getattr(scipy_module("linalg"), name)(*args, **settings)))

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""Return the {summary}, with SciPy's arguments.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> tuple(linalg.{name}({call}).shape)
    (4, 4)
    """
    return make


hilbert = _wrap_scipy("hilbert", "Hilbert matrix, ``1 / (i + j + 1)``", "4")
invhilbert = _wrap_scipy("invhilbert", "inverse of the Hilbert matrix", "4")
pascal = _wrap_scipy("pascal", "Pascal matrix of binomial coefficients", "4")
invpascal = _wrap_scipy("invpascal", "inverse of the Pascal matrix", "4")
hadamard = _wrap_scipy("hadamard", "Hadamard matrix of Sylvester's construction", "4")
helmert = _wrap_scipy("helmert", "Helmert matrix", "4, full=True")
dft = _wrap_scipy("dft", "matrix of the discrete Fourier transform", "4")


def fiedler(a: Any) -> AnyTensor:
    """Return the matrix of the absolute differences of the elements of `a`, which is differentiable.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.fiedler([1, 4])
    tensor([[0, 3],
            [3, 0]])
    """
    values = tensor_of(a)
    values = values[None] if not values.ndim else values
    return F.abs(F.unsqueeze(values, -1) - F.unsqueeze(values, -2))


def fiedler_companion(a: Any) -> AnyTensor:
    """Return the pentadiagonal matrix whose eigenvalues are the zeros of a polynomial.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.fiedler_companion([1.0, -3.0, 2.0])
    tensor([[ 3., -2.],
            [ 1.,  0.]], dtype=torch.float64)
    """
    polynomial = floating(a)
    polynomial = polynomial if polynomial.ndim else polynomial[None]
    n = polynomial.shape[-1] - 1
    if n < 0 or polynomial.ndim != 1:
        raise ValueError("Input 'a' must be a 1-D array with at least one coefficient.")
    if n < 1:
        return F.new_zeros(polynomial, (0, 0))
    coefficients = -polynomial[1:] / polynomial[:1]
    if n == 1:
        return coefficients[:, None]
    # SciPy builds the matrix from the indices of the coefficients, which shows where each coefficient and one stands.
    numbered = np.concatenate([[1.0], -np.arange(2.0, n + 2)])
    layout = scipy_module("linalg").fiedler_companion(numbered)
    entries = F.cat([F.new_zeros(polynomial, (1,)), F.new_zeros(polynomial, (1,)) + 1, coefficients])
    return entries[F.as_tensor(layout.astype(np.int64), device=polynomial.device)]


def convolution_matrix(a: Any, n: int, mode: str = "full") -> AnyTensor:
    """Return the matrix that convolves vectors of length `n` with `a`.

    Examples
    --------
    >>> from gradcore.scipy import linalg
    >>> linalg.convolution_matrix([1, 2], 2)
    tensor([[1, 0],
            [2, 1],
            [0, 2]])
    """
    kernel = tensor_of(a)
    if n <= 0:
        raise ValueError("n must be a positive integer.")
    if not kernel.ndim or not kernel.shape[-1]:
        raise ValueError("len(a) must be at least 1.")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"'mode' argument must be one of ('full', 'valid', 'same'), but got {mode!r}")
    m = kernel.shape[-1]
    column = F.pad(kernel, (0, n - 1))
    full_matrix = toeplitz(column, F.pad(kernel[..., :1], (0, n - 1)))
    if mode == "full":
        return full_matrix
    rows = max(m, n) if mode == "same" else max(m, n) - min(m, n) + 1
    before = (m + n - 1 - rows) // 2 if mode == "same" else min(m, n) - 1
    return full_matrix[..., before : before + rows, :]
