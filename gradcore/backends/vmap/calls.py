"""How a kernel is called with batched arrays: ranks made to match, or every array given the batch dim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.backends.vmap.array import Batched, aligned, physical, rewrap

__all__ = ["as_samples", "elementwise", "expanded", "in_batch", "is_array"]


def in_batch(level: Any, value: Any) -> bool:
    """Whether a value, or any in a tuple or list of them, has samples at that level."""
    if value.__class__ is Batched:
        return value.level is level
    return value.__class__ in (tuple, list) and any(in_batch(level, v) for v in value)


def elementwise(level: Any, kernel: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """A kernel that acts on each element after broadcasting."""
    ndim = 0
    batched = False
    for a in args:
        if a.__class__ is Batched:
            batched = batched or a.level is level
            ndim = max(ndim, a.ndim)
        else:
            ndim = max(ndim, getattr(a, "ndim", 0))
    if not batched:
        return kernel(*args, **named)
    return rewrap(kernel(*[aligned(a, level, ndim) for a in args], **named), level)


def expanded(
    level: Any, generic: Callable[..., Any], kernel: Callable[..., Any], several: bool, *args: Any, **named: Any
) -> Any:
    """A generic kernel or body, with all arrays batched; the kernel of the arrays inside where none of them is.

    `several` says that the first argument is a sequence of arrays. Tuples of indices stay as they are.
    """
    if not any(in_batch(level, a) for a in args):
        return kernel(*args, **named)
    if several:
        args = ([as_samples(a, level) for a in args[0]], *args[1:])
    return generic(*[as_samples(a, level) for a in args], **named)


def as_samples(value: Any, level: Any) -> Any:
    """An array as a batched one, without a copy; anything else as it is."""
    if value.__class__ is Batched:
        return value if value.level is level else Batched(physical(value, level), level)
    return Batched(physical(value, level), level) if is_array(value) else value


def is_array(value: Any) -> bool:
    """Whether a value is an array, rather than a number or a setting."""
    return not isinstance(value, np.generic) and hasattr(value, "__array_function__")
