"""``numpy.fft`` of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcore import functional as F
from gradcore.core.typing import ArrayLike, Axis, DeviceLike, Function, ShapeLike
from gradcore.numpy.conversion import axes_of, inexact, rename, sizes, tensor_of, write_out
from gradcore.tensor import Tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


def _wrap_transform(name: str) -> Function:
    def transform(
        a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: Tensor | None = None
    ) -> Any:
        return write_out(getattr(F, f"fft_{name}")(inexact(tensor_of(a)), n, axis, norm), out)

    return rename(transform, name)


def _wrap_transform_of_dims(name: str, default: Any) -> Function:
    def transform(
        a: ArrayLike,
        s: ShapeLike = None,
        axes: Sequence[int] | None = default,
        norm: str | None = None,
        out: Tensor | None = None,
    ) -> Any:
        x = inexact(tensor_of(a))
        if s is not None:
            s = sizes(s)
            axes = tuple(range(-len(s), 0)) if axes is None else tuple(axes)
        elif axes is not None:
            axes = tuple(axes)
        return write_out(getattr(F, f"fft_{name[:-1]}n")(x, s, axes, norm), out)

    return rename(transform, name)


fft, ifft, rfft, irfft, hfft, ihfft = map(_wrap_transform, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = (_wrap_transform_of_dims(name, None) for name in ("fftn", "ifftn", "rfftn", "irfftn"))
fft2, ifft2, rfft2, irfft2 = (_wrap_transform_of_dims(name, (-2, -1)) for name in ("fft2", "ifft2", "rfft2", "irfft2"))


def fftshift(x: ArrayLike, axes: Axis = None) -> Tensor:
    t = tensor_of(x)
    return F.fft_fftshift(t, axes_of(axes, t.ndim))


def ifftshift(x: ArrayLike, axes: Axis = None) -> Tensor:
    t = tensor_of(x)
    return F.fft_ifftshift(t, axes_of(axes, t.ndim))


def fftfreq(n: int, d: ArrayLike = 1.0, device: DeviceLike = None) -> Tensor:
    return _frequencies(np.fft.fftfreq(n), d, device)


def rfftfreq(n: int, d: ArrayLike = 1.0, device: DeviceLike = None) -> Tensor:
    return _frequencies(np.fft.rfftfreq(n), d, device)


def _frequencies(unit: Any, d: Any, device: Any) -> Any:
    result = tensor_of(unit.tolist() or np.zeros(0))
    result = result if device is None else F.to(result, device)
    return result / d


def __dir__() -> list[str]:
    return [*__all__]
