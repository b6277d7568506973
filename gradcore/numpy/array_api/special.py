"""Special functions by SciPy's names, in the place where SciPy looks them up in its array API mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore import functional as F
from gradcore.numpy.conversion import common
from gradcore.numpy.ufuncs import SPECIAL

__all__ = sorted([*SPECIAL, "log_softmax", "logsumexp", "sinc", "softmax"])


def _function(name: str, operation: str) -> Callable[..., Any]:
    def special(*args: Any) -> Any:
        return getattr(F, operation)(*common(*args))

    special.__name__ = special.__qualname__ = name
    special.__doc__ = f"Compute SciPy's ``special.{name}`` of tensors."
    return special


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """Compute ``log(sum(b * exp(a)))`` over axes."""
    if b is not None or return_sign:
        raise TypeError("logsumexp(b=..., return_sign=...) of tensors: use log(sum(b * exp(a)))")
    (x,) = common(a)
    return F.logsumexp(x, tuple(range(x.ndim)) if axis is None else axis, keepdims)


def _wrap_cumulative(operation: str) -> Callable[..., Any]:
    def special(x: Any, axis: Any = None) -> Any:
        (t,) = common(x)
        if axis is None:
            return getattr(F, operation)(t.reshape(-1), 0).reshape(t.shape)
        return getattr(F, operation)(t, axis)

    special.__name__ = special.__qualname__ = operation
    special.__doc__ = f"Compute SciPy's ``special.{operation}`` of tensors."
    return special


globals().update({name: _function(name, operation) for name, operation in {**SPECIAL, "sinc": "sinc"}.items()})
softmax, log_softmax = _wrap_cumulative("softmax"), _wrap_cumulative("log_softmax")
