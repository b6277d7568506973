"""A process of a program that `gradcore.distributed.run` has started."""

from __future__ import annotations

import atexit
import faulthandler
import io
import json
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from gradcore.distributed import environment
from gradcore.distributed.lifetime import abort_before_mpi, deliver_output, die_with_parent, note_end, run_folder

__all__ = ["main"]


def main(argv: Sequence[str]) -> None:
    """Run a program. If it fails, write its traceback for the launcher, and end all processes.

    Parameters
    ----------
    argv : sequence of str
        A script, or ``-m`` and a module, and the arguments.
    """
    die_with_parent(signal.SIGKILL)
    rank = environment.rank() or 0
    os.environ.setdefault("RANK", str(rank))
    os.environ.setdefault("WORLD_SIZE", str(environment.size() or 1))
    os.environ.setdefault("LOCAL_RANK", str(environment.local_rank() or 0))
    folder = run_folder()
    if folder is not None:
        part = folder / f"{rank}.started"
        part.write_text(str(os.getpid()))
        part.replace(part.with_suffix(".pid"))
        # Of a process that the system ends, as after a segmentation fault, the launcher shows this traceback.
        faulthandler.enable((folder / f"{rank}.fault").open("w"))
    _write_whole_lines()
    # Functions at exit run in reverse order, so this one runs after those of the program.
    atexit.register(_note_end_of, os.getpid())
    code, text = 0, ""
    try:
        if argv[0] == "-m":
            sys.argv = list(argv[1:])
            runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv, sys.path[0] = list(argv), str(Path(argv[0]).resolve().parent)
            runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        text = f"SystemExit: {end.code}" if code else ""
    except BaseException as error:
        error.__traceback__ = _trim_traceback(error)
        code, text = 1, "".join(traceback.format_exception(error))
    if code:
        _fail(None if folder is None else folder / f"{rank}.error", rank, code, text)


def _note_end_of(pid: int) -> None:
    """Report the normal end of the process `pid`, unless this is another one that it has forked."""
    if os.getpid() == pid:
        note_end()


def _write_whole_lines() -> None:
    """Write output line by line. With ``PYTHONUNBUFFERED``, parts of lines from several processes would mix."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def _trim_traceback(error: BaseException) -> TracebackType | None:
    """Return the traceback without the frames of this module and of runpy."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        tb = tb.tb_next
    return tb or error.__traceback__


def _fail(path: Path | None, rank: int, code: int, text: str) -> None:
    """Report a failure to the launcher, or print it if there is none, and end all processes."""
    if path is None:
        print(f"rank {rank}:\n{text}", file=sys.stderr)
    else:
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"rank": rank, "code": code, "time": time.time(), "text": text}))
        part.replace(path)
    deliver_output()
    if "mpi4py.MPI" in sys.modules:
        MPI = sys.modules["mpi4py.MPI"]
        if not MPI.Is_finalized():
            MPI.COMM_WORLD.Abort(code)
    abort_before_mpi(code)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
