"""Contractions (`einsum`) on CUDA by cuTENSOR, if it is installed.

`Products.contract` copies an operand whose dims cannot be merged into a batch of matrices. cuTENSOR reads dims in any
order, so no copy is made. It is called as CuPy's own `einsum` calls it: on contiguous memory of the four dtypes that
CuPy supports.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Sequence
from typing import Any

from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.products import Labels, Products, plan_of
from gradcore.core import config

__all__ = ["CudaContractions", "merges", "to_memory_order"]

#: Elements of an operand from which avoiding its copy pays off.
_MANY = 1 << 12


class CudaContractions(Products):
    """Contractions of CuPy arrays, by cuTENSOR or by products of matrices."""

    capture: Any

    @functools.cached_property
    def cutensor(self) -> Any:
        """CuPy's cuTENSOR module, or None if cuTENSOR is not installed."""
        try:
            return importlib.import_module("cupyx.cutensor")
        except ImportError:
            return None

    @kernel_for(lambda self, *operands: self.cutensor is not None and self._is_for_cutensor(*operands))
    def contract(self, a: Any, b: Any, of_a: Labels, of_b: Labels, out: Labels) -> Any:
        sizes = dict(zip((*of_a, *of_b), (*a.shape, *b.shape), strict=True))
        result = self.xp.empty([sizes[label] for label in out], a.dtype)
        (a, of_a), (b, of_b) = to_memory_order(a, of_a), to_memory_order(b, of_b)
        self.cutensor.contraction(1.0, a, of_a, b, of_b, 0.0, result, out)
        return result

    def _is_for_cutensor(self, a: Any, b: Any, of_a: Labels, of_b: Labels, out: Labels) -> bool:
        """Return whether cuTENSOR supports both operands, and products of matrices would copy a large one."""
        plan = plan_of(of_a, of_b, out)
        if a.dtype != b.dtype or a.dtype.char not in "fdFD" or not plan.inner or not a.size or not b.size:
            return False
        if self.capture.on or (a.dtype.char in "fF" and config.get_float32_matmul_precision() != "highest"):
            return False
        if not all(to_memory_order(x, ())[0].flags.c_contiguous for x in (a, b)):
            return False
        groups = (plan.batch, plan.left, plan.inner), (plan.batch, plan.right, plan.inner)
        return any(
            x.size >= _MANY and not all(merges(x, [labels.index(label) for label in group]) for group in each)
            for x, labels, each in zip((a, b), (of_a, of_b), groups, strict=True)
        )


def merges(x: Any, dims: Sequence[int]) -> bool:
    """Return whether the dims `dims` of an array, in this order, can be merged into one dim without a copy."""
    steps = [(x.shape[dim], x.strides[dim]) for dim in dims if x.shape[dim] > 1]
    return all(outer == n * inner for (_, outer), (n, inner) in itertools.pairwise(steps))


def to_memory_order(x: Any, labels: Labels) -> tuple[Any, Labels]:
    """Return `x` with its dims permuted to the order of memory, and its labels in the same order."""
    order = sorted(range(x.ndim), key=lambda dim: (-x.strides[dim], -x.shape[dim]))
    return x.transpose(order), tuple(labels[dim] for dim in order) if labels else labels
