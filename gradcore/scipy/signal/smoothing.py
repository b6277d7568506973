"""Smoothing filters, removal of trends, and analytic signals."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axis_of, cast, tensor_of
from gradcore.scipy import ndimage
from gradcore.scipy.conversion import floating, like, on_device
from gradcore.scipy.signal.convolution import correlate
from gradcore.tensor import Tensor

__all__ = ["detrend", "hilbert", "hilbert2", "medfilt", "medfilt2d", "order_filter", "savgol_filter", "wiener"]


def savgol_filter(
    x: Any, window_length: int, polyorder: int, deriv: int = 0, delta: float = 1.0, axis: int = -1,
    mode: str = "interp", cval: float = 0.0,
) -> AnyTensor:  # fmt: skip
    """Smooth by polynomials fitted to moving windows (Savitzky-Golay), as `scipy.signal.savgol_filter`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.savgol_filter(gc.arange(6.0) ** 2, 5, 2, deriv=1).round(decimals=4)
    tensor([ 0.,  2.,  4.,  6.,  8., 10.])
    """
    if mode not in ("mirror", "constant", "nearest", "interp", "wrap"):
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'.")
    from scipy.signal import savgol_coeffs

    x = floating(x)
    dim = axis_of(axis, x.ndim)
    weights = savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta)
    if mode != "interp":
        return ndimage.convolve1d(x, weights, dim, mode=mode, cval=cval)
    n = x.shape[dim]
    if window_length > n:
        raise ValueError("If mode is 'interp', window_length must be less than or equal to the size of x.")
    y = ndimage.convolve1d(x, weights, dim, mode="constant")
    half = window_length // 2
    fit = _edge_fit(window_length, polyorder, deriv, delta)
    sections = [
        _times(fit[:half], F.narrow(x, dim, 0, window_length), dim),
        F.narrow(y, dim, half, n - 2 * half),
        _times(fit[len(fit) - half :], F.narrow(x, dim, n - window_length, window_length), dim),
    ]
    return F.cat(sections, dim)


def _edge_fit(window: int, polyorder: int, deriv: int, delta: float) -> Any:
    """Return the matrix that maps a window to the derivative of its fitted polynomial at all of its points."""
    places = np.arange(window, dtype=float)
    powers = np.vander(places, polyorder + 1, increasing=True)
    derivative = np.zeros_like(powers)
    for k in range(deriv, polyorder + 1):
        derivative[:, k] = np.prod(np.arange(k - deriv + 1, k + 1)) * places ** (k - deriv)
    return derivative @ np.linalg.pinv(powers) / delta**deriv


def _times(matrix: Any, x: AnyTensor, dim: int) -> AnyTensor:
    """Multiply the vectors of `x` along `dim` by a matrix."""
    matrix = like(np.ascontiguousarray(matrix), x)
    return F.movedim(F.matmul(F.movedim(x, dim, -1), F.transpose(matrix, 0, 1)), -1, dim)


def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False) -> AnyTensor:
    """Subtract the mean or straight lines, as `scipy.signal.detrend`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.detrend(gc.tensor([0.0, 1.0, 3.0, 3.0])).round(decimals=4)
    tensor([-0.1000, -0.2000,  0.7000, -0.4000])
    """
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    x = floating(data)
    dim = axis_of(axis, x.ndim)
    if type in ("constant", "c"):
        return x - F.mean(x, (dim,), True)
    n = x.shape[dim]
    ends = np.unique(np.concatenate([[0], np.atleast_1d(bp), [n]])).astype(int)
    if (ends > n).any():
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    parts = []
    for start, stop in pairwise(ends):
        section = F.narrow(x, dim, int(start), int(stop - start))
        lines = np.stack([np.arange(1, stop - start + 1) / (stop - start), np.ones(stop - start)], 1)
        basis = np.linalg.svd(lines, full_matrices=False)[0][:, : np.linalg.matrix_rank(lines)]
        parts.append(section - _times(basis, _times(basis.T, section, dim), dim))
    return F.cat(parts, dim) if len(parts) > 1 else parts[0]


def _one_sided(n: int) -> Any:
    """Return the factors of `n` frequencies that set the negative ones to zero and double the positive ones."""
    weights = np.zeros(n)
    weights[0] = 1
    weights[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        weights[n // 2] = 1
    return weights


def hilbert(x: Any, N: int | None = None, axis: int = -1) -> AnyTensor:
    """Return the analytic signal, as `scipy.signal.hilbert`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.hilbert(gc.tensor([1.0, 0.0, -1.0, 0.0]))
    tensor([ 1.+0.j,  0.+1.j, -1.+0.j,  0.-1.j])
    """
    x = floating(x)
    if x._dtype.is_complex:
        raise ValueError("x must be real.")
    dim = axis_of(axis, x.ndim)
    n = x.shape[dim] if N is None else N
    if n <= 0:
        raise ValueError("N must be positive.")
    weights = F.reshape(like(_one_sided(n), x), [n if d == dim else 1 for d in range(x.ndim)])
    return F.fft_ifft(F.fft_fft(x, n, dim) * weights, None, dim)


def hilbert2(x: Any, N: Any = None, axes: tuple[int, int] = (-2, -1)) -> AnyTensor:
    """Return the analytic signal of two dims, as `scipy.signal.hilbert2`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.hilbert2(gc.eye(3)).shape
    torch.Size([3, 3])
    """
    x = floating(x)
    if x.ndim < 2:
        x = F.reshape(x, (1,) * (2 - x.ndim) + tuple(x.shape))
    if x._dtype.is_complex:
        raise ValueError("x must be real.")
    if len(axes) != 2:
        raise ValueError("axes must be a tuple of length 2")
    dims = tuple(axis_of(a, x.ndim) for a in axes)
    if dims[0] == dims[1]:
        raise ValueError("axes must contain 2 distinct axes")
    sizes = tuple(x.shape[d] for d in dims) if N is None else (N, N) if isinstance(N, int) else tuple(N)
    if len(sizes) != 2 or min(sizes) <= 0:
        raise ValueError("N must be positive." if isinstance(N, int) else
                         "When given as a tuple, N must hold exactly two positive integers")  # fmt: skip
    spectrum = F.fft_fft2(x, sizes, dims)
    for d, n in zip(dims, sizes, strict=True):
        weights = np.zeros(n)
        weights[: (n + 1) // 2] = 2
        weights[0] = 1
        spectrum = spectrum * F.reshape(like(weights, x), [n if k == d else 1 for k in range(x.ndim)])
    return F.fft_ifft2(spectrum, None, dims)


def _kernel_sizes(size: Any, ndim: int) -> list[int]:
    sizes = [3] * ndim if size is None else [int(size)] * ndim if np.ndim(size) == 0 else [int(n) for n in size]
    if any(n % 2 == 0 for n in sizes):
        raise ValueError("Each element of kernel_size should be odd.")
    return sizes


def medfilt(volume: Any, kernel_size: Any = None) -> AnyTensor:
    """Apply a median filter with zeros beyond the edges, as `scipy.signal.medfilt`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.medfilt(gc.tensor([3.0, 1.0, 2.0, 5.0]))
    tensor([1., 2., 2., 2.])
    """
    x = F.atleast_1d(tensor_of(volume))
    return ndimage.median_filter(x, _kernel_sizes(kernel_size, x.ndim), mode="constant")


def medfilt2d(input: Any, kernel_size: Any = 3) -> AnyTensor:
    """Apply a median filter to a matrix, as `scipy.signal.medfilt2d`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.medfilt2d(gc.eye(3) + 1)[1]
    tensor([1., 1., 1.])
    """
    x = tensor_of(input)
    if x.ndim != 2:
        raise ValueError("object of too small depth for desired array")
    return medfilt(x, kernel_size)


def order_filter(a: Any, domain: Any, rank: int) -> AnyTensor:
    """Return the element of rank `rank` of each window, with zeros beyond the edges, as `scipy.signal.order_filter`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.order_filter(gc.tensor([3.0, 1.0, 2.0, 5.0]), [1, 1, 1], 2)
    tensor([3., 3., 5., 5.])
    """
    domain = np.asarray(domain)
    if any(n % 2 != 1 for n in domain.shape):
        raise ValueError("Each dimension of domain argument should have an odd number of elements.")
    return ndimage.rank_filter(a, rank, footprint=domain, mode="constant")


def wiener(im: Any, mysize: Any = None, noise: Any = None) -> AnyTensor:
    """Apply Wiener's filter, as `scipy.signal.wiener`; differentiable with respect to `im` and `noise`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.wiener(gc.tensor([1.0, 3.0, 1.0, 5.0]), 3).shape
    torch.Size([4])
    """
    original = tensor_of(im)
    x = floating(original)
    sizes = [3] * x.ndim if mysize is None else [int(mysize)] * x.ndim if np.ndim(mysize) == 0 else list(mysize)
    ones, count = on_device(np.ones(sizes), x), int(np.prod(sizes))
    ones = cast(ones, x._dtype)
    mean = correlate(x, ones, "same") / count
    variance = correlate(F.abs(x) ** 2, F.real(ones), "same") / count - F.abs(mean) ** 2
    noise = F.mean(variance) if noise is None else noise if isinstance(noise, Tensor) else float(noise)
    safe_variance = F.where(variance < noise, 1.0, variance)
    return F.where(variance < noise, mean, mean + (x - mean) * (1 - noise / safe_variance))
