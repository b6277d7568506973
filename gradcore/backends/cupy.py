"""CUDA: CuPy. Imported only when a CUDA device is first asked for."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import numpy as np

from gradcore.backends.base import Backend
from gradcore.errors import Unavailable

__all__ = ["CupyBackend", "connect"]

INSTALL = "install CuPy for your CUDA version: pip install 'gradcore[cuda13]' (or 'gradcore[cuda12]')"


def connect() -> Backend:
    """The CUDA backend.

    Raises
    ------
    Unavailable
        With the reason in words: no CuPy, a broken installation, no driver, no device.
    """
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != "cupy":
            raise Unavailable(f"CuPy is installed but cannot be imported ({error}); re-{INSTALL}") from error
        raise Unavailable(f"CuPy is not installed; {INSTALL}") from error
    except Exception as error:
        raise Unavailable(f"CuPy is installed but cannot be imported ({error}); re-{INSTALL}") from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise Unavailable(f"CuPy finds no usable NVIDIA driver ({error}); install or update the driver") from error
    if not count:
        raise Unavailable("there is a driver but no CUDA device (is CUDA_VISIBLE_DEVICES empty?)")
    return CupyBackend(cupy, count)


class CupyBackend(Backend):
    """CuPy arrays on CUDA devices: what CuPy does differently from NumPy, and nothing else."""

    type: ClassVar[str] = "cuda"
    upcasts = False  # CuPy's kernels compute float16 and bfloat16 in float32 themselves
    host_scalars = False

    def __init__(self, cupy: Any, count: int) -> None:
        super().__init__(cupy, cupy.ndarray)
        self._count = count

    @property
    def special(self) -> Any:
        """cupyx.scipy.special, imported when first used."""
        import cupyx.scipy.special

        return cupyx.scipy.special

    # -- devices ------------------------------------------------------------------------------------------------

    def device_count(self) -> int:
        return self._count

    def current_index(self) -> int:
        return int(self.xp.cuda.runtime.getDevice())

    def use_index(self, index: int | None) -> contextlib.AbstractContextManager[Any]:
        if self._count == 1 or index is None:
            return contextlib.nullcontext()
        return self.xp.cuda.Device(index)  # type: ignore[no-any-return]

    def synchronize(self, index: int | None = None) -> None:
        self.xp.cuda.Device(index).synchronize()

    # -- arrays -------------------------------------------------------------------------------------------------

    def from_host(self, array: Any) -> Any:
        return self.xp.asarray(array)

    def to_host(self, array: Any) -> Any:
        return self.xp.asnumpy(array)

    def scalar(self, value: complex, dtype: Any) -> Any:
        """A NumPy scalar: kernels take it by value, without a transfer."""
        return np.dtype(dtype).type(value)

    def move_between(self, array: Any, index: int | None) -> Any:
        return self.xp.array(array)  # copies peer to peer onto the current device
