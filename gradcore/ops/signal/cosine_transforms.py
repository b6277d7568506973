"""Cosine and sine transforms of types I to IV, scaled to be orthogonal: each is the adjoint of another."""

from __future__ import annotations

from gradcore.backends.portable.filter_tables import twiddles
from gradcore.ops.declare.samples import case, complexes, floats
from gradcore.ops.declare.table import linear

#: The type of the inverse transform, by type.
_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


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
    """Return the orthogonal cosine or sine transform along `dim`."""
    x = K.xp.moveaxis(self, dim, -1)
    n = x.shape[-1]
    half, turn, turned = twiddles(kind, type, n)
    dtype = "complex64" if self.dtype.char in "fF" else "complex128"

    def real(x):
        product = x * K.constant(turn.astype(dtype))
        product = K.cut_or_pad(product, (2 * half,), (product.ndim - 1,))
        result = K.fft_c2c(product, (product.ndim - 1,), "backward", True)
        result = result[..., :n] * K.constant(turned.astype(dtype))
        return result.real if kind == "cos" else -result.imag

    result = real(x) if x.dtype.kind != "c" else real(x.real) + 1j * real(x.imag)
    return K.xp.moveaxis(result, -1, dim)
