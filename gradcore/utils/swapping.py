"""Two tensors that change places, for whoever refers to them: ``torch.utils.swap_tensors``."""

from __future__ import annotations

import weakref

from gradcore.autograd.variables import Variable
from gradcore.tensor import Tensor

__all__ = ["swap_tensors"]


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange everything that two tensors are: data, gradient, class, attributes. References stay what they were.

    Parameters
    ----------
    t1, t2 : Tensor
        Leaves or results, no views, to which there are no weak references.

    Raises
    ------
    RuntimeError
        For views, tensors with weak references, and leaves that a graph which is still kept ends at.

    Examples
    --------
    >>> import gradcore
    >>> a, b = gradcore.zeros(2), gradcore.ones(3)
    >>> gradcore.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([1., 1., 1.]), tensor([0., 0.]))
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        if t._is_view():
            raise RuntimeError(f"Cannot swap {name} because it is a view")
        accumulator = None if t._meta is None else t._meta.accumulator
        if accumulator is not None and accumulator() is not None:
            raise RuntimeError(f"Cannot swap {name} because a graph ends at it; drop its results first")
    t1.__class__, t2.__class__ = type(t2), type(t1)
    for slot in ("__dict__", *(slot for slot in Variable.__slots__ if not slot.startswith("__"))):
        first, second = getattr(t1, slot), getattr(t2, slot)
        setattr(t1, slot, second)
        setattr(t2, slot, first)
