"""Reductions of float16 and bfloat16 in one launch: read as they are, reduced in float32 and rounded once."""

from __future__ import annotations

import functools
from typing import Any

from gradcore.backends.cupy.kernels import CudaKernels
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.reductions import Dims, Reductions
from gradcore.typing import Array

__all__ = ["CudaReductions"]

#: For each reduction the value of an element, that of two values, the result, and the value of no elements, as the
#: ``ReductionKernel`` of CuPy takes them. NaN is larger and smaller than any number.
_EXPRESSIONS = {
    "sum": ("x", "a + b", "a", "0"),
    "nansum": ("x == x ? static_cast<float>(x) : 0.f", "a + b", "a", "0"),
    "mean": ("x", "a + b", "a / (_in_ind.size() / _out_ind.size())", "0"),
    "prod": ("x", "a * b", "a", "1"),
    "max": ("x", "a != a || a > b ? a : b", "a", "-1.f / 0.f"),
    "min": ("x", "a != a || a < b ? a : b", "a", "1.f / 0.f"),
}


def _takes_halves(backend: Any, x: Array, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> bool:
    return dtype is None and x.dtype.char in "eE" and bool(backend.takes("reductions", x))


def _reduction(name: str) -> Any:
    def kernel(self: Any, x: Array, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> Array:
        return self.reduction_kernel(name)(x, axis=dims, keepdims=keepdim)

    kernel.__name__ = f"{name}_over"
    return kernel_for(_takes_halves)(kernel)


class CudaReductions(CudaKernels, Reductions):
    """Reductions on CUDA; those of other dtypes are CuPy's own."""

    sum_over, nansum_over, mean_over = _reduction("sum"), _reduction("nansum"), _reduction("mean")
    prod_over, max_over, min_over = _reduction("prod"), _reduction("max"), _reduction("min")

    @functools.cached_property
    def _reduction_kernels(self) -> dict[str, Any]:
        return {}

    def reduction_kernel(self, name: str) -> Any:
        """The kernel of halves for one of the reductions."""
        kernel = self._reduction_kernels.get(name)
        if kernel is None:
            element, pair, result, none = _EXPRESSIONS[name]
            kernel = self._reduction_kernels[name] = self.xp.ReductionKernel(
                "T x", "T y", element, pair, f"y = {result}", none, f"gradcore_{name}", reduce_type="float"
            )
        return kernel
