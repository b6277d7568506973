"""Settings of PyTorch that have a fixed value in gradcore, or change warnings instead of results."""

from __future__ import annotations

import warnings

__all__ = [
    "get_num_interop_threads",
    "is_warn_always_enabled",
    "set_num_interop_threads",
    "set_warn_always",
]

#: The filter that `warnings.simplefilter` adds.
_ALWAYS = ("always", None, UserWarning, None, 0)
_warns_always = False


def set_warn_always(b: bool, /) -> None:
    """Set whether warnings are shown each time, or by Python's rules: once for each line that caused them.

    Parameters
    ----------
    b : bool
        Whether the same warning is shown again.
    """
    if not isinstance(b, bool):
        raise TypeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    global _warns_always
    if b and not _warns_always:
        warnings.simplefilter("always", UserWarning)
    elif not b and _warns_always:
        warnings.filters[:] = [each for each in warnings.filters if each != _ALWAYS]  # type: ignore[index]
    _warns_always = b


def is_warn_always_enabled() -> bool:
    """Return whether warnings are shown each time, see `set_warn_always`."""
    return _warns_always


def get_num_interop_threads() -> int:
    """Return the number of operations that run at a time: one."""
    return 1


def set_num_interop_threads(n: int, /) -> None:
    """Do nothing, for compatibility: operations run one after the other."""
    if n <= 0:
        raise RuntimeError("Expected positive number of threads")
