"""Settings that users may change: each is read from the environment once and can be set in code."""

from __future__ import annotations

import os
from typing import Literal, cast, get_args

__all__ = ["Fallback", "cuda_fallback", "set_cuda_fallback"]

Fallback = Literal["warn", "error", "silent"]


def _checked(policy: str, source: str) -> Fallback:
    if policy not in get_args(Fallback):
        raise ValueError(f"{source} must be one of 'warn', 'error' or 'silent', but got {policy!r}")
    return cast(Fallback, policy)


_cuda_fallback: Fallback = _checked(os.environ.get("GRADCORE_CUDA_FALLBACK", "warn"), "GRADCORE_CUDA_FALLBACK")


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
    _cuda_fallback = _checked(policy, "the CUDA fallback policy")
