"""Parameters and buffers: tensors that modules own."""

from __future__ import annotations

from typing import Self

from gradcore.autograd.graph import alias, new
from gradcore.creation import empty
from gradcore.tensor import Tensor

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A leaf tensor that a `Module` registers as its own when it is assigned as an attribute.

    Parameters
    ----------
    data : Tensor, optional
        The values, whose memory is shared; empty if None.
    requires_grad : bool
        Whether it is trained.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.nn.Parameter(gradcore.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        shared = alias(empty(0) if data is None else data, None)
        out = new(cls)
        out._array, out._device, out._dtype, out._vc = shared._array, shared._device, shared._dtype, shared._vc
        out._edge = out._meta = None
        if requires_grad:
            out.requires_grad_()
        return out

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that is part of a module's state but is not trained.

    Parameters
    ----------
    data : Tensor, optional
        The values, whose memory is shared.
    persistent : bool
        Whether it is part of the module's `state_dict`.
    """

    __slots__ = ()

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        shared = alias(empty(0) if data is None else data, None)
        out = new(cls)
        out._array, out._device, out._dtype, out._vc = shared._array, shared._device, shared._dtype, shared._vc
        out._edge = out._meta = None
        out.persistent = persistent
        return out
