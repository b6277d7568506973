"""Ready-made parametrizations."""

from __future__ import annotations

from gradcore.nn.module import Module
from gradcore.nn.utils.parametrize import register_parametrization
from gradcore.nn.utils.weight_norm import lengths
from gradcore.tensor import Tensor

__all__ = ["weight_norm"]


class _WeightNorm(Module):
    """A tensor as a length for each index of one dim, and a direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """The tensor of those lengths and directions."""
        return weight_v * (weight_g / lengths(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Lengths and directions of a tensor."""
        return lengths(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Store a parameter of a module as lengths (``original0``) and directions (``original1``).

    Parameters
    ----------
    module : Module
    name : str
        Of the parameter.
    dim : int or None
        The dim with a length for each index; None for one length.

    Returns
    -------
    Module
        The module.
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
