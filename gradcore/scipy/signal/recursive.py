"""Recursive (IIR) filters: one pass, forward and backward, in second-order sections, and frequency responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import AnyTensor
from gradcore.numpy.conversion import axis_of, inexact
from gradcore.ops.signal.windowed import pad_with_zeros
from gradcore.scipy.conversion import on_device, promote_arguments
from gradcore.scipy.signal.edges import check_padding, extend

__all__ = ["filtfilt", "freqz", "lfilter", "lfilter_zi", "sosfilt", "sosfilt_zi", "sosfiltfilt"]


def _coefficients(b: Any, a: Any, x: Any) -> list[AnyTensor]:
    b, a, x = (inexact(t) for t in promote_arguments(b, a, x))
    b, a = (F.reshape(t, (1,)) if not t.ndim else t for t in (b, a))
    for name, t in (("b", b), ("a", a)):
        if t.ndim != 1 or not t.shape[0]:
            raise ValueError(f"object of too small depth for desired array: {name} must be 1-D")
    return [b, a, x]


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter along an axis, as `scipy.signal.lfilter`; differentiable with respect to `b`, `a`, `x` and `zi`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> a = gc.tensor([1.0, -0.5], requires_grad=True)
    >>> y = signal.lfilter(gc.tensor([1.0]), a, gc.tensor([1.0, 0.0, 0.0]))
    >>> y[2].backward()
    >>> y.detach(), a.grad
    (tensor([1.0000, 0.5000, 0.2500]), tensor([-0.7500, -1.0000]))
    """
    if zi is None:
        b, a, x = _coefficients(b, a, x)
        return _filter(b, a, x, axis_of(axis, x.ndim))
    b, a, x, zi = (inexact(t) for t in promote_arguments(b, a, x, zi))
    b, a, x = _coefficients(b, a, x)
    dim = axis_of(axis, x.ndim)
    return _with_state(b, a, x, dim, _state(zi, x, dim, max(b.shape[0], a.shape[0]) - 1))


def _filter(b: AnyTensor, a: AnyTensor, x: AnyTensor, dim: int) -> AnyTensor:
    return F.recursive_filter(x, b, a, dim) if x.numel() else x


def _state(zi: AnyTensor, x: AnyTensor, dim: int, length: int) -> AnyTensor:
    """Check the initial state `zi`, and expand it to one state for each line of `x` along `dim`."""
    shape = [n if d != dim else length for d, n in enumerate(x.shape)]
    if (
        zi.ndim != x.ndim
        or any(n not in (m, 1) for n, m in zip(zi.shape, shape, strict=True))
        or (zi.shape[dim] != length)
    ):
        raise ValueError(f"Unexpected shape for zi: expected {tuple(shape)}, found {tuple(zi.shape)}.")
    return F.expand(zi, shape)


def _with_state(b: AnyTensor, a: AnyTensor, x: AnyTensor, dim: int, zi: AnyTensor) -> tuple[AnyTensor, AnyTensor]:
    """Filter with an initial state, and return the result and the final state.

    The state is added to the first elements before they are fed back.
    """
    n, length = x.shape[dim], zi.shape[dim]
    b, a = (pad_with_zeros(F, t / a[0], (0,), (0,), (length + 1 - t.shape[0],)) for t in (b, a))
    first = F.narrow(zi, dim, 0, min(n, length))
    added = pad_with_zeros(F, first, (dim,), (0,), (n - first.shape[dim],))
    leading = F.narrow(a, 0, 0, 1)
    y = F.recursive_filter(x, b, a, dim) + F.recursive_filter(added, leading, a, dim)
    state = []
    for k in range(length):  # the contribution of past inputs and results to element n + k
        total: Any = F.narrow(zi, dim, n + k, 1) if n + k < length else 0
        for j in range(k + 1, length + 1):
            at = n + k - j
            if 0 <= at < n:
                total = total + F.narrow(x, dim, at, 1) * b[j] - F.narrow(y, dim, at, 1) * a[j]
        state.append(total)
    final = F.cat(state, dim) if state else zi
    return y, final


def lfilter_zi(b: Any, a: Any) -> AnyTensor:
    """Return the steady state of a filter for a constant input of 1, as `scipy.signal.lfilter_zi`.

    It is differentiable with respect to `b` and `a`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.lfilter_zi(gc.tensor([1.0, 1.0]), gc.tensor([1.0, -0.5]))
    tensor([3.])
    """
    b, a = (inexact(t) for t in promote_arguments(b, a))
    b, a = (F.reshape(t, (1,)) if not t.ndim else t for t in (b, a))
    if b.ndim != 1:
        raise ValueError("Numerator b must be 1-D.")
    if a.ndim != 1:
        raise ValueError("Denominator a must be 1-D.")
    n = max(a.shape[0], b.shape[0])
    b, a = (pad_with_zeros(F, t / a[0], (0,), (0,), (n - t.shape[0],)) for t in (b, a))
    # A steady state satisfies z[k] = b[k + 1] - a[k + 1] * y + z[k + 1], with the result y = b[0] + z[0].
    rest, fed_back = F.narrow(b, 0, 1, n - 1), F.narrow(a, 0, 1, n - 1)
    y = F.sum(b) / F.sum(a)
    change = rest - fed_back * y
    return F.flip(F.cumsum(F.flip(change, (0,)), 0), (0,))


# -- sections ---------------------------------------------------------------------------------------------------------


def _sections(sos: Any, *others: Any) -> list[AnyTensor]:
    results = [inexact(t) for t in promote_arguments(sos, *others)]
    sos = results[0]
    if sos.ndim != 2:
        raise ValueError("sos array must be 2D")
    if sos.shape[1] != 6:
        raise ValueError("sos array must be shape (n_sections, 6)")
    if not bool((sos[:, 3].detach() == 1).all()):
        raise ValueError("sos[:, 3] should be all ones")
    return results


def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter by second-order sections, as `scipy.signal.sosfilt`; differentiable with respect to `sos`, `x` and `zi`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.sosfilt([[1.0, 1.0, 0.0, 1.0, 0.0, 0.0]], gc.tensor([1.0, 2.0, 3.0]))
    tensor([1., 3., 5.], dtype=torch.float64)
    """
    filtered = _sections(sos, x) if zi is None else _sections(sos, x, zi)
    sos, x = filtered[:2]
    if not x.ndim:
        raise ValueError("x must be at least 1D")
    dim = axis_of(axis, x.ndim)
    if zi is None:
        for section in sos:
            x = _filter(section[:3], section[3:], x, dim)
        return x
    expected = (sos.shape[0], *(n if d != dim else 2 for d, n in enumerate(x.shape)))
    if filtered[2].ndim != len(expected) or filtered[2].shape[0] != sos.shape[0]:
        raise ValueError(f"Invalid zi shape. With axis={axis!r}, an input with shape {tuple(x.shape)!r}, and an sos "
                         f"array with {sos.shape[0]} sections, zi must have shape {expected!r}, got "
                         f"{tuple(filtered[2].shape)!r}.")  # fmt: skip
    states = []
    for section, state in zip(sos, filtered[2], strict=True):
        x, final_state = _with_state(section[:3], section[3:], x, dim, _state(state, x, dim, 2))
        states.append(final_state)
    return x, F.stack(states, 0)


def sosfilt_zi(sos: Any) -> AnyTensor:
    """Return the steady state of second-order sections for a constant input of 1, as `scipy.signal.sosfilt_zi`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.sosfilt_zi(gc.tensor([[1.0, 1.0, 0.0, 1.0, 0.0, 0.0]]))
    tensor([[1., 0.]])
    """
    (sos,) = _sections(sos)
    scale: Any = 1.0
    results = []
    for section in sos:
        b, a = section[:3], section[3:]
        results.append(scale * lfilter_zi(b, a))
        scale = scale * F.sum(b) / F.sum(a)
    return F.stack(results, 0)


# -- in both directions ------------------------------------------------------------------------------------------------


def _there_and_back(
    x: AnyTensor, dim: int, padtype: Any, padlen: Any, taps: int, run: Callable[[AnyTensor, AnyTensor], AnyTensor]
) -> AnyTensor:
    edge = check_padding(padtype, padlen, x, dim, taps)
    y = extend(padtype, x, dim, edge)
    n = y.shape[dim]
    y = run(y, F.narrow(y, dim, 0, 1))
    y = F.flip(run(F.flip(y, (dim,)), F.narrow(y, dim, n - 1, 1)), (dim,))
    return F.narrow(y, dim, edge, x.shape[dim])


def filtfilt(
    b: Any, a: Any, x: Any, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None,
    method: str = "pad", irlen: int | None = None,
) -> AnyTensor:  # fmt: skip
    """Filter forwards and backwards, as `scipy.signal.filtfilt` without Gustafsson's method.

    It is differentiable with respect to `b`, `a` and `x`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> signal.filtfilt([0.5, 0.5], [1.0], gc.tensor([0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0]))[:5]
    tensor([0., 1., 2., 1., 0.], dtype=torch.float64)
    """
    if method not in ("pad", "gust"):
        raise ValueError("method must be 'pad' or 'gust'.")
    if method == "gust":
        raise NotImplementedError("filtfilt(method='gust') is not implemented; use method='pad'")
    b, a, x = _coefficients(b, a, x)
    dim = axis_of(axis, x.ndim)
    zi = lfilter_zi(b, a)
    shaped = F.reshape(zi, [-1 if d == dim else 1 for d in range(x.ndim)])
    length = zi.shape[0]

    def run(y: AnyTensor, first: AnyTensor) -> AnyTensor:
        return _with_state(b, a, y, dim, _state(shaped * first, y, dim, length))[0]

    return _there_and_back(x, dim, padtype, padlen, max(a.shape[0], b.shape[0]), run)


def sosfiltfilt(sos: Any, x: Any, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None) -> AnyTensor:
    """Filter by second-order sections forwards and backwards, as `scipy.signal.sosfiltfilt`.

    It is differentiable with respect to `sos` and `x`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> sos = signal.butter(2, 0.5, output="sos")
    >>> signal.sosfiltfilt(sos, gc.ones(12)).round(decimals=4)[:3]
    tensor([1., 1., 1.], dtype=torch.float64)
    """
    sos, x = _sections(sos, x)
    dim = axis_of(axis, x.ndim)
    fixed = sos.detach()
    ends = [int((fixed[:, k] == 0).sum()) for k in (2, 5)]
    zi = F.reshape(sosfilt_zi(sos), (sos.shape[0], *(2 if d == dim else 1 for d in range(x.ndim))))

    def run(y: AnyTensor, first: AnyTensor) -> AnyTensor:
        return sosfilt(sos, y, dim, zi * first)[0]

    return _there_and_back(x, dim, padtype, padlen, 2 * sos.shape[0] + 1 - min(ends), run)


def freqz(
    b: Any, a: Any = 1, worN: Any = 512, whole: bool = False, plot: Any = None, fs: float = 2 * np.pi,
    include_nyquist: bool = False,
) -> tuple[AnyTensor, AnyTensor]:  # fmt: skip
    """Return frequencies and the frequency response of a filter, as `scipy.signal.freqz`, for 1-dim coefficients.

    The response is differentiable with respect to `b` and `a`.

    Examples
    --------
    >>> from gradcore.scipy import signal
    >>> b = gc.tensor([0.5, 0.5], dtype=gc.float64, requires_grad=True)
    >>> w, h = signal.freqz(b, worN=[0.0, 1.0])
    >>> h.abs().detach()
    tensor([1.0000, 0.8776], dtype=torch.float64)
    """
    b, a = (inexact(t) for t in promote_arguments(b, a))
    b, a = (F.reshape(t, (1,)) if not t.ndim else t for t in (b, a))
    if b.ndim != 1 or a.ndim != 1:
        raise NotImplementedError("freqz() takes the coefficients of one filter; use gradcore.func.vmap for several")
    if worN is None or np.ndim(worN) == 0:
        n, last = 512 if worN is None else int(worN), 2 * np.pi if whole else np.pi
        w = np.linspace(0, last, n, endpoint=include_nyquist and not whole)
    else:
        w = np.asarray(worN, float) * 2 * np.pi / fs
    response = []
    for t in (b, a):
        powers = on_device(np.exp(-1j * np.outer(w, np.arange(t.shape[0]))), b)
        response.append(F.matmul(powers, F.to(t, powers._dtype)))
    if plot is not None:
        plot(w * fs / (2 * np.pi), (response[0] / response[1]).detach().cpu().numpy())
    return on_device(w * fs / (2 * np.pi), b), response[0] / response[1]
