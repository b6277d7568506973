"""Cache files with digests, so that damaged files are noticed.

A crash or a full disk can truncate a file, and `dlopen` and `marshal` can crash the process on truncated files.
Therefore files are only read if their content matches their digest.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["find_library", "is_library_name", "is_whole_library", "read_whole", "write_library", "write_whole"]

#: The pattern of library names: the digest of the source, and that of the content.
_LIBRARY = re.compile(r"program-[0-9a-f]{32}-[0-9a-f]{64}\.so")
#: The largest number of libraries, and of plans, in the cache; the least recently used are deleted.
_MOST_FILES = 500


def write_whole(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file that begins with the digest of its content, atomically."""
    _write(path, hashlib.sha256(content).digest() + content, mode)


def read_whole(path: Path) -> bytes | None:
    """Return the content of a file written by `write_whole`, or None if it is damaged or no regular file."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    return data[32:] if hashlib.sha256(data[32:]).digest() == data[:32] else None


def write_library(folder: Path, stem: str, content: bytes) -> Path:
    """Write a library under a name of stem and digest, and return its path."""
    path = folder / f"{stem}-{hashlib.sha256(content).hexdigest()}.so"
    _write(path, content, 0o755)
    return path


def find_library(folder: Path, stem: str) -> Path | None:
    """Return the library of a stem, or None; delete damaged ones."""
    for path in sorted(folder.glob(f"{stem}-*.so")):
        if is_whole_library(path):
            return path
        with suppress(OSError):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    return None


def is_library_name(name: object) -> bool:
    """Return whether a string is a library's file name without a folder."""
    return isinstance(name, str) and _LIBRARY.fullmatch(name) is not None


def is_whole_library(path: Path) -> bool:
    """Return whether the content of a library matches the digest in its name."""
    if not is_library_name(path.name) or not path.is_file():
        return False
    return path.stem.rpartition("-")[2] == hashlib.sha256(path.read_bytes()).hexdigest()


def _write(path: Path, data: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _forget_old(path.parent)


def _forget_old(folder: Path) -> None:
    """Delete the least recently used libraries and plans if there are many."""
    with suppress(OSError):
        for pattern in ("program-*.so", "plan-*"):
            paths = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in paths[_MOST_FILES:]:
                path.unlink(missing_ok=True)
