"""Folders in which libraries are built. Each is locked during its build, so that those of killed builds can go."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["remove_abandoned", "workplace"]

#: Prefix of the names of these folders.
PREFIX = "building-"


@contextmanager
def workplace(cache: Path) -> Iterator[Path]:
    """Create a folder in the cache that exists as long as the context. Folders of killed builds are deleted."""
    with _lock_folder(cache):
        _remove(cache)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=cache))
        lock = _lock_folder(folder)
        lock.__enter__()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.__exit__(None, None, None)


def remove_abandoned(cache: Path) -> None:
    """Delete the folders of builds that were killed."""
    if os.name == "posix" and cache.is_dir():
        with _lock_folder(cache):
            _remove(cache)


def _remove(cache: Path) -> None:
    for folder in cache.glob(f"{PREFIX}*"):
        with _lock_folder(folder, wait=False) as is_locked:
            if is_locked:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _lock_folder(folder: Path, wait: bool = True) -> Iterator[bool]:
    """Lock a folder for this process. Yields False if another process has the lock, or there are no locks."""
    import fcntl

    descriptor, is_locked = os.open(folder, os.O_RDONLY), True
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            is_locked = False
        yield is_locked
    finally:
        os.close(descriptor)
