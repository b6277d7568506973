"""Launcher of a program in several processes: ``python -m gradcore.distributed.run --nproc-per-node 4 train.py``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from gradcore.distributed.lifetime import die_with_parent, has_ended

__all__ = ["main"]

#: Signals that the processes get when the launcher gets them, where the system has them.
_PASSED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
#: Seconds that processes have to end after SIGINT or SIGTERM.
_GRACE = 15.0
#: Seconds that processes have to end by themselves when one has failed; those for which the last words of a process
#: that is gone may be on their way.
_PATIENCE, _DOUBT = 2.0, 1.0


def _find_mpiexec() -> str:
    """Return the path of ``mpiexec``, from this Python's environment or from the system."""
    given = os.environ.get("MPIEXEC")
    beside = [Path(sys.executable).with_name(name) for name in ("mpiexec", "mpiexec.exe")]
    found = given or next((str(path) for path in beside if path.exists()), None)
    found = found or shutil.which("mpiexec") or shutil.which("mpirun")
    if found is None:
        raise SystemExit(
            "mpiexec was not found: pip install 'gradcore[mpi]' installs it, or set MPIEXEC to the one that belongs to "
            "the MPI of mpi4py"
        )
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gradcore.distributed.run",
        description="Start a program in several processes, and end all of them if one fails.",
    )
    parser.add_argument("--nproc-per-node", "--nproc_per_node", default="1", help="processes: a number, cpu or auto")
    parser.add_argument("--nnodes", type=int, default=1, help="machines, which mpiexec knows or --mpiexec-args name")
    parser.add_argument("--max-restarts", "--max_restarts", type=int, default=0, help="starts again after failures")
    parser.add_argument("--mpiexec-args", default="", help="further arguments of mpiexec, as one string")
    parser.add_argument("--no-mpi", action="store_true", help="start without MPI, on this machine, for NCCL")
    parser.add_argument("--standalone", action="store_true", help="accepted for compatibility")
    parser.add_argument("-m", "--module", action="store_true", help="the program is the name of a module")
    parser.add_argument("program", help="script, or module after -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the launcher; return the exit code of the program."""
    options = _parser().parse_args(argv)
    cores = os.cpu_count() or 1
    each = cores if options.nproc_per_node in ("cpu", "auto") else int(options.nproc_per_node)
    size = each * options.nnodes
    program = ["-m", options.program] if options.module else [options.program]
    direct = [sys.executable, "-m", "gradcore.distributed.direct", "-n", str(each)]
    command = direct if options.no_mpi else [_find_mpiexec(), "-n", str(size), *shlex.split(options.mpiexec_args)]
    command += [sys.executable, "-m", "gradcore.distributed.worker", *program, *options.arguments]
    run_id = uuid4().hex
    for attempt in range(options.max_restarts + 1):
        with tempfile.TemporaryDirectory(prefix="gradcore-run-") as folder:
            variables = {
                "OMP_NUM_THREADS": str(max(1, cores // each)),
                **os.environ,
                "LOCAL_WORLD_SIZE": str(each),
                "GRADCORE_RUN_FOLDER": folder,
                "TORCHELASTIC_RUN_ID": run_id,
                "TORCHELASTIC_RESTART_COUNT": str(attempt),
                "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
                # Open MPI refuses more processes than processors; ours give the processor away while they wait.
                "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
                "OMPI_MCA_rmaps_base_oversubscribe": "1",
            }
            code, ended = _run(command, variables, Path(folder))
            if not code:
                return 0
            code = _report(Path(folder), code)
        if ended or attempt == options.max_restarts:
            return code
        print(f"gradcore.distributed.run: restart {attempt + 1} of {options.max_restarts}", file=sys.stderr, flush=True)
    return code


def _run(command: Sequence[str], variables: dict[str, str], folder: Path) -> tuple[int, bool]:
    """Run the processes. Return the exit code, and whether a signal ended the run."""
    with (
        subprocess.Popen(command, env=variables, start_new_session=True, preexec_fn=_die_with_launcher) as launcher,
        _passing(launcher, folder) as got,
    ):
        watch = Watch(folder)
        while launcher.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                launcher.wait(0.1)
            now = time.monotonic()
            if watch.failed is None and not got:
                watch.look()
            elif watch.failed is not None and now > watch.failed + _PATIENCE:
                end_group(launcher, folder)
            if got and now > got[0] + _GRACE:
                end_group(launcher, folder)
        return launcher.returncode or watch.code, bool(got)


def _die_with_launcher() -> None:
    """End the program that starts the processes when this launcher is killed. It ends the processes in turn."""
    die_with_parent(signal.SIGTERM)


def end_group(launcher: Any, folder: Path) -> None:
    """Kill the processes on this machine, and the program that has started them."""
    for path in folder.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
            os.kill(int(path.read_text()), signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(launcher.pid, signal.SIGKILL)


def explain_end(folder: Path) -> str:
    """Return why processes ended without a report (another one was waited for in vain, or killed), or ""."""
    for path in folder.glob("*.wait"):
        seconds = float(path.read_text() or "inf")
        if time.time() > path.stat().st_mtime + seconds:
            return f"rank {path.stem}: not all ranks called init_process_group within {seconds:g} s"
    for path in sorted(folder.glob("*.pid")):
        if not path.with_suffix(".end").exists() and not path.with_suffix(".wait").exists():
            pid = int(path.read_text() or 0)
            if has_ended(pid):
                return f"rank {path.stem} (pid {pid}) was killed, or ended without an error of Python"
    return ""


class Watch:
    """State of the running processes, according to files in the folder and to the system.

    A failure is printed as soon as it is detected. `failed` has its time, and `code` an exit code.

    Parameters
    ----------
    folder : Path
        Where processes of this machine note their ids and failures, how they end, and that they wait for others.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failed: float | None = None
        self.code = 0
        #: When ranks were first seen to be gone without a word, or to have left others waiting.
        self.suspected: dict[int, float] = {}

    def look(self) -> None:
        """Check whether a process has failed, and print its report."""
        now = time.monotonic()
        errors = sorted(self.folder.glob("*.error"))
        if errors:
            first = min((json.loads(path.read_text()) for path in errors), key=lambda failure: failure["time"])
            print(f"gradcore.distributed.run: rank {first['rank']} failed first:\n{first['text']}", file=sys.stderr)
            self._fail(now, int(first["code"]))
            return
        waiting = {int(path.stem) for path in self.folder.glob("*.wait")}
        for path in self.folder.glob("*.pid"):
            rank, pid = int(path.stem), int(path.read_text() or 0)
            end = self.folder / f"{rank}.end"
            gone = not end.exists() and pid and has_ended(pid)
            left = waiting and end.exists() and end.read_text() == "unknown"
            if not (gone or left):
                continue
            if now < self.suspected.setdefault(rank, now) + _DOUBT:
                continue  # its last words may be on their way
            if gone:
                self._say(explain_end(self.folder) or f"rank {rank} ended")
            elif left:
                others = ", ".join(map(str, sorted(waiting)))
                self._say(f"rank {rank} ended before init_process_group, in which rank {others} waits for it")
            else:
                continue
            self._fail(now, 1)
            return

    def _say(self, text: str) -> None:
        print(f"gradcore.distributed.run: {text}", file=sys.stderr, flush=True)

    def _fail(self, now: float, code: int) -> None:
        sys.stderr.flush()
        self.failed, self.code = now, code or 1
        (self.folder / "said").touch()


@contextlib.contextmanager
def _passing(launcher: Any, folder: Path) -> Iterator[list[float]]:
    """Forward signals to the processes inside this context manager.

    It yields a list of the times of signals that end them.
    """
    got: list[float] = []

    def pass_on(number: int, frame: Any) -> None:
        if number in (signal.SIGINT, signal.SIGTERM):
            got.append(time.monotonic())
        pids = [int(path.read_text() or 0) for path in folder.glob("*.pid")]
        for pid in filter(None, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if not pids:  # none has begun, or they are on other machines
            launcher.send_signal(number)

    numbers = [getattr(signal, name) for name in _PASSED if hasattr(signal, name)]
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield got
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(folder: Path, code: int) -> int:
    """Print the errors of the processes, first that of the one that failed first, and return its exit code."""
    said = (folder / "said").exists()  # while they ran
    failures = sorted((json.loads(path.read_text()) for path in folder.glob("*.error")), key=lambda f: f["time"])
    if not failures and said:
        return code if code > 0 else 128 - code
    why = "" if failures else explain_end(folder)
    if why:
        print(f"gradcore.distributed.run: {why}", file=sys.stderr)
    elif not failures:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        print(f"gradcore.distributed.run: the processes ended with {how}, without an error of Python", file=sys.stderr)
    if not failures:
        return code if code > 0 else 128 - code
    first = failures[0]
    if not said:
        print(f"gradcore.distributed.run: rank {first['rank']} failed first:\n{first['text']}", file=sys.stderr)
    for other in failures[1:]:
        last = other["text"].strip().splitlines()[-1]
        print(f"rank {other['rank']} failed {other['time'] - first['time']:.1f} s later: {last}", file=sys.stderr)
    return int(first["code"])


if __name__ == "__main__":
    sys.exit(main())
