"""Elementwise functions that CuPy lacks, or computes differently from NumPy and SciPy."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore.backends.codegen.emit_cuda import OF_COMPLEX
from gradcore.backends.cupy.fusion import CudaFusion
from gradcore.backends.cupy.kernels import C_NAMES, dtype_name
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.elementwise import RENAMED, Elementwise
from gradcore.backends.portable.movement import Movement
from gradcore.core.typing import AnyArray

__all__ = ["CudaElementwise"]

#: Argument from which the asymptotic series gives the Bessel functions to the last digit, and its number of terms. The
#: terms become smaller than the rounding error before they begin to grow.
_FAR, _TERMS = 30, 20


#: Largest number of arrays that one kernel joins, and of elements, which it counts with 32 bits. CuPy joins more arrays
#: by one launch, too. Large arrays gain nothing: each is worth a launch.
_MOST_JOINED, _MOST_JOINED_ELEMENTS = 8, 1 << 20

#: Functions for which CuPy's results for complex numbers differ from NumPy's.
_OTHERWISE = {name for name, of_numpy in RENAMED.items() if of_numpy in OF_COMPLEX}


def _logical(name: str) -> Callable[..., Any]:
    """Return a logical function that also takes complex numbers, which CuPy's does not."""

    def kernel(self: Any, *operands: Any) -> Any:
        function = getattr(self.xp, name)
        if any(x.dtype.kind == "c" for x in operands):
            return function(*[x != 0 if x.dtype.kind == "c" else x for x in operands])
        return function(*operands)

    return kernel


def _has_halves(backend: CudaElementwise, x: AnyArray, dim: int) -> bool:
    """Return whether `glu` is defined; its body raises the errors."""
    return dtype_name(x.dtype) in C_NAMES and -x.ndim <= dim < x.ndim and x.shape[dim] % 2 == 0


def _gate(F: AnyArray, x: AnyArray, gate: AnyArray) -> AnyArray:
    return x * F.sigmoid(gate)


def _gate_gradients(F: AnyArray, grad: AnyArray, x: AnyArray, gate: AnyArray) -> list[AnyArray]:
    factor = F.sigmoid(gate)
    return [grad * factor, grad * x * (factor * (1 - factor))]


def _scaled_bessel(name: str, order: int, alternating: bool, factor: float) -> Callable[..., Any]:
    """Return the kernel of an exponentially scaled modified Bessel function.

    Large arguments use the asymptotic series, because CuPy's product with the exponential overflows.
    """

    def kernel(self: Any, x: Any) -> Any:
        xp = self.xp
        x = x if x.dtype.kind == "f" else x.astype(np.float32)
        size = abs(x) if alternating else x
        is_large = size > _FAR
        direct, size = self.special_function(name)(xp.where(is_large, 1, x)), xp.where(is_large, size, _FAR)
        total = term = xp.ones_like(size)
        for k in range(1, _TERMS):
            term = term * ((4 * order**2 - (2 * k - 1) ** 2) * (-1 if alternating else 1) / (8 * k)) / size
            total = total + term
        series = total * xp.sqrt(factor / size)
        return xp.where(is_large, xp.copysign(series, x) if order % 2 else series, direct)

    return kernel


def _propagate_nan(name: str) -> Callable[..., Any]:
    """Return a function of two arrays whose result is NaN where either is NaN. CuPy's functions lose these NaN."""

    def kernel(self: Any, x: Any, y: Any) -> Any:
        return self.xp.where((x != x) | (y != y), math.nan, self.special_function(name)(x, y))

    return kernel


def _complex_kernel(name: str) -> Any:
    """Return a property for the kernel `name`, which is generated for complex numbers."""

    def kernel(self: Any) -> Any:
        return self.complex_kernel(name, getattr(super(CudaElementwise, self), name))

    return functools.cached_property(kernel)


class CudaElementwise(CudaFusion, Elementwise, Movement):
    """Elementwise kernels on CUDA."""

    to_host: Callable[..., Any]
    from_host: Callable[..., Any]
    special_function: Callable[..., Any]
    bodies: dict[str, Callable[..., Any]]
    alike: Callable[..., Sequence[AnyArray]]

    lerp, logaddexp = _complex_kernel("lerp"), _complex_kernel("logaddexp")
    pow, sigmoid = _complex_kernel("pow"), _complex_kernel("sigmoid")

    def __getattr__(self, name: str) -> Any:
        """Return a function of CuPy or a body, generated where CuPy differs for complex numbers."""
        plain = super().__getattr__(name)  # type: ignore[misc]
        if name not in _OTHERWISE and (name in RENAMED or name not in self.elementwise):
            return plain
        kernel = vars(self)[name] = self.complex_kernel(name, plain)
        return kernel

    logical_and, logical_not = _logical("logical_and"), _logical("logical_not")
    logical_or, logical_xor = _logical("logical_or"), _logical("logical_xor")

    # -- conversions -------------------------------------------------------------------------------------------------

    def astype(self, x: Any, dtype: Any) -> Any:
        """Convert as the CPU does. A GPU converts negative floats to 0 as unsigned integers."""
        if np.dtype(dtype).kind != "u" or x.dtype.char not in "efdE":
            return super().astype(x, dtype)
        converted = x.astype(np.float32) if x.dtype.itemsize == 2 else x
        return self._as_unsigned(converted, self.xp.empty_like(converted, dtype))

    @functools.cached_property
    def _as_unsigned(self) -> Callable[..., Any]:
        """Kernel that converts floats to unsigned integers by way of signed ones. Negative numbers wrap around."""
        convert = "y = x < 0 ? static_cast<U>(static_cast<long long>(x)) : static_cast<U>(x)"
        kernel: Callable[..., Any] = self.xp.ElementwiseKernel("T x", "U y", convert, "gradcore_as_unsigned")
        return kernel

    # -- selection: CuPy has no bfloat16 there, but numbers that are only moved can be any of that size ------------

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        kinds = {v.dtype for v in filter(self._is_number, (x, y))}
        if len(kinds) != 1 or not _is_bfloat16(*kinds):
            return self.xp.where(condition, x, y)
        (dtype,) = kinds
        bits = [(v if hasattr(v, "view") else dtype.type(v)).view(np.uint16) for v in (x, y)]
        return self.xp.where(condition, *bits).view(dtype)

    # `maximum` and `minimum` of CuPy may change the sign of a zero that equals a bound; these ufuncs keep the element.

    @functools.cached_property
    def _at_least(self) -> Callable[..., AnyArray]:
        return self._bounding("gradcore_at_least", "in0 < in1")

    @functools.cached_property
    def _at_most(self) -> Callable[..., AnyArray]:
        return self._bounding("gradcore_at_most", "in0 > in1")

    def _bounding(self, name: str, is_beyond: str) -> Callable[..., AnyArray]:
        loops, body = ("ee->e", "ff->f", "dd->d"), f"out0 = {is_beyond} || in1 != in1 ? in1 : in0"
        ufunc: Callable[..., AnyArray] = self.xp._core.create_ufunc(name, loops, body)
        return ufunc

    def clamp(self, x: AnyArray, low: AnyArray = None, high: AnyArray = None) -> AnyArray:
        if x.dtype.kind != "f":
            return super().clamp(x, low, high)
        if low is not None:
            x = self._at_least(x, low)
        return x if high is None else self._at_most(x, high)

    def relu(self, x: AnyArray) -> AnyArray:
        # CuPy handles a NumPy scalar in fewer steps than a number of Python.
        return self._at_least(x, x.dtype.type(0)) if x.dtype.kind == "f" else super().relu(x)

    @kernel_for(_has_halves)
    def glu(self, x: AnyArray, dim: int) -> AnyArray:
        first, second = self.xp.split(x, 2, dim)
        return self.evaluate_formula("glu", _gate, x=first, gate=second)

    def glu_backward(self, grad: AnyArray, x: AnyArray, dim: int) -> AnyArray:
        return self.join_arrays(self.evaluate_step(_gate_gradients, grad, *self.xp.split(x, 2, dim)), dim)

    def join_arrays(self, arrays: Sequence[AnyArray], dim: int) -> AnyArray:
        """Concatenate arrays along a dim, in their common dtype; a few small arrays by one launch."""
        arrays = self.alike(arrays)
        first, at = arrays[0], dim % max(1, arrays[0].ndim)
        before, after = first.shape[:at], first.shape[at + 1 :]
        is_small = 0 < sum(a.size for a in arrays) <= _MOST_JOINED_ELEMENTS and first.itemsize <= 8
        fit = all(a.ndim == first.ndim and (a.shape[:at], a.shape[at + 1 :]) == (before, after) for a in arrays)
        if not (is_small and fit and 1 < len(arrays) <= _MOST_JOINED and -first.ndim <= dim < first.ndim):
            return super().join_arrays(arrays, dim)
        ends = [*itertools.accumulate(a.shape[at] for a in arrays)]
        out = self.allocate((*before, ends[-1], *after), first.dtype)
        inner, bits = math.prod(after), f"u{first.itemsize}"
        pieces = [(a.reshape(-1) if a.flags.c_contiguous else a).view(bits) for a in arrays]
        self._join_kernel(len(arrays))(*pieces, *[end * inner for end in ends], out.view(bits))
        return out

    @functools.cached_property
    def _join_kernels(self) -> dict[int, Callable[..., AnyArray]]:
        return {}

    def _join_kernel(self, count: int) -> Callable[..., AnyArray]:
        """Return the kernel that joins lines of `count` arrays; a line of the result ends at `last0`, `last1`, ..."""
        kernel = self._join_kernels.get(count)
        if kernel is None:
            starts = ["0", *(f"last{n}" for n in range(count))]
            elements = [f"from{n}[line * (last{n} - {starts[n]}) + column - {starts[n]}]" for n in range(count)]
            chosen = "".join(f"column < last{n} ? {elements[n]} : " for n in range(count - 1)) + elements[-1]
            width = starts[-1]
            kernel = self._join_kernels[count] = self.xp.ElementwiseKernel(
                ", ".join([f"raw T from{n}" for n in range(count)] + [f"uint32 last{n}" for n in range(count)]),
                "T joined",
                f"const unsigned int at = i, line = at / {width}, column = at % {width}; joined = {chosen}",
                "gradcore_join",
            )
        return kernel

    def _is_number(self, value: Any) -> bool:
        return isinstance(value, (self.array_type, np.generic))

    def tril(self, x: Any, diagonal: int = 0) -> Any:
        return self._triangle("tril", x, diagonal)

    def triu(self, x: Any, diagonal: int = 0) -> Any:
        return self._triangle("triu", x, diagonal)

    def _triangle(self, name: str, x: Any, diagonal: int) -> Any:
        bits = x.view(np.uint16) if _is_bfloat16(x.dtype) else x
        if x.ndim < 2:
            return self.bodies[name](self, bits, diagonal)  # which raises the error
        rows, columns = x.shape[-2:]
        out = self.allocate(x.shape, bits.dtype)
        self._triangle_kernel(bits, rows, columns, max(-rows, min(diagonal, columns)), name == "tril", out)
        return out.view(x.dtype)

    @functools.cached_property
    def _triangle_kernel(self) -> Callable[..., AnyArray]:
        """Kernel that keeps the elements of matrices on and below, or above, a diagonal, and sets others to zero."""
        body = """
            const long long distance = i % columns - i / columns % rows;
            kept = (is_lower ? distance <= diagonal : distance >= diagonal) ? element : T(0);"""
        inputs = "T element, int64 rows, int64 columns, int64 diagonal, bool is_lower"
        kernel: Callable[..., AnyArray] = self.xp.ElementwiseKernel(inputs, "T kept", body, "gradcore_triangle")
        return kernel

    def masked_scale(self, x: Any, mask: Any, scale: float) -> Any:
        """Return ``x * mask * scale``, computed by one kernel, also when a vjp calls it."""
        return self.rounded_once("masked_scale", x, mask, scale)

    # -- quotients: CuPy's have the quotient's error times the divisor -----------------------------------------------

    def remainder(self, x: Any, y: Any) -> Any:
        if x.dtype.kind in "biu":
            return self.xp.remainder(x, y)
        xp, rest = self.xp, self.xp.fmod(x, y)
        has_other_sign = (rest != 0) & (xp.signbit(rest) != xp.signbit(y))
        return xp.where(has_other_sign, rest + y, xp.where(rest == 0, xp.copysign(rest, y), rest))

    def floor_divide(self, x: Any, y: Any) -> Any:
        if x.dtype.kind in "biu":
            return self.xp.floor_divide(x, y)
        xp, rest, quotient = self.xp, self.xp.fmod(x, y), x / y
        estimate = (x - rest) / y - ((rest != 0) & (xp.signbit(rest) != xp.signbit(y)))
        # The estimate is rounded, so it may differ slightly from the whole number.
        rounded = xp.rint(estimate)
        rounded = xp.where(rounded == 0, xp.copysign(xp.zeros_like(quotient), quotient), rounded)
        return xp.where(y == 0, quotient, rounded)

    # -- special functions -------------------------------------------------------------------------------------------

    def xlog1py(self, x: Any, y: Any) -> Any:
        """Return ``x * log1p(y)``, which is NaN where `y` is NaN. CuPy's is 0 there if `x` is 0."""
        result = self.special_function("xlog1py")(x, y)
        return self.xp.where(self.xp.isnan(y), result.dtype.type(math.nan), result)

    igamma, igammac = _propagate_nan("gammainc"), _propagate_nan("gammaincc")
    i0e, i1e = _scaled_bessel("i0e", 0, True, 1 / (2 * math.pi)), _scaled_bessel("i1e", 1, True, 1 / (2 * math.pi))
    scaled_modified_bessel_k0 = _scaled_bessel("k0e", 0, False, math.pi / 2)
    scaled_modified_bessel_k1 = _scaled_bessel("k1e", 1, False, math.pi / 2)

    @kernel_for(lambda self, n, x: n >= 1)
    def polygamma(self, n: int, x: Any) -> Any:
        factor = math.gamma(n + 1) if n < 171 else math.inf
        if n % 2 == 0:
            factor = -factor
        return (factor * self.special_function("zeta")(n + 1.0, x.astype(np.float64))).astype(x.dtype)

    def airy(self, x: Any) -> Any:
        """Compute the Airy functions on the CPU, as CuPy has none."""
        import scipy.special

        return tuple(map(self.from_host, scipy.special.airy(self.to_host(self.xp.minimum(x, 1000)))))


def _is_bfloat16(dtype: Any) -> bool:
    return bool(dtype.char == "E")
