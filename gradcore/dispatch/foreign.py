"""PyTorch's tensors next to gradcore's in one process: errors for calls that mix them.

PyTorch is never imported here; where a program has, its tensors are recognised and refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gradcore.autograd.variables import Variable

__all__ = ["refuse_function", "refuse_tensor"]

ADVICE = (
    "Convert one of them: gradcore.from_dlpack(t) shares the memory of PyTorch's tensor, torch.from_dlpack(t) that of "
    "gradcore's. Gradients do not pass from one to the other; use .detach() first where a tensor requires grad."
)


def _library() -> Any:
    """Return the module ``torch`` if it has been imported, else None."""
    result = sys.modules.get("torch")
    own = getattr(result, "Tensor", None)
    return None if own is None or issubclass(own, Variable) else result


def _default(cls: type) -> bool:
    """Return whether a class is a PyTorch tensor that uses PyTorch's own ``__torch_function__``."""
    torch = _library()
    if torch is None or not issubclass(cls, torch.Tensor):
        return False
    classes: tuple[Any, ...] = cls, torch.Tensor
    handler, own = (getattr(each.__torch_function__, "__func__", None) for each in classes)
    return handler is own


def refuse_tensor(name: str, value: Any) -> None:
    """Raise if an argument of one of gradcore's functions is a tensor of PyTorch.

    Raises
    ------
    TypeError
    """
    if _default(type(value)):
        raise TypeError(f"{name}() of gradcore got a torch.Tensor of PyTorch's, not a gradcore.Tensor. {ADVICE}")


def refuse_function(func: Callable[..., Any]) -> None:
    """Raise if a tensor of gradcore is an argument of one of PyTorch's functions.

    Raises
    ------
    TypeError
    """
    if _library() is None:
        return
    owners = func, getattr(func, "__objclass__", None), getattr(func, "__self__", None)
    homes = {str(getattr(owner, "__module__", "")).partition(".")[0] for owner in owners}
    if "torch" in homes:
        name = getattr(func, "__name__", "a function")
        raise TypeError(f"{name}() of PyTorch got a gradcore.Tensor, not a torch.Tensor. {ADVICE}")
