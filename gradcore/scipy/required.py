"""SciPy, imported when it is needed."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["scipy_module"]


def scipy_module(name: str) -> Any:
    """Return a submodule of SciPy.

    Raises
    ------
    ImportError
        Saying what to install, if SciPy is missing.

    Examples
    --------
    >>> from gradcore.scipy.required import scipy_module
    >>> scipy_module("constants").pi  # doctest: +ELLIPSIS
    3.14159...
    """
    try:
        return importlib.import_module(f"scipy.{name}")
    except ImportError as error:
        raise ImportError(f"gradcore.scipy.{name} needs SciPy; install it: pip install scipy") from error
