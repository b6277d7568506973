"""MPI for processes that were started without a launcher, by `multiprocessing` or by one command each."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from pathlib import Path

from gradcore.distributed.errors import DistNetworkError
from gradcore.distributed.rendezvous import share

__all__ = ["forget_world", "is_launched", "join_world"]

#: Variables that the launchers of MPI set, Slurm's among them.
_LAUNCHERS = ("PMI_FD", "PMI_PORT", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_ID")


def is_launched() -> bool:
    """Return whether an MPI launcher has started this process, or MPI is already initialized."""
    return "mpi4py.MPI" in sys.modules or any(name in os.environ for name in _LAUNCHERS)


def join_world(rank: int, size: int, init_method: str | None, seconds: float) -> None:
    """Set up this process so that MPI finds the other processes when it is initialized.

    Rank 0 starts a process manager (see `pmi_server`). It sends the others the address and an identity each by
    `rendezvous.share`.

    Parameters
    ----------
    rank, size : int
    init_method : str, optional
        See `init_process_group`.
    seconds : float
        How long to wait for the others.

    Raises
    ------
    DistNetworkError
        If the processes do not find each other.
    """
    server = json.loads(share(lambda: _start_server(size), rank, size, init_method, seconds))
    number = server["ids"][rank]
    os.environ.update(PMI_PORT=f"{server['host']}:{server['port']}", PMI_ID=str(number))
    try:
        watcher = socket.create_connection((server["host"], server["port"]), seconds)
    except OSError as error:
        raise DistNetworkError(
            f"rank {rank} of {size}: the process manager of rank 0 does not answer: {error}"
        ) from error
    watcher.settimeout(None)
    watcher.sendall(f"cmd=watch pmiid={number}\n".encode())
    threading.Thread(target=_watch, args=(watcher,), name="gradcore-watch", daemon=True).start()


def forget_world() -> None:
    """Remove the environment variables of `join_world` once MPI has read them, so that child processes do not join."""
    for name in ("PMI_PORT", "PMI_ID"):
        os.environ.pop(name, None)


def _start_server(size: int) -> bytes:
    """Start the process manager, and return its address and identities."""
    host = os.environ.get("MASTER_ADDR", "127.0.0.1")
    with contextlib.suppress(OSError):
        host = socket.gethostbyname(host)
    numbers: set[int] = set()
    while len(numbers) < size:
        numbers.add(secrets.randbelow(2**30))
    ids = list(numbers)
    # The server ends when the pipe closes, which the system does at the end of this process. Python must not close it,
    # because MPI is finalized after all Python objects have been deleted.
    source, _ = os.pipe()
    path = Path(__file__).with_name("pmi_server.py")
    command = [sys.executable, "-I", "-S", str(path), json.dumps({"ids": ids, "host": host})]
    server = subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE, text=True)
    os.close(source)
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    if not port:
        raise DistNetworkError(f"rank 0 cannot listen at {host}: set MASTER_ADDR to an address of its machine")
    server.returncode = 0  # Nobody waits for the server, so Popen must not warn.
    return json.dumps({"host": host, "port": int(port), "ids": ids}).encode()


def _watch(watcher: socket.socket) -> None:
    """End this process when another one has failed. It may wait inside of MPI, where no exception reaches it."""
    with watcher, contextlib.suppress(OSError):
        code, _, text = watcher.makefile(encoding="utf-8").readline().partition(" ")
        if code:
            sys.stderr.write(f"gradcore.distributed: {text.strip()}; this process ends, too\n")
            sys.stderr.flush()
            os._exit(int(code))
