"""The CPU under the names of `gradcore.cuda`, as in ``torch.cpu``: one device with one stream."""

from __future__ import annotations

import contextlib
from typing import Any

from gradcore.torch_names import paths

__all__ = [
    "Stream",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """The only stream of the CPU: operations run in the order of the program."""

    def wait_stream(self, stream: Any) -> None:
        """Do nothing: everything before has been done."""

    def synchronize(self) -> None:
        """Do nothing: everything before has been done."""


_STREAM = Stream()


def is_available() -> bool:
    """Return whether there is a CPU."""
    return True


def is_initialized() -> bool:
    """Return whether the CPU can be used."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return the name of the device."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one device."""


def synchronize(device: Any = None) -> None:
    """Do nothing: all calls have finished."""


def current_stream(device: Any = None) -> Stream:
    """Return the only stream."""
    return _STREAM


def stream(stream: Any) -> contextlib.AbstractContextManager[Any]:
    """Return a context that changes nothing."""
    return contextlib.nullcontext(stream)


paths.show_public(__name__)
