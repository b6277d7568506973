"""Calls of the kernels of recurrent layers, on arrays, and what the portable kernels give for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradcore.backends.base import Backend
from gradcore.backends.portable.recurrent import Recurrent

#: Of the largest number of a result.
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
KINDS = ["lstm", "projected", "gru", "unbiased", "tanh", "relu"]


class Portable(Backend):
    """NumPy with the portable kernels."""

    type = "portable"


PORTABLE = Portable(np, np.ndarray)


class Shape(NamedTuple):
    """Steps of a batch (packed steps, if `sizes` are given), and the size of the state."""

    batch: int
    width: int
    steps: int = 1
    sizes: tuple[int, ...] | None = None
    reverse: bool = False

    def leading(self) -> tuple[int, ...]:
        """Return the shape of the input without its last dim."""
        if self.sizes is not None:
            return (sum(self.sizes),)
        return (self.batch,) if self.steps == 0 else (self.steps, self.batch)


SHAPES = [
    Shape(1, 5, 7), Shape(3, 16, 1), Shape(2, 1, 3), Shape(7, 20, 4), Shape(4, 33, 5, reverse=True), Shape(13, 70, 3),
    Shape(3, 4, 0), Shape(6, 9, sizes=(6, 6, 3, 1)), Shape(6, 9, sizes=(6, 4, 4, 1), reverse=True), Shape(0, 3, 2),
    Shape(5, 130, 2), Shape(2, 300, 2),
]  # fmt: skip


def _inputs(kind: str, shape: Shape, dtype: str, seed: int, scale: float) -> tuple[str, list[Any], tuple[Any, ...]]:
    random = np.random.default_rng(seed)

    def draw(*sizes: int) -> Any:
        return (scale * random.normal(size=sizes)).astype(dtype)

    width, lead = shape.width, shape.leading()
    gates = {"lstm": 4, "projected": 4, "gru": 3, "unbiased": 3}.get(kind, 1)
    out = width // 2 + 1 if kind == "projected" else width
    inputs = [draw(*lead, gates * width), draw(shape.batch, out)]
    inputs += [draw(shape.batch, width)] if gates == 4 else []
    inputs += [draw(gates * width, out) / (scale * out**0.5)]
    rest = shape.sizes, shape.reverse
    if gates == 4:
        return "lstm", [*inputs, draw(out, width) / scale if kind == "projected" else None], rest
    if gates == 3:
        return "gru", [*inputs, draw(3 * width) if kind == "gru" else None], rest
    return "rnn", inputs, (kind == "relu", *rest)


def compare(
    backend: Recurrent, kind: str, shape: Shape, dtype: str, used: str = "all", scale: float = 1.0, order: str = "C"
) -> None:
    """Compare results and gradients.

    `used` says gradients of which outputs there are, and `order` is the memory order of arrays of the backward pass.
    """
    name, inputs, rest = _inputs(kind, shape, dtype, 0, scale)
    kept: list[Any] = [None if x is None else x.copy() for x in inputs]
    found = getattr(backend, f"{name}_sequence")(*inputs, *rest)
    expected = getattr(PORTABLE, f"{name}_sequence")(*inputs, *rest)
    _agree(found, expected, dtype)
    states = 3 if name == "lstm" else 2
    random = np.random.default_rng(1)
    grads: list[Any] = [random.normal(size=x.shape).astype(dtype) for x in expected[:states]]
    grads = [g if used == "all" or (i == 0) == (used == "result") else None for i, g in enumerate(grads)]
    grads += [None] * (len(expected) - states)
    saved = {
        "lstm": lambda: (*inputs[1:5], expected[0], *expected[3:]),
        "gru": lambda: (*inputs[1:3], expected[0], expected[2]),
        "rnn": lambda: (*inputs[1:3], expected[0]),
    }[name]()
    needs = tuple(x is not None for x in inputs)
    arrays = [None if x is None else np.array(x, order=order) for x in (*grads, *saved)]  # type: ignore[call-overload]
    back = getattr(backend, f"{name}_backward")(*arrays, *rest, needs)
    wanted = getattr(PORTABLE, f"{name}_backward")(*grads, *saved, *rest, needs)
    _agree(back, wanted, dtype)
    for x, copy in zip((*inputs, *arrays), (*kept, *grads, *saved), strict=True):
        assert x is None or np.array_equal(x, copy)


def _agree(found: Any, expected: Any, dtype: str) -> None:
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert (x is None) == (y is None)
        if y is not None:
            assert x.shape == y.shape
            assert x.dtype == y.dtype == dtype
            largest = np.abs(y).max(initial=1e-30)
            np.testing.assert_allclose(x / largest, y / largest, rtol=0, atol=TOLERANCE[dtype])
