"""Zip archives of saved files, read entry by entry. Reading never takes more memory than the file has bytes."""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Archive"]

#: Bytes that are read at a time.
CHUNK = 1 << 24

#: The errors that the readers of zip and deflate raise for broken archives.
BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, OverflowError, NotImplementedError, EOFError)


class Archive:
    """A zip archive as written by ``torch.save``: its entries are stored one after the other, uncompressed.

    Raises
    ------
    RuntimeError
        If the file is no such archive.
    EOFError
        If the file is empty.
    """

    def __init__(self, file: Any) -> None:
        self.size = self._left = _length(file)
        self._file = file
        try:
            self._zip = zipfile.ZipFile(file)
            self._entries = {info.filename: info for info in self._zip.infolist()}
        except BROKEN as error:
            raise RuntimeError(_not_an_archive(file, error)) from None
        main = next((name for name in self._entries if name.rpartition("/")[2] == "data.pkl"), None)
        if main is None:
            raise RuntimeError("the file has no data.pkl: it was not written by save (or is a scripted program)")
        self._prefix = main.removesuffix("data.pkl")

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._entries

    def nbytes(self, name: str) -> int:
        """Return the length of an entry in bytes, checked against the length of the file."""
        info = self._entries.get(self._prefix + name)
        if info is None:
            raise pickle.UnpicklingError(f"the file has no {name}")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise pickle.UnpicklingError(
                f"{name} in the file is compressed or encrypted, but save stores entries as they are. If the archive "
                "was packed again, unpack it and pack it without compression (zip -0)."
            )
        if not 0 <= info.header_offset < self.size:
            raise pickle.UnpicklingError(f"{name} in the file begins outside of it")
        return info.file_size

    def read(self, name: str) -> npt.NDArray[np.uint8]:
        """Return a copy of the bytes of an entry.

        Raises
        ------
        pickle.UnpicklingError
            If there is no such entry, it is compressed, damaged, or longer than the file.
        """
        count = self.nbytes(name)
        self._left -= count
        if self._left < 0:
            raise pickle.UnpicklingError(f"the entries up to {name} are together longer than the file")
        out = np.empty(count, np.uint8)
        try:
            with self._zip.open(self._prefix + name) as entry:
                filled = 0
                while piece := entry.read(CHUNK):  # to its end, where the checksum is compared
                    out[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
                    filled += len(piece)
        except BROKEN as error:
            raise pickle.UnpicklingError(f"{name} in the file is damaged: {error}") from None
        if filled != count:
            raise pickle.UnpicklingError(f"{name} in the file ends after {filled} of {count} bytes")
        return out

    def map(self, name: str) -> npt.NDArray[np.uint8]:
        """Return the bytes of an entry as a copy-on-write view of the file, which is read on access.

        The checksum is not verified.

        Raises
        ------
        pickle.UnpicklingError
            If there is no such entry, it is compressed, or longer than the file.
        """
        count = self.nbytes(name)
        if count == 0:
            return np.empty(0, np.uint8)
        info = self._entries[self._prefix + name]
        try:
            with self._zip.open(info):  # compares the header of the entry with the directory
                pass
            self._file.seek(info.header_offset + 26)
            start = info.header_offset + 30 + sum(struct.unpack("<HH", self._file.read(4)))
        except BROKEN as error:
            raise pickle.UnpicklingError(f"{name} in the file is damaged: {error}") from None
        if start + count > self.size:
            raise pickle.UnpicklingError(f"{name} in the file ends outside of it")
        return np.memmap(self._file, np.uint8, "c", start, (count,)).view(np.ndarray)


def _length(file: Any) -> int:
    """Return the length in bytes of a file that is open at its start."""
    size = file.seek(0, os.SEEK_END)
    size = file.tell() if size is None else size
    file.seek(0)
    if not size:
        raise EOFError("Ran out of input: the file is empty")
    return int(size)


def _not_an_archive(file: Any, error: Exception) -> str:
    file.seek(0)
    start = file.read(9)
    if start[:4] == b"PK\x03\x04":
        return f"the file is a damaged zip archive ({error}); it may have been cut off while it was written or copied"
    if start[8:9] == b"{":
        return (
            "the file is not a zip archive as torch.save writes it, but looks like one of safetensors: read it with "
            "safetensors.numpy.load_file, whose arrays load_state_dict takes"
        )
    return (
        "the file is not a zip archive as torch.save writes it (since PyTorch 1.6). Load and save it again with "
        "PyTorch."
    )
