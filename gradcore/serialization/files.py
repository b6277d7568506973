"""Files that are replaced as a whole: whoever reads them finds the old content or the new one, never a part."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["written"]

#: How long a file that was not completed must have lain there to be removed by the next save, in seconds.
ABANDONED = 3600


@contextlib.contextmanager
def written(f: Any) -> Iterator[Any]:
    """A file to write into, which replaces `f` when the block ends without an exception.

    Raises
    ------
    RuntimeError
        If there is no such folder.
    AttributeError
        If `f` is neither a path nor a file.
    """
    if not isinstance(f, (str, bytes, os.PathLike)):
        if not hasattr(f, "write"):
            raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
        yield f
        return
    target = os.path.realpath(os.fsdecode(f))  # what a link leads to is replaced, not the link
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {os.path.dirname(os.fsdecode(f))} does not exist.")
    beside = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(4)}.saving")
    handle = _made_beside(target, beside)
    if handle is None:
        with open(target, "wb") as file:
            yield file
        return
    _remove_abandoned(folder, name)
    try:
        with open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):
            os.chmod(beside, os.stat(target).st_mode & 0o7777)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    _sync_folder(folder)


def _made_beside(target: str, beside: str) -> int | None:
    """A new file, open; None where only the target itself can be written: a device, a pipe, a folder without leave."""
    if os.path.exists(target) and not os.path.isfile(target):
        return None
    try:
        return os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except PermissionError:
        if os.path.isfile(target) and os.access(target, os.W_OK):
            return None
        raise


def _remove_abandoned(folder: str, name: str) -> None:
    """Remove what earlier saves of this file left behind, whose processes were killed."""
    for path in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(name[:100])}.????????.saving")):
        with contextlib.suppress(OSError):
            if os.stat(path).st_mtime < time.time() - ABANDONED:
                os.unlink(path)


def _sync_folder(folder: str) -> None:
    """Let the folder's new entry reach the disk, where folders can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
