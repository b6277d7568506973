"""The folder of this machine's compiled kernels, and the command that builds them."""

from __future__ import annotations

import os
import sys

__all__ = ["COMMAND", "cache_folder"]

#: Command that builds the kernels for the CPU of this machine.
COMMAND = "python -m gradcore.compiled"


def cache_folder() -> str | None:
    """Return the folder of built libraries: ``GRADCORE_CACHE``, or a folder in the user's cache folder.

    Returns None if it would be relative to the working directory, which anybody may have filled.
    """
    chosen = os.environ.get("GRADCORE_CACHE")
    if not chosen:
        home = os.path.expanduser("~")
        caches = os.environ.get("XDG_CACHE_HOME") or ""
        if sys.platform == "darwin":
            caches = os.path.join(home, "Library", "Caches")
        elif not os.path.isabs(caches):  # The XDG standard says to ignore relative paths.
            caches = os.path.join(home, ".cache")
        chosen = os.path.join(caches, "gradcore")
    return chosen if os.path.isabs(chosen) else None
