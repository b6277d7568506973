"""Access to the arrays of tensors, for code that calls kernels or creates tensors from memory (optimisers, files).

Kernels know nothing of tensors. Code that changes arrays in place calls `note_writes` for their tensors, so that a
backward that needs the old values raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gradcore.autograd.variables import VersionCounter, as_class, bump_all, wrap
from gradcore.backends.numpy import malloc
from gradcore.core.typing import AnyArray, Device

__all__ = [
    "arrays_of",
    "as_class",
    "empty_array",
    "note_writes",
    "share_version",
    "tensor_of",
    "with_grad",
    "with_sparse_grad",
]

#: ``tensor_of(array, device, dtype=None)``: a tensor without history that has an array of that device as its memory.
tensor_of = wrap
#: ``note_writes(tensors)``: increment the version of each of several tensors that were written to in place.
note_writes = bump_all


def arrays_of(tensors: Iterable[Any]) -> list[Any]:
    """Return the arrays of several tensors; they share the tensors' memory."""
    return [t._array for t in tensors]


def empty_array(size: int, dtype: Any, device: Device) -> AnyArray:
    """Return an uninitialised array for the elements of many tensors.

    On the CPU, the first large array makes the process keep freed memory for later arrays.
    """
    if malloc.waiting and size >= malloc.LARGE and device.type == "cpu":
        malloc.begin()
    return device.backend.xp.empty(size, dtype)


def with_grad(tensors: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return the tensors that have a gradient, and the arrays of these gradients."""
    with_gradient = [t for t in tensors if (meta := t._autograd) is not None and meta.grad is not None]
    return with_gradient, [t._autograd.grad._array for t in with_gradient]


def with_sparse_grad(tensors: Iterable[Any]) -> list[Any]:
    """Return the tensors that have a sparse gradient."""
    return [t for t in tensors if t.grad is not None and not t.grad._strided]


def share_version(tensors: Sequence[Any]) -> None:
    """Make several new tensors share one version counter, as views of one memory do."""
    version = VersionCounter()
    for t in tensors:
        t._vc = version
