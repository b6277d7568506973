"""Reductions of float16 and bfloat16, which are read directly, computed in float32 or more, and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.compiled.reductions import CompiledReductions
from gradcore.backends.kernel_rules import Reduction, reductions
from gradcore.backends.numpy.reductions import SUMS, adjacent

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CompiledHalfReductions"]


class CompiledHalfReductions(CompiledReductions):
    """Kernels of operations on halves that return float32."""

    def half_kernel(self, name: str) -> str | None:
        half_name = f"{name}_of_halves"
        return half_name if hasattr(CompiledHalfReductions, half_name) else None

    def _body(self, name: str, x: Array, *settings: Any) -> Any:
        """Compute the body of an operation, without converting halves first if its kernels read them."""
        converts = len(settings) == 3 and settings[2] is not None
        operand = self.astype(x, np.float32) if converts else x
        return self.bodies[name](self if converts else _OfHalves(self), operand, *settings)


class _OfHalves:
    """A backend whose reductions accept halves."""

    def __init__(self, backend: CompiledHalfReductions) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def mean_over(self, x: Array, dims: Any = None, keepdim: bool = False) -> Any:
        total = self._reduce_halves(SUMS, self._backend.sum_over, x, dims, keepdim)
        return np.asarray(total / prod(x.shape if dims is None else [x.shape[d] for d in dims]))

    def _reduce_halves(self, kind: Reduction, converted: Callable[..., Any], x: Array, dims: Any, keepdim: bool) -> Any:
        """Reduce halves by a kernel, or call `converted` with them in float32."""
        run = adjacent(x, dims)
        result = None if run is None else self._backend.reduced_by_kernel(kind, x, *run)
        if result is None or run is None:
            return converted(self._backend.astype(x, np.float32), dims, keepdim)
        return result.reshape(x.shape[: run[0]] + (1,) * (run[1] - run[0]) + x.shape[run[1] :]) if keepdim else result


def _reduction_of_halves(name: str, kind: Reduction) -> Callable[..., Any]:
    """Return the method of `_OfHalves` for a declared reduction."""

    def reduce(self: Any, x: Array, dims: Any = None, keepdim: bool = False) -> Any:
        return self._reduce_halves(kind, getattr(self._backend, name), x, dims, keepdim)

    return reduce


def _operation_on_halves(name: str) -> Callable[..., Any]:
    """Return the kernel of an operation whose body is a call of a reduction that accepts halves."""
    return lambda self, x, *settings: self._body(name, x, *settings)


for _name, _kind in reductions(CompiledReductions).items():
    if _kind.least_of_halves:
        setattr(_OfHalves, _name, _reduction_of_halves(_name, _kind))
    if hasattr(_OfHalves, _name):
        for _operation in _kind.operations:
            setattr(CompiledHalfReductions, f"{_operation}_of_halves", _operation_on_halves(_operation))
