"""Conversion of parameters to one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from gradcore import functional
from gradcore.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _check_devices(parameters: Iterable[Tensor]) -> list[Tensor]:
    result = list(parameters)
    if len({p.device for p in result}) > 1:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return result


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all parameters concatenated into one vector. Gradients flow back to the parameters.

    Parameters
    ----------
    parameters : iterable of Tensor

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.utils.parameters_to_vector([gc.tensor([1.0, 2.0]), gc.tensor([[3.0]])])
    tensor([1., 2., 3.])
    """
    return functional.cat([p.view(-1) for p in _check_devices(parameters)])  # type: ignore[no-any-return]


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set the data of parameters to views of a vector.

    Parameters
    ----------
    vec : Tensor
    parameters : iterable of Tensor

    Examples
    --------
    >>> import gradcore as gc
    >>> p = gc.nn.Parameter(gc.zeros(2, 1))
    >>> gc.nn.utils.vector_to_parameters(gc.tensor([1.0, 2.0]), [p])
    >>> p.detach()
    tensor([[1.],
            [2.]])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for p in _check_devices(parameters):
        p.data = vec[start : start + p.numel()].view_as(p).data
        start += p.numel()
