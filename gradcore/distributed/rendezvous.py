"""How processes without MPI find each other: rank 0 gives all the same bytes, through a socket or a file."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from gradcore.distributed.errors import DistNetworkError

__all__ = ["share"]


def share(make: Callable[[], bytes], rank: int, size: int, init_method: str | None, seconds: float) -> bytes:
    """The bytes that rank 0 makes, in every process.

    Parameters
    ----------
    make : callable
        Called in rank 0 alone.
    rank, size : int
    init_method : str, optional
        ``env://`` (the default: rank 0 listens at ``MASTER_ADDR`` and ``MASTER_PORT``), ``tcp://host:port``, or
        ``file:///path`` of a file that does not exist yet, and that all processes see.
    seconds : float
        How long to wait for the others.
    """
    end = time.monotonic() + seconds
    parts = urlsplit(init_method or "env://")
    try:
        if parts.scheme == "file":
            return _by_file(make, rank, Path(parts.path), end)
        if parts.scheme == "env":
            address = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500"))
        elif parts.scheme == "tcp" and parts.hostname and parts.port:
            address = parts.hostname, parts.port
        else:
            raise ValueError(f"init_method must be env://, tcp://host:port or file:///path, not {init_method!r}")
        if rank == 0:
            return _serve(make(), size, address, end)
        return _ask(address, end)
    except OSError as error:
        raise DistNetworkError(
            f"rank {rank} of {size}: the processes did not find each other by "
            f"{init_method or 'MASTER_ADDR and MASTER_PORT'} within {seconds:g} s: {error}"
        ) from error


def _by_file(make: Callable[[], bytes], rank: int, path: Path, end: float) -> bytes:
    if rank == 0:
        data, part = make(), path.with_name(path.name + ".part")
        part.write_bytes(data)
        part.replace(path)
        return data
    while True:
        with contextlib.suppress(FileNotFoundError):
            return path.read_bytes()
        if time.monotonic() > end:
            raise TimeoutError(f"rank 0 has not written {path}")
        time.sleep(0.02)


def _serve(data: bytes, size: int, address: tuple[str, int], end: float) -> bytes:
    with socket.create_server(("", address[1]), backlog=size) as server:
        for _ in range(size - 1):
            server.settimeout(max(end - time.monotonic(), 0.01))
            peer, _ = server.accept()
            with peer:
                peer.sendall(data)
    return data


def _ask(address: tuple[str, int], end: float) -> bytes:
    while True:
        try:
            with socket.create_connection(address, max(end - time.monotonic(), 0.01)) as peer:
                found = b"".join(iter(lambda: peer.recv(4096), b""))
                if found:
                    return found
        except OSError:  # rank 0 does not listen yet
            if time.monotonic() > end:
                raise
        time.sleep(0.05)
