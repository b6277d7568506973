"""Atomic replacement of files: readers see either the old content or the new one, never a part."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import secrets
import time
from collections.abc import Iterator
from typing import Any

from gradcore.core.interrupts import run_despite_interrupts

__all__ = ["open_for_writing"]

#: The age in seconds from which the next save removes a temporary file that was not completed.
ABANDONED = 3600


@contextlib.contextmanager
def open_for_writing(f: Any) -> Iterator[Any]:
    """Open a temporary file that replaces `f` when the block ends without an exception.

    Raises
    ------
    RuntimeError
        If the folder does not exist.
    AttributeError
        If `f` is neither a path nor a file.
    """
    if not isinstance(f, (str, bytes, os.PathLike)):
        if not hasattr(f, "write"):
            raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
        yield f
        return
    target = os.path.realpath(os.fsdecode(f))  # replace the target of a symbolic link, not the link
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {os.path.dirname(os.fsdecode(f))} does not exist.")
    temporary = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(4)}.saving")
    if not _is_replaceable(target, folder):
        with open(target, "wb") as file:
            yield file
        return
    _remove_abandoned(folder, name)
    # The file is created inside of `try`, and its descriptor belongs to an object from the start, so that an interrupt
    # at any place leaves neither behind.
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    except BaseException:
        run_despite_interrupts(functools.partial(_remove, temporary))
        raise
    _sync_folder(folder)


def _is_replaceable(target: str, folder: str) -> bool:
    """Return whether a file can be replaced: not a device, a pipe, or a file in a folder that is not writable."""
    if os.path.exists(target) and not os.path.isfile(target):
        return False
    return os.access(folder, os.W_OK | os.X_OK) or not (os.path.isfile(target) and os.access(target, os.W_OK))


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _remove_abandoned(folder: str, name: str) -> None:
    """Remove temporary files of this file from earlier saves whose processes were killed."""
    for path in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(name[:100])}.????????.saving")):
        with contextlib.suppress(OSError):
            if os.stat(path).st_mtime < time.time() - ABANDONED:
                os.unlink(path)


def _sync_folder(folder: str) -> None:
    """Flush the directory entry to the disk, on systems where folders can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
