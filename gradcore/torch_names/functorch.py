"""The package ``functorch``: the transforms of `gradcore.func`, and older functions that convert modules.

Examples
--------
>>> import gradcore
>>> from gradcore.functorch import grad, make_functional
>>> function, params = make_functional(gradcore.nn.Linear(2, 1))
>>> [tuple(g.shape) for g in grad(lambda params: function(params, gradcore.ones(3, 2)).sum())(params)]
[(1, 2), (1,)]
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from gradcore.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from gradcore.nn.module import Module
from gradcore.tensor import Tensor
from gradcore.torch_names import paths

__all__ = [
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]

Tensors = tuple[Tensor, ...]


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[Callable[..., Any], Tensors]:
    """Return a module without buffers as a function, and its parameters: ``function(params, *args, **kwargs)``.

    Parameters
    ----------
    model : Module
        A copy is called.
    disable_autograd_tracking : bool
        Whether the parameters do not require grad.

    Raises
    ------
    RuntimeError
        If there are buffers.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    function, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return lambda params, *args, **kwargs: function(params, (), *args, **kwargs), params


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], Tensors, Tensors]:
    """Return a module as a function, with its parameters and buffers: ``function(params, buffers, *args, **kwargs)``.

    Parameters
    ----------
    model : Module
        A copy is called.
    disable_autograd_tracking : bool
        Whether the parameters do not require grad.
    """
    module_copy = copy.deepcopy(model)
    params, buffers = dict(module_copy.named_parameters()), dict(module_copy.named_buffers())

    def function(values: Sequence[Tensor], others: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip((*params, *buffers), (*values, *others), strict=True))
        return functional_call(module_copy, state, args, kwargs)

    values = tuple(p.detach() if disable_autograd_tracking else p for p in params.values())
    return function, values, tuple(buffers.values())


def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[Callable[..., Any], Tensors, Tensors]:
    """Return modules of one structure as a function for `vmap`, with parameters and buffers stacked in a new dim."""
    params, buffers = stack_module_state(models)
    return make_functional_with_buffers(models[0])[0], tuple(params.values()), tuple(buffers.values())


__getattr__ = paths.further(__name__)

paths.show_public(__name__)
