"""Exchange of the contents of two tensors, as ``torch.utils.swap_tensors`` does."""

from __future__ import annotations

import weakref

from gradcore.tensor import Tensor
from gradcore.torch_names._C import _swap_tensor_impl

__all__ = ["swap_tensors"]


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange the data, gradients, classes and attributes of two tensors. References to them stay valid.

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
    _swap_tensor_impl(t1, t2)
