"""Fourier transforms, under the names that PyTorch gives them in ``torch.fft``.

Every function is declared in `gradcore.ops`, with its derivative.

Examples
--------
>>> import gradcore
>>> gradcore.fft.rfft(gradcore.tensor([1.0, 2.0, 3.0, 4.0]))
tensor([10.+0.j, -2.+2.j, -2.+0.j])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradcore.core import dtypes
from gradcore.dispatch.settings import converting
from gradcore.tensor import creation, namespaces

if TYPE_CHECKING:
    from gradcore.tensor import Tensor

_functions = namespaces.functions("fft")
__getattr__, __dir__ = namespaces.lazy_attributes(_functions, globals())

__all__ = ["fftfreq", "rfftfreq", *sorted(_functions)]


def _frequencies(n: int, d: float, indices: list[int], settings: dict[str, Any]) -> Tensor:
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if settings.get("dtype") is None:
        settings["dtype"] = dtypes.get_default_dtype()
    return creation.tensor([i / (n * d) for i in indices], **settings)


@converting
def fftfreq(n: int, d: float = 1.0, **settings: Any) -> Tensor:
    """Return the sample frequencies of a discrete Fourier transform of `n` elements.

    Parameters
    ----------
    n : int
        The number of elements.
    d : float
        The distance of samples.
    **settings
        ``dtype``, ``device`` and ``requires_grad`` of the result.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gradcore
    >>> gradcore.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _frequencies(n, d, [*range((n + 1) // 2), *range(-(n // 2), 0)], settings)


@converting
def rfftfreq(n: int, d: float = 1.0, **settings: Any) -> Tensor:
    """Return the sample frequencies of a discrete Fourier transform of `n` real elements.

    Parameters
    ----------
    n : int
        The number of real elements.
    d : float
        The distance of samples.
    **settings
        ``dtype``, ``device`` and ``requires_grad`` of the result.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gradcore
    >>> gradcore.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    return _frequencies(n, d, list(range(n // 2 + 1)), settings)
