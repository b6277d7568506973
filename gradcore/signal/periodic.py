"""The window functions at PyTorch's top level, which are periodic by default: ``torch.hann_window`` and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradcore.core import dtypes
from gradcore.dispatch.settings import setting
from gradcore.signal import windows
from gradcore.tensor import Tensor

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _function(name: str, what: str, formula: Callable[..., Any], **defaults: float) -> Callable[..., Tensor]:
    """Create the window function `name`, with a docstring that describes it as `what`.

    It takes the length, whether the window is periodic, and the window's parameters, also by position.
    """

    def window(
        window_length: int,
        periodic: bool = True,
        *args: float,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **kwargs: float,
    ) -> Tensor:
        window_length = setting(name, "window_length", "int", 0).take(window_length)
        periodic = setting(name, "periodic", "bool", 1).take(periodic)
        if window_length < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
        result_dtype = dtypes.as_dtype(dtype or dtypes.get_default_dtype())
        if not result_dtype.is_floating_point:
            raise RuntimeError(f"{name} expects floating point dtypes, got: {result_dtype}")
        unknown = kwargs.keys() - defaults.keys()
        if unknown or len(args) > len(defaults):
            raise TypeError(f"{name}() takes window_length, periodic{''.join(f', {each}' for each in defaults)}")
        chosen = {**defaults, **dict(zip(defaults, args, strict=False)), **kwargs}
        values = [setting(name, each, "float").take(value) for each, value in chosen.items()]
        result = windows.sample_window(
            window_length, not periodic, result_dtype, device, lambda k, n: formula(k, n, *values)
        )
        return result.requires_grad_(requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__module__ = "gradcore"
    window.__doc__ = f"""{what}

    Parameters
    ----------
    window_length : int
        The number of elements.
    periodic : bool
        Whether to return one period of a periodic function; otherwise the window is symmetric.
    {
        "".join(
            f'''{each} : float
        By default {value}.
    '''
            for each, value in defaults.items()
        )
    }dtype, layout, device, pin_memory, requires_grad
        As for `empty`; floating-point dtypes only.

    Returns
    -------
    Tensor
        Of shape ``(window_length,)``.

    Raises
    ------
    RuntimeError
        If the length is negative, or the dtype is no floating-point one.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.{name}(4).argmax()
    tensor(2)
    """
    return window


def _hann(k: Any, distance: int) -> Any:
    return windows.cosines(k, distance, *windows.HANN)


def _blackman(k: Any, distance: int) -> Any:
    return windows.cosines(k, distance, *windows.BLACKMAN)


hann_window = _function("hann_window", "Return J. von Hann's window, ``(1 - cos(x)) / 2`` over one period.", _hann)
hamming_window = _function(
    "hamming_window",
    "Return R. W. Hamming's window, ``alpha - beta * cos(x)`` over one period.",
    windows.cosines,
    alpha=windows.HAMMING[0],
    beta=windows.HAMMING[1],
)
blackman_window = _function("blackman_window", "Return R. B. Blackman's window.", _blackman)
bartlett_window = _function("bartlett_window", "Return M. S. Bartlett's window, a triangle.", windows.triangle)
kaiser_window = _function("kaiser_window", "Return J. F. Kaiser's window.", windows.bessel, beta=12.0)
