"""Gradient clipping, by the norm of all gradients or element by element."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable
from typing import Any

from gradcore import functional
from gradcore.autograd.grad_mode import no_grad
from gradcore.core.typing import Device
from gradcore.tensor import Tensor
from gradcore.tensor.creation import tensor
from gradcore.tensor.foreach import clamp_, clip_, norms

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Tensor | Iterable[Tensor]


def _as_list(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _grads(parameters: Tensors) -> list[Tensor]:
    return [p.grad for p in _as_list(parameters) if p.grad is not None]


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the norm of the elements of several tensors, taken together.

    Parameters
    ----------
    tensors : iterable of Tensor
        The tensors, which may lie on different devices; the norms of each device are moved together.
    norm_type : float
        The order of the norm; ``inf`` for the largest element.
    error_if_nonfinite : bool
        Whether a norm that is infinite or nan is an error.
    foreach : bool, optional
        Accepted for compatibility.

    Returns
    -------
    Tensor
        Result on the device of the first tensor.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.nn.utils.get_total_norm([gc.tensor([3.0]), gc.tensor([4.0])])
    tensor(5.)
    """
    tensors, order = _as_list(tensors), float(norm_type)
    if not tensors:
        return tensor(0.0)
    total = _norm_of_norms(norms(tensors, order), order, tensors[0].device)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def _norm_of_norms(tensors: dict[Device, list[Tensor]], order: float, device: Device) -> Tensor:
    (first, *more), *elsewhere = tensors.values()
    if not more and not elsewhere:
        return first.to(device)
    moved = [functional.stack(norms).to(device) for norms in tensors.values()]
    total: Tensor = functional.linalg_vector_norm(functional.cat(moved) if len(moved) > 1 else moved[0], order)
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients in place so that their norm is at most `max_norm`, given their norm `total_norm`.

    Parameters
    ----------
    parameters : iterable of Tensor
    max_norm : float
    total_norm : Tensor
        The norm of the gradients, as `get_total_norm` returns it.
    foreach : bool, optional
        Accepted for compatibility.

    Examples
    --------
    >>> import gradcore as gc
    >>> p = gc.nn.Parameter(gc.ones(2))
    >>> (p * gc.tensor([3.0, 4.0])).sum().backward()
    >>> gc.nn.utils.clip_grads_with_norm_([p], 1.0, gc.tensor(5.0))
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    clip_(_grads(parameters), total_norm, float(max_norm))


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of parameters in place so that their total norm is at most `max_norm`.

    Parameters
    ----------
    parameters : iterable of Tensor
    max_norm : float
    norm_type : float
        The order of the norm; ``inf`` for the largest element.
    error_if_nonfinite : bool
        Whether a norm that is infinite or nan is an error.
    foreach : bool, optional
        Accepted for compatibility.

    Returns
    -------
    Tensor
        The norm as it was.

    Examples
    --------
    >>> import gradcore
    >>> p = gradcore.ones(2, requires_grad=True)
    >>> p.grad = gradcore.tensor([3.0, 4.0])
    >>> gradcore.nn.utils.clip_grad_norm_(p, 1.0)
    tensor(5.)
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    empty = isinstance(parameters, Generator)
    parameters = _as_list(parameters)
    if empty and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    shards = [p for p in parameters if hasattr(p, "total_norm")]  # of `fully_shard`: the norm is that of all processes
    if shards:
        total = _norm_with_shards(parameters, shards, float(norm_type), error_if_nonfinite)
    else:
        total = get_total_norm(_grads(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def _norm_with_shards(parameters: list[Tensor], shards: list[Any], order: float, error_if_nonfinite: bool) -> Tensor:
    """Return the total norm of gradients, some of which are distributed over several processes."""
    shard_norm = get_total_norm(_grads(shards), order)
    results = [shards[0].total_norm(shard_norm.to(shards[0].device), order)]
    sharded = {id(p) for p in shards}
    results += _grads([p for p in parameters if id(p) not in sharded])
    return get_total_norm(results, order, error_if_nonfinite)


def clip_grad_norm(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Call `clip_grad_norm_`, the present name of this function."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp the elements of the gradients of parameters in place to ``[-clip_value, clip_value]``.

    Parameters
    ----------
    parameters : iterable of Tensor
    clip_value : float
    foreach : bool, optional
        Accepted for compatibility.

    Examples
    --------
    >>> import gradcore as gc
    >>> p = gc.nn.Parameter(gc.ones(2))
    >>> (p * gc.tensor([1.0, -5.0])).sum().backward()
    >>> gc.nn.utils.clip_grad_value_([p], 2.0)
    >>> p.grad
    tensor([ 1., -2.])
    """
    clamp_(_grads(parameters), float(clip_value))
