"""Choice of the backend of `scaled_dot_product_attention`, as in ``torch.nn.attention``."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from gradcore.backends import cuda
from gradcore.core.interrupts import run_despite_interrupts

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """Implementations of attention.

    Examples
    --------
    >>> import gradcore as gc
    >>> with gc.nn.attention.sdpa_kernel(gc.nn.attention.SDPBackend.MATH):
    ...     y = gc.nn.functional.scaled_dot_product_attention(*[gc.ones(1, 2, 4)] * 3)
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


#: The switches in `gradcore.backends.cuda`: functions that return and set whether an implementation is allowed.
_SWITCHES = {
    SDPBackend.MATH: (cuda.math_sdp_enabled, cuda.enable_math_sdp),
    SDPBackend.FLASH_ATTENTION: (cuda.flash_sdp_enabled, cuda.enable_flash_sdp),
    SDPBackend.EFFICIENT_ATTENTION: (cuda.mem_efficient_sdp_enabled, cuda.enable_mem_efficient_sdp),
    SDPBackend.CUDNN_ATTENTION: (cuda.cudnn_sdp_enabled, cuda.enable_cudnn_sdp),
}


@contextmanager
def sdpa_kernel(backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Restrict attention to the given backends inside this context manager.

    Parameters
    ----------
    backends : SDPBackend or iterable of SDPBackend
        The implementations that are allowed.
    set_priority : bool
        Accepted for compatibility: the fastest of the allowed implementations is used.

    Examples
    --------
    >>> import gradcore
    >>> from gradcore.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     gradcore.backends.cuda.flash_sdp_enabled()
    False
    """
    allowed: list[Any] = list(backends) if isinstance(backends, (list, tuple, set)) else [backends]
    for each in allowed:
        if not isinstance(each, SDPBackend):
            raise AssertionError(
                "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
                f"{type(each).__name__}"
            )
    before = {way: is_allowed() for way, (is_allowed, _) in _SWITCHES.items()}

    def restore() -> None:
        for way, (_, allow) in _SWITCHES.items():
            allow(before[way])

    try:
        for way, (_, allow) in _SWITCHES.items():
            allow(way in allowed)
        yield
    finally:
        try:
            restore()
        except BaseException:
            run_despite_interrupts(restore)
            raise
