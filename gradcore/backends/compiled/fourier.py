"""Fourier transforms of many lines, whose sizes are products of 2, 3 and 5, at once."""

from __future__ import annotations

import functools
import math

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls, Work
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy.backend import NumpyBackend
from gradcore.core.typing import AnyArray

__all__ = ["CompiledFourier"]

#: Number of lines of a part of the work, as in `fourier.cpp`. Fewer lines leave lanes of registers without work.
_LINES = 16
#: Largest number of complex numbers of a line, up to which intermediate results stay in the cache.
_LONGEST = 1 << 13


@functools.lru_cache(256)
def _is_supported(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Return whether the kernels transform complex numbers of `shape` along `dims`."""
    size = math.prod(shape)
    for d in dims:
        n, inner = shape[d], math.prod(shape[d + 1 :])
        if not 0 < n <= _LONGEST or n != math.gcd(n, 30**13) or size < _LINES * n or 1 < inner < _LINES:
            return False
    return True


@functools.lru_cache(64)
def _roots_of_unity(n: int, char: str) -> AnyArray:
    """Return ``exp(-2j * pi * k / n)`` for all k below `n`, rounded once from double precision."""
    return np.exp(-2j * np.pi / n * np.arange(n)).astype(char)


def _factor(norm: str, forward: bool, shape: tuple[int, ...], dims: tuple[int, ...]) -> float:
    """Return the factor of a transform, given the shape of its real or complex signal."""
    if norm == ("backward" if forward else "forward"):
        return 1.0
    size = math.prod([shape[d] for d in dims])
    return 1 / math.sqrt(size) if norm == "ortho" else 1 / size


def _count_parts(lines: int) -> int:
    return -(-lines // _LINES)


def _transforms_complex(backend: NumpyBackend, x: AnyArray, dims: tuple[int, ...], norm: str, forward: bool) -> bool:
    return x.dtype.char in "FD" and _is_supported(x.shape, dims)


def _transforms_real(
    backend: NumpyBackend, x: AnyArray, dims: tuple[int, ...], norm: str, onesided: bool = True
) -> bool:
    return x.dtype.char in "fd" and _is_half_supported(x.shape, dims, x.shape[dims[-1]])


def _transforms_half(backend: NumpyBackend, x: AnyArray, dims: tuple[int, ...], norm: str, last: int) -> bool:
    half = x.shape[dims[-1]] - 1
    return x.dtype.char in "FD" and half == last // 2 and _is_half_supported(x.shape, dims, last)


@functools.lru_cache(256)
def _is_half_supported(shape: tuple[int, ...], dims: tuple[int, ...], n: int) -> bool:
    """Return whether the kernels transform real lines of size `n`, or halves of their spectra, along the last dim.

    `shape` is that of the real numbers or of the spectra.
    """
    lines = shape[:-1]
    return (
        dims[-1] == len(shape) - 1
        and n % 2 == 0
        and _is_supported((*lines, n // 2), dims[-1:])
        and _is_supported((*lines, n // 2 + 1), dims[:-1])
    )


class CompiledFourier(CompiledCalls):
    """Transforms of float32 and float64 numbers along dims of which the last is the array's last, or complex ones."""

    @kernel_for(_transforms_complex)
    def fft_c2c(self, x: AnyArray, dims: tuple[int, ...], norm: str, forward: bool) -> AnyArray:
        out = np.empty(x.shape, x.dtype)
        self._transform_dims(x, out, dims, forward, _factor(norm, forward, x.shape, dims))
        return out

    @kernel_for(_transforms_real)
    def fft_r2c(self, x: AnyArray, dims: tuple[int, ...], norm: str, onesided: bool) -> AnyArray:
        half = self._transform_real(x, dims, norm, 1)
        if onesided:
            return half
        out, size = np.empty(x.shape, half.dtype), half.shape[-1]
        out[..., :size] = half
        mirrored = half[..., x.shape[-1] - size : 0 : -1]
        for d in dims[:-1]:
            mirrored = np.roll(np.flip(mirrored, d), 1, d)
        np.conjugate(mirrored, out=out[..., size:])
        return out

    @kernel_for(_transforms_real)
    def fft_doubled(self, x: AnyArray, dims: tuple[int, ...], norm: str) -> AnyArray:
        return self._transform_real(x, dims, norm, 2)

    @kernel_for(_transforms_half)
    def fft_c2r(self, x: AnyArray, dims: tuple[int, ...], norm: str, last: int) -> AnyArray:
        return self._transform_half(x, dims, norm, last, 1)

    @kernel_for(_transforms_half)
    def fft_mirrored(self, x: AnyArray, dims: tuple[int, ...], norm: str, last: int) -> AnyArray:
        return self._transform_half(x, dims, norm, last, 2)

    def _transform_dims(self, x: AnyArray, out: AnyArray, dims: tuple[int, ...], forward: bool, factor: float) -> None:
        """Write the transform of complex numbers, multiplied by `factor`, to `out`, which may be `x`."""
        for d in reversed(dims):
            n, inner = x.shape[d], math.prod(x.shape[d + 1 :])
            outer = x.size // (n * inner)
            parts = _count_parts(outer) if inner == 1 else outer * _count_parts(inner)
            self._run_transform("complex_transforms", Work(parts, outer, n, inner, not forward, factor), x, out)
            x, factor = out, 1.0

    def _transform_real(self, x: AnyArray, dims: tuple[int, ...], norm: str, weight: int) -> AnyArray:
        """Return the half spectrum; elements that also stand for their mirror image are multiplied by `weight`."""
        n = x.shape[-1]
        lines, factor = x.size // n, _factor(norm, True, x.shape, dims)
        out = np.empty((*x.shape[:-1], n // 2 + 1), x.dtype.char.upper())
        self._run_transform("half_spectra", Work(_count_parts(lines), lines, n, 1, weight, factor), x, out)
        self._transform_dims(out, out, dims[:-1], True, 1.0)
        return out

    def _transform_half(self, x: AnyArray, dims: tuple[int, ...], norm: str, n: int, weight: int) -> AnyArray:
        """Return the real numbers; elements that also stand for their mirror image are divided by `weight` before."""
        out = np.empty((*x.shape[:-1], n), x.dtype.char.lower())
        lines, factor = x.size // x.shape[-1], _factor(norm, False, out.shape, dims)
        if len(dims) > 1:
            transformed = np.empty(x.shape, x.dtype)
            self._transform_dims(x, transformed, dims[:-1], False, 1.0)
            x = transformed
        self._run_transform("real_lines", Work(_count_parts(lines), lines, n, 1, weight, factor), x, out)
        return out

    def _run_transform(self, name: str, work: Work, x: AnyArray, out: AnyArray) -> None:
        """Run a kernel on `x`, copied if its elements are not contiguous and aligned."""
        char, flags = out.dtype.char, x.flags
        if not (flags.c_contiguous and flags.aligned):
            x = np.require(x, None, ("C", "A"))
        self.run_kernel(name, char.lower(), work, x.size, x, out, _roots_of_unity(work.width, char.upper()))
