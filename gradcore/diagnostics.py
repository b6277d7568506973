"""What gradcore found on this machine, in words."""

from __future__ import annotations

import numpy as np

from gradcore import config
from gradcore.backends import registry

__all__ = ["show_config"]


def _version(package: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cupy() -> str:
    for package in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        version = _version(package)
        if version != "not installed":
            return f"{version} ({package})"
    return "not installed"


def show_config() -> str:
    """Describe versions, devices, and why a device cannot be used.

    Returns
    -------
    str
        Several lines of text; print it, and put it into bug reports.
    """
    import platform

    from gradcore import __version__

    reason = registry.unavailable("cuda")
    if reason is None:
        from gradcore import cuda

        names = ", ".join(f"{i}: {cuda.get_device_name(i)}" for i in range(cuda.device_count()))
        cuda_line = f"available ({names})"
    else:
        cuda_line = f"not available: {reason}"
    lines = {
        "gradcore": __version__,
        "Python": f"{platform.python_version()} on {platform.platform()}",
        "NumPy": np.__version__,
        "SciPy": _version("scipy"),
        "ml_dtypes": _version("ml_dtypes"),
        "CuPy": _cupy(),
        "CUDA": cuda_line,
        "device='cuda' without CUDA": {"warn": "the CPU, with a warning", "silent": "the CPU", "error": "an error"}[
            config.cuda_fallback()
        ],
    }
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())
