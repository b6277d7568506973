"""Convolutions and correlations, differentiable with respect to both inputs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import cast, inexact
from gradcore.ops.signal.windowed import pad_with_zeros
from gradcore.scipy.conversion import promote_arguments
from gradcore.tensor import Tensor

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve", "oaconvolve"]

_MODES = ("valid", "same", "full")
_BOUNDARIES = {"fill": "fill", "pad": "fill", "wrap": "wrap", "circular": "wrap", "symm": "reflect",
               "symmetric": "reflect"}  # fmt: skip
#: Number of products above which Fourier transforms are faster than direct sums.
_MANY = 1 << 16


def _check_mode(mode: str, acceptable: str = "Acceptable") -> None:
    if mode not in _MODES:
        raise ValueError(f"{acceptable} mode flags are 'valid', 'same', or 'full'.")


def _convolve(x: AnyTensor, y: AnyTensor, mode: str, dims: Sequence[int], by: str) -> AnyTensor:
    """Compute the convolution along `dims` as a correlation with the reversed smaller input.

    `by` is ``"fourier"`` or ``"direct"``.
    """
    result_shape = tuple(x.shape)
    if mode == "valid":
        pairs = [(x.shape[d], y.shape[d]) for d in dims]
        if not (all(a >= b for a, b in pairs) or all(a <= b for a, b in pairs)):
            raise ValueError("For 'valid' mode, one must be at least as large as the other in every dimension")
        if any(a < b for a, b in pairs):
            x, y = y, x
    elif prod(y.shape[d] for d in dims) > prod(x.shape[d] for d in dims):
        x, y = y, x
    dims = tuple(dims)
    if mode != "valid":
        around = [y.shape[d] - 1 for d in dims]
        x = pad_with_zeros(F, x, dims, around, around)
    result = F.correlate_valid(x, F.flip(y, dims), dims, by)
    if mode == "same":
        for d, size in enumerate(result_shape):  # also along dims that broadcast
            result = F.narrow(result, d, (result.shape[d] - size) // 2, size)
    return result


def _convert_inputs(in1: Any, in2: Any) -> tuple[AnyTensor, AnyTensor, dtypes.dtype]:
    """Return both inputs in the dtype to compute in, and the dtype of the result."""
    x, y = promote_arguments(in1, in2)
    dtype = x._dtype
    return inexact(x), inexact(y), dtype


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> AnyTensor:
    """Convolve arrays of any number of dims, as `scipy.signal.convolve`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.convolve(gc.tensor([1.0, 2.0, 3.0]), [1.0, 1.0], mode="same")
    tensor([1., 3., 5.], dtype=torch.float64)
    """
    x, y, dtype = _convert_inputs(in1, in2)
    if x.ndim == y.ndim == 0:
        return cast(x * y, dtype)
    if x.ndim != y.ndim:
        raise ValueError("volume and kernel should have the same dimensionality")
    _check_mode(mode)
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    if not x.numel() or not y.numel():
        return F.new_zeros(x, (0,) * x.ndim)
    if method == "auto":
        method = "fft" if min(x.numel(), y.numel()) > 32 and x.numel() * y.numel() > _MANY else "direct"
    result = _convolve(x, y, mode, range(x.ndim), "fourier" if method == "fft" else "direct")
    return cast(result if dtype.is_differentiable else F.round(result), dtype)


def _reverse(x: AnyTensor) -> AnyTensor:
    return F.conj(F.flip(x, tuple(range(x.ndim))))


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> AnyTensor:
    """Correlate arrays of any number of dims, as `scipy.signal.correlate`; `in2` is conjugated.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.correlate(gc.tensor([1.0, 2.0, 3.0]), gc.tensor([0.0, 1.0]))
    tensor([1., 2., 3., 0.])
    """
    x, y = promote_arguments(in1, in2)
    if x.ndim == y.ndim == 0:
        return x * F.conj(y)
    if x.ndim != y.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    return convolve(x, _reverse(y), mode, method)


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> AnyTensor:
    """Convolve by Fourier transforms, as `scipy.signal.fftconvolve`; derivatives use Fourier transforms, too.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.fftconvolve(gc.tensor([1.0, 2.0, 3.0]), gc.tensor([1.0, 1.0])).round(decimals=4)
    tensor([1., 3., 5., 3.])
    """
    x, y, _ = _convert_inputs(in1, in2)
    if x.ndim == y.ndim == 0:
        return x * y
    if x.ndim != y.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    _check_mode(mode, "acceptable")
    if not x.numel() or not y.numel():
        return F.new_zeros(x, (0,))
    dims = _axes(x, axes)
    for d in range(x.ndim):
        if d not in dims and x.shape[d] != y.shape[d] and 1 not in (x.shape[d], y.shape[d]):
            raise ValueError(f"incompatible shapes for in1 and in2: {tuple(x.shape)} and {tuple(y.shape)}")
    if not dims:
        return x * y
    return _convolve(x, y, mode, dims, "fourier")


def _axes(x: Tensor, axes: Any) -> tuple[int, ...]:
    if axes is None:
        return tuple(range(x.ndim))
    axis_list = [axes] if isinstance(axes, int) else list(axes)
    if not axis_list:
        raise ValueError("when provided, axes cannot be empty")
    if any(not -x.ndim <= a < x.ndim for a in axis_list):
        raise ValueError("axes exceeds dimensionality of input")
    result = sorted(a % x.ndim for a in axis_list)
    if len(set(result)) != len(result):
        raise ValueError("all axes must be unique")
    return tuple(result)


def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> AnyTensor:
    """Convolve as `scipy.signal.oaconvolve`, but by Fourier transforms of the whole inputs, as `fftconvolve`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.oaconvolve(gc.arange(6.0), gc.tensor([1.0, 1.0]), "valid").round(decimals=4)
    tensor([1., 3., 5., 7., 9.])
    """
    return fftconvolve(in1, in2, mode, axes)


def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> AnyTensor:
    """Convolve matrices, as `scipy.signal.convolve2d`; `boundary` says how `in1` continues beyond its edges.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.convolve2d(gc.eye(3), gc.ones(2, 2), mode="valid")
    tensor([[2., 1.],
            [1., 2.]])
    """
    x, y, dtype = _convert_inputs(in1, in2)
    if not x.ndim == y.ndim == 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays")
    _check_mode(mode)
    if boundary not in _BOUNDARIES:
        raise ValueError("Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or 'symm').")
    if mode == "valid":
        return cast(_convolve(x, y, mode, (0, 1), "direct"), dtype)
    result_shape, beyond = tuple(x.shape), _BOUNDARIES[boundary]
    sizes = [n - 1 for n in y.shape]
    if beyond != "fill":
        for d, n in enumerate(sizes):
            x = F.extend_borders(x, d, n, n, beyond)
    else:
        x = F.constant_pad_nd(x, [sizes[1], sizes[1], sizes[0], sizes[0]], fillvalue)
    by = "fourier" if y.numel() > 32 and x.numel() * y.numel() > 1 << 24 else "direct"
    result = F.correlate_valid(x, F.flip(y, (0, 1)), (0, 1), by)
    if mode == "same":
        for d, n in enumerate(result_shape):
            result = F.narrow(result, d, (result.shape[d] - n) // 2, n)
    return cast(result, dtype)


def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> AnyTensor:
    """Correlate matrices, as `scipy.signal.correlate2d`; `in2` is conjugated.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.correlate2d(gc.eye(3), gc.ones(2, 2), mode="valid")
    tensor([[2., 1.],
            [1., 2.]])
    """
    x, y = promote_arguments(in1, in2)
    if not x.ndim == y.ndim == 2:
        raise ValueError("correlate2d inputs must both be 2-D arrays")
    if mode == "same":  # for even sizes, SciPy centres the window differently
        full = convolve2d(x, _reverse(y), "full", boundary, fillvalue)
        for d, n in enumerate(x.shape):
            full = F.narrow(full, d, y.shape[d] // 2, n)
        return full
    return convolve2d(x, _reverse(y), mode, boundary, fillvalue)
