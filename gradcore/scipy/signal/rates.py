"""Resampling of signals at another rate, differentiable with respect to the signal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core import dtypes
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axis_of, cast, inexact, tensor_of
from gradcore.ops.signal.windowed import pad_with_zeros
from gradcore.scipy.conversion import floating, like, on_device, promote_arguments
from gradcore.scipy.signal.recursive import sosfilt, sosfiltfilt
from gradcore.scipy.signal.tapers import taper
from gradcore.tensor import Tensor

__all__ = ["decimate", "resample", "resample_poly", "upfirdn"]


def upfirdn(
    h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: float = 0
) -> AnyTensor:
    """Upsample, apply a FIR filter and downsample, as `scipy.signal.upfirdn`, with zeros beyond the ends.

    It is differentiable with respect to `h` and `x`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.upfirdn(gc.tensor([1.0, 1.0]), gc.tensor([1.0, 2.0, 3.0]), up=2)
    tensor([1., 1., 2., 2., 3., 3.])
    """
    h, x = (inexact(t) for t in promote_arguments(h, x))
    if h.ndim != 1 or not h.shape[0]:
        raise ValueError("h must be 1-D with non-zero length")
    if up < 1 or down < 1:
        raise ValueError("Both up and down must be >= 1")
    if mode not in ("constant", "zero") or cval != 0:
        raise NotImplementedError(
            "upfirdn() is implemented for zeros beyond the ends only; extend the signal before the call"
        )
    return F.rate_filter(x, h, int(up), int(down), axis_of(axis, x.ndim))


#: The value that is subtracted from a signal before filtering, by `padtype`.
_BACKGROUND = {
    "mean": lambda x, dim: F.mean(x, (dim,), True),
    "median": lambda x, dim: F.quantile(x, 0.5, dim, True),
    "minimum": lambda x, dim: F.amin(x, (dim,), True),
    "maximum": lambda x, dim: F.amax(x, (dim,), True),
}


def resample_poly(
    x: Any, up: int, down: int, axis: int = 0, window: Any = ("kaiser", 5.0), padtype: str = "constant",
    cval: float | None = None,
) -> AnyTensor:  # fmt: skip
    """Resample by a polyphase filter, as `scipy.signal.resample_poly`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.resample_poly(gc.ones(6), 2, 1).shape
    torch.Size([12])
    """
    if up != int(up):
        raise ValueError("up must be an integer")
    if down != int(down):
        raise ValueError("down must be an integer")
    up, down = int(up), int(down)
    if up < 1 or down < 1:
        raise ValueError("up and down must be >= 1")
    if cval is not None and padtype != "constant":
        raise ValueError("cval has no effect when padtype is ", padtype)
    original = tensor_of(x)
    x = floating(original)
    divisor = math.gcd(up, down)
    up, down = up // divisor, down // divisor
    if up == down == 1:
        return F.clone(original)
    dim = axis_of(axis, x.ndim)
    n_out = -(-x.shape[dim] * up // down)
    if isinstance(window, (list, np.ndarray, Tensor)):
        h = inexact(tensor_of(window)) if isinstance(window, Tensor) else on_device(np.asarray(window, float), x)
        if h.ndim > 1:
            raise ValueError("window must be 1-D")
        half = (h.shape[0] - 1) // 2
    else:
        from scipy.signal import firwin

        rate = max(up, down)
        half = 10 * rate
        h = like(firwin(2 * half + 1, 1 / rate, window=window), F.real(x))
    h, x = promote_arguments(h * up, x)
    before = down - half % down
    first = (half + before) // down
    after = max(0, (first + n_out - 1) * down + 1 - (x.shape[dim] - 1) * up - h.shape[0] - before)
    background = None
    if padtype in _BACKGROUND:
        background = _BACKGROUND[padtype](x, dim)
        x = x - background
    elif padtype != "constant" or cval:
        raise NotImplementedError("padtype must be 'constant' with cval=0, 'mean', 'median', 'minimum' or 'maximum'")
    y = F.rate_filter(x, pad_with_zeros(F, h, (0,), (before,), (after,)), up, down, dim)
    y = F.narrow(y, dim, first, n_out)
    return y if background is None else y + background


def resample(x: Any, num: int, t: Any = None, axis: int = 0, window: Any = None, domain: str = "time") -> Any:
    """Resample by Fourier transforms, as `scipy.signal.resample`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.resample(gc.tensor([1.0, 0.0, -1.0, 0.0]), 8)
    tensor([ 1.0000,  0.7071,  0.0000, -0.7071, -1.0000, -0.7071,  0.0000,  0.7071])
    """
    if domain not in ("time", "freq"):
        raise ValueError(f"Parameter {domain=} not in ('time', 'freq')!")
    original = floating(x)
    dim = axis_of(axis, original.ndim)
    y = F.movedim(original, dim, -1)
    n = y.shape[-1]
    spectrum = F.fft_fft(y, None, -1) if domain == "time" else y
    if not spectrum._dtype.is_complex:
        spectrum = F.to(spectrum, spectrum._dtype.to_complex())
    if window is not None:
        spectrum = spectrum * like(_spectral_window(window, n), F.real(spectrum))
    common_size = min(num, n)
    low, high = common_size // 2 + 1, common_size - common_size // 2 - 1
    parts = [F.narrow(spectrum, -1, 0, low)]
    last = F.narrow(spectrum, -1, n - high, high)
    if common_size % 2 == 0 and num != n and common_size:  # the middle frequency stands for two: merge or split them
        middle = F.narrow(parts[0], -1, low - 1, 1)
        parts[0] = F.narrow(parts[0], -1, 0, low - 1)
        if num < n:
            parts.append(middle + F.narrow(spectrum, -1, n - common_size // 2, 1))
        else:
            parts.append(middle / 2)
            last = F.cat([middle / 2, last], -1)
    front = F.cat(parts, -1) if len(parts) > 1 else parts[0]
    zeros = num - front.shape[-1] - last.shape[-1]
    resampled = F.cat([pad_with_zeros(F, front, (front.ndim - 1,), (0,), (zeros,)), last], -1)
    y = F.fft_ifft(resampled * (num / n), None, -1)
    if domain == "time" and not original._dtype.is_complex:
        y = F.real(y)
    y = F.movedim(y, -1, dim)
    if t is None:
        return y
    t = tensor_of(t)
    return y, t[0] + (t[1] - t[0]) * (n / num) * on_device(np.arange(num, dtype=float), y)


def _spectral_window(window: Any, n: int) -> Any:
    if callable(window) and not isinstance(window, Tensor):
        return window(np.fft.fftfreq(n))
    if hasattr(window, "shape"):
        if tuple(window.shape) != (n,):
            raise ValueError(
                f"{window.shape=} != ({n},), i.e., window length is not equal to number of frequency bins!"
            )
        return window
    return np.fft.fftshift(taper(window, n))


def decimate(
    x: Any, q: int, n: int | None = None, ftype: str = "iir", axis: int = -1, zero_phase: bool = True
) -> AnyTensor:
    """Apply an anti-aliasing filter and downsample, as `scipy.signal.decimate`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.decimate(gc.ones(60), 4).shape
    torch.Size([15])
    """
    import scipy.signal

    x = floating(x)
    dim = axis_of(axis, x.ndim)
    real = dtypes.float32 if x._dtype in (dtypes.float32, dtypes.complex64) else dtypes.float64
    if ftype == "fir":
        b = cast(on_device(scipy.signal.firwin((20 * q if n is None else n) + 1, 1 / q, window="hamming"), x), real)
        if zero_phase:
            return resample_poly(x, 1, q, dim, b)
        return F.narrow(upfirdn(b, x, 1, q, dim), dim, 0, -(-x.shape[dim] // q))
    if ftype != "iir":
        raise ValueError("invalid ftype")
    sos = cast(on_device(scipy.signal.cheby1(8 if n is None else n, 0.05, 0.8 / q, output="sos"), x), real)
    y = sosfiltfilt(sos, x, dim) if zero_phase else sosfilt(sos, x, dim)
    return y[(slice(None),) * dim + (slice(None, None, q),)]
