"""Settings that users may change: each is read from the environment once and can be set in code."""

from __future__ import annotations

import os
from typing import Any, Literal, get_args

__all__ = ["Fallback", "IndexChecks", "cuda_fallback", "index_checks", "set_cuda_fallback", "set_index_checks"]

Fallback = Literal["warn", "error", "silent"]
IndexChecks = Literal["later", "now", "off"]


def _checked(choices: Any, value: str, source: str) -> Any:
    known = get_args(choices)
    if value not in known:
        raise ValueError(f"{source} must be one of {', '.join(map(repr, known))}, but got {value!r}")
    return value


def _from_environment(choices: Any, name: str) -> Any:
    """The setting of an environment variable; the first choice if there is none."""
    return _checked(choices, os.environ.get(name, get_args(choices)[0]), name)


_cuda_fallback: Fallback = _from_environment(Fallback, "GRADCORE_CUDA_FALLBACK")
_index_checks: IndexChecks = _from_environment(IndexChecks, "GRADCORE_CUDA_INDEX_CHECKS")


def cuda_fallback() -> Fallback:
    """What happens when ``device='cuda'`` is asked for and CUDA cannot be used.

    Returns
    -------
    str
        ``'warn'`` (use the CPU and warn once), ``'silent'`` (use the CPU) or ``'error'`` (raise).
    """
    return _cuda_fallback


def set_cuda_fallback(policy: Fallback) -> None:
    """Choose what happens when ``device='cuda'`` is asked for and CUDA cannot be used.

    The environment variable ``GRADCORE_CUDA_FALLBACK`` sets the policy at import.

    Parameters
    ----------
    policy : {'warn', 'error', 'silent'}
        Use the CPU and warn once, raise a ``RuntimeError``, or use the CPU without a word.

    Raises
    ------
    ValueError
        If `policy` is none of the three.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.set_cuda_fallback("silent")
    >>> gradcore.cuda_fallback()
    'silent'
    >>> gradcore.set_cuda_fallback("warn")
    """
    global _cuda_fallback
    _cuda_fallback = _checked(Fallback, policy, "the CUDA fallback policy")


def index_checks() -> IndexChecks:
    """When an index that is out of bounds raises on CUDA.

    Returns
    -------
    str
        ``'later'``, ``'now'`` or ``'off'``; see `set_index_checks`.
    """
    return _index_checks


def set_index_checks(policy: IndexChecks) -> None:
    """Choose when an index that is out of bounds raises on CUDA (on the CPU it always does so at once).

    The environment variable ``GRADCORE_CUDA_INDEX_CHECKS`` sets the policy at import.

    Parameters
    ----------
    policy : {'later', 'now', 'off'}
        ``'later'`` (the default) checks on the device and raises when the host next waits for it, for example when a
        result is read; the operation itself has then used the index modulo the size. ``'now'`` waits for the device
        at every operation with indices, and raises there. ``'off'`` checks nothing.

    Raises
    ------
    ValueError
        If `policy` is none of the three.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.cuda.set_index_checks("now")
    >>> gradcore.cuda.index_checks()
    'now'
    >>> gradcore.cuda.set_index_checks("later")
    """
    global _index_checks
    _index_checks = _checked(IndexChecks, policy, "the policy of index checks")
