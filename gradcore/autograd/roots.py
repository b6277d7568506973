"""Where a backward call starts: its outputs' places in the graph, with gradients that fit them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradcore import functional
from gradcore.autograd.edges import gradient_edge
from gradcore.autograd.node import Node
from gradcore.autograd.variables import Variable, wrap

__all__ = ["edge_of", "edges_of", "root_of", "roots_of"]


def edges_of(values: Any) -> tuple[Any, ...]:
    """One or several tensors or GradientEdges as a tuple."""
    return (values,) if isinstance(values, Variable) or hasattr(values, "node") else tuple(values)


def edge_of(t: Any, missing: str) -> tuple[Node, int]:
    """The place in the graph of a tensor or a GradientEdge.

    Raises
    ------
    RuntimeError
        If it is something else, or (with the text `missing`) if the tensor requires no grad.
    """
    if not isinstance(t, Variable):
        node = getattr(t, "node", None)
        if isinstance(node, Node):
            return node, t.output_nr
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}")
    edge = gradient_edge(t)
    if edge is None:
        raise RuntimeError(missing)
    return edge


def roots_of(outputs: Sequence[Any], grads: Sequence[Any]) -> list[tuple[Node, int, Any]]:
    """The nodes to start from, with checked gradients; ones for outputs of one element that have none."""
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    roots = []
    for i, output in enumerate(outputs):
        edge, grad = None, grads[i]
        kind: tuple[Any, ...] | None
        if isinstance(output, Variable):
            edge, kind = gradient_edge(output), (output._array.shape, output._dtype, output._device)
        else:
            kind = getattr(output, "kind", None)  # (a GradientEdge made by hand says nothing of its gradient)
        if edge is None:
            edge = edge_of(output, f"element {i} of tensors does not require grad and does not have a grad_fn")
        if grad is None:
            grad = _one(kind)
        elif not isinstance(grad, Variable):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
        elif kind is not None:
            grad = _checked(kind, grad, i)
        roots.append((*edge, grad))
    return roots


def root_of(output: Any) -> tuple[Node, int, Any]:
    """The node to start from for one tensor of one element, with a gradient of one."""
    edge = gradient_edge(output)
    if edge is None:
        return roots_of((output,), (None,))[0]  # which raises
    return (*edge, _one((output._array.shape, output._dtype, output._device)))


def _one(kind: tuple[Any, ...] | None) -> Any:
    """The gradient of an output of one element with respect to itself."""
    if kind is None or (kind[0] and prod(kind[0]) != 1):
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    shape, dtype, device = kind
    if dtype.is_complex:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {dtype!r}")
    if device.guarded:
        with device.backend.use_index(device.index):
            ones = device.backend.xp.ones(shape, dtype.numpy)
    elif shape:
        ones = device.backend.xp.ones(shape, dtype.numpy)
    else:
        ones = device.backend.scalar(1, dtype.numpy)
    return wrap(ones, device, dtype)


def _checked(kind: tuple[Any, ...], grad: Any, i: int) -> Any:
    shape, dtype, device = kind
    if grad._array.shape != shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of torch.Size({list(grad._array.shape)}) and output[{i}] "
            f"has a shape of torch.Size({list(shape)})."
        )
    if dtype.is_complex != grad._dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{i}] has a dtype of {grad._dtype!r} and output[{i}] has a dtype of {dtype!r}."
        )
    if grad._device.real is not device.real:
        raise RuntimeError(f"grad_output[{i}] lies on {grad._device} and output[{i}] on {device}; move it with .to()")
    return grad if grad._dtype is dtype else functional.to(grad, dtype)
