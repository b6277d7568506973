"""PyTorch's ``backends.cudnn``: switches of a library that gradcore does not use.

They can be set and read as there, and change nothing: convolutions are products of matrices or kernels of the package,
always go the same way, and give equal bits in equal calls. So `benchmark` and `deterministic` hold either way, and
float32 is as precise as `gradcore.set_float32_matmul_precision` says, whatever `allow_tf32` is.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from gradcore.backends.switches import Precision, Switch, Switches, install

__all__ = ["conv", "flags", "is_acceptable", "is_available", "rnn", "version"]


class CudnnModule(Switches):
    """The switches, with PyTorch's defaults."""

    enabled = Switch(True)
    deterministic = Switch(False)
    benchmark = Switch(False)
    benchmark_limit = Switch(10, type(None))
    allow_tf32 = Switch(True)
    fp32_precision = Precision()


class Part(Switches):
    """The switches of one kind of operation."""

    fp32_precision = Precision()


conv, rnn = Part("conv"), Part("rnn")


def is_available() -> bool:
    """Whether cuDNN is used: never.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cudnn.is_available()
    False
    """
    return False


def version() -> int | None:
    """The version of cuDNN: None, as it is not used.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cudnn.version() is None
    True
    """
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN would compute with a tensor: never.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.backends.cudnn.is_acceptable(gc.ones(1))
    False
    """
    return False


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> contextlib.AbstractContextManager[None]:
    """A context in which the switches are set so.

    Examples
    --------
    >>> import gradcore
    >>> with gradcore.backends.cudnn.flags(enabled=False, deterministic=True):
    ...     gradcore.backends.cudnn.deterministic
    True
    """
    values = {
        "enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit, "deterministic": deterministic,
        "allow_tf32": allow_tf32, "fp32_precision": fp32_precision,
    }  # fmt: skip
    found: contextlib.AbstractContextManager[None] = _this.set_to(**values)
    return found


install(__name__, CudnnModule)
_this: Any = sys.modules[__name__]
