"""Arguments that the functions of `scipy.ndimage` share: axes, modes, sizes and origins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import tensor_of
from gradcore.ops.signal.windowed import pad_with_zeros
from gradcore.scipy.conversion import floating

__all__ = ["axes_of", "check_origin", "extend", "extension", "filterable", "sequence"]

#: Extension of an array beyond its edges, by SciPy's name of the mode.
_EXTENSIONS = {"reflect": "reflect", "grid-mirror": "reflect", "mirror": "mirror", "nearest": "nearest", "wrap": "wrap",
               "grid-wrap": "wrap", "constant": "constant", "grid-constant": "constant"}  # fmt: skip


def filterable(input: Any) -> tuple[AnyTensor, AnyTensor]:
    """Return `input` as a tensor, and as a tensor of the floating-point dtype to compute in."""
    x = tensor_of(input)
    if x._dtype.name in ("float16", "bfloat16"):
        raise RuntimeError("data type not supported")
    return x, floating(x)


def extension(mode: str) -> str:
    if mode not in _EXTENSIONS:
        raise RuntimeError("boundary mode not supported")
    return _EXTENSIONS[mode]


def axes_of(axes: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes counted from the front; all for None."""
    if axes is None:
        return tuple(range(ndim))
    axes = (axes,) if np.isscalar(axes) else tuple(axes)
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise ValueError(f"specified axis: {axis} is out of range")
    if len({axis % ndim for axis in axes}) != len(axes):
        raise ValueError("axes must be unique")
    return normalize_axis_tuple(axes, ndim)


def sequence(value: Any, count: int) -> list[Any]:
    """Return `value` as a list with one entry per axis; a single value is repeated."""
    single = not isinstance(value, Iterable) or isinstance(value, str)
    if single or getattr(value, "ndim", 1) == 0:
        return [value] * count
    result = list(value)
    if len(result) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return result


def check_origin(origin: int, size: int) -> None:
    if not 0 <= size // 2 + origin < size:
        raise ValueError("Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= (len(weights)-1) // 2")


def extend(
    x: AnyTensor, axes: Sequence[int], sizes: Sequence[int], modes: Sequence[str], cval: Any, origins: Sequence[int]
) -> AnyTensor:
    """Pad `x` along `axes` by as many elements as windows of these sizes and origins reach beyond its edges."""
    for axis, size, mode, origin in zip(axes, sizes, modes, origins, strict=True):
        before = size // 2 + origin
        after = size - 1 - before
        if extension(mode) != "constant":
            x = F.extend_borders(x, axis, before, after, extension(mode))
        elif cval == 0:
            x = pad_with_zeros(F, x, (axis,), (before,), (after,))
        else:
            widths = [0] * (2 * x.ndim)
            widths[2 * (x.ndim - 1 - axis) : 2 * (x.ndim - axis)] = before, after
            x = F.constant_pad_nd(x, widths, cval)
    return x
