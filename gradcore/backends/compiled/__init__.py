"""Compiled kernels that replace some of NumPy's on the CPU.

The package carries them where its installation could compile them, for several instruction sets; a user can build them
for this machine's own (`gradcore.compiled`). NumPy's kernels remain the reference, and compute whatever has no compiled
kernel: other dtypes, other layouts, small arrays.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from gradcore.backends.compiled.cache import COMMAND, cache_folder
from gradcore.core import config

__all__ = ["COMMAND", "cache_folder", "connect", "state"]

_VARIANTS = os.path.join(os.path.dirname(__file__), "variants")


def connect() -> Any:
    """Return the CPU's backend with compiled kernels, or None if they are switched off or not built."""
    if config.COMPILED == "0":
        return None
    library = _library()
    if library is not None:
        from gradcore.backends.compiled.backend import CompiledBackend

        return CompiledBackend(library)
    if config.COMPILED == "1":
        warnings.warn(f"GRADCORE_COMPILED is 1, but compiled kernels are {state()}", RuntimeWarning, stacklevel=2)
    return None


def _library() -> Any:
    """Return this machine's library, or the package's. A missing folder is noticed without importing anything."""
    folder, result = cache_folder(), None
    if config.COMPILED != "package" and folder is not None and os.path.isdir(folder):
        from gradcore.backends.compiled.library import load

        result = load()
    if result is None and config.COMPILED != "machine" and os.path.isdir(_VARIANTS):
        from gradcore.backends.compiled.library import load_packaged

        result = load_packaged()
    return result


def state() -> str:
    """Return a description of the state of compiled kernels.

    Returns
    -------
    str
        The rest of a sentence that begins with "Compiled kernels are".

    Examples
    --------
    >>> from gradcore import compiled
    >>> print("Compiled kernels are", compiled.state())
    Compiled kernels are ...
    """
    from gradcore.backends.compiled.library import find, find_packaged, libraries
    from gradcore.backends.compiled.variants import FOLDER, REASON

    path = None if config.COMPILED == "package" else find()
    if path is None and config.COMPILED != "machine":
        path = find_packaged()
    if path is not None:
        return "switched off (GRADCORE_COMPILED=0)" if config.COMPILED == "0" else f"built: {path}"
    present = os.listdir(FOLDER) if os.path.isdir(FOLDER) else []
    outdated = config.COMPILED != "machine" and any(name.endswith(".so") for name in present)
    if libraries() or outdated:
        return f"built for another version of gradcore, or another CPU; to build them for these: {COMMAND}"
    if cache_folder() is None:
        return "not built, as there is no absolute folder for them; name one by GRADCORE_CACHE"
    if config.COMPILED != "machine" and os.path.exists(REASON):
        with open(REASON, encoding="utf-8") as file:
            return f"not built with the package: {file.read().strip()} To build them: {COMMAND}"
    return f"not built; to build them: {COMMAND}"
