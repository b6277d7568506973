"""PyTorch's ``backends.cpu``."""

from __future__ import annotations

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The widest instructions that NumPy computes with here.

    Returns
    -------
    str
        ``'AVX512'``, ``'AVX2'`` or ``'DEFAULT'``.

    Examples
    --------
    >>> import gradcore
    >>> gradcore.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
    True
    """
    import numpy as np

    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    words = " ".join(found)
    if "AVX512_SKX" in words or "X86_V4" in words:
        return "AVX512"
    return "AVX2" if "AVX2" in words or "X86_V3" in words else "DEFAULT"
