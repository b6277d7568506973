"""Rendezvous of processes without MPI: rank 0 sends the same bytes to all processes, by a socket or a file."""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from gradcore.distributed.errors import DistNetworkError

__all__ = ["TOKEN", "find_free_port", "share"]

#: The variable with a secret that processes of one run share. Launchers set it; without one, any process may ask.
TOKEN = "GRADCORE_RENDEZVOUS_TOKEN"
#: Seconds that one connection may take; bytes of a proof; largest number of bytes that are accepted from rank 0.
_PATIENCE, _PROOF, _LONGEST = 5.0, 32, 1 << 20


def share(make: Callable[[], bytes], rank: int, size: int, init_method: str | None, seconds: float) -> bytes:
    """Return, in every process, the bytes that `make` returns in rank 0.

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
            return _exchange_by_file(make, rank, Path(parts.path), end)
        if parts.scheme == "env":
            address = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500"))
        elif parts.scheme == "tcp" and parts.hostname and parts.port:
            address = parts.hostname, parts.port
        else:
            raise ValueError(f"init_method must be env://, tcp://host:port or file:///path, not {init_method!r}")
        if rank == 0:
            return _serve(make(), size, address, end)
        return _ask(address, rank, end)
    except OSError as error:
        raise DistNetworkError(
            f"rank {rank} of {size}: the processes did not find each other by "
            f"{init_method or 'MASTER_ADDR and MASTER_PORT'} within {seconds:g} s: {error}"
        ) from error


def _exchange_by_file(make: Callable[[], bytes], rank: int, path: Path, end: float) -> bytes:
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
    """Send the bytes to every other rank. Connections without the token, or that are no rank, get nothing."""
    served: set[int] = set()
    with _listen(address, size) as server:
        server.settimeout(0.05)
        while len(served) < size - 1:
            if time.monotonic() > end:
                missing = sorted(set(range(1, size)) - served)
                raise TimeoutError(f"rank {', '.join(map(str, missing))} did not ask")
            with contextlib.suppress(TimeoutError):
                peer, _ = server.accept()
                threading.Thread(target=_answer, args=(peer, data, size, served), daemon=True).start()
    return data


def find_free_port(host: str = "") -> int:
    """Return the number of a port that nothing listens to at `host`, an address of this machine (by default, all)."""
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1])


def _listen(address: tuple[str, int], size: int) -> socket.socket:
    """Listen at the address that the other ranks were given, on that address only if it belongs to this machine."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        return socket.create_server(address, family=family, backlog=2 * size)
    except OSError as error:
        if error.errno not in (errno.EADDRNOTAVAIL, getattr(socket, "EAI_NONAME", -2)):
            raise
        return socket.create_server(("", address[1]), backlog=2 * size)  # the name of a gateway, as of a service


def _answer(peer: socket.socket, data: bytes, size: int, served: set[int]) -> None:
    """Serve one connection: read its rank and its proof of the token, send the bytes, and wait for the confirmation."""
    with peer, contextlib.suppress(OSError):
        peer.settimeout(_PATIENCE)
        rank, proof = int.from_bytes(_read(peer, 4), "little"), _read(peer, _PROOF)
        if not 0 < rank < size or not hmac.compare_digest(proof, _prove(b"rank", rank.to_bytes(4, "little"))):
            return
        peer.sendall(len(data).to_bytes(4, "little") + _prove(b"data", data) + data)
        if _read(peer, 1) == b"k":
            served.add(rank)


def _ask(address: tuple[str, int], rank: int, end: float) -> bytes:
    number = rank.to_bytes(4, "little")
    while True:
        try:
            with socket.create_connection(address, max(min(end - time.monotonic(), _PATIENCE), 0.01)) as peer:
                peer.sendall(number + _prove(b"rank", number))
                length, proof = int.from_bytes(_read(peer, 4), "little"), _read(peer, _PROOF)
                data = _read(peer, min(length, _LONGEST))
                if hmac.compare_digest(proof, _prove(b"data", data)):
                    peer.sendall(b"k")
                    return data
        except OSError:  # Rank 0 does not listen yet, or another program does.
            if time.monotonic() > end:
                raise
        if time.monotonic() > end:
            raise TimeoutError(f"at {address[0]}:{address[1]} no process with the token of this run answers")
        time.sleep(0.05)


def _read(peer: socket.socket, count: int) -> bytes:
    """Read `count` bytes. Raise ConnectionError if there are fewer."""
    data = b""
    while len(data) < count:
        part = peer.recv(count - len(data))
        if not part:
            raise ConnectionError(f"the connection ended after {len(data)} of {count} bytes")
        data += part
    return data


def _prove(purpose: bytes, data: bytes) -> bytes:
    """Return a proof of `data`, for one purpose, that only processes with the token of the run can compute."""
    token = os.environ.get(TOKEN) or os.environ.get("TORCHELASTIC_RUN_ID", "")
    return hmac.digest(token.encode() or b"gradcore", purpose + data, "sha256")
