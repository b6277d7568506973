"""Batching rules and shape rules of kernels: how `vmap` runs one on a whole batch, and what it gives on ``meta``.

Kernels that are methods of a backend's families have them as decorators, operations that are kernels in their
declarations (``batch=leading(2)``). A kernel without a batching rule runs as it is written, on batched arrays; one
without a shape rule runs on arrays without data. Formulas and bodies need neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

__all__ = [
    "OPERATIONS",
    "BatchRule",
    "Result",
    "all_samples",
    "along",
    "batch_rules",
    "images",
    "leading",
    "shape_rules",
    "shaped",
]

#: The declared operations by name, each a `gradcore.ops.declare.table.Op`: that module enters them.
OPERATIONS: dict[str, Any] = {}

_Kernel = TypeVar("_Kernel")


class BatchRule(NamedTuple):
    """The way in which a kernel takes one more dim in front; also a decorator of the kernel."""

    kind: str
    numbers: tuple[int, ...] = ()

    def __call__(self, kernel: _Kernel) -> _Kernel:
        """Declare that a kernel has this rule."""
        vars(kernel)["batch"] = self
        return kernel


def along(position: int) -> BatchRule:
    """Return a kernel along dims counted from the front (None: over all), which are its argument of that position."""
    return BatchRule("along", (position,))


def leading(*dims: int) -> BatchRule:
    """A kernel of the last `dims` dims of each array; dims in front of these are free: ``leading(2)`` of matrices."""
    return BatchRule("leading", dims)


def images(position: int) -> BatchRule:
    """Return a kernel of images, whose argument of that position has one number for each spatial dim.

    Arrays in front of it have a batch dim, which may be left out, and channels in front of the spatial ones.
    """
    return BatchRule("images", (position,))


#: A check of the numbers of all samples at once, which gives none or one answer.
all_samples = BatchRule("all_samples")


class Result(NamedTuple):
    """Shape and dtype of an array that a kernel gives."""

    shape: tuple[int, ...]
    dtype: Any


def shaped(rule: Callable[..., Any]) -> Callable[[_Kernel], _Kernel]:
    """Declare the shape rule of a kernel: a function of its arguments.

    It gives for each result a `Result`, or an array that the result is like (in a tuple where there are several), or
    what is no array as it is.
    """

    def declare(kernel: _Kernel) -> _Kernel:
        vars(kernel)["shaped"] = rule
        return kernel

    return declare


def _rules(backend: type, attribute: str) -> dict[str, Any]:
    classes = reversed(backend.__mro__)
    kernels = {name: kernel for cls in classes for name, kernel in vars(cls).items() if hasattr(kernel, attribute)}
    return {name: getattr(kernel, attribute) for name, kernel in kernels.items()}


def batch_rules(backend: Any) -> dict[str, BatchRule]:
    """Return the batching rules of the kernels of a class of backends, and of the operations that are kernels."""
    return {**_rules(backend, "batch"), **backend.declared_batch_rules}


def shape_rules(backend: Any) -> dict[str, Callable[..., Any]]:
    """Return the shape rules of the kernels of a class of backends, and of the operations that are kernels."""
    return {**_rules(backend, "shaped"), **backend.declared_shape_rules}
