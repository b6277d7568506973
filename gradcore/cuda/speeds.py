"""Measured speeds of a CUDA device, beside its peaks: bandwidth, matrix products, and launch overhead."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gradcore as gc
from gradcore.backends import registry

__all__ = ["Peaks", "compute_peaks", "measure_speeds"]

#: Fused multiply-adds per clock of a multiprocessor in a matrix product, by compute capability: float32 without
#: TensorFloat32, float64, float16, bfloat16. Tensor cores compute the halves, and float64 on data center cards.
_RATES: dict[tuple[int, int], tuple[int, int, int, int]] = {
    (7, 0): (64, 32, 512, 0),
    (7, 5): (64, 2, 512, 0),
    (8, 0): (64, 64, 1024, 1024),
    (8, 6): (128, 2, 512, 512),
    (8, 9): (128, 2, 512, 512),
    (9, 0): (128, 128, 2048, 2048),
    (10, 0): (128, 64, 4096, 4096),
    (12, 0): (128, 2, 512, 512),
}
#: Capabilities of which GeForce cards sum halves in float32 at half the rate of professional cards.
_HALVED = {(8, 6), (8, 9), (12, 0)}
_DTYPES = ("float32", "float64", "float16", "bfloat16")

#: Least seconds of a measured call, whose operands grow until it takes that long, and the largest operands.
_ENOUGH, _MOST_ELEMENTS, _LARGEST_MATRIX = 2e-3, 1 << 27, 8192

_LAUNCHES = 300


class Peaks(NamedTuple):
    """Peak speeds of a device, as its data sheet computes them from its clocks.

    Attributes
    ----------
    bandwidth : float
        GB/s of the memory, or 0 if unknown.
    products : dict
        TFLOP/s of matrix products, by the name of the dtype; only known ones.
    """

    bandwidth: float
    products: dict[str, float]


def compute_peaks(
    name: str, capability: tuple[int, int], multiprocessors: int, clock: int, memory_clock: int, bus_width: int
) -> Peaks:
    """Compute the peak speeds of a device from its properties.

    Parameters
    ----------
    name : str
    capability : tuple of int
    multiprocessors : int
    clock, memory_clock : int
        In kHz.
    bus_width : int
        In bits. The memory transfers twice per clock.
    """
    rates = dict(zip(_DTYPES, _RATES.get(capability, ()), strict=False))
    if capability in _HALVED and "GeForce" in name:
        rates = {kind: rate // 2 if kind.endswith("float16") else rate for kind, rate in rates.items()}
    products = {kind: 2 * rate * multiprocessors * clock / 1e9 for kind, rate in rates.items() if rate and clock}
    return Peaks(2 * memory_clock * bus_width / 8 / 1e6, products)


def measure_speeds(device: str) -> list[str]:
    """Return lines of a report: GB/s of an addition, TFLOP/s of a product in each dtype, and the time of a call.

    Speeds are shown as shares of the device's peaks, where these are known.
    """
    lines = []
    facts: Any = registry.find("cuda").xp.cuda.Device(gc.device(device).index).attributes
    clocks = [facts.get(key, 0) for key in ("ClockRate", "MemoryClockRate", "GlobalMemoryBusWidth")]
    card, capability = gc.cuda.get_device_name(device), gc.cuda.get_device_capability(device)
    peaks = compute_peaks(card, capability, facts["MultiProcessorCount"], *clocks)
    with gc.no_grad(), gc.cuda.device(device):
        for kind in _DTYPES:
            dtype = getattr(gc, kind)
            added = _describe(_bandwidth(dtype), peaks.bandwidth, "GB/s adding")
            multiplied = _describe(_products(dtype), peaks.products.get(kind, 0), "TFLOP/s multiplying")
            lines.append(f"{device} {kind}: {added}, {multiplied}")
        x = gc.zeros(1, device=device)
        seconds = _seconds(lambda: [x.add_(1) for _ in range(_LAUNCHES)])
        lines.append(f"{device} {1e6 * seconds / _LAUNCHES:.1f} microseconds for an operation of one element")
    return lines


def _describe(speed: float, peak: float, unit: str) -> str:
    share = f" ({100 * speed / peak:.0f} % of {peak:.4g})" if peak else ""
    return f"{speed:.4g} {unit}{share}"


def _seconds(run: Callable[[], object]) -> float:
    """Return the shortest time of three calls of `run`, after one call that compiles kernels."""
    run()
    times = []
    for _ in range(3):
        gc.cuda.synchronize()
        begin = time.perf_counter()
        run()
        gc.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times)


def _bandwidth(dtype: Any) -> float:
    """Return the bandwidth of an addition, in GB read and written per second."""
    count = 1 << 16
    while True:
        x, y = gc.ones(count, dtype=dtype, device="cuda"), gc.ones(count, dtype=dtype, device="cuda")
        seconds = _seconds(lambda x=x, y=y: x + y)  # type: ignore[misc]
        if seconds > _ENOUGH or count >= _MOST_ELEMENTS:
            return float(3 * count * x.element_size() / seconds / 1e9)
        count *= 4


def _products(dtype: Any) -> float:
    """Return the speed of a product of square matrices, in TFLOP/s."""
    n = 128
    while True:
        x = gc.ones(n, n, dtype=dtype, device="cuda")
        seconds = _seconds(lambda x=x: x @ x)  # type: ignore[misc]
        if seconds > _ENOUGH or n >= _LARGEST_MATRIX:
            return float(2 * n**3 / seconds / 1e12)
        n *= 2
