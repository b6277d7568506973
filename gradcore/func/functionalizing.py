"""`functionalize`, which makes a function compute on copies of its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import inference_mode, is_inference_mode_enabled, no_grad
from gradcore.tensor import Tensor
from gradcore.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["functionalize"]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function that calls `func` with copies of the arguments, so that results share no memory with them.

    In-place writes of `func` to an argument are copied to the argument once, when `func` has returned.

    Parameters
    ----------
    func : callable
        Takes and returns tensors, or nested containers of them.
    remove : {"mutations", "mutations_and_views"}
        Accepted as in PyTorch, and makes no difference: there is no recorded program in which views would be seen.

    Returns
    -------
    callable

    Raises
    ------
    RuntimeError
        If `remove` is something else.

    Examples
    --------
    >>> import gradcore
    >>> def double(x):
    ...     return x.view(-1).mul_(2)
    >>> x = gradcore.ones(2)
    >>> y = gradcore.func.functionalize(double)(x)
    >>> x, y, y._base is x
    (tensor([2., 2.]), tensor([2., 2.]), False)
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced "
            "with their out-of-place equivalents.\n"
            "     remove='mutations_and_views': In addition to the above, all aliasing operators {view} will be "
            "replaced with their non-aliasing counterparts, {view}_copy.\n"
        )

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree_flatten((args, kwargs))
        copies: dict[int, tuple[Tensor, Tensor]] = {}
        for leaf in leaves:
            if isinstance(leaf, Tensor) and id(leaf) not in copies:
                copies[id(leaf)] = leaf, _copy_of(leaf)
        own_leaves = [copies[id(leaf)][1] if id(leaf) in copies else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(own_leaves, structure)
        result = func(*args, **kwargs)
        for argument, copy in copies.values():
            if copy._version:
                argument.copy_(copy)
        return result

    return call


def _copy_of(t: Tensor) -> Tensor:
    """Return a copy of `t` that counts in-place writes, which an inference tensor does not."""
    if not is_inference_mode_enabled():
        return functional.clone(t)  # type: ignore[no-any-return]
    with inference_mode(False), no_grad():
        return functional.clone(t)  # type: ignore[no-any-return]
