"""Transformations that HIPS autograd and JAX have: `value_and_grad`, `jacobian`, `elementwise_grad`, `checkpoint`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradcore import functional
from gradcore.func.arguments import Argnums
from gradcore.func.reverse import grad, grad_and_value, jacrev

__all__ = ["checkpoint", "elementwise_grad", "jacobian", "value_and_grad"]


def value_and_grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the value of `func` and its gradient.

    Parameters
    ----------
    func : callable
        Returns a tensor without dims; with `has_aux`, a tuple of that and anything else.
    argnums : int or tuple of int
        The positional arguments with respect to which to differentiate: tensors, NumPy arrays, numbers or nested
        containers of them.
    has_aux : bool

    Returns
    -------
    callable
        Called as `func`, it returns ``(value, gradient)``, or ``((value, aux), gradient)``.

    Examples
    --------
    >>> import gradcore
    >>> import gradcore.numpy as np
    >>> gradcore.func.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    (tensor(5., dtype=torch.float64), tensor([2., 4.], dtype=torch.float64))
    """
    gradient_and_value = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = gradient_and_value(*args, **kwargs)
        return value, gradient

    return wrapper


def jacobian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` in reverse mode: `jacrev` without its options.

    Examples
    --------
    >>> import gradcore
    >>> import gradcore.numpy as np
    >>> gradcore.func.jacobian(np.sin)(np.array([0.0, 0.0]))
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    return jacrev(func, argnums)


def elementwise_grad(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the derivative of each element of an elementwise function. It can be nested.

    It is the gradient of the sum of the outputs.

    Parameters
    ----------
    func : callable
        Returns a tensor whose elements depend each on the elements at the same place.
    argnums : int or tuple of int
        The positional arguments with respect to which to differentiate.

    Returns
    -------
    callable
        Called as `func`, it returns tensors shaped as the arguments.

    Examples
    --------
    >>> import gradcore
    >>> import gradcore.numpy as np
    >>> second = gradcore.func.elementwise_grad(gradcore.func.elementwise_grad(np.tanh))
    >>> second(np.array([0.5, 1.0]))
    tensor([-0.7269, -0.6397], dtype=torch.float64)
    """

    @functools.wraps(func)
    def total(*args: Any, **kwargs: Any) -> Any:
        return functional.sum(func(*args, **kwargs))

    return grad(total, argnums)


def checkpoint(func: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `func` so that it saves only its inputs, and is called again in backward.

    Parameters
    ----------
    func : callable
        A function of tensors, or of nested containers of tensors.

    Returns
    -------
    callable

    Examples
    --------
    >>> import gradcore
    >>> import gradcore.numpy as np
    >>> f = gradcore.func.checkpoint(lambda x: np.sum(np.sin(x) ** 2))
    >>> gradcore.func.grad(f)(np.array([0.0, 1.0]))
    tensor([0.0000, 0.9093], dtype=torch.float64)
    """
    from gradcore.utils.checkpoint import checkpoint as run_checkpointed

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return run_checkpointed(func, *args, use_reentrant=False, **kwargs)

    return wrapper
