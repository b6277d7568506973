"""What the machine can do: the rates of a large copy and of a large matrix product, in float32."""

from __future__ import annotations

import importlib
import time
from typing import Any

__all__ = ["measure_rates"]


def measure_rates(device: str) -> dict[str, float]:
    """Measure the device.

    Parameters
    ----------
    device : str
        ``"cpu"`` (by NumPy) or ``"cuda"`` (by CuPy).

    Returns
    -------
    dict
        ``"copy"``, in bytes read and written a second, and ``"matmul"``, in floating-point operations a second.
    """
    xp: Any = importlib.import_module("cupy" if device == "cuda" else "numpy")
    n, m = (1 << 28, 4096) if device == "cuda" else (1 << 25, 1024)
    source, target = xp.ones(n, "float32"), xp.empty(n, "float32")
    a, b, c = (xp.ones((m, m), "float32") for _ in range(3))

    def fastest(work: Any) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            work()
            if device == "cuda":
                xp.cuda.Device().synchronize()
            times.append(time.perf_counter() - start)
        return min(times)

    def copy() -> None:
        target[...] = source

    return {"copy": 2 * source.nbytes / fastest(copy), "matmul": 2 * m**3 / fastest(lambda: xp.matmul(a, b, out=c))}
