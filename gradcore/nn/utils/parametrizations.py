"""Common parametrizations: weight normalization, spectral normalization and orthogonal matrices."""

from __future__ import annotations

from gradcore.autograd.grad_mode import no_grad
from gradcore.nn import functional as F
from gradcore.nn.module import Module
from gradcore.nn.utils.orthogonal import orthogonal
from gradcore.nn.utils.parametrize import register_parametrization, tensor_of
from gradcore.nn.utils.spectral_norm import (
    as_matrix,
    check_iterations,
    direction,
    improve,
    outputs_of,
    spectral_value,
)
from gradcore.nn.utils.weight_norm import lengths
from gradcore.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """Parametrization of a tensor by a length for each index of one dim, and directions."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Return the tensor with the given lengths and directions."""
        return weight_v * (weight_g / lengths(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the lengths and the directions of a tensor."""
        return lengths(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrize a parameter by its lengths (``original0``) and directions (``original1``).

    Parameters
    ----------
    module : Module
    name : str
        The name of the parameter.
    dim : int or None
        The dim with a length for each index; None for one length.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> import gradcore as gc
    >>> layer = gc.nn.utils.parametrizations.weight_norm(gc.nn.Linear(2, 3))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """Parametrization that divides a tensor by its largest singular value. The singular vectors are buffers."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        check_iterations(n_power_iterations)
        self.dim, self.eps, self.n_power_iterations = dim % ndim, eps, n_power_iterations
        if ndim > 1:
            matrix = as_matrix(weight, self.dim)
            self.register_buffer("_u", direction(matrix.shape[0], weight, eps))
            self.register_buffer("_v", direction(matrix.shape[1], weight, eps))
            self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix: Tensor, steps: int) -> None:
        for _ in range(steps):
            improve(self._u, matrix.mv(self._v), self.eps)
            improve(self._v, matrix.T.mv(self._u), self.eps)

    def forward(self, weight: Tensor) -> Tensor:
        """Return the tensor divided by its largest singular value."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        return weight / spectral_value(matrix, self._u, self._v)

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the tensor itself."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Parametrize a parameter by division by its largest singular value.

    Power iteration finds the value. It continues with each access in training mode.

    Parameters
    ----------
    module : Module
    name : str
        The name of the parameter.
    n_power_iterations : int
        Steps for each access.
    eps : float
        Lengths below are taken as this.
    dim : int, optional
        The dim of the parameter that counts outputs: by default 1 for transposed convolutions, else 0.

    Returns
    -------
    Module
        The module.

    Examples
    --------
    >>> import gradcore
    >>> _ = gradcore.manual_seed(0)
    >>> layer = gradcore.nn.utils.parametrizations.spectral_norm(gradcore.nn.Linear(4, 3))
    >>> bool((gradcore.linalg.matrix_norm(layer.weight, 2) - 1).abs() < 0.05)
    True
    """
    weight = tensor_of(module, name)
    if dim is None:
        dim = outputs_of(module)
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
