"""Selection and signs by integer arithmetic on the bits of numbers, without branches."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["BITS", "copysign", "select"]

#: Integer dtype of the same size, by dtype.
BITS = {
    np.dtype(name): np.dtype(bits)
    for name, bits in (("f4", "i4"), ("f8", "i8"), ("i4", "i4"), ("i8", "i8"), ("c8", "i8"))
}


def select(condition: Any, x: Any, y: Any, out: Any) -> None:
    """Compute ``out[...] = where(condition, x, y)``, exact for NaN and infinities.

    Parameters
    ----------
    condition : array of bool
    x, y : array or number
        Values where the condition is True or False, of the dtype of `out`.
    out : array
        Array of one of the dtypes in `BITS`. It must not share memory with `x` or `y`.
    """
    bits = BITS[out.dtype]
    chosen, a, b = out.view(bits), np.asarray(x, out.dtype).view(bits), np.asarray(y, out.dtype).view(bits)
    if not (b.ndim or b):
        np.multiply(a, condition, chosen)
    elif not (a.ndim or a):
        np.multiply(b, ~condition, chosen)
    else:
        np.bitwise_xor(a, b, chosen)
        np.multiply(chosen, condition, chosen)
        np.bitwise_xor(chosen, b, chosen)


def copysign(x: Any, y: Any) -> Any:
    """Return the magnitude of `x` with the sign of `y`, both of one floating-point dtype."""
    bits = BITS[x.dtype]
    sign = np.iinfo(bits).min
    result = np.empty(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    chosen = result.view(bits)
    np.bitwise_and(x.view(bits), ~sign, chosen)
    np.bitwise_or(chosen, y.view(bits) & sign, chosen)
    return result
