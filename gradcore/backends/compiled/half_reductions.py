"""Reductions of float16 and bfloat16, which are read directly, computed in float32 or more, and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.compiled.reductions import CompiledReductions
from gradcore.backends.numpy.reductions import adjacent
from gradcore.core.typing import Array

__all__ = ["CompiledHalfReductions"]


class CompiledHalfReductions(CompiledReductions):
    """Kernels of operations on halves that return float32."""

    def half_kernel(self, name: str) -> str | None:
        half_name = f"{name}_of_halves"
        return half_name if hasattr(CompiledHalfReductions, half_name) else None

    def sum_of_halves(self, x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        return self._body("sum", x, dim, keepdim, dtype)

    def mean_of_halves(self, x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        return self._body("mean", x, dim, keepdim, dtype)

    def amax_of_halves(self, x: Array, dim: Any = (), keepdim: bool = False) -> Any:
        return self._body("amax", x, dim, keepdim)

    def amin_of_halves(self, x: Array, dim: Any = (), keepdim: bool = False) -> Any:
        return self._body("amin", x, dim, keepdim)

    def max_all_of_halves(self, x: Array) -> Any:
        return self._body("max_all", x)

    def min_all_of_halves(self, x: Array) -> Any:
        return self._body("min_all", x)

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

    def sum_over(self, x: Array, dims: Any = None, keepdim: bool = False) -> Any:
        return self._reduce_halves("sums", self._backend.sum_over, x, dims, keepdim)

    def mean_over(self, x: Array, dims: Any = None, keepdim: bool = False) -> Any:
        total = self.sum_over(x, dims, keepdim)
        return np.asarray(total / prod(x.shape if dims is None else [x.shape[d] for d in dims]))

    def max_over(self, x: Array, dims: Any = None, keepdim: bool = False) -> Any:
        return self._reduce_halves("maxima", self._backend.max_over, x, dims, keepdim)

    def min_over(self, x: Array, dims: Any = None, keepdim: bool = False) -> Any:
        return self._reduce_halves("minima", self._backend.min_over, x, dims, keepdim)

    def _reduce_halves(self, kind: str, converted: Callable[..., Any], x: Array, dims: Any, keepdim: bool) -> Any:
        """Reduce halves by a kernel, or call `converted` with them in float32."""
        run = adjacent(x, dims)
        result = None if run is None else self._backend.reduced_by_kernel(kind, x, *run)
        if result is None or run is None:
            return converted(self._backend.astype(x, np.float32), dims, keepdim)
        return result.reshape(x.shape[: run[0]] + (1,) * (run[1] - run[0]) + x.shape[run[1] :]) if keepdim else result
