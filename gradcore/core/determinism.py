"""Settings and checks for deterministic operations: equal bits in equal calls."""

from __future__ import annotations

import os
import warnings

__all__ = [
    "alert",
    "alert_products",
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "use_deterministic_algorithms",
]

_MODES = ("default", "warn", "error")
_mode = 0


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Choose whether operations must give equal bits in equal calls.

    On the CPU they always do. On CUDA, `scatter_add`, `index_add`, `index_put` and the gradients of `gather` then sort
    their indices instead of adding atomically. If several values are written to one element, the last one remains.
    `cumsum` and `cumprod` process their dim in a fixed order. Matrix products need
    ``CUBLAS_WORKSPACE_CONFIG=:4096:8`` or ``:16:8`` in the environment. `bincount` with weights has no such algorithm.

    Parameters
    ----------
    mode : bool
        Whether to require it; the default is False.
    warn_only : bool
        Warn of an operation without a deterministic algorithm, instead of raising a ``RuntimeError``.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.use_deterministic_algorithms(True)
    >>> gradcore.are_deterministic_algorithms_enabled()
    True
    >>> gradcore.use_deterministic_algorithms(False)
    """
    global _mode
    _mode = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Return whether operations must give equal bits in equal calls; see `use_deterministic_algorithms`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.are_deterministic_algorithms_enabled()
    False
    """
    return _mode > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether operations that cannot give equal bits in equal calls warn; see `use_deterministic_algorithms`.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _mode == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set `use_deterministic_algorithms` by a number or a word.

    Parameters
    ----------
    debug_mode : int or str
        0 or ``'default'``, 1 or ``'warn'``, 2 or ``'error'``.

    Raises
    ------
    TypeError
        If `debug_mode` is neither an int nor a string.
    RuntimeError
        If `debug_mode` is another number or string.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.set_deterministic_debug_mode("warn")
    >>> gc.get_deterministic_debug_mode()
    1
    >>> gc.set_deterministic_debug_mode("default")
    """
    global _mode
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got " + debug_mode
            )
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    _mode = int(debug_mode)


def get_deterministic_debug_mode() -> int:
    """Return 0, 1 or 2, as `set_deterministic_debug_mode` takes it.

    Examples
    --------
    >>> import gradcore as gc
    >>> gc.get_deterministic_debug_mode()
    0
    """
    return _mode


def alert(name: str) -> None:
    """Raise, or warn, if determinism is required, because the operation `name` is not deterministic."""
    if not _mode:
        return
    if _mode == 1:
        warnings.warn(
            f"{name} does not have a deterministic implementation, but you set "
            "'torch.use_deterministic_algorithms(True, warn_only=True)'.",
            UserWarning,
            stacklevel=2,
        )
        return
    raise RuntimeError(
        f"{name} does not have a deterministic implementation, but you set "
        "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this operation, or you can "
        "use the 'warn_only=True' option, if that's acceptable for your application."
    )


def alert_products() -> None:
    """Raise, or warn, if determinism is required and cuBLAS's workspace is not configured for it."""
    if not _mode or os.environ.get("CUBLAS_WORKSPACE_CONFIG") in (":4096:8", ":16:8"):
        return
    message = (
        "Deterministic behavior was enabled with `torch.use_deterministic_algorithms(True)`, but this operation is not "
        "deterministic because it uses CuBLAS and you have CUDA >= 10.2. To enable deterministic behavior in this "
        "case, you must set an environment variable before running your application: CUBLAS_WORKSPACE_CONFIG=:4096:8 "
        "or CUBLAS_WORKSPACE_CONFIG=:16:8."
    )
    if _mode == 2:
        raise RuntimeError(message)
    warnings.warn(message, UserWarning, stacklevel=2)
