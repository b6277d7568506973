"""Spectra of signal segments (Welch's method, short-time Fourier transforms), differentiable in the signals."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axis_of, cast, inexact
from gradcore.numpy.mathematics import unwrap
from gradcore.ops.signal.windowed import pad_with_zeros
from gradcore.scipy.conversion import floating, on_device, promote_arguments
from gradcore.scipy.signal.edges import extend
from gradcore.scipy.signal.smoothing import detrend as without_trend
from gradcore.scipy.signal.tapers import taper
from gradcore.tensor import Tensor

__all__ = ["coherence", "csd", "istft", "periodogram", "spectrogram", "stft", "welch"]

Detrend = Any  # a name, False, or a function
_BOUNDARIES = ("even", "odd", "constant", "zeros", None)


class Segments(NamedTuple):
    """The segmentation of a signal: window, length, overlap and size of the Fourier transform."""

    window: AnyTensor
    length: int
    overlap: int
    nfft: int

    @property
    def step(self) -> int:
        return self.length - self.overlap

    def scale(self, scaling: str, fs: float) -> AnyTensor:
        """Return the factor that scales squared spectra to a power density or, for ``"spectrum"``, to a power."""
        if scaling == "density":
            return 1 / (fs * F.sum(self.window * self.window))
        if scaling == "spectrum":
            return 1 / F.sum(self.window) ** 2
        raise ValueError(f"Unknown scaling: {scaling!r}")


def _segments(x: AnyTensor, n: int, window: Any, nperseg: Any, noverlap: Any, nfft: Any) -> Segments:
    """Check the arguments, and return the segmentation of `n` elements along the last dim."""
    if nperseg is not None and int(nperseg) < 1:
        raise ValueError("nperseg must be a positive integer")
    if isinstance(window, (str, tuple)):
        length = 256 if nperseg is None else int(nperseg)
        if length > n:
            warnings.warn(
                f"nperseg = {length:d} is greater than input length  = {n:d}, using nperseg = {n:d}", stacklevel=4
            )
            length = n
        weights = on_device(taper(window, length), x)
    else:
        weights = inexact(window) if isinstance(window, Tensor) else on_device(np.asarray(window, float), x)
        if weights.ndim != 1:
            raise ValueError("window must be 1-D")
        length = weights.shape[0]
        if n < length:
            raise ValueError("window is longer than input signal")
        if nperseg is not None and int(nperseg) != length:
            raise ValueError("value specified for nperseg is different from length of window")
    nfft = length if nfft is None else int(nfft)
    if nfft < length:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    overlap = length // 2 if noverlap is None else int(noverlap)
    if overlap >= length:
        raise ValueError("noverlap must be less than nperseg.")
    return Segments(
        cast(weights, F.real(x)._dtype) if not weights._dtype.is_complex else weights, length, overlap, nfft
    )


def _transform_segments(x: AnyTensor, s: Segments, detrend: Detrend, onesided: bool) -> AnyTensor:
    """Split the last dim into segments, and return their spectra; the last dims are segments and frequencies."""
    segments = F.unfold_dim(x, x.ndim - 1, s.length, s.step)
    if callable(detrend):
        segments = detrend(segments)
    elif detrend:
        segments = without_trend(segments, -1, detrend)
    segments = segments * s.window
    return F.fft_rfft(F.real(segments), s.nfft, -1) if onesided else F.fft_fft(segments, s.nfft, -1)


def _frequencies(s: Segments, fs: float, onesided: bool, x: Tensor) -> AnyTensor:
    return on_device((np.fft.rfftfreq if onesided else np.fft.fftfreq)(s.nfft, 1 / fs), x)


def _double_pairs(x: AnyTensor, nfft: int) -> AnyTensor:
    """Double a one-sided spectrum at the frequencies that also represent their negative."""
    weights = np.full(x.shape[-1], 2.0)
    weights[0] = 1
    if nfft % 2 == 0:
        weights[-1] = 1
    return x * cast(on_device(weights, x), F.real(x)._dtype)


def _wrap_detrend(detrend: Detrend, axis: int) -> Detrend:
    """Wrap a user's `detrend` function, so that it gets the segments along the axis of the signal."""
    if not callable(detrend) or axis == -1:
        return detrend
    return lambda parts: F.movedim(detrend(F.movedim(parts, -1, axis)), axis, -1)


def _is_onesided(onesided: bool, *signals: AnyTensor) -> bool:
    return onesided and not any(x._dtype.is_complex for x in signals)


def csd(
    x: Any, y: Any, fs: float = 1.0, window: Any = "hann_periodic", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: Detrend = "constant", return_onesided: bool = True,
    scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[AnyTensor, AnyTensor]:  # fmt: skip
    """Estimate the cross power spectrum by Welch's method, as `scipy.signal.csd`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> x = gc.tensor([0.0, 1.0, 0.0, -1.0] * 4, requires_grad=True)
    >>> frequencies, power = signal.csd(x, x, nperseg=8)
    >>> power.argmax(), power.requires_grad
    (tensor(2), True)
    """
    is_auto = x is y
    x, y = (inexact(t) for t in promote_arguments(x, y))
    x, y = (F.movedim(t, axis_of(axis, t.ndim), -1) for t in (x, y))
    try:
        np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    except ValueError as error:
        raise ValueError("x and y cannot be broadcast together.") from error
    n = max(x.shape[-1], y.shape[-1])
    x, y = (pad_with_zeros(F, t, (t.ndim - 1,), (0,), (n - t.shape[-1],)) if t.shape[-1] < n else t for t in (x, y))
    s = _segments(x, n, window, nperseg, noverlap, nfft)
    onesided = _is_onesided(return_onesided, x, y)
    detrend = _wrap_detrend(detrend, axis)
    first = _transform_segments(x, s, detrend, onesided)
    power = F.conj(first) * (first if is_auto else _transform_segments(y, s, detrend, onesided)) * s.scale(scaling, fs)
    if is_auto:
        power = F.real(power)
    if onesided:
        power = _double_pairs(power, s.nfft)
    power = _average(power, average)
    return _frequencies(s, fs, onesided, x), F.movedim(power, -1, axis)


def _average(power: AnyTensor, average: str) -> AnyTensor:
    """Return the mean or median over the segments, the second to last dim."""
    if average not in ("mean", "median"):
        raise ValueError(f"Parameter {average=} must be 'median' or 'mean'!")
    n = power.shape[-2]
    if average == "mean" or n == 1:
        return F.mean(power, (-2,))
    even = 2 * np.arange(1.0, (n - 1) // 2 + 1)
    bias = float(1 + np.sum(1 / (even + 1) - 1 / even))
    if power._dtype.is_complex:
        return F.complex(*(F.quantile(component, 0.5, -2) for component in (F.real(power), F.imag(power)))) / bias
    return F.quantile(power, 0.5, -2) / bias


def welch(
    x: Any, fs: float = 1.0, window: Any = "hann_periodic", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, detrend: Detrend = "constant", return_onesided: bool = True, scaling: str = "density",
    axis: int = -1, average: str = "mean",
) -> tuple[AnyTensor, AnyTensor]:  # fmt: skip
    """Estimate the power spectrum by Welch's method, as `scipy.signal.welch`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> frequencies, power = signal.welch(gc.tensor([0.0, 1.0, 0.0, -1.0] * 4), nperseg=8)
    >>> power
    tensor([0.0000, 0.6667, 2.6667, 0.6667, 0.0000])
    """
    x = floating(x)
    return csd(x, x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


def periodogram(
    x: Any, fs: float = 1.0, window: Any = "boxcar", nfft: int | None = None, detrend: Detrend = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1,
) -> tuple[AnyTensor, AnyTensor]:  # fmt: skip
    """Compute the power spectrum of the whole signal, as `scipy.signal.periodogram`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.periodogram(gc.tensor([0.0, 1.0, 0.0, -1.0]))[1]
    tensor([0., 2., 0.])
    """
    x = floating(x)
    dim = axis_of(axis, x.ndim)
    n = x.shape[dim]
    if nfft is not None and nfft < n:
        x, n, nfft = F.narrow(x, dim, 0, nfft), nfft, None
    window = "boxcar" if window is None else window
    if not isinstance(window, (str, tuple)) and len(window) != n:
        raise ValueError("the size of the window must be the same size of the input on the specified axis")
    return welch(x, fs, window, n, 0, nfft, detrend, return_onesided, scaling, axis)


def coherence(
    x: Any, y: Any, fs: float = 1.0, window: Any = "hann_periodic", nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: Detrend = "constant", axis: int = -1,
) -> tuple[AnyTensor, AnyTensor]:  # fmt: skip
    """Estimate the magnitude squared coherence, as `scipy.signal.coherence`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> x = gc.tensor([0.0, 1.0, 3.0, -1.0] * 4)
    >>> signal.coherence(x, 2 * x, nperseg=4, noverlap=0, detrend=False)[1]
    tensor([1.0000, 1.0000, 1.0000])
    """
    x, y = (inexact(t) for t in promote_arguments(x, y))
    settings = (fs, window, nperseg, noverlap, nfft, detrend)
    frequencies, powers = welch(x, *settings, axis=axis)
    _, power_y = welch(y, *settings, axis=axis)
    _, cross_power = csd(x, y, *settings, axis=axis)
    return frequencies, F.abs(cross_power) ** 2 / powers / power_y


def _short_time(
    x: Any, fs: float, window: Any, nperseg: Any, noverlap: Any, nfft: Any, detrend: Detrend, onesided: bool,
    scaling: str, axis: int, boundary: Any, fill: bool, finish: Callable[[AnyTensor, Segments], AnyTensor],
) -> tuple[AnyTensor, AnyTensor, AnyTensor]:  # fmt: skip
    """Return the frequencies, the times, and the result of ``finish(spectra, segmentation)``."""
    if boundary not in _BOUNDARIES:
        raise ValueError(f"Unknown boundary option '{boundary}', must be one of: {list(_BOUNDARIES)}")
    x = floating(x)
    x = F.movedim(x, axis_of(axis, x.ndim), -1)
    s = _segments(x, x.shape[-1], window, nperseg, noverlap, nfft)
    last = x.ndim - 1
    x = extend(boundary, x, last, s.length // 2)
    if fill:
        x = pad_with_zeros(F, x, (last,), (0,), (-(x.shape[-1] - s.length) % s.step % s.length,))
    if onesided and x._dtype.is_complex:
        warnings.warn("Input data is complex, switching to return_onesided=False", stacklevel=3)
        onesided = False
    spectra = finish(_transform_segments(x, s, _wrap_detrend(detrend, axis), onesided), s)
    times = np.arange(s.length / 2, x.shape[-1] - s.length / 2 + 1, s.step) / float(fs)
    if boundary is not None:
        times = times - s.length / 2 / fs
    spectra = F.movedim(spectra, -1, axis - 1 if axis < 0 else axis)
    return _frequencies(s, fs, onesided, x), on_device(times, x), spectra


def stft(
    x: Any, fs: float = 1.0, window: Any = "hann_periodic", nperseg: int | None = 256, noverlap: int | None = None,
    nfft: int | None = None, detrend: Detrend = False, return_onesided: bool = True, boundary: str | None = "zeros",
    padded: bool = True, axis: int = -1, scaling: str = "spectrum",
) -> tuple[AnyTensor, AnyTensor, AnyTensor]:  # fmt: skip
    """Compute the short-time Fourier transform, as `scipy.signal.stft`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> frequencies, times, z = signal.stft(gc.ones(16), nperseg=8)
    >>> z.shape
    torch.Size([5, 5])
    """
    if scaling not in ("spectrum", "psd"):
        raise ValueError(f"Parameter {scaling=} not in ['spectrum', 'psd']!")
    scaling = "density" if scaling == "psd" else scaling
    return _short_time(
        x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, boundary, padded,
        lambda values, s: values * F.sqrt(s.scale(scaling, fs)),
    )  # fmt: skip


def spectrogram(
    x: Any, fs: float = 1.0, window: Any = ("tukey_periodic", 0.25), nperseg: int | None = None,
    noverlap: int | None = None, nfft: int | None = None, detrend: Detrend = "constant", return_onesided: bool = True,
    scaling: str = "density", axis: int = -1, mode: str = "psd",
) -> tuple[AnyTensor, AnyTensor, AnyTensor]:  # fmt: skip
    """Compute the powers, magnitudes or phases of the spectra of segments, as `scipy.signal.spectrogram`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.spectrogram(gc.arange(16.0), nperseg=8)[2].shape
    torch.Size([5, 2])
    """
    modes = ["psd", "complex", "magnitude", "angle", "phase"]
    if mode not in modes:
        raise ValueError(f"unknown value for mode {mode}, must be one of {modes}")
    x = floating(x)
    n = x.shape[axis_of(axis, x.ndim)]
    s = _segments(x, n, window, nperseg, 0, None)
    noverlap = s.length // 8 if noverlap is None else noverlap
    onesided = _is_onesided(return_onesided, x)

    def finish(values: AnyTensor, s: Segments) -> AnyTensor:
        if mode == "psd":
            power = F.real(F.conj(values) * values) * s.scale(scaling, fs)
            return _double_pairs(power, s.nfft) if onesided else power
        values = values * F.sqrt(s.scale(scaling, fs))
        return {"complex": lambda z: z, "magnitude": F.abs, "angle": F.angle, "phase": F.angle}[mode](values)

    frequencies, times, result = _short_time(
        x, fs, s.window, None, noverlap, nfft, detrend, return_onesided, scaling, axis, None, False, finish
    )
    if mode == "phase":
        result = unwrap(result, axis=axis - 1 if axis < 0 else axis)
    return frequencies, times, result


def istft(
    Zxx: Any, fs: float = 1.0, window: Any = "hann_periodic", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, input_onesided: bool = True, boundary: bool = True, time_axis: int = -1,
    freq_axis: int = -2, scaling: str = "spectrum",
) -> tuple[AnyTensor, AnyTensor]:  # fmt: skip
    """Compute the inverse short-time Fourier transform, as `scipy.signal.istft`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> z = signal.stft(gc.arange(16.0), nperseg=8)[2]
    >>> signal.istft(z)[1].round(decimals=3)[:4]
    tensor([0., 1., 2., 3.])
    """
    z = floating(Zxx)
    if z.ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    if freq_axis == time_axis:
        raise ValueError("Must specify differing time and frequency axes!")
    if scaling not in ("spectrum", "psd"):
        raise ValueError(f"Parameter {scaling=} not in ['spectrum', 'psd']!")
    z = z if z._dtype.is_complex else F.to(z, z._dtype.to_complex())
    time, frequency = axis_of(time_axis, z.ndim), axis_of(freq_axis, z.ndim)
    z = F.movedim(z, (time, frequency), (-2, -1))
    usual = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    length = usual if nperseg is None else int(nperseg)
    if length < 1:
        raise ValueError("nperseg must be a positive integer")
    if nfft is None:
        nfft = length if input_onesided and length == usual + 1 else usual
    elif nfft < length:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    window_values = on_device(taper(window, length), z) if isinstance(window, (str, tuple)) else window
    s = _segments(z, length, window_values, length, noverlap, max(nfft, length))
    segments = F.fft_irfft(z, nfft, -1) if input_onesided else F.fft_ifft(z, nfft, -1)
    win = s.window
    segments = F.narrow(segments, -1, 0, length) * win
    segments = segments * (F.sum(win) if scaling == "spectrum" else F.sqrt(fs * F.sum(win**2)))
    total = length + (z.shape[-2] - 1) * s.step
    squares = F.expand(win * win, (z.shape[-2], length))
    x = F.unfold_dim_backward(segments, (*segments.shape[:-2], total), segments.ndim - 2, length, s.step)
    norm = F.unfold_dim_backward(squares, (total,), 0, length, s.step)
    if boundary:
        inner_length = total - 2 * (length // 2)
        x, norm = (F.narrow(t, -1, length // 2, inner_length) for t in (x, norm))
    if bool((norm.detach() <= 1e-10).any()):
        warnings.warn(
            "NOLA condition failed, STFT may not be invertible."
            + ("" if boundary else " Possibly due to missing boundary"),
            stacklevel=2,
        )
    x = x / F.where(norm > 1e-10, norm, 1.0)
    if x.ndim > 1 and time != z.ndim - 1:
        x = F.movedim(x, -1, time - 1 if frequency < time else time)
    return on_device(np.arange(x.shape[0], dtype=float), x) / fs, x
