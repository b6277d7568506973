"""Cosine and sine transforms of types I to IV, scaled to be orthogonal: each is the adjoint of another."""

from __future__ import annotations

import math

import numpy as np

from gradcore.ops.samples import case, complexes, floats
from gradcore.ops.table import linear

#: The type of the inverse.
_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}

#: By how much sample and frequency are shifted.
_SHIFTS = {("cos", 1): (0, 0), ("cos", 2): (0.5, 0), ("cos", 3): (0, 0.5), ("cos", 4): (0.5, 0.5),
           ("sin", 1): (1, 1), ("sin", 2): (0.5, 1), ("sin", 3): (1, 0.5), ("sin", 4): (0.5, 0.5)}  # fmt: skip


def half_weighted(kind: str, type: int, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The samples, and the frequencies, of which an orthogonal transform has ``sqrt(1/2)`` of the plain sum."""
    samples, frequencies = _SHIFTS[kind, type]
    whole = {("cos", 0): (0, n - 1) if type == 1 else (0,), ("sin", 1): () if type == 1 else (n - 1,)}
    return whole.get((kind, samples), ()), whole.get((kind, frequencies), ())


def period(kind: str, type: int, n: int) -> int:
    """Half of the period of what samples stand for."""
    return n + {("cos", 1): -1, ("sin", 1): 1}.get((kind, type), 0)


@linear(
    lambda F, grad, kind, type, dim: F.trigonometric_transform(grad, kind, _INVERSE[type], dim),
    function=False,
    method=False,
    samples=lambda: [
        *(case(floats(2, 5), kind, type, 1) for kind in ("cos", "sin") for type in (1, 2, 3, 4)),
        case(complexes(4), "cos", 2, 0),
    ],
)
def trigonometric_transform(K, self, kind: str, type: int, dim: int):
    """The orthogonal transform along `dim`."""
    x = K.xp.moveaxis(self, dim, -1)
    n = x.shape[-1]
    half, places = period(kind, type, n), np.arange(n)
    a, b = _SHIFTS[kind, type]
    before, after = np.ones(n), np.full(n, math.sqrt(2 / half))
    for weights, ends in zip((before, after), half_weighted(kind, type, n), strict=True):
        weights[list(ends)] *= math.sqrt(0.5)
    turn = before * np.exp(-1j * np.pi / half * places * b)
    turned = after * np.exp(-1j * np.pi / half * (places + b) * a)
    dtype = "complex64" if self.dtype.itemsize == (8 if self.dtype.kind == "c" else 4) else "complex128"

    def real(x):
        product = x * K.constant(turn.astype(dtype))
        product = K.cut_or_pad(product, (2 * half,), (product.ndim - 1,))
        found = K.fft_c2c(product, (product.ndim - 1,), "backward", True)
        found = found[..., :n] * K.constant(turned.astype(dtype))
        return found.real if kind == "cos" else -found.imag

    found = real(x) if x.dtype.kind != "c" else real(x.real) + 1j * real(x.imag)
    return K.xp.moveaxis(found, -1, dim)
