"""Kernels compiled on this machine by its own C++ compiler, in the place of some of NumPy's: an extra.

They are built only when a user asks for it (`gradcore.compiled`), and used from then on. NumPy's kernels remain the
reference, and compute whatever has no compiled kernel: other dtypes, other layouts, small arrays.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from gradcore import config

__all__ = ["COMMAND", "cache_folder", "connect", "state"]

#: What builds them.
COMMAND = "python -m gradcore.compiled"


def cache_folder() -> str | None:
    """The folder of built libraries: ``GRADCORE_CACHE``, or gradcore's in the user's folder of caches.

    None where that would be relative to the working directory, which anybody may have filled.
    """
    chosen = os.environ.get("GRADCORE_CACHE")
    if not chosen:
        home = os.path.expanduser("~")
        caches = os.environ.get("XDG_CACHE_HOME") or ""
        if sys.platform == "darwin":
            caches = os.path.join(home, "Library", "Caches")
        elif not os.path.isabs(caches):  # which its standard says to ignore
            caches = os.path.join(home, ".cache")
        chosen = os.path.join(caches, "gradcore")
    return chosen if os.path.isabs(chosen) else None


def connect() -> Any:
    """The CPU's backend with compiled kernels; None if they are switched off or not built."""
    if config.COMPILED == "0":
        return None
    folder = cache_folder()
    if folder is not None and os.path.isdir(folder):  # who never built anything pays for no more than this
        from gradcore.backends.compiled.library import load

        library = load()
        if library is not None:
            from gradcore.backends.compiled.backend import CompiledBackend

            return CompiledBackend(library)
    if config.COMPILED == "1":
        warnings.warn(f"GRADCORE_COMPILED is 1, but compiled kernels are {state()}", RuntimeWarning, stacklevel=2)
    return None


def state() -> str:
    """Whether compiled kernels are there, in words.

    Returns
    -------
    str
        What follows "Compiled kernels are".

    Examples
    --------
    >>> from gradcore import compiled
    >>> print("Compiled kernels are", compiled.state())
    Compiled kernels are ...
    """
    from gradcore.backends.compiled.library import find, libraries

    path = find()
    if path is not None:
        return "switched off (GRADCORE_COMPILED=0)" if config.COMPILED == "0" else f"built: {path}"
    if libraries():
        return f"built for another version of gradcore, or another CPU; to build them for these: {COMMAND}"
    if cache_folder() is None:
        return "not built, as there is no absolute folder for them; name one by GRADCORE_CACHE"
    return f"not built; to build them: {COMMAND}"
