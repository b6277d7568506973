"""Parent of one process of a distributed program, which notes when that process ends.

When a process is killed, MPI kills the others at once, and afterwards nobody can tell which one was first. The parent
notes the time before MPI knows of the end. `gradcore.distributed.run` starts this file without the package, as
``python -I -S supervisor.py COMMAND``: it takes a few milliseconds and little memory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

__all__ = ["main"]

#: Signals that the process gets when its parent gets them.
_PASSED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(argv: list[str]) -> None:
    """Run a command in a child process, note the time of its end, and end in the same way.

    Parameters
    ----------
    argv : list of str
        The path of a program, and its arguments.
    """
    folder = os.environ.get("GRADCORE_RUN_FOLDER", "")
    _die_with_parent(signal.SIGKILL)
    # A signal that arrives now is delivered when the handlers are set.
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED)
    pid = os.fork()
    if not pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED)
        _die_with_parent(signal.SIGKILL)  # This remains in effect for the program.
        os.execv(argv[0], argv)

    def pass_on(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    for number in _PASSED:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if os.path.isdir(folder):  # The folder is missing on other machines.
        with open(os.path.join(folder, f"{pid}.gone"), "w") as file:
            file.write(repr(time.time()))
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _die_with_parent(number: int) -> None:
    """Ask the system to send a signal to this process when its parent ends; as `lifetime.die_with_parent`.

    This file runs without the package, so it cannot import that function.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, int(number), 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
