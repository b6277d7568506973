"""Times of single operations by size, divided by PyTorch's: ``python -m benchmarks.operations [NAME ...]``.

The cases of `benchmarks.compare` are programs and their gradients. Here each operation is called by itself, without
gradients, which shows what a call costs beside the arithmetic. Times are CPU times of one thread, the shortest of
several rounds that alternate between the libraries.
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gradcore as gc

SIZES = 100, 3_000, 20_000, 100_000, 1_000_000
#: Rounds, and elements that the calls of one round compute at least.
ROUNDS, ELEMENTS = 5, 1_000_000
WIDTH = 64


class Inputs:
    """Tensors of a library with `size` elements; matrices have rows of `WIDTH` elements."""

    def __init__(self, T: Any, size: int) -> None:
        random = np.random.default_rng(0)
        height = max(size // WIDTH, 2)
        numbers = np.abs(random.standard_normal((2, size), np.float32)) + 0.1
        self.T, self.F, self.size = T, T.nn.functional, size
        self.x, self.y = map(T.tensor, numbers)
        self.mask, self.integers = T.tensor(numbers[0] > 0.8), T.tensor(np.arange(size))
        self.places = T.tensor(random.integers(0, size, size))
        self.rows = T.tensor(random.standard_normal((height, WIDTH), np.float32))
        self.weight, self.classes = T.ones(WIDTH), T.tensor(random.integers(0, WIDTH, height))
        self.columns = T.tensor(random.integers(0, WIDTH, (height, 1)))


def _method(name: str, *arguments: Any) -> Callable[[Inputs], Any]:
    return lambda i: getattr(i.x, name)(*arguments)


CASES: dict[str, Callable[[Inputs], Any]] = {
    name: _method(name)
    for name in (  # noqa: SIM905
        "abs neg exp log sqrt rsqrt sin tanh sigmoid relu square reciprocal floor round sign log1p expm1 erf isnan "
        "clone sum mean max min amax prod var argmax any all count_nonzero median norm sort argsort zero_"
    ).split()
}
CASES |= {
    "x + y": lambda i: i.x + i.y,
    "x * y": lambda i: i.x * i.y,
    "x / y": lambda i: i.x / i.y,
    "x + 1": lambda i: i.x + 1,
    "x ** 2": lambda i: i.x**2,
    "x ** 3": lambda i: i.x**3,
    "x < y": lambda i: i.x < i.y,
    "maximum": lambda i: i.T.maximum(i.x, i.y),
    "where": lambda i: i.T.where(i.mask, i.x, i.y),
    "clamp": lambda i: i.x.clamp(0.2, 0.6),
    "lerp": lambda i: i.x.lerp(i.y, 0.5),
    "addcmul": lambda i: i.x.addcmul(i.x, i.y, value=0.5),
    "dot": lambda i: i.x.dot(i.y),
    "fmod": lambda i: i.x.fmod(i.y),
    "masked_fill": lambda i: i.x.masked_fill(i.mask, 0.0),
    "x[mask]": lambda i: i.x[i.mask],
    "x[places]": lambda i: i.x[i.places],
    "cumsum": lambda i: i.x.cumsum(0),
    "logsumexp": lambda i: i.x.logsumexp(0),
    "add_": lambda i: i.x.add_(i.y),
    "add_ alpha": lambda i: i.x.add_(i.y, alpha=1e-9),
    "mul_": lambda i: i.x.mul_(1.0),
    "copy_": lambda i: i.x.copy_(i.y),
    "to float64": lambda i: i.x.to(i.T.float64),
    "int64 x + x": lambda i: i.integers + i.integers,
    "int64 sum": lambda i: i.integers.sum(),
    "gelu": lambda i: i.F.gelu(i.x),
    "silu": lambda i: i.F.silu(i.x),
    "elu": lambda i: i.F.elu(i.x),
    "softplus": lambda i: i.F.softplus(i.x),
    "mse_loss": lambda i: i.F.mse_loss(i.x, i.y),
    "dropout": lambda i: i.F.dropout(i.x, 0.5),
    "randn": lambda i: i.T.randn(i.size),
    "rand": lambda i: i.T.rand(i.size),
    "arange": lambda i: i.T.arange(i.size),
    "zeros": lambda i: i.T.zeros(i.size),
    "sum of rows": lambda i: i.rows.sum(1),
    "sum of columns": lambda i: i.rows.sum(0),
    "max of rows": lambda i: i.rows.amax(1),
    "max of columns": lambda i: i.rows.amax(0),
    "argmax of rows": lambda i: i.rows.argmax(1),
    "var of rows": lambda i: i.rows.var(1),
    "topk of rows": lambda i: i.rows.topk(5, 1),
    "softmax": lambda i: i.rows.softmax(1),
    "log_softmax": lambda i: i.rows.log_softmax(1),
    "layer_norm": lambda i: i.F.layer_norm(i.rows, (WIDTH,), i.weight, i.weight),
    "batch_norm": lambda i: i.F.batch_norm(i.rows, None, None, i.weight, i.weight, True),
    "cross_entropy": lambda i: i.F.cross_entropy(i.rows, i.classes),
    "transpose": lambda i: i.rows.t().contiguous(),
    "bias": lambda i: i.rows + i.weight,
    "gather": lambda i: i.rows.gather(1, i.columns),
    "tril": lambda i: i.rows.tril(),
    "one_hot": lambda i: i.F.one_hot(i.classes, WIDTH),
    "cat": lambda i: i.T.cat([i.rows, i.rows], 1),
    "stack": lambda i: i.T.stack([i.rows, i.rows]),
    "roll": lambda i: i.rows.roll(1, 1),
}  # fmt: skip


def measure_ratio(torch: Any, case: Callable[[Inputs], Any], size: int) -> float:
    """Return the CPU time of a call in gradcore, divided by that in the library `torch`."""
    inputs = Inputs(torch, size), Inputs(gc, size)
    calls = max(3, min(400, ELEMENTS // size))
    shortest = [math.inf, math.inf]
    for _ in range(ROUNDS):
        for k, each in enumerate(inputs):
            case(each)
            start = time.process_time()
            for _ in range(calls):
                case(each)
            shortest[k] = min(shortest[k], time.process_time() - start)
    return shortest[1] / shortest[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="operations; all by default")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args()
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    gc.set_num_threads(1)
    ratios: dict[int, list[float]] = {size: [] for size in options.sizes}
    print(f"{'':16}", *(f"{size:>9,}" for size in options.sizes))
    for name in options.names or CASES:
        for size, found in ratios.items():
            found.append(measure_ratio(torch, CASES[name], size))
        print(f"{name:16}", *(f"{found[-1]:9.2f}" for found in ratios.values()), flush=True)
    means = (math.exp(sum(map(math.log, found)) / len(found)) for found in ratios.values())
    print(f"{'geometric mean':16}", *(f"{mean:9.2f}" for mean in means))


if __name__ == "__main__":
    main()
