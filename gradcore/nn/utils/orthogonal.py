"""Parametrization of orthogonal matrices by unconstrained matrices."""

from __future__ import annotations

from collections.abc import Callable

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.dtypes import finfo
from gradcore.functions.linalg import householder_product, matrix_exp, solve
from gradcore.nn.module import Module
from gradcore.nn.utils.parametrize import register_parametrization, tensor_of
from gradcore.tensor import Tensor
from gradcore.tensor.creation import eye, zeros, zeros_like
from gradcore.tensor.random import randn

__all__ = ["orthogonal"]


def _skew(x: Tensor) -> Tensor:
    """Return the skew-Hermitian matrix with the lower triangle of `x`. Columns that `x` lacks are zero."""
    n, k = x.shape[-2:]
    lower = x.tril()
    if n > k:
        lower = functional.cat([lower, zeros(*x.shape[:-1], n - k, dtype=x.dtype, device=x.device)], -1)
    return lower - lower.mH


def _map_by_exponential(x: Tensor) -> Tensor:
    return matrix_exp(_skew(x))[..., : x.shape[-1]]


def _map_by_cayley(x: Tensor) -> Tensor:
    half = _skew(x) / 2
    identity = eye(half.shape[-1], dtype=x.dtype, device=x.device)
    return solve(identity - half, identity + half)[..., : x.shape[-1]]


def _multiply_reflections(x: Tensor) -> Tensor:
    """Return the product of the reflections given by the vectors below the diagonal.

    The diagonal has the signs of the columns.
    """
    vectors = x.tril(-1)
    factors = 2 / (1 + (vectors * vectors).sum(-2))
    return householder_product(vectors, factors) * _signs(x).unsqueeze(-2)


def _signs(x: Tensor) -> Tensor:
    return x.diagonal(0, -2, -1).int()


#: Functions that map a matrix, at least as high as it is wide, to a matrix with orthonormal columns.
_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "matrix_exp": _map_by_exponential,
    "cayley": _map_by_cayley,
    "householder": _multiply_reflections,
}


def _orthonormal(x: Tensor) -> Tensor:
    """Return the Q of a QR decomposition of `x` whose R has a positive diagonal."""
    reflections, factors = x.geqrf()
    q = householder_product(reflections, factors)
    return q * reflections.diagonal(0, -2, -1).sgn().unsqueeze(-2)


def _is_orthonormal(q: Tensor) -> bool:
    """Return whether the columns of `q` are orthonormal, up to rounding."""
    identity = eye(q.shape[-1], dtype=q.dtype, device=q.device)
    eps = 10 * q.shape[-2] * finfo(q.dtype).eps
    return bool(((q.mH @ q - identity).abs() <= eps).all())


class _Orthogonal(Module):
    """Parametrization of a matrix with orthonormal columns, or rows if it is wider than high."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)
        self.trivialized = use_trivialization

    def forward(self, x: Tensor) -> Tensor:
        """Return the orthogonal matrix that the unconstrained matrix `x` represents."""
        is_wide = x.shape[-2] < x.shape[-1]
        q = _MAPS[self.orthogonal_map](x.mT if is_wide else x)
        if self.trivialized and self.base is not None:
            q = self.base @ q
        return q.mT if is_wide else q

    @no_grad()
    def right_inverse(self, q: Tensor) -> Tensor:
        """Return an unconstrained matrix that represents `q`, or the orthogonal matrix nearest to it."""
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}."
            )
        is_wide = q.shape[-2] < q.shape[-1]
        q = q.mT if is_wide else q
        if self.trivialized:
            self.base = self._complete(q)
            x = zeros_like(q)
            x.diagonal(0, -2, -1).fill_(-1.0)
        else:
            x = self._reflections(q)
        return x.mT if is_wide else x

    @staticmethod
    def _complete(q: Tensor) -> Tensor:
        """Return a square orthogonal matrix that begins with the columns of `q`."""
        n, k = q.shape[-2:]
        if n == k:
            return q.clone() if _is_orthonormal(q) else _orthonormal(q)
        columns = randn(*q.shape[:-1], n - k, dtype=q.dtype, device=q.device)
        return _orthonormal(functional.cat([q, columns], -1))

    def _reflections(self, q: Tensor) -> Tensor:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        x, factors = q.geqrf()
        signs = x.diagonal(0, -2, -1)
        signs.sign_()
        signs[factors == 0.0] *= -1  # a reflection without a vector turns a column around, where LAPACK's does nothing
        return x


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Parametrize a parameter of a module as a matrix with orthonormal columns, or rows if it is wider than high.

    Parameters
    ----------
    module : Module
    name : str
        The name of the parameter, a matrix or a batch of matrices in the last two dims.
    orthogonal_map : {"matrix_exp", "cayley", "householder"}, optional
        From free matrices to orthogonal ones: the exponential or the Cayley transform of a skew-Hermitian matrix, or a
        product of reflections, which is faster the fewer columns there are (and for real matrices only). By default the
        exponential of square and complex matrices, else reflections.
    use_trivialization : bool
        Whether the free matrix is relative to a fixed orthogonal one, a buffer `base`. Then any orthogonal matrix can
        be assigned to the parameter, and the steps of training are better conditioned.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> import gradcore
    >>> layer = gradcore.nn.utils.parametrizations.orthogonal(gradcore.nn.Linear(20, 40))
    >>> gradcore.allclose(layer.weight.T @ layer.weight, gradcore.eye(20), atol=1e-5)
    True
    """
    weight = tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        choices = ", ".join(f'"{each}"' for each in _MAPS)
        raise ValueError(f"orthogonal_map has to be one of {choices}. Got: {orthogonal_map}")
    free = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, free, unsafe=True)
