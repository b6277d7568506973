"""Image resizing (`interpolate`) on CUDA: one kernel for all spatial dims, and one for its adjoint."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.cupy.kernels import CudaKernels, accumulation_dtype, dense, elements, type_name
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.portable.resampling import Resizing, maps_by_dim
from gradcore.backends.portable.separable import Taps, on_device
from gradcore.core.typing import AnyArray

__all__ = ["CudaResizing"]

#: Number of inputs per output from which mapping one dim after another is cheaper.
_MOST_TAPS = 1024


def _takes(backend: CudaResizing, x: AnyArray, size: Sequence[int], *settings: object) -> bool:
    return x.ndim <= 5 and 0 not in size and backend.takes("windows", x)


class CudaResizing(CudaKernels, Resizing):
    """Resampling over up to three spatial dims."""

    @kernel_for(_takes)
    def resample(self, x: AnyArray, size: Sequence[int], *settings: Any) -> AnyArray:
        return self._map(x, maps_by_dim(np.dtype(accumulation_dtype(x)), x.shape[2:], size, *settings))

    @kernel_for(_takes)
    def resample_backward(self, grad: AnyArray, size: Sequence[int], *settings: Any) -> AnyArray:
        maps = maps_by_dim(np.dtype(accumulation_dtype(grad)), size, grad.shape[2:], *settings)
        return self._map(grad, [(dim, taps.adjoint) for dim, taps in reversed(maps)])

    def _map(self, x: AnyArray, maps: list[tuple[int, Taps]]) -> AnyArray:
        """Apply the maps of the spatial dims: in one launch, or dim by dim if an output has very many inputs."""
        at_once = prod(_count_taps(taps) for _, taps in maps) <= _MOST_TAPS
        for part in [maps] if at_once else [[each] for each in maps]:
            chosen = dict(part)
            spatial_maps = (chosen.get(dim) or _identity(x.shape[dim]) for dim in range(2, x.ndim))
            x = self._map_at_once(x, (*[_identity(1)] * (5 - x.ndim), *spatial_maps))
        return x

    def _map_at_once(self, x: AnyArray, maps: tuple[Taps, ...]) -> AnyArray:
        outputs = [taps.outputs for taps in maps[5 - x.ndim :]]
        out = self.allocate((*x.shape[:2], *outputs), x.dtype)
        sources, weights, sizes = _tables(maps, np.dtype(accumulation_dtype(x)))
        index = "i32" if max(out.size, x.size) < 1 << 30 else "i64"
        kernel = self.cuda_kernel("windows", "resample", type=type_name(x.dtype), index=index)
        tables = on_device(self.xp, sources), on_device(self.xp, weights)
        kernel(*elements(out.size), (dense(self.xp, x), out, np.int64(out.size), *tables, *self.int64s(*sizes)))
        return out


@lru_cache(maxsize=256)
def _identity(size: int) -> Taps:
    return Taps.of_table(size, np.arange(size)[:, None])


def _count_taps(taps: Taps) -> int:
    """Return the largest number of inputs of an output."""
    return 1 + max((step.tap for step in taps.steps), default=0)


@lru_cache(maxsize=256)
def _tables(maps: tuple[Taps, ...], dtype: np.dtype[Any]) -> tuple[AnyArray, AnyArray, tuple[int, ...]]:
    """Return the input indices (-1 for none) and weights of the outputs of all maps, concatenated, and their sizes."""
    sources, weights, sizes = [], [], []
    for taps in maps:
        count = _count_taps(taps)
        source, weight = np.full((taps.outputs, count), -1, np.int32), np.ones((taps.outputs, count), dtype)
        for step in taps.steps:
            source[step.outputs, step.tap] = np.arange(taps.inputs)[step.inputs]
            if step.weights is not None:
                weight[step.outputs, step.tap] = step.weights
        sources.append(source.ravel())
        weights.append(weight.ravel())
        sizes += [taps.inputs, taps.outputs, count]
    return np.concatenate(sources), np.concatenate(weights), tuple(sizes)
