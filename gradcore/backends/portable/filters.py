"""Kernels of filters, splines and cosine transforms that call SciPy's functions, or CuPy's of the same names."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from gradcore.backends.kernel_methods import kernel_for

__all__ = ["Filters"]

Offsets = Sequence[Sequence[int]]


@lru_cache
def _import(name: str) -> Any:
    """Import a module, without the warning that some of CuPy's give about its experimental JIT."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "cupyx.jit.rawkernel is experimental", FutureWarning)
        return importlib.import_module(name)


def _there(self: Any, *args: Any) -> bool:
    return self.scipy_name is not None


def _is_inexact(self: Any, x: Any, *args: Any) -> bool:
    """Return whether `x` is floating-point or complex. For other dtypes, SciPy returns a different result dtype."""
    return _there(self) and x.dtype.kind in "fc"


def _fits_one_call(self: Any, x: Any, weights: Any, dims: Sequence[int], by: str) -> bool:
    """Return whether one call of SciPy filters along all of `dims`, at a cost that pays off."""
    taps = prod(weights.shape[d] for d in dims)
    return _is_inexact(self, x) and by == "direct" and weights.size == taps and taps * taps <= x.size


def _has_values_only(self: Any, x: Any, coordinates: Any, order: int, mode: str, derivatives: Sequence[int]) -> bool:
    """Return whether no derivatives are needed, and `x` consists of few grids of float64 or complex128."""
    grids = prod(x.shape[: x.ndim - coordinates.shape[0]])
    return _there(self) and not any(derivatives) and grids <= 4 and x.dtype.char in "dD"


def _is_exact(self: Any, x: Any, dim: int, order: int, mode: str) -> bool:
    """Return whether SciPy's spline filter is exact along `dim`: it truncates the sums of short reflected inputs."""
    return _there(self) and x.dtype.kind in "fc" and x.shape[dim] > (40 if mode == "reflect" else 1)


def _has_small_footprint(self: Any, x: Any, offsets: Offsets, sizes: Sequence[int], rank: int) -> bool:
    """Return whether SciPy's rank filter can be called without reading a footprint from a device."""
    is_full_window = len(offsets) == prod(_window(x, sizes))
    return _there(self) and x.dtype.kind == "f" and (is_full_window or self.host_scalars)


def _window(x: Any, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the size of the windows for which `x` has `sizes` positions."""
    return tuple(n - m + 1 for n, m in zip(x.shape, sizes, strict=True))


def _supports_type(self: Any, x: Any, kind: str, type: int, dim: int) -> bool:
    return _there(self) and type in self.scipy_trigonometric_types


class Filters:
    """Filters of images that call SciPy's functions. For other cases, the body of the operation runs."""

    xp: Any
    #: Name of the package with the library's counterparts of SciPy's modules.
    scipy_name: str | None = None
    #: Types of cosine transforms that the package supports.
    scipy_trigonometric_types: tuple[int, ...] = (1, 2, 3, 4)

    def scipy(self, module: str) -> Any:
        """Import and return the library's counterpart of the SciPy module `module`."""
        return _import(f"{self.scipy_name}.{module}")

    @kernel_for(_fits_one_call)
    def correlate_valid(self, x: Any, weights: Any, dims: Sequence[int], by: str) -> Any:
        ndimage, x = self.scipy("ndimage"), self.xp.ascontiguousarray(x)  # SciPy misreads repeated elements.
        longer = [d for d in dims if weights.shape[d] > 1]
        if len(longer) == 1 and weights.dtype.kind != "c":
            result = ndimage.correlate1d(x, weights.reshape(-1), longer[0], mode="constant")
        else:
            unit_dims = [1] * (x.ndim - weights.ndim)
            result = ndimage.correlate(x, weights.reshape(*unit_dims, *weights.shape).conj(), mode="constant")
        middle = [weights.shape[d] // 2 if d in dims else 0 for d in range(x.ndim)]
        sizes = [n - weights.shape[d] + 1 if d in dims else n for d, n in enumerate(x.shape)]
        return result[tuple(slice(m, m + n) for m, n in zip(middle, sizes, strict=True))]

    @kernel_for(_has_small_footprint)
    def select_rank(self, x: Any, offsets: Offsets, sizes: Sequence[int], rank: int) -> Any:
        window = _window(x, sizes)
        if len(offsets) == prod(window):
            shape: dict[str, Any] = {"size": window}
        else:
            shape = {"footprint": np.zeros(window, bool)}
            shape["footprint"][tuple(map(list, zip(*offsets, strict=True)))] = True
        rank_filter, x = self.scipy("ndimage").rank_filter, self.xp.ascontiguousarray(x)  # as in `correlate_valid`
        result = rank_filter(x, rank, **shape, mode="nearest")
        return result[tuple(slice(n // 2, n // 2 + m) for n, m in zip(window, sizes, strict=True))]

    @kernel_for(_is_exact)
    def spline_coefficients(self, x: Any, dim: int, order: int, mode: str) -> Any:
        return self.scipy("ndimage").spline_filter1d(x, order, dim, output=x.dtype, mode=mode)

    @kernel_for(_has_values_only)
    def spline_sample(self, x: Any, coordinates: Any, order: int, mode: str, derivatives: Sequence[int]) -> Any:
        lead = x.shape[: x.ndim - coordinates.shape[0]]
        points = coordinates.reshape(len(coordinates), -1).astype("float64", copy=False)
        evaluate = self.scipy("ndimage").map_coordinates
        samples = [
            evaluate(grid, points, order=order, mode=mode, prefilter=False)
            for grid in x.reshape(-1, *x.shape[len(lead) :])
        ]
        return self.xp.stack(samples).reshape(*lead, *coordinates.shape[1:])

    @kernel_for(_is_inexact)
    def recursive_filter(self, x: Any, b: Any, a: Any, dim: int) -> Any:
        return self.scipy("signal").lfilter(b, a, x, dim)

    @kernel_for(_is_inexact)
    def rate_filter(self, x: Any, h: Any, up: int, down: int, dim: int) -> Any:
        x = self.xp.ascontiguousarray(x)  # SciPy misreads arrays whose strides are no multiples of the element size.
        return self.scipy("signal").upfirdn(h, x, up, down, dim)

    @kernel_for(_supports_type)
    def trigonometric_transform(self, x: Any, kind: str, type: int, dim: int) -> Any:
        transform = getattr(self.scipy("fft"), {"cos": "dct", "sin": "dst"}[kind])
        return transform(x, type, axis=dim, norm="ortho")
