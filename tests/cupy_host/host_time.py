"""The time that the host needs for calls on CUDA tensors, as multiples of CuPy's own calls.

``CUPY_HOST=1 PYTHONPATH=$PWD ~/.cache/cupy-host/venv/bin/python -m tests.cupy_host.host_time`` prints a table. Kernels
and libraries leave their work out meanwhile, so that only Python, CuPy and the rig's launches are measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import gradcore as gc

F = gc.nn.functional


def calls() -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Yield pairs of a call on tensors and one on CuPy's arrays that computes the same or launches as many kernels."""
    import cupy

    x, y, v = (gc.randn(*shape).to("cuda").requires_grad_() for shape in ((8, 8), (8, 8), (64,)))
    i = gc.arange(4, device="cuda")
    a, b, c, k = (t.detach()._array for t in (x, y, v, i))
    t = x.detach().clone()
    yield "x + y", lambda: x + y, lambda: a + b
    yield "x * 2.0", lambda: x * 2.0, lambda: a * 2.0
    yield "x.mul_(0.5)", lambda: t.mul_(0.5), lambda: cupy.multiply(t._array, 0.5, t._array)
    yield "x.exp()", lambda: x.exp(), lambda: cupy.exp(a)
    yield "x ** 2", lambda: x**2, lambda: a**2
    yield "x.sigmoid()", lambda: x.sigmoid(), lambda: cupy.tanh(a)
    yield "gelu(x)", lambda: F.gelu(x), lambda: cupy.tanh(a)
    yield "x.softmax(-1)", lambda: x.softmax(-1), lambda: cupy.tanh(a)
    yield "layer_norm(x)", lambda: F.layer_norm(x, (8,)), lambda: cupy.tanh(a)
    yield "x.sum()", lambda: x.sum(), lambda: a.sum()
    yield "x @ y", lambda: x @ y, lambda: a @ b
    yield "x.reshape(64)", lambda: x.reshape(64), lambda: a.reshape(64)
    yield "x[1]", lambda: x[1], lambda: a[1]
    yield "x[i]", lambda: x[i], lambda: a[k]
    yield "v.take(i)", lambda: v.take(i), lambda: c.take(k)
    yield "empty(8, 8)", lambda: gc.empty(8, 8, device="cuda"), lambda: cupy.empty((8, 8), "f")
    yield "x.fill_(1.0)", lambda: t.fill_(1.0), lambda: t._array.fill(1.0)


def transformer_step() -> Callable[[], Any]:
    """Return a function that runs a transformer layer forward and backward."""
    layer = gc.nn.TransformerEncoderLayer(64, 4, 128, 0.1, batch_first=True).to("cuda")
    x = gc.randn(8, 16, 64, device="cuda")

    def step() -> None:
        layer.zero_grad()
        layer(x).sum().backward()

    return step


def measure(call: Callable[[], Any], count: int) -> float:
    """Return the microseconds of CPU time of a call."""
    start = time.thread_time_ns()
    for _ in range(count):
        call()
    return (time.thread_time_ns() - start) / count / 1000


def main() -> None:
    """Print the table."""
    import cupy_host

    cupy_host.skip_work(True)
    print(f"{'call':16} {'ratio':>6} {'us':>7} {'CuPy':>7}")
    for name, call, own in calls():
        for run in (call, own):
            measure(run, 5)
        pairs = [(measure(call, 40), measure(own, 40)) for _ in range(9)]
        ratio, ours, others = (
            statistics.median(each) for each in ([p / q for p, q in pairs], *zip(*pairs, strict=True))
        )
        print(f"{name:16} {ratio:6.2f} {ours:7.1f} {others:7.1f}")
    step = transformer_step()
    measure(step, 5)
    print(f"transformer layer, forward and backward: {min(measure(step, 4) for _ in range(20)):.0f} us")


if __name__ == "__main__":
    main()
