"""Windows, as ``torch.signal.windows`` has them.

A symmetric window begins and ends alike. A periodic one (``sym=False``) is a symmetric window with one more element,
whose last element is left out; it is the right choice for Fourier transforms. The formulas are those of F. J. Harris,
On the use of windows for harmonic analysis with the discrete Fourier transform (1978).

All functions have the keyword arguments of `Options` besides their own. They raise a ValueError for a negative length,
for a dtype other than float32 and float64, and for invalid parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypedDict, Unpack

from gradcore import functional
from gradcore.core import dtypes
from gradcore.dispatch.settings import converting
from gradcore.tensor import Tensor
from gradcore.tensor.creation import arange, empty, full, ones
from gradcore.tensor.layouts import layout as Layout
from gradcore.tensor.layouts import strided
from gradcore.torch_names import paths

__all__ = [
    "Options",
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


class Options(TypedDict, total=False):
    """Keyword arguments of all windows."""

    sym: bool
    """Whether the window begins and ends alike; it does by default."""
    dtype: Any
    """float32 or float64; by default `get_default_dtype`."""
    layout: Layout
    """Accepted for compatibility."""
    device: Any
    """By default `get_default_device`."""
    requires_grad: bool
    """Whether operations on the window are recorded."""


def _window(name: str, M: int, options: Options, formula: Callable[[Any, int], Any]) -> Tensor:
    """Check the options, and return a window of `M` values ``formula(positions, period)``."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if options.get("layout", strided) is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {options['layout']}")
    dtype = dtypes.as_dtype(options.get("dtype") or dtypes.get_default_dtype())
    if dtype not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return sample_window(M, options.get("sym", True), dtype, options.get("device"), formula).requires_grad_(
        options.get("requires_grad", False)
    )


def sample_window(M: int, sym: bool, dtype: dtypes.dtype, device: Any, formula: Callable[[Any, int], Any]) -> Tensor:
    """Return a window of `M` values of `formula`, without checking the arguments."""
    if M < 2:
        return (ones if M else empty)(M, dtype=dtype, device=device)
    return formula(arange(M, dtype=dtype, device=device), M - 1 if sym else M)  # type: ignore[no-any-return]


@converting
def general_cosine(M: int, *, a: Iterable[float], **options: Unpack[Options]) -> Tensor:
    """Return a sum of cosines: ``a[0] - a[1] * cos(x) + a[2] * cos(2 * x) - ...`` over one period.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.signal.windows.general_cosine(5, a=[0.5, 0.5])
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    return _cosines("general_cosine", M, options, tuple(a))


def _cosines(name: str, M: int, options: Options, a: tuple[float, ...]) -> Tensor:
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _window(name, M, options, lambda k, distance: cosines(k, distance, *a))


def cosines(k: Any, distance: int, *a: float) -> Any:
    """Compute the formula of `general_cosine` at the positions `k`."""
    terms = [weight * functional.cos(k * (math.tau * i / distance)) for i, weight in enumerate(a)]
    return sum(terms[::2]) - sum(terms[1::2])


#: Coefficients of windows that are sums of cosines.
HANN, HAMMING, BLACKMAN = (0.5, 0.5), (0.54, 0.46), (0.42, 0.5, 0.08)


@converting
def general_hamming(M: int, *, alpha: float = HAMMING[0], **options: Unpack[Options]) -> Tensor:
    """Return the window ``alpha - (1 - alpha) * cos(x)`` over one period.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.signal.windows.general_hamming(5)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return _cosines("general_hamming", M, options, (alpha, 1 - alpha))


@converting
def hamming(M: int, **options: Unpack[Options]) -> Tensor:
    """Return Hamming's window: ``0.54 - 0.46 * cos(x)`` over one period.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.signal.windows.hamming(5)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return _cosines("hamming", M, options, HAMMING)


@converting
def hann(M: int, **options: Unpack[Options]) -> Tensor:
    """Return von Hann's window: ``(1 - cos(x)) / 2`` over one period.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _cosines("hann", M, options, HANN)


@converting
def blackman(M: int, **options: Unpack[Options]) -> Tensor:
    """Return Blackman's window: ``0.42 - 0.5 * cos(x) + 0.08 * cos(2 * x)`` over one period.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.signal.windows.blackman(5)
    tensor([0.0000, 0.3400, 1.0000, 0.3400, 0.0000])
    """
    return _cosines("blackman", M, options, BLACKMAN)


@converting
def nuttall(M: int, **options: Unpack[Options]) -> Tensor:
    """Return Nuttall's window with four terms, whose first derivative is continuous too.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.signal.windows.nuttall(5)
    tensor([3.6278e-04, 2.2698e-01, 1.0000e+00, 2.2698e-01, 3.6278e-04])
    """
    return _cosines("nuttall", M, options, (0.3635819, 0.4891775, 0.1365995, 0.0106411))


@converting
def bartlett(M: int, **options: Unpack[Options]) -> Tensor:
    """Return a triangle, 0 at both ends and 1 in the middle.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window("bartlett", M, options, triangle)


def triangle(k: Any, distance: int) -> Any:
    """Compute the formula of `bartlett` at the positions `k`."""
    return 1 - functional.abs(k * (2 / distance) - 1)


@converting
def cosine(M: int, **options: Unpack[Options]) -> Tensor:
    """Return half a period of a sine, sampled at the midpoints of `M` intervals.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.signal.windows.cosine(4)
    tensor([0.3827, 0.9239, 0.9239, 0.3827])
    """
    return _window("cosine", M, options, lambda k, distance: functional.sin((k + 0.5) * (math.pi / (distance + 1))))


@converting
def exponential(M: int, *, center: float | None = None, tau: float = 1.0, **options: Unpack[Options]) -> Tensor:
    """Return ``exp(-abs(k - center) / tau)``: highest at `center`, by default the middle (required if symmetric).

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.signal.windows.exponential(5)
    tensor([0.1353, 0.3679, 1.0000, 0.3679, 0.1353])
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if center is not None and options.get("sym", True):
        raise ValueError("Center must be None for symmetric windows")

    def formula(k: Any, distance: int) -> Any:
        middle = distance / 2 if center is None else center
        return functional.exp(functional.abs(k - middle) / -tau)

    return _window("exponential", M, options, formula)


@converting
def gaussian(M: int, *, std: float = 1.0, **options: Unpack[Options]) -> Tensor:
    """Return ``exp(-((k - middle) / std) ** 2 / 2)``.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.signal.windows.gaussian(5)
    tensor([0.1353, 0.6065, 1.0000, 0.6065, 0.1353])
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _window("gaussian", M, options, lambda k, distance: functional.exp(((k - distance / 2) / std) ** 2 / -2))


@converting
def kaiser(M: int, *, beta: float = 12.0, **options: Unpack[Options]) -> Tensor:
    """Return Kaiser's window, ``i0(beta * sqrt(1 - x**2)) / i0(beta)``, which falls faster for a larger `beta`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.signal.windows.kaiser(5)
    tensor([5.2773e-05, 2.1567e-01, 1.0000e+00, 2.1567e-01, 5.2773e-05])
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _window("kaiser", M, options, lambda k, distance: bessel(k, distance, beta))


def bessel(k: Any, distance: int, beta: float) -> Any:
    """Compute the formula of `kaiser` at the positions `k`."""
    x = k * (2 / distance) - 1
    return functional.i0(beta * functional.sqrt(functional.relu(1 - x * x))) / functional.i0(
        full((), beta, dtype=k.dtype, device=k.device)
    )


__getattr__ = paths.further(__name__)

paths.show_public(__name__)
