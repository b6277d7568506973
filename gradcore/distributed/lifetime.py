"""The end of processes that were started together, before they initialize MPI.

MPI ends all processes when one fails, but only those that have initialized it. Without this module, a process that
fails before that would leave the others waiting inside ``MPI_Init`` forever, where Python's timeouts have no effect.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradcore.distributed import environment

__all__ = [
    "abort_before_mpi",
    "abort_on_failure",
    "deliver_output",
    "die_with_parent",
    "has_ended",
    "limit_start",
    "note_end",
    "run_folder",
]

#: The option of Linux's ``prctl`` that names a signal for the death of the parent.
_PR_SET_PDEATHSIG = 1
#: Seconds after which a waiting process ends itself, unless it has been ended before.
_AFTER = 0.5


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Ask the system to send a signal to this process when its parent ends, if the system supports that."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def run_folder() -> Path | None:
    """Return the folder in which processes report to the launcher, or None without a launcher."""
    folder = Path(os.environ.get("GRADCORE_RUN_FOLDER", ""))
    return folder if folder != Path() and folder.is_dir() else None  # The folder is missing on other machines.


def note_end() -> None:
    """Report to the launcher that this process ends normally, and whether it has initialized MPI."""
    folder, rank = run_folder(), environment.rank()
    if folder is not None and rank is not None:
        (folder / f"{rank}.end").write_text("known" if "mpi4py.MPI" in sys.modules else "unknown")


def has_ended(pid: int) -> bool:
    """Return whether a process of this machine has ended, or is a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return False


def deliver_output(seconds: float = 1.0) -> None:
    """Flush standard output and error, and wait until the launcher has read them.

    MPICH's launcher drops output that it has not read when a process aborts. The error that explains the abort would be
    lost.
    """
    end = time.monotonic() + seconds
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # None, closed, or not a file
            stream.flush()
            number = stream.fileno()
            while _has_unread(number) and time.monotonic() < end:
                time.sleep(1e-3)


def _has_unread(number: int) -> bool:
    """Return whether a pipe contains unread bytes, if the system can tell."""
    if sys.platform == "win32" or not stat.S_ISFIFO(os.fstat(number).st_mode):
        return False
    import fcntl
    import termios

    return fcntl.ioctl(number, termios.FIONREAD, bytes(4)) != bytes(4)


def abort_before_mpi(code: int) -> None:
    """End all processes started by MPICH's launcher, from a process that has not initialized MPI.

    Hydra accepts requests of a process from its start. Other launchers react to exit codes.
    """
    number = os.environ.get("PMI_FD", "")
    if number.isdecimal() and "mpi4py.MPI" not in sys.modules:
        with contextlib.suppress(OSError):
            os.write(int(number), f"cmd=abort exitcode={code or 1}\n".encode())


def abort_on_failure() -> None:
    """Make any uncaught exception end all processes, from the import of ``gradcore.distributed`` on."""
    if not os.environ.get("PMI_FD", "").isdecimal() or (environment.size() or 1) == 1:
        return
    show = sys.excepthook

    def show_and_abort(*failure: Any) -> None:
        show(*failure)
        deliver_output()
        abort_before_mpi(1)

    sys.excepthook = show_and_abort


@contextlib.contextmanager
def limit_start(seconds: float) -> Iterator[None]:
    """End the process if the block takes too long, as MPI may wait for processes that never start.

    ``MPI_Init`` holds Python's lock, so that only a C thread or another process can keep the time. The thread prints
    where this process waits. The other process ends all processes, unless a launcher of this package does.
    """
    folder, rank = run_folder(), environment.rank()
    with contextlib.ExitStack() as stack:
        if folder is not None:
            waits = folder / f"{rank}.wait"
            waits.write_text(f"{seconds:g}")
            stack.callback(waits.unlink, missing_ok=True)
        elif os.environ.get("PMI_FD", "").isdecimal():
            watchdog = _start_watchdog(int(os.environ["PMI_FD"]), rank, seconds)
            stack.callback(watchdog.wait)
            stack.callback(watchdog.kill)
        with contextlib.suppress(AttributeError, OSError, ValueError):
            # Standard error may be no file, as in notebooks.
            faulthandler.dump_traceback_later(max(seconds, 0.001) + _AFTER, exit=True)
            stack.callback(faulthandler.cancel_dump_traceback_later)
        yield


def _start_watchdog(channel: int, rank: int | None, seconds: float) -> subprocess.Popen[bytes]:
    """Start a process that ends all others after `seconds`."""
    message = f"rank {rank}: not all ranks called init_process_group within {seconds:g} s"
    program = (
        f"import os, sys, time\ntime.sleep({max(seconds, 0.001)!r})\nsys.stderr.write({message!r} + chr(10))\n"
        f"sys.stderr.flush()\nos.write({channel}, b'cmd=abort exitcode=1\\n')"
    )
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", program], pass_fds=(channel,))
