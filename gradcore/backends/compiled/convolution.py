"""Convolution of float32 and float64 by the compiled library. Kernels of one tap are left to BLAS."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.compiled.calls import CompiledCalls
from gradcore.backends.kernel_methods import kernel_for
from gradcore.backends.numpy import threads
from gradcore.backends.portable.convolution import ConvSettings
from gradcore.backends.portable.sliding import phases
from gradcore.core.typing import AnyArray

__all__ = ["CompiledConvolution", "geometry_of"]

Ints = Sequence[int]

#: The elements of a register, by dtype, for which kernels are written: of 64 bytes, or of less where the CPU has less.
_LANES = {"f": 16, "d": 8}
#: The least share of SIMD lanes that must have an output.
_USED = 0.4


def _tuples(settings: ConvSettings) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]:
    return tuple(settings.stride), tuple(settings.padding), tuple(settings.dilation), settings.groups


def _is_exact(settings: ConvSettings) -> bool:
    """Return whether memory offsets, which are products of these settings, fit into 64 bits."""
    return max(*settings.stride, *settings.padding, *settings.dilation) < 1 << 24


def _has_outputs(backend: Any, x: AnyArray, grad: AnyArray, kernel: Ints, settings: ConvSettings) -> bool:
    """Return whether enough SIMD lanes have an output. Kernels of one tap are left to BLAS."""
    return (
        prod(kernel) > 1
        and _is_exact(settings)
        and grad.shape[1] // settings.groups >= _USED * _LANES.get(x.dtype.char, np.inf)
    )


class CompiledConvolution(CompiledCalls):
    """Cross-correlation of images with weights, and the gradient by the weights."""

    def correlate(self, x: AnyArray, weight: AnyArray, settings: ConvSettings, out: AnyArray) -> None:
        geometry = None
        taps = prod(weight.shape[2:])
        if x.dtype.char in _LANES and taps > 1 and out.size and x.size and weight.size and _is_exact(settings):
            geometry = _geometry(x.shape, weight.shape, out.shape[2:], *_tuples(settings))
        if geometry is None or geometry.used[x.dtype.char] < _USED:
            super().correlate(x, weight, settings, out)
            return
        arrays = np.ascontiguousarray(x), np.ascontiguousarray(weight), out
        self._function("gradcore_correlate", x.dtype.char)(threads.available(), geometry.numbers, *arrays)

    @kernel_for(_has_outputs)
    def weight_gradient(self, x: AnyArray, grad: AnyArray, kernel: Ints, settings: ConvSettings) -> AnyArray:
        groups = settings.groups
        shape = grad.shape[1], x.shape[1] // groups, *kernel
        geometry = _geometry(x.shape, shape, grad.shape[2:], *_tuples(settings))
        x, grad = np.ascontiguousarray(x), np.ascontiguousarray(grad)
        out = np.empty((groups, grad.shape[1] // groups, prod(shape[1:])), x.dtype)
        function = self._function("gradcore_sum_windows", x.dtype.char)
        function(threads.available(), geometry.numbers, x, grad, out)
        return out


def geometry_of(
    char: str, x: tuple[int, ...], weight: tuple[int, ...], spatial: tuple[int, ...], settings: ConvSettings
) -> list[int] | None:
    """Return the sizes for the library's kernels, or None if they do not support these shapes."""
    if char not in _LANES or prod(weight[2:]) < 2:
        return None
    geometry = _geometry(x, weight, spatial, *_tuples(settings))
    return geometry.numbers.tolist() if geometry.used[char] >= _USED else None


class Geometry(NamedTuple):
    """The C structure `Geometry` of `convolution.cpp`, and the share of SIMD lanes that have an output, by dtype."""

    numbers: np.ndarray[Any, np.dtype[np.int64]]
    used: dict[str, float]


@lru_cache(maxsize=256)
def _geometry(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    spatial: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Geometry:
    """Fill the C structure for 1 to 3 spatial dims. Missing dims are the first ones, of size 1."""
    kernel = weight[2:]
    missing = 3 - len(kernel)
    by_dim = list(map(phases, kernel, stride, dilation))
    phases_of_dims = list(product(*by_dim))
    reach = [max(phase.reach for phase in each) for each in by_dim]
    head = [x[0], groups, weight[1], weight[0] // groups, prod(kernel), len(phases_of_dims)]
    dims = [[fill] * missing + list(each) for fill, each in ((1, spatial), (0, reach), (1, x[2:]), (1, stride))]
    starts = [
        [0] * missing + [each.residue - p for each, p in zip(phase, padding, strict=True)] for phase in phases_of_dims
    ]
    reads_by_tap = {}
    for number, phase in enumerate(phases_of_dims):
        for taps in product(*[range(each.number) for each in phase]):
            pairs = list(zip(phase, taps, strict=True))
            shift = [each.shift + k * each.step for each, k in pairs]
            reads_by_tap[tuple(each.first + k * each.period for each, k in pairs)] = [number, *[0] * missing, *shift]
    reads = [reads_by_tap[tap] for tap in product(*map(range, kernel))]
    numbers = [*head, *chain(*dims), missing, *chain(*starts), *chain(*reads)]
    last = 0
    for n, r in zip(spatial, reach, strict=True):
        last = last * (n + r) + n - 1
    rows, width = prod(spatial[:-1]), spatial[-1]
    registers = {lanes: min(-(-(last + 1) // lanes), rows * -(-width // lanes)) for lanes in _LANES.values()}
    usage = {char: prod(spatial) / (registers[lanes] * lanes) for char, lanes in _LANES.items()}
    return Geometry(np.array(numbers, np.int64), usage)
