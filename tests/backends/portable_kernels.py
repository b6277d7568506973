"""The portable kernels of windows on any namespace of arrays, without the rest of a backend."""

from __future__ import annotations

from typing import Any

from gradcore.backends.portable.convolution import Convolution
from gradcore.backends.portable.pooling import Pooling
from gradcore.backends.portable.resampling import Resizing

__all__ = ["portable"]


class PortableKernels(Convolution, Pooling, Resizing):
    def __init__(self, xp: Any) -> None:
        self.xp = xp


portable = PortableKernels
