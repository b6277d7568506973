"""Errors for calls that mix PyTorch's tensors with gradcore's in one process.

PyTorch is never imported here. If the program has imported it, its tensors are recognised and refused.
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
    """Return the module ``torch`` if it has been imported and is PyTorch's own, else None."""
    module = sys.modules.get("torch")
    tensor_class = getattr(module, "Tensor", None)
    return None if tensor_class is None or issubclass(tensor_class, Variable) else module


def _default(cls: type) -> bool:
    """Return whether a class is a PyTorch tensor that uses PyTorch's own ``__torch_function__``."""
    torch = _library()
    if torch is None or not issubclass(cls, torch.Tensor):
        return False
    classes: tuple[Any, ...] = cls, torch.Tensor
    handler, torch_handler = (getattr(each.__torch_function__, "__func__", None) for each in classes)
    return handler is torch_handler


def refuse_tensor(name: str, value: Any) -> None:
    """Raise if `value`, an argument of gradcore's function `name`, is a tensor of PyTorch.

    Raises
    ------
    TypeError
    """
    if _default(type(value)):
        raise TypeError(f"{name}() of gradcore got a torch.Tensor of PyTorch's, not a gradcore.Tensor. {ADVICE}")


def refuse_function(func: Callable[..., Any]) -> None:
    """Raise if `func`, which was called with a tensor of gradcore, is a function of PyTorch.

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
