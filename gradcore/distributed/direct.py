"""Launcher that starts processes on this machine without MPI, with the variables that NCCL processes need."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from gradcore.distributed.lifetime import die_with_parent
from gradcore.distributed.rendezvous import TOKEN, find_free_port

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run a command in several processes, and return its exit code. If one process fails, end the others.

    Parameters
    ----------
    argv : sequence of str
        ``-n``, the number of processes, and the command.
    """
    size = int(argv[1])
    variables = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
    variables = {
        **os.environ,
        "MASTER_PORT": str(find_free_port("127.0.0.1")),
        TOKEN: secrets.token_hex(16),
        **variables,
    }
    die_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    children = [
        subprocess.Popen(argv[2:], env={**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(size)
    ]
    try:
        while True:
            codes = [child.poll() for child in children]
            failed = [code for code in codes if code]
            if failed or None not in codes:
                return failed[0] if failed else 0
            time.sleep(0.05)
    finally:
        _end(children)


def _end(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes that are still running: first by a signal that they can handle, then by one that they cannot."""
    for child in children:
        child.terminate()
    for child in children:
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
