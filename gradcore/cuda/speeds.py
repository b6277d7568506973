"""Measured speeds of a CUDA device: bandwidth, matrix products, and launch overhead."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gradcore as gc

__all__ = ["measure_speeds"]

#: Least seconds of a measured call, whose operands grow until it takes that long, and the largest operands.
_ENOUGH, _MOST_ELEMENTS, _LARGEST_MATRIX = 2e-3, 1 << 27, 8192

_LAUNCHES = 300


def measure_speeds(device: str) -> list[str]:
    """Return lines of a report: GB/s of an addition, TFLOP/s of a product in each dtype, and the time of a call."""
    lines = []
    with gc.no_grad(), gc.cuda.device(device):
        for dtype in (gc.float32, gc.float64, gc.float16, gc.bfloat16):
            name = str(dtype).removeprefix("torch.")
            added, multiplied = _bandwidth(dtype), _products(dtype)
            lines.append(f"{device} {name}: {added:.3g} GB/s adding, {multiplied:.3g} TFLOP/s multiplying")
        x = gc.zeros(1, device=device)
        seconds = _seconds(lambda: [x.add_(1) for _ in range(_LAUNCHES)])
        lines.append(f"{device} {1e6 * seconds / _LAUNCHES:.1f} microseconds for an operation of one element")
    return lines


def _seconds(run: Callable[[], Any]) -> float:
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
