"""Helpers for user-defined distributions, as in ``torch.distributions.utils``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore import functional
from gradcore.core import dtypes
from gradcore.distributions.distribution import broadcast_all, lazy_property
from gradcore.distributions.probabilities import inside as clamp_probs
from gradcore.tensor import Tensor
from gradcore.tensor.creation import ones, zeros
from gradcore.tensor.random import normal
from gradcore.torch_names import paths

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

#: Euler's constant.
euler_constant = 0.57721566490153286060


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the logarithms of probabilities, or of the odds if `is_binary`."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return the softmax of logits, or their sigmoid if `is_binary`."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def _triangle_mask(n: int, diag: int, device: Any) -> Tensor:
    """Return a mask of the elements on or below a diagonal of an ``n`` by ``n`` matrix."""
    return ones(n, n, dtype=dtypes.bool_, device=device).tril(diag)


def _count(n: int, diag: int) -> int:
    """Return the number of elements on or below a diagonal of an ``n`` by ``n`` matrix."""
    return sum(min(max(row + 1 + diag, 0), n) for row in range(n))


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements on and below a diagonal of matrices, row by row.

    Parameters
    ----------
    mat : Tensor
        A tensor of shape ``(*, n, n)``.
    diag : int
        The number of the diagonal: 0 is the main one, 1 that above it.

    Examples
    --------
    >>> import gradcore
    >>> tril_matrix_to_vec(gradcore.arange(4.0).reshape(2, 2))
    tensor([0., 2., 3.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _triangle_mask(n, diag, mat.device)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return square matrices with these elements on and below a diagonal, row by row, and zeros elsewhere.

    Parameters
    ----------
    vec : Tensor
        A tensor of shape ``(*, d)``.
    diag : int
        The number of the diagonal: 0 is the main one, 1 that above it.

    Examples
    --------
    >>> import gradcore
    >>> vec_to_tril_matrix(gradcore.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    length = vec.shape[-1]
    n = next(n for n in range(abs(diag), length + abs(diag) + 2) if _count(n, diag) >= length)
    if _count(n, diag) != length:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    matrix = zeros((*vec.shape[:-1], n, n), dtype=vec.dtype, device=vec.device)
    matrix[..., _triangle_mask(n, diag, vec.device)] = vec
    return matrix


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    """Return numbers from the standard normal distribution."""
    return normal(zeros(shape, dtype=dtype, device=device), ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Return the sum over the last `dim` dims."""
    return value if not dim else functional.sum(value, tuple(range(-dim, 0)))


paths.show_public(__name__)
