"""Differentiable samples of a categorical distribution."""

from __future__ import annotations

import warnings

from gradcore import functional
from gradcore.tensor import Tensor
from gradcore.tensor.creation import zeros_like
from gradcore.torch_names.overrides import overridable

__all__ = ["gumbel_softmax"]


@overridable
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return the softmax of `logits` plus Gumbel noise: a differentiable approximation of a one-hot sample.

    Parameters
    ----------
    logits : Tensor
        Log probabilities, up to a constant.
    tau : float
        The temperature, positive: the smaller, the closer to one-hot vectors.
    hard : bool
        Whether the result is one-hot. Its gradient is the gradient of the softmax.
    eps : float
        Ignored.
    dim : int
        The dim of the classes.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gradcore
    >>> logits = gradcore.zeros(5, 3, requires_grad=True)
    >>> sample = gradcore.nn.functional.gumbel_softmax(logits, tau=0.5, hard=True)
    >>> sample.sum(-1)
    tensor([1., 1., 1., 1., 1.], grad_fn=<SumBackward1>)
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    noise = -functional.empty_like(logits).exponential_().log()
    soft: Tensor = functional.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    winner = soft.detach().argmax(dim, keepdim=True)
    return zeros_like(soft).scatter_(dim, winner, 1.0) - soft.detach() + soft
