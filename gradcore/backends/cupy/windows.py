"""Pooling, im2col and grid sampling on CUDA: one kernel each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.cupy.kernels import NULL, CudaKernels, accumulation_dtype, dense, elements, type_name
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.folding import Blocks, Folding
from gradcore.backends.portable.pooling import AvgPool, MaxPool, Pooling
from gradcore.backends.portable.sliding import pool_output_size
from gradcore.core import determinism
from gradcore.core.typing import AnyArray

__all__ = ["CudaWindows"]

Ints = Sequence[int]

#: Numbers of `grid_sample`'s settings in its kernels.
_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


class GridSettings(NamedTuple):
    """Settings of `grid_sampler`."""

    mode: str
    padding_mode: str
    align_corners: bool


def _takes(backend: CudaWindows, x: AnyArray, *settings: Any) -> bool:
    return backend.takes("windows", x)


class CudaWindows(CudaKernels, Pooling, Folding):
    """Kernels of windows over up to three spatial dims; unsupported arrays use the portable code."""

    bodies: dict[str, Callable[..., Any]]
    sum_into_rows: Any

    # -- pooling -------------------------------------------------------------------------------------------------

    @kernel_for(_takes, MaxPool)
    def max_pool(self, x: AnyArray, window: MaxPool) -> tuple[AnyArray, AnyArray]:
        lead, size = _split(x, len(window.kernel))
        outputs = [pool_output_size(*each, window.ceil_mode) for each in zip(size, *window[:4], strict=True)]
        out, indices = self.allocate((*lead, *outputs), x.dtype), self.allocate((*lead, *outputs), "int64")
        self._run("max_pool", x, (out, indices), out.size, (), _dims(size, outputs, *window[:4]))
        return out, indices

    @kernel_for(_takes)
    def adaptive_max_pool(self, x: AnyArray, size: Ints) -> tuple[AnyArray, AnyArray]:
        shape = (*_split(x, len(size))[0], *size)
        out, indices = self.allocate(shape, x.dtype), self.allocate(shape, "int64")
        self._run("adaptive_max_pool", x, (out, indices), out.size, (), _parts(x.shape, size))
        return out, indices

    def max_pool_spread(self, x: AnyArray, indices: AnyArray, size: Ints, windows: Ints = ()) -> AnyArray:
        n = len(size)
        lead, outputs = _split(x, n)
        if not x.size:
            return self.xp.zeros((*lead, *size), x.dtype)
        if not windows or not self.takes("windows", x):
            planes, volume = prod(lead), prod(size)
            positions = indices.reshape(planes, prod(outputs)) + self.xp.arange(planes).reshape(-1, 1) * volume
            rows = self.sum_into_rows(planes * volume, positions.reshape(-1), x.reshape(-1, 1))
            return rows.reshape(*lead, *size)
        out = self.allocate((*lead, *size), x.dtype)
        grads = (dense(self.xp, indices), out)
        if len(windows) == n:
            self._run("adaptive_max_pool_backward", x, grads, out.size, (), _parts(size, outputs))
        else:
            settings = (windows[i * n : (i + 1) * n] for i in range(4))
            self._run("max_pool_backward", x, grads, out.size, (), _dims(size, outputs, *settings))
        return out

    @kernel_for(_takes)
    def adaptive_avg_pool(self, x: AnyArray, size: Ints) -> AnyArray:
        out = self.allocate((*_split(x, len(size))[0], *size), x.dtype)
        self._run("adaptive_avg_pool", x, (out,), out.size, (), _parts(x.shape, size))
        return out

    @kernel_for(_takes)
    def adaptive_avg_pool_spread(self, grad: AnyArray, size: Ints) -> AnyArray:
        lead, outputs = _split(grad, len(size))
        out = self.allocate((*lead, *size), grad.dtype)
        self._run("adaptive_avg_pool_backward", grad, (out,), out.size, (), _parts(size, outputs))
        return out

    @kernel_for(_takes, AvgPool)
    def avg_pool(self, x: AnyArray, window: AvgPool) -> AnyArray:
        lead, size = _split(x, len(window.kernel))
        dims = *window[:3], (1,) * len(size)
        outputs = [pool_output_size(*each, window.ceil_mode) for each in zip(size, *dims, strict=True)]
        out = self.allocate((*lead, *outputs), x.dtype)
        self._run("avg_pool", x, (out,), out.size, _mean(window), _dims(size, outputs, *dims))
        return out

    @kernel_for(_takes, AvgPool)
    def avg_pool_spread(self, grad: AnyArray, size: Ints, window: AvgPool) -> AnyArray:
        lead, outputs = _split(grad, len(size))
        out = self.allocate((*lead, *size), grad.dtype)
        dims = _dims(size, outputs, *window[:3], (1,) * len(size))
        self._run("avg_pool_backward", grad, (out,), out.size, _mean(window), dims)
        return out

    # -- columns -------------------------------------------------------------------------------------------------

    @kernel_for(_takes, Blocks)
    def im2col(self, x: AnyArray, blocks: Blocks) -> AnyArray:
        (*lead, channels), size = _split(x, len(blocks.kernel))
        counts = blocks.counts(size)
        out = self.allocate((*lead, channels * prod(blocks.kernel), prod(counts)), x.dtype)
        self._run("im2col", x, (out,), out.size, (), _block_dims(size, counts, blocks))
        return out

    @kernel_for(_takes, Blocks)
    def col2im(self, x: AnyArray, size: Ints, blocks: Blocks) -> AnyArray:
        out = self.allocate((*x.shape[:-2], x.shape[-2] // prod(blocks.kernel), *size), x.dtype)
        self._run("col2im", x, (out,), out.size, (), _block_dims(size, blocks.counts(size), blocks))
        return out

    # -- grids ---------------------------------------------------------------------------------------------------

    def grid_sampler(self, x: AnyArray, grid: AnyArray, *settings: Any) -> AnyArray:
        out = self.allocate((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
        if not self.takes("grids", x, grid) or not out.size:
            return self.bodies["grid_sampler"](self, x, grid, *settings)
        self._sample("grid_sampler", (x, grid), (out,), out.size, GridSettings(*settings))
        return out

    def grid_sampler_backward(
        self, grad: AnyArray, x: AnyArray, grid: AnyArray, *settings: Any
    ) -> tuple[AnyArray, AnyArray]:
        *sampling, needs = settings
        ordered = needs[0] and determinism.are_deterministic_algorithms_enabled()
        if ordered or not self.takes("grids", grad, x, grid):
            return self.bodies["grid_sampler_backward"](self, grad, x, grid, *settings)
        xp = self.xp
        to_x = xp.zeros(x.shape, accumulation_dtype(x)) if needs[0] else None
        to_grid = self.allocate(grid.shape, grid.dtype) if needs[1] else None
        results = (NULL if to_x is None else to_x, NULL if to_grid is None else to_grid)
        points = grid.size // grid.shape[-1]
        self._sample("grid_sampler_backward", (grad, x, grid), results, points, GridSettings(*sampling))
        return None if to_x is None else to_x.astype(x.dtype, copy=False), to_grid

    def _sample(
        self, name: str, arrays: tuple[AnyArray, ...], results: tuple[AnyArray, ...], total: int, settings: GridSettings
    ) -> None:
        """Launch a grid sampling kernel. The last two of `arrays` are the images and the grid."""
        x, grid = arrays[-2:]
        sizes = (total, x.shape[1], prod(grid.shape[1:-1]), *x.shape[2:], *(1,) * (5 - x.ndim))
        kernel = self.cuda_kernel("grids", name, type=type_name(x.dtype), dims=str(x.ndim - 2))
        inputs = [dense(self.xp, a) for a in arrays]
        mode, padding, corners = settings
        numbers = np.int32(_MODES[mode]), np.int32(_PADDINGS[padding]), np.bool_(corners)
        kernel(*elements(total), (*inputs, *results, *self.int64s(*sizes), *numbers))

    def _run(
        self, name: str, x: Any, results: tuple[Any, ...], total: int, settings: tuple[Any, ...], dims: list[Any]
    ) -> None:
        """Launch the kernel `name` with one thread for each of `total` elements."""
        if total:
            index = "i32" if _fits(max(total, x.size), dims) else "i64"
            kernel = self.cuda_kernel("windows", name, type=type_name(x.dtype), index=index)
            kernel(*elements(total), (dense(self.xp, x), *results, np.int64(total), *settings, *dims))


def _fits(most: int, dims: Sequence[np.int64]) -> bool:
    """Return whether indices, and sums of them, fit into 32 bits for arrays of up to `most` elements."""
    if len(dims) == 6:  # parts: places are multiplied with sizes
        largest_index = max((int(dims[i]) + 1) * (int(dims[i + 1]) + 1) for i in (0, 2, 4))
    else:
        size, outputs, kernel, stride, padding, dilation = (max(map(int, dims[i::6])) for i in range(6))
        largest_index = size + (outputs + 1) * stride + 2 * padding + (kernel + 1) * dilation
        most = max(most, prod(map(int, dims[2::6])))
    return max(most, largest_index) < 1 << 30


def _split(x: AnyArray, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split the shape of `x` into its leading dims and the last `n`."""
    return x.shape[: x.ndim - n], x.shape[x.ndim - n :]


def _parts(shape: Ints, outputs: Ints) -> list[Any]:
    """Return the input and output sizes of three spatial dims, the last dims of `shape`. Missing dims have size 1."""
    n = len(outputs)
    missing = [(1, 1)] * (3 - n)
    sizes = shape[len(shape) - n :]
    return [np.int64(each) for pair in (*missing, *zip(sizes, outputs, strict=True)) for each in pair]


def _mean(window: AvgPool) -> tuple[Any, Any]:
    """Return whether averages count the padding, and their divisor (0: the number of elements)."""
    return np.bool_(window.count_include_pad), np.int64(window.divisor or 0)


def _block_dims(size: Ints, counts: Ints, blocks: Blocks) -> list[Any]:
    return _dims(size, counts, blocks.kernel, blocks.stride, blocks.padding, blocks.dilation)


def _dims(*settings: Ints) -> list[Any]:
    """Return size, outputs, kernel, stride, padding and dilation of three spatial dims. Missing dims have size 1."""
    missing = [(1, 1, 1, 1, 0, 1)] * (3 - len(settings[0]))
    return [np.int64(n) for each in (*missing, *zip(*settings, strict=True)) for n in each]
