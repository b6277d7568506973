"""Report of the environment: versions, libraries, devices."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from gradcore.backends import compiled, registry
from gradcore.backends.numpy import openblas, threads
from gradcore.core import config

__all__ = ["show_config"]

MISSING = "not installed"


def _version(package: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return MISSING


def _cupy() -> str:
    for package in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        version = _version(package)
        if version != MISSING:
            return f"{version} ({package})"
    return MISSING


def _blas() -> str:
    """Return the BLAS that NumPy was built with, and its threads."""
    numpy_config: Any = np.show_config(mode="dicts")
    blas = numpy_config.get("Build Dependencies", {}).get("blas", {})
    name = f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
    library = openblas.NUMPY.library
    if library is None:
        return f"{name}; its threads are not gradcore's to choose"
    return f"{name}, in {_number(library.read(), 'thread')}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _compiled_state() -> str:
    state = compiled.state()
    if hasattr(registry.CPU.backend, "library"):
        return f"used ({state})"
    return state if not state.startswith("built: ") else f"{state}, for programs that start from now on"


def _cuda() -> str:
    reason = registry.unavailable("cuda")
    if reason is not None:
        return f"not available: {reason}"
    from gradcore.cuda import devices

    return f"available ({', '.join(f'{i}: {devices.get_device_name(i)}' for i in range(devices.device_count()))})"


def show_config() -> str:
    """Return a description of the environment: versions, threads, BLAS, compiled kernels and devices.

    Returns
    -------
    str
        Several lines of text; print it, and put it into bug reports.

    Examples
    --------
    >>> import gradcore
    >>> print(gradcore.show_config())
    gradcore  ...
    """
    import platform

    from gradcore import __version__

    bfloat16 = _version("ml_dtypes")
    lines = {
        "gradcore": f"{__version__} in {os.path.dirname(os.path.dirname(__file__))}",
        "Python": f"{platform.python_version()} on {platform.platform()}",
        "NumPy": np.__version__,
        "SciPy": _version("scipy"),
        "ml_dtypes": bfloat16 if bfloat16 != MISSING else f"{MISSING}, so there is no bfloat16",
        "threads": f"{threads.get_num_threads()} for operations on the CPU; {_number(os.cpu_count() or 1, 'core')}",
        "BLAS": _blas(),
        "compiled kernels": _compiled_state(),
        "CuPy": _cupy(),
        "CUDA": _cuda(),
        "device='cuda' without CUDA": {"warn": "the CPU, with a warning", "silent": "the CPU", "error": "an error"}[
            config.cuda_fallback()
        ],
    }
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())
