"""Files of the cache, of which a damaged one is noticed: each is stored with the digest of its content.

A crash or a full disk can leave a file with a part of its content, and `dlopen` and `marshal` end the process on such
files. So neither sees a file whose content does not have the digest that it was written with.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

__all__ = ["find_library", "is_library_name", "is_whole_library", "read_whole", "write_library", "write_whole"]

#: The name of a library: the digest of what it is made of, and that of its content.
_LIBRARY = re.compile(r"program-[0-9a-f]{32}-[0-9a-f]{64}\.so")


def write_whole(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file that begins with the digest of its content, so that it is there as a whole or not at all."""
    _write(path, hashlib.sha256(content).digest() + content, mode)


def read_whole(path: Path) -> bytes | None:
    """Return the content of a file that `write_whole` has written, or None if it is damaged or no plain file."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    digest, content = data[:32], data[32:]
    return content if hashlib.sha256(content).digest() == digest else None


def write_library(folder: Path, stem: str, content: bytes) -> Path:
    """Write a library whose name is a stem and the digest of its content, and return its path."""
    path = folder / f"{stem}-{hashlib.sha256(content).hexdigest()}.so"
    _write(path, content, 0o755)
    return path


def find_library(folder: Path, stem: str) -> Path | None:
    """Return the library with a stem, or None if there is none; delete those that are damaged."""
    for path in sorted(folder.glob(f"{stem}-*.so")):
        if is_whole_library(path):
            return path
        with suppress(OSError):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    return None


def is_library_name(name: object) -> bool:
    """Return whether something is the plain name of a library, without a folder."""
    return isinstance(name, str) and _LIBRARY.fullmatch(name) is not None


def is_whole_library(path: Path) -> bool:
    """Return whether a library has the content that its name says."""
    if not is_library_name(path.name) or not path.is_file():
        return False
    return path.stem.rpartition("-")[2] == hashlib.sha256(path.read_bytes()).hexdigest()


def _write(path: Path, data: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
