"""The extension ``fft`` of the array API standard."""

from __future__ import annotations

from typing import Any

from gradcore.numpy import fft as _fft
from gradcore.numpy.conversion import cast, dtype_of

_SAME = (
    "fft", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftn",
)  # fmt: skip
globals().update({name: getattr(_fft, name) for name in _SAME})
__all__ = [*_SAME, "fftfreq", "rfftfreq"]


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of `fft`, for samples that are `d` apart."""
    return cast(_fft.fftfreq(n, d, device), dtype_of(dtype))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of `rfft`, for samples that are `d` apart."""
    return cast(_fft.rfftfreq(n, d, device), dtype_of(dtype))
