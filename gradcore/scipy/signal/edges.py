"""Extension of signals beyond their ends, as filters need it."""

from __future__ import annotations

from typing import Any

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.ops.signal.windowed import pad_with_zeros

__all__ = ["check_padding", "extend"]


def extend(kind: str | None, x: AnyTensor, dim: int, n: int) -> AnyTensor:
    """Extend `x` by `n` elements at both ends of `dim`.

    ``"even"`` mirrors the signal, ``"odd"`` rotates it about the end point, and ``"constant"`` repeats the end point.
    """
    if n < 1 or kind is None:
        return x
    if kind == "zeros":
        return pad_with_zeros(F, x, (dim,), (n,), (n,))
    size = x.shape[dim]
    first, last = F.narrow(x, dim, 0, 1), F.narrow(x, dim, size - 1, 1)
    if kind == "constant":
        return F.extend_borders(x, dim, n, n, "nearest")
    if n > size - 1:
        raise ValueError(
            f"The extension length n ({n}) is too big. It must not exceed x.shape[axis]-1, which is {size - 1}."
        )
    if kind == "even":
        return F.extend_borders(x, dim, n, n, "mirror")
    before, after = (F.flip(F.narrow(x, dim, start, n), (dim,)) for start in (1, size - 1 - n))
    return F.cat([2 * first - before, x, 2 * last - after], dim)


def check_padding(padtype: Any, padlen: Any, x: AnyTensor, dim: int, taps: int) -> int:
    """Check `padtype` and `padlen`, and return the number of elements by which `x` is extended at each end."""
    if padtype not in ("even", "odd", "constant", None):
        raise ValueError(
            f"Unknown value '{padtype}' given to padtype.  padtype must be 'even', 'odd', 'constant', or None."
        )
    edge = 0 if padtype is None else 3 * taps if padlen is None else int(padlen)
    if x.shape[dim] <= edge:
        raise ValueError(f"The length of the input vector x must be greater than padlen, which is {edge}.")
    return edge
