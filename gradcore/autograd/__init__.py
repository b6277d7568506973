"""Automatic differentiation: the graph, the engine, its modes and hooks."""

from gradcore.autograd import grad_mode, graph
from gradcore.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from gradcore.autograd.gradients import backward, grad

__all__ = [
    "backward",
    "enable_grad",
    "grad",
    "grad_mode",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]
