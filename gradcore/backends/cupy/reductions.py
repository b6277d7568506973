"""Reductions on CUDA in one launch: float16 and bfloat16 are summed in float32, and extrema come with their index."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcore.backends.cupy.fusion import fused_body
from gradcore.backends.cupy.kernels import CudaKernels
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.kernel_rules import Extremum, extremum_kernels, reductions
from gradcore.backends.portable.linear_algebra import LinearAlgebra
from gradcore.backends.portable.reductions import Dims, Reductions

if TYPE_CHECKING:
    from gradcore.core.arrays import Array

__all__ = ["CudaReductions"]

#: The declared reductions that have a kernel for CUDA.
_DECLARED = {name: each for name, each in reductions(Reductions).items() if each.cuda}

#: The extremum so far and its index. The first NaN is the extremum if there is one, else the first of equal numbers.
_EXTREMUM = """
struct Extremum {
    %(type)s value;
    long long index;
    __device__ Extremum() : value(0), index(-1) {}
    __device__ Extremum(%(type)s value, long long index) : value(value), index(index) {}
    __device__ Extremum operator+(const Extremum& other) const {
        if (index < 0 || other.index < 0) return index < 0 ? other : *this;
        const bool is_nan = value != value;
        if (is_nan != (other.value != other.value)) return is_nan ? *this : other;
        if (is_nan || value == other.value) return index < other.index ? *this : other;
        return value %(order)s other.value ? *this : other;
    }
};
"""

#: The largest element so far, and the sum of the exponentials of all elements less it; 0 before the first element.
_POWERS = """
struct Powers {
    %(type)s top, total;
    __device__ Powers() : top(0), total(0) {}
    __device__ Powers(%(type)s value) : top(value), total(1) {}
    __device__ Powers(%(type)s top, %(type)s total) : top(top), total(total) {}
    __device__ %(type)s total_for(%(type)s highest) const {
        return top == highest ? total : total * exp(top - highest);  // Equal infinities have no difference.
    }
    __device__ Powers operator+(const Powers& other) const {
        if (total == 0 || other.total == 0) return total == 0 ? other : *this;
        const %(type)s highest = top < other.top ? other.top : top;
        return Powers(highest, total_for(highest) + other.total_for(highest));
    }
};
"""

#: Functions of sums: the summand of an element, the result, the sum of no elements, its type and what declares it.
_FUNCTIONS_OF_SUMS = {
    "norm": ("%(type)s(element) * %(type)s(element)", "sqrt(a)", "0", "%(type)s", ""),
    "logsumexp": ("Powers(element)", "log(a.total) + a.top", "", "Powers", _POWERS),
}


def _takes_floats(backend: Any, x: Array, dim: int, keepdim: bool = False) -> bool:
    return bool(x.ndim and backend.takes("reductions", x))


def _takes_norm(backend: Any, x: Array, ord: float, axes: tuple[int, ...] | None, keepdim: bool) -> bool:
    # The norm of all float32 or float64 elements is the root of a product by cuBLAS, which is faster.
    is_kernel = ord == 2 and (axes is not None or keepdim)
    return (is_kernel or x.dtype.itemsize == 2) and bool(backend.takes("reductions", x))


def _takes_halves(backend: Any, x: Array, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> bool:
    return dtype is None and x.dtype.char in "eE" and bool(backend.takes("reductions", x))


def _reduction(name: str) -> Any:
    """Return the method of a declared reduction for float16 and bfloat16."""

    def kernel(self: Any, x: Array, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> Array:
        return self.reduction_kernel(name)(x, axis=dims, keepdims=keepdim)

    kernel.__name__ = name
    return kernel_for(_takes_halves)(kernel)


def _finder(name: str, declared: Extremum) -> Any:
    """Return the method of a kernel that finds an extremum."""
    order, results, _ = declared

    def find_index(self: CudaReductions, x: Array, dim: int, keepdim: bool = False) -> Array:
        return self.extremum_kernel(order, False, x)(x, axis=dim, keepdims=keepdim)

    def find_both(self: CudaReductions, x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        at = dim % x.ndim
        shape = (*x.shape[:at], *((1,) if keepdim else ()), *x.shape[at + 1 :])
        value, index = self.allocate(shape, x.dtype), self.allocate(shape, np.int64)
        # The call returns only its first output, so both arrays are passed.
        self.extremum_kernel(order, True, x)(x, value, index, axis=at, keepdims=keepdim)
        return value, index

    kernel = find_index if results == ("index",) else find_both
    kernel.__name__ = name
    return kernel_for(_takes_floats)(kernel)


class CudaReductions(CudaKernels, Reductions, LinearAlgebra):
    """Reductions on CUDA; other dtypes use CuPy's."""

    @functools.cached_property
    def _reduction_kernels(self) -> dict[Any, Any]:
        return {}

    def reduction_kernel(self, name: str) -> Any:
        """Return the kernel of the declared reduction `name` for float16 and bfloat16."""
        kernel = self._reduction_kernels.get(name)
        if kernel is None:
            # The parameter names are unusual, because CuPy replaces them as text if it reduces by CUB, even inside of
            # other words.
            element, pair, result, none = _DECLARED[name].cuda
            kernel = self._reduction_kernels[name] = self.xp.ReductionKernel(
                "T element", "T reached", element, pair, f"reached = {result}", none, f"gradcore_{name}",
                reduce_type="float",
            )  # fmt: skip
        return kernel

    def sum_kernel(self, name: str, like: Array) -> Any:
        """Return the kernel of a function of sums, which are computed with the precision of the array `like`."""
        computed = "double" if like.dtype.itemsize == 8 else "float"
        kernel = self._reduction_kernels.get((name, computed))
        if kernel is None:
            element, result, none, summed, preamble = (text % {"type": computed} for text in _FUNCTIONS_OF_SUMS[name])
            kernel = self._reduction_kernels[name, computed] = self.xp.ReductionKernel(
                "T element", "T reached", element, "a + b", f"reached = {result}", none, f"gradcore_{name}",
                reduce_type=summed, preamble=preamble,
            )  # fmt: skip
        return kernel

    @kernel_for(_takes_norm)
    def vector_norm(self, x: Array, ord: float, axes: tuple[int, ...] | None, keepdim: bool) -> Array:
        if ord != 2:  # Halves are converted, so that their sums neither overflow nor are rounded.
            norm: Array = super().vector_norm(x.astype(np.float32), ord, axes, keepdim)
            return norm.astype(x.dtype)
        return self.sum_kernel("norm", x)(x, axis=axes, keepdims=keepdim)

    @kernel_for(lambda self, x, dims, keepdim: self.takes("reductions", x))
    def logsumexp_over(self, x: Array, dims: Dims, keepdim: bool) -> Array:
        return self.sum_kernel("logsumexp", x)(x, axis=dims, keepdims=keepdim)

    logsumexp_backward, vector_norm_backward = fused_body("logsumexp_backward"), fused_body("vector_norm_backward")
    var_backward = fused_body("var_backward")

    def extremum_kernel(self, order: str, with_value: bool, like: Array) -> Any:
        """Return the kernel that finds the index of the first extremum of each row, and its value if `with_value`."""
        computed = "double" if like.dtype.itemsize == 8 else "float"
        key = order, with_value, computed
        kernel = self._reduction_kernels.get(key)
        if kernel is None:
            outputs, result = "int64 found", "found = a.index"
            if with_value:
                outputs, result = f"T reached, {outputs}", f"reached = a.value, {result}"
            kernel = self._reduction_kernels[key] = self.xp.ReductionKernel(
                "T element", outputs, "Extremum(element, _J)", "a + b", result, "",
                f"gradcore_{'max' if order == '>' else 'min'}_with_index", reduce_type="Extremum",
                preamble=_EXTREMUM % {"type": computed, "order": order},
            )  # fmt: skip
        return kernel


_METHODS = {name: _reduction(name) for name in _DECLARED}
_METHODS |= {name: _finder(name, each) for name, each in extremum_kernels(Reductions).items()}
for _name, _method in _METHODS.items():
    setattr(CudaReductions, _name, _method)
    vars(CudaReductions)[_name].__set_name__(CudaReductions, _name)
