"""`scipy.fft` on tensors: Fourier, cosine and sine transforms of all types, with derivatives.

`overwrite_x`, `workers` and `plan` are accepted, and have no effect.

Examples
--------
>>> from gradcore.scipy import fft
>>> x = gc.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> fft.dct(x, norm="ortho")[0].backward()
>>> x.grad
tensor([0.5774, 0.5774, 0.5774])
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.backends.portable.filter_tables import half_weighted, period
from gradcore.core.typing import AnyTensor
from gradcore.numpy import fft as _fft
from gradcore.numpy.conversion import axes_of, cast, inexact, tensor_of
from gradcore.numpy.fft import fftfreq as _fftfreq
from gradcore.numpy.fft import rfftfreq as _rfftfreq
from gradcore.scipy.conversion import floating, like, module_getattr, on_device
from gradcore.scipy.documentation import describe
from gradcore.scipy.examples import FFT

__all__ = [
    "dct", "dctn", "dst", "dstn", "fft", "fft2", "fftfreq", "fftn", "fftshift", "fht", "fhtoffset", "hfft", "hfft2",
    "hfftn", "idct", "idctn", "idst", "idstn", "ifft", "ifft2", "ifftn", "ifftshift", "ifht", "ihfft", "ihfft2",
    "ihfftn", "irfft", "irfft2", "irfftn", "next_fast_len", "prev_fast_len", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

_NORMS = (None, "backward", "ortho", "forward")


def _check_norm(norm: Any) -> None:
    if norm not in _NORMS:
        raise ValueError(f'Invalid norm value {norm!r}, should be "backward", "ortho" or "forward"')


# -- Fourier transforms -----------------------------------------------------------------------------------------------


def _wrap_transform(name: str) -> Callable[..., AnyTensor]:
    operation = getattr(_fft, name)

    def transform(
        x: Any, n: int | None = None, axis: int = -1, norm: str | None = None, overwrite_x: bool = False,
        workers: int | None = None, *, plan: Any = None,
    ) -> AnyTensor:  # fmt: skip
        _check_norm(norm)
        if n is not None and n < 1:
            raise ValueError(f"invalid number of data points ({n}) specified")
        return operation(x, n, axis, norm)

    transform.__name__ = transform.__qualname__ = name
    return transform


def _wrap_transform_of_dims(name: str, default: Any) -> Callable[..., AnyTensor]:
    operation = f"fft_{name.rstrip('2n')}n"

    def transform(
        x: Any, s: Any = None, axes: Any = default, norm: str | None = None, overwrite_x: bool = False,
        workers: int | None = None, *, plan: Any = None,
    ) -> AnyTensor:  # fmt: skip
        _check_norm(norm)
        t = inexact(tensor_of(x))
        sizes, dims = _sizes_and_axes(s, axes, t.ndim)
        if not dims:
            return t if t._dtype.is_complex else F.to(t, t._dtype.to_complex())
        return getattr(F, operation)(t, sizes, dims, norm)

    transform.__name__ = transform.__qualname__ = name
    return transform


def _sizes_and_axes(s: Any, axes: Any, ndim: int) -> tuple[list[int] | None, tuple[int, ...]]:
    """Return the sizes of the transform (None for those of the array) and its axes, counted from the front."""
    sizes = None if s is None else [operator.index(n) for n in (s if isinstance(s, Sequence) else [s])]
    if axes is None:
        dims = tuple(range(ndim)) if sizes is None else tuple(range(ndim - len(sizes), ndim))
        if sizes is not None and len(sizes) > ndim:
            raise ValueError("shape requires more axes than are present")
    else:
        dims = tuple(axes) if isinstance(axes, Sequence) else (axes,)
        dims = axes_of(dims, ndim)
        if sizes is not None and len(sizes) != len(dims):
            raise ValueError("when given, axes and shape arguments have to be of the same length")
    if sizes is not None and any(n < 1 for n in sizes):
        raise ValueError(f"invalid number of data points ({sizes}) specified")
    return sizes, dims


fft, ifft, rfft, irfft, hfft, ihfft = map(_wrap_transform, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn, hfftn, ihfftn = (
    _wrap_transform_of_dims(name, None) for name in ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn")
)
fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = (
    _wrap_transform_of_dims(name, (-2, -1)) for name in ("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2")
)
fftshift, ifftshift = _fft.fftshift, _fft.ifftshift


def fftfreq(n: int, d: float = 1.0, *, xp: Any = None, device: Any = None) -> AnyTensor:
    """Return the sample frequencies of `fft`, as `scipy.fft.fftfreq`; they have no derivative."""
    return _fftfreq(n, d, device)


def rfftfreq(n: int, d: float = 1.0, *, xp: Any = None, device: Any = None) -> AnyTensor:
    """Return the sample frequencies of `rfft`, as `scipy.fft.rfftfreq`; they have no derivative."""
    return _rfftfreq(n, d, device)


def next_fast_len(target: int, real: bool = False) -> int:
    """Return the smallest size of at least `target` for which transforms are fast."""
    import scipy.fft

    return int(scipy.fft.next_fast_len(target, real))


def prev_fast_len(target: int, real: bool = False) -> int:
    """Return the largest size of at most `target` for which transforms are fast."""
    import scipy.fft

    return int(scipy.fft.prev_fast_len(target, real))


# -- cosine and sine transforms --------------------------------------------------------------------------------------


def _scale(x: AnyTensor, weights: Any, dim: int) -> AnyTensor:
    shape = [1] * x.ndim
    shape[dim] = -1
    return x * F.reshape(like(weights, F.real(x)), shape)


def _one(x: AnyTensor, kind: str, type: int, dim: int, norm: str | None, orthogonalize: bool) -> AnyTensor:
    """Compute a cosine or sine transform along one dim: an orthogonal transform, scaled before and after."""
    n = x.shape[dim]
    if kind == "cos" and type == 1 and n < 2:
        raise ValueError("DCT-I is not defined for size < 2")
    half = period(kind, type, n)
    scale = {"ortho": 1.0, "forward": 1 / math.sqrt(2 * half)}.get(norm or "backward", math.sqrt(2 * half))
    samples, frequencies = half_weighted(kind, type, n)
    before, after = np.ones(n), np.full(n, scale)
    if not orthogonalize:
        before[list(samples)] *= math.sqrt(0.5)
        after[list(frequencies)] *= math.sqrt(2)
    if (before != 1).any():
        x = _scale(x, before, dim)
    x = F.trigonometric_transform(x, kind, type, dim)
    return _scale(x, after, dim) if (after != 1).any() else x


_OTHER_WAY = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}
_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


def _transform(
    x: Any, kind: str, type: int, s: Any, axes: Any, norm: Any, orthogonalize: Any, inverse: bool
) -> AnyTensor:
    if type not in _INVERSE:
        raise ValueError(f"invalid {'DCT' if kind == 'cos' else 'DST'} type")
    _check_norm(norm)
    t = floating(x)
    sizes, dims = _sizes_and_axes(s, axes, t.ndim)
    new_sizes = tuple(sizes) if sizes is not None else tuple(t.shape[d] for d in dims)
    if any(n < 1 for n in new_sizes):
        raise ValueError(f"invalid number of data points ({list(new_sizes)}) specified")
    if new_sizes != tuple(t.shape[d] for d in dims):
        t = F.cut_or_pad(t, new_sizes, dims)
    if orthogonalize is None:
        orthogonalize = norm == "ortho"
    if inverse:
        type, norm = _INVERSE[type], _OTHER_WAY[norm]
    for dim in dims:
        t = _one(t, kind, type, dim, norm, orthogonalize)
    return t


def _wrap_trigonometric(name: str, kind: str, inverse: bool) -> Callable[..., AnyTensor]:
    def transform(
        x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
        overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    ) -> AnyTensor:  # fmt: skip
        return _transform(x, kind, type, None if n is None else [n], [axis], norm, orthogonalize, inverse)

    transform.__name__ = transform.__qualname__ = name
    return transform


def _wrap_trigonometric_of_dims(name: str, kind: str, inverse: bool) -> Callable[..., AnyTensor]:
    def transform(
        x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None, overwrite_x: bool = False,
        workers: int | None = None, orthogonalize: bool | None = None,
    ) -> AnyTensor:  # fmt: skip
        return _transform(x, kind, type, s, axes, norm, orthogonalize, inverse)

    transform.__name__ = transform.__qualname__ = name
    return transform


dct, idct = _wrap_trigonometric("dct", "cos", False), _wrap_trigonometric("idct", "cos", True)
dst, idst = _wrap_trigonometric("dst", "sin", False), _wrap_trigonometric("idst", "sin", True)
dctn, idctn = _wrap_trigonometric_of_dims("dctn", "cos", False), _wrap_trigonometric_of_dims("idctn", "cos", True)
dstn, idstn = _wrap_trigonometric_of_dims("dstn", "sin", False), _wrap_trigonometric_of_dims("idstn", "sin", True)


# -- Hankel transforms ------------------------------------------------------------------------------------------------


def _hankel(x: Any, dln: float, mu: float, offset: float, bias: float, inverse: bool) -> AnyTensor:
    """Compute the Hankel transform on a logarithmic grid: multiply the spectrum by a ratio of gamma functions."""
    from scipy.special import loggamma, poch

    t = floating(x)
    n = t.shape[-1]
    j = np.arange(n) - (n - 1) / 2
    y = np.linspace(0, np.pi * (n // 2) / (n * dln), n // 2 + 1)
    above, below = (mu + 1 + bias) / 2, (mu + 1 - bias) / 2
    u = np.exp(loggamma(above + 1j * y) - np.conj(loggamma(below + 1j * y)) + 2j * y * (math.log(2) - offset)
               + math.log(2) * bias)  # fmt: skip
    if n % 2 == 0:
        u.imag[-1] = 0
    if not np.isfinite(u[0]):
        u[0] = 2**bias * poch(below, above - below)
    if np.isinf(u[0]) and not inverse:
        warnings.warn("singular transform; consider changing the bias", stacklevel=3)
        u[0] = 0
    elif u[0] == 0 and inverse:
        warnings.warn("singular inverse transform; consider changing the bias", stacklevel=3)
        u[0] = np.inf
    if inverse:
        t = t * like(np.exp(bias * (j * dln + offset)), t) if bias else t
        u = 1 / np.conj(u)
    else:
        t = t * like(np.exp(-bias * j * dln), t) if bias else t
    spectrum = F.fft_rfft(t, None, -1) * cast(on_device(u, t), t._dtype.to_complex())
    t = F.flip(F.fft_irfft(spectrum, n, -1), (t.ndim - 1,))
    if not bias:
        return t
    return t * like(np.exp(bias * j * dln) if inverse else np.exp(-bias * (j * dln + offset)), t)


def fht(a: Any, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> AnyTensor:
    """Compute the Hankel transform on a logarithmic grid, as `scipy.fft.fht`; differentiable with respect to `a`."""
    return _hankel(a, dln, mu, offset, bias, False)


def ifht(A: Any, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> AnyTensor:
    """Compute the inverse of `fht`, as `scipy.fft.ifht`; differentiable with respect to `A`."""
    return _hankel(A, dln, mu, offset, bias, True)


def fhtoffset(dln: float, mu: float, initial: float = 0.0, bias: float = 0.0) -> float:
    """Return the `offset` of `fht` that is close to `initial` and minimizes ringing, as `scipy.fft.fhtoffset`."""
    import scipy.fft

    return float(scipy.fft.fhtoffset(dln, mu, initial, bias))


#: Functions of SciPy that are missing, with the reason.
LEFT_OUT = dict.fromkeys(
    ("get_workers", "register_backend", "set_backend", "set_global_backend", "set_workers", "skip_backend"),
    "about SciPy's backends and threads; see gradcore.set_num_threads",
)


def __dir__() -> list[str]:
    return [*__all__]


__getattr__ = module_getattr(__name__, LEFT_OUT)

describe("scipy.fft", globals(), FFT)
