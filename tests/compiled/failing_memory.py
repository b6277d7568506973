"""Calls of kernels that lack memory, in a process of their own: ``python -m tests.compiled.failing_memory LIBRARY``.

`LIBRARY` is made of `failing_memory.cpp`. It is loaded before gradcore's library, which then takes its memory from it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

#: Calls of a kernel take less memory than this number of allocations.
MOST = 1000


def count_failures(fail_after: Callable[[int], object], call: Callable[[], Any]) -> tuple[int, Any]:
    """Return how many allocations of a call can fail, and the result of the first call of which none does."""
    for count in range(MOST):
        fail_after(count)
        try:
            result = call()
        except MemoryError:
            continue
        finally:
            fail_after(-1)
        return count, result
    raise AssertionError("the call never gets all its memory")


def cases() -> dict[str, Callable[[], Any]]:
    """Return calls, by name, whose kernels take memory."""
    import numpy as np

    import gradcore as gc

    F = gc.nn.functional
    random = np.random.default_rng(0)

    def numbers(*shape: int) -> Any:
        return gc.tensor(random.standard_normal(shape, np.float32), requires_grad=True)

    def with_gradients(function: Callable[..., Any], *inputs: Any) -> Callable[[], Any]:
        def call() -> Any:
            result = function(*inputs)
            return [result.detach(), *gc.autograd.grad(result.sum(), inputs)]

        return call

    gc.manual_seed(0)
    lstm, gru = gc.nn.LSTM(8, 64), gc.nn.GRU(8, 64)
    images = numbers(4, 128, 512).detach()
    integers = gc.tensor(random.integers(0, 1000, (4, 5000)))
    targets, lengths = gc.tensor(random.integers(1, 6, (4, 5))), gc.full((4,), 30)
    return {
        "attention": with_gradients(F.scaled_dot_product_attention, *(numbers(4, 4, 64, 16) for _ in range(3))),
        "convolution": with_gradients(
            lambda x, w: F.conv2d(x, w, padding=1), numbers(8, 16, 14, 14), numbers(16, 16, 3, 3)
        ),
        "ctc": with_gradients(
            lambda x: F.ctc_loss(x.log_softmax(2), targets, lengths, gc.full((4,), 5)), numbers(30, 4, 6)
        ),
        "fft": with_gradients(lambda x: gc.fft.irfft(gc.fft.rfft(x)), numbers(64, 1024)),
        "fft2": lambda: gc.fft.rfft2(images),
        "product": with_gradients(gc.matmul, numbers(128, 256), numbers(256, 128)),
        "lstm": with_gradients(lambda x: lstm(x)[0], numbers(20, 16, 8)),
        "gru": with_gradients(lambda x: gru(x)[0], numbers(20, 16, 8)),
        "pooling": with_gradients(lambda x: F.max_pool2d(x, 2), numbers(32, 16, 28, 28)),
        "sort": lambda: integers.sort(dim=1),
        "sort of floats": lambda: images.sort(dim=2),
    }


def main() -> None:
    """Run each case with one and with two threads, and print how many of its allocations failed."""
    fail_after = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL).fail_after
    import numpy as np

    import gradcore as gc

    for threads in 1, 2:
        gc.set_num_threads(threads)
        for name, call in cases().items():
            failures, result = count_failures(fail_after, call)
            for first, second in zip(result, call(), strict=True):
                np.testing.assert_array_equal(first.numpy(), second.numpy())
            print(f"{name}, {threads}: {failures}")


if __name__ == "__main__":
    main()
