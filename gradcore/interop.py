"""Other libraries' functions on tensors: recorded, or refused, never computed behind the graph's back."""

from __future__ import annotations

from typing import Any

from gradcore.autograd.formulas import TENSORS
from gradcore.backends.elementwise import RENAMED

__all__ = ["ufunc"]

_BY_NUMPY_NAME = {numpy_name: name for name, numpy_name in RENAMED.items()}


def ufunc(function: Any, method: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The operation that a NumPy universal function stands for."""
    op = getattr(TENSORS, _BY_NUMPY_NAME.get(function.__name__, ""), None)
    if op is None or method != "__call__" or named:
        return NotImplemented
    return op(*(TENSORS.as_tensor(x) if hasattr(x, "__array__") else x for x in inputs))
