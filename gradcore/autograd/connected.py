"""Gradients that do not vary with an input, connected to it all the same: there the second derivative is a zero.

The slope of `relu` is constant between its corners. So nothing in the formula of its gradient leads back to the input,
and differentiating once more would find that the input was not used. PyTorch gives zeros there, and so programs such as
gradient penalties and Laplacians count on them.
"""

from __future__ import annotations

import functools
from typing import Any

from gradcore.autograd.edges import gradient_edge
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.node import Node
from gradcore.autograd.variables import Meta, alias

__all__ = ["connected"]


class ConnectedGradient(Node):
    """Passes a gradient on to its first edge, and zeros to its second."""

    __slots__ = ()

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        return [grads, None if grads is None else arithmetic.zeros_like(grads)]


@functools.cache
def _class_of(name: str) -> type[ConnectedGradient]:
    """The class of these nodes for the nodes of an operation: ``LeakyReluBackwardBackward0``."""
    stem, _, number = name.rpartition("Backward")
    body = {"__slots__": (), "__module__": "builtins", "__doc__": ConnectedGradient.__doc__}
    return type(f"{stem}BackwardBackward{number}", (ConnectedGradient,), body)


def connected(grad: Any, node: Any, number: int, through_result: bool) -> Any:
    """The gradient, a tensor, that `node` has found for its edge `number`, connected to that input.

    Parameters
    ----------
    grad : Tensor or None
    node : OpNode
    number : int
    through_result : bool
        Whether to connect it to the node's own result instead, as formulas do that read it.
    """
    edge = node._edges[number]
    if grad is None or edge is None or not local.state.mode & GRAD:
        return grad
    edges = gradient_edge(grad), node._edge_of_output(0) if through_result else edge
    made = _class_of(type(node).__name__).make(grad._device, edges, grad)
    out = alias(grad, (made, 0))
    if grad._meta is not None and grad._meta.tangents is not None:
        out._meta = Meta()
        out._meta.tangents = grad._meta.tangents
    return out
