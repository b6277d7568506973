"""Pooling, windows as columns, and images at points, on CUDA: one kernel each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from gradcore import determinism
from gradcore.backends.cupy.kernels import C_NAMES, NULL, CudaKernels, dense, elements
from gradcore.backends.portable.folding import blocks
from gradcore.backends.portable.sliding import pool_output_size
from gradcore.backends.portable.windows import Windows

__all__ = ["CudaWindows"]

Ints = Sequence[int]

#: Numbers of `grid_sample`'s settings in its kernels.
_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


class _Multiplying:
    """An array library with another `matmul`."""

    def __init__(self, xp: Any, multiplied: Callable[..., Any]) -> None:
        self._xp, self._multiplied = xp, multiplied

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        return self._multiplied(a, b, out)


class CudaWindows(CudaKernels, Windows):
    """Kernels of windows over up to three spatial dims; arrays that they do not take go the way of every backend."""

    bodies: dict[str, Callable[..., Any]]
    sum_into_rows: Any
    _multiplied: Any

    @cached_property
    def conv_library(self) -> Any:
        """CuPy with the products of this package: these can be recorded, and rounded to TensorFloat32."""
        return _Multiplying(self.xp, self._multiplied)

    # -- pooling -------------------------------------------------------------------------------------------------

    def max_pool(
        self, x: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
    ) -> tuple[Any, Any]:
        if not self.takes("windows", x):
            return super().max_pool(x, kernel, stride, padding, dilation, ceil_mode)
        size = x.shape[x.ndim - len(kernel) :]
        outputs = _outputs(size, kernel, stride, padding, dilation, ceil_mode)
        shape = (*x.shape[: x.ndim - len(kernel)], *outputs)
        out, indices = self.xp.empty(shape, x.dtype), self.xp.empty(shape, "int64")
        dims = _dims(size, outputs, kernel, stride, padding, dilation)
        self._run("max_pool", x, (out, indices), out.size, (), dims)
        return out, indices

    def adaptive_max_pool(self, x: Any, size: Ints) -> tuple[Any, Any]:
        if not self.takes("windows", x):
            return super().adaptive_max_pool(x, size)
        shape = (*x.shape[: x.ndim - len(size)], *size)
        out, indices = self.xp.empty(shape, x.dtype), self.xp.empty(shape, "int64")
        self._run("adaptive_max_pool", x, (out, indices), out.size, (), _parts(x.shape, size))
        return out, indices

    def max_pool_spread(self, x: Any, indices: Any, size: Ints, windows: Ints = ()) -> Any:
        n = len(size)
        lead, outputs = x.shape[: x.ndim - n], x.shape[x.ndim - n :]
        if not x.size:
            return super().max_pool_spread(x, indices, size, windows)
        if not windows or not self.takes("windows", x):
            planes, volume = prod(lead), prod(size)
            places = indices.reshape(planes, prod(outputs)) + self.xp.arange(planes).reshape(-1, 1) * volume
            rows = self.sum_into_rows(planes * volume, places.reshape(-1), x.reshape(-1, 1))
            return rows.reshape(*lead, *size)
        out = self.xp.empty((*lead, *size), x.dtype)
        grads = (dense(self.xp, indices), out)
        if len(windows) == n:
            self._run("adaptive_max_pool_backward", x, grads, out.size, (), _parts(size, outputs))
        else:
            settings = (windows[i * n : (i + 1) * n] for i in range(4))
            self._run("max_pool_backward", x, grads, out.size, (), _dims(size, outputs, *settings))
        return out

    def adaptive_avg_pool(self, x: Any, size: Ints) -> Any:
        if not self.takes("windows", x):
            return super().adaptive_avg_pool(x, size)
        out = self.xp.empty((*x.shape[: x.ndim - len(size)], *size), x.dtype)
        self._run("adaptive_avg_pool", x, (out,), out.size, (), _parts(x.shape, size))
        return out

    def adaptive_avg_pool_spread(self, x: Any, size: Ints) -> Any:
        if not self.takes("windows", x):
            return super().adaptive_avg_pool_spread(x, size)
        n = len(size)
        out = self.xp.empty((*x.shape[: x.ndim - n], *size), x.dtype)
        self._run("adaptive_avg_pool_backward", x, (out,), out.size, (), _parts(size, x.shape[x.ndim - n :]))
        return out

    def avg_pool(
        self,
        x: Any,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        if not self.takes("windows", x):
            return super().avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
        size, ones = x.shape[x.ndim - len(kernel) :], (1,) * len(kernel)
        outputs = _outputs(size, kernel, stride, padding, ones, ceil_mode)
        out = self.xp.empty((*x.shape[: x.ndim - len(kernel)], *outputs), x.dtype)
        dims = _dims(size, outputs, kernel, stride, padding, ones)
        self._run("avg_pool", x, (out,), out.size, _mean(count_include_pad, divisor), dims)
        return out

    def avg_pool_spread(
        self,
        x: Any,
        size: Ints,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        if not self.takes("windows", x):
            return super().avg_pool_spread(x, size, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
        n = len(kernel)
        out = self.xp.empty((*x.shape[: x.ndim - n], *size), x.dtype)
        dims = _dims(size, x.shape[x.ndim - n :], kernel, stride, padding, (1,) * n)
        self._run("avg_pool_backward", x, (out,), out.size, _mean(count_include_pad, divisor), dims)
        return out

    # -- columns -------------------------------------------------------------------------------------------------

    def im2col(self, x: Any, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
        if not self.takes("windows", x):
            return super().im2col(x, kernel, dilation, padding, stride)
        (*lead, channels), size = x.shape[: x.ndim - len(kernel)], x.shape[x.ndim - len(kernel) :]
        counts = blocks(size, kernel, dilation, padding, stride)
        out = self.xp.empty((*lead, channels * prod(kernel), prod(counts)), x.dtype)
        dims = _dims(size, counts, kernel, stride, padding, dilation)
        self._run("im2col", x, (out,), out.size, (), dims)
        return out

    def col2im(self, x: Any, size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
        if not self.takes("windows", x):
            return super().col2im(x, size, kernel, dilation, padding, stride)
        counts = blocks(size, kernel, dilation, padding, stride)
        out = self.xp.empty((*x.shape[:-2], x.shape[-2] // prod(kernel), *size), x.dtype)
        self._run("col2im", x, (out,), out.size, (), _dims(size, counts, kernel, stride, padding, dilation))
        return out

    # -- grids ---------------------------------------------------------------------------------------------------

    def grid_sampler(self, x: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool) -> Any:
        out = self.xp.empty((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
        if not self.takes("grids", x, grid) or not out.size:
            return self.bodies["grid_sampler"](self, x, grid, mode, padding_mode, align_corners)
        self._sample("grid_sampler", (x, grid), (out,), out.size, mode, padding_mode, align_corners)
        return out

    def grid_sampler_backward(
        self,
        grad: Any,
        x: Any,
        grid: Any,
        mode: str,
        padding_mode: str,
        align_corners: bool,
        needs: Sequence[bool],
    ) -> tuple[Any, Any]:
        settings = mode, padding_mode, align_corners
        ordered = needs[0] and determinism.are_deterministic_algorithms_enabled()
        if ordered or not self.takes("grids", grad, x, grid):
            return self.bodies["grid_sampler_backward"](self, grad, x, grid, *settings, needs)  # type: ignore[no-any-return]
        xp = self.xp
        summed = x.dtype if x.dtype.itemsize > 2 else np.float32
        to_x = xp.zeros(x.shape, summed) if needs[0] else None
        to_grid = xp.empty(grid.shape, grid.dtype) if needs[1] else None
        results = (NULL if to_x is None else to_x, NULL if to_grid is None else to_grid)
        self._sample("grid_sampler_backward", (grad, x, grid), results, grid.size // grid.shape[-1], *settings)
        return None if to_x is None else to_x.astype(x.dtype, copy=False), to_grid

    def _sample(
        self,
        name: str,
        arrays: tuple[Any, ...],
        results: tuple[Any, ...],
        total: int,
        mode: str,
        padding_mode: str,
        align_corners: bool,
    ) -> None:
        """Launch a kernel of images at points, the last two of the arrays."""
        x, grid = arrays[-2:]
        sizes = (total, x.shape[1], prod(grid.shape[1:-1]), *x.shape[2:], *(1,) * (5 - x.ndim))
        settings = np.int32(_MODES[mode]), np.int32(_PADDINGS[padding_mode]), np.bool_(align_corners)
        kernel = self.cuda_kernel("grids", name, type=C_NAMES[x.dtype.name], dims=str(x.ndim - 2))
        read = [dense(self.xp, a) for a in arrays]
        kernel(*elements(total), (*read, *results, *map(np.int64, sizes), *settings))

    def _run(
        self, name: str, x: Any, results: tuple[Any, ...], total: int, settings: tuple[Any, ...], dims: list[Any]
    ) -> None:
        """Launch a kernel with a thread for each of `total` elements."""
        if total:
            kernel = self.cuda_kernel("windows", name, type=C_NAMES[x.dtype.name])
            kernel(*elements(total), (dense(self.xp, x), *results, np.int64(total), *settings, *dims))


def _outputs(size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool) -> list[int]:
    """How many windows there are along each dim."""
    settings = zip(size, kernel, stride, padding, dilation, strict=True)
    return [pool_output_size(*each, ceil_mode) for each in settings]


def _parts(shape: Ints, outputs: Ints) -> list[Any]:
    """Sizes, and how many parts there are, of each of three dims, which are the last of `shape`."""
    n = len(outputs)
    missing = [(1, 1)] * (3 - n)
    sizes = shape[len(shape) - n :]
    return [np.int64(each) for pair in (*missing, *zip(sizes, outputs, strict=True)) for each in pair]


def _mean(count_include_pad: bool, divisor: int | None) -> tuple[Any, Any]:
    """What sums are divided by: a number, or (0) the count of the elements."""
    return np.bool_(count_include_pad), np.int64(divisor or 0)


def _dims(*settings: Ints) -> list[Any]:
    """Sizes, outputs, kernel, stride, padding and dilation of each of three dims; a missing one has size 1."""
    missing = [(1, 1, 1, 1, 0, 1)] * (3 - len(settings[0]))
    return [np.int64(n) for each in (*missing, *zip(*settings, strict=True)) for n in each]
