"""Launcher of a program in several processes: ``python -m gradcore.distributed.run --nproc-per-node 4 train.py``."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from gradcore.distributed.lifetime import die_with_parent, has_ended
from gradcore.distributed.machines import Machines, host_options, parse_range
from gradcore.distributed.rendezvous import find_free_port

__all__ = ["main"]

#: Signals that the processes get when the launcher gets them, where the system has them.
_PASSED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
#: Seconds that processes have to end after SIGINT or SIGTERM.
_GRACE = 15.0
#: Seconds that processes have to end by themselves when one has failed; seconds for which the report of a process that
#: has ended may still arrive.
_PATIENCE, _DOUBT = 2.0, 1.0
#: The command in front of each program whose parent notes when the process ends.
SUPERVISOR = (
    [sys.executable, "-I", "-S", str(Path(__file__).with_name("supervisor.py"))] if sys.platform == "linux" else []
)
#: Seconds that a start waits for enough machines; seconds between two checks for new machines.
_JOIN, _LOOK = 600.0, 1.0


def _find_mpiexec() -> str:
    """Return the path of ``mpiexec``, from this Python's environment or from the system."""
    chosen = os.environ.get("MPIEXEC")
    candidates = [Path(sys.executable).with_name(name) for name in ("mpiexec", "mpiexec.exe")]
    result = chosen or next((str(path) for path in candidates if path.exists()), None)
    result = result or shutil.which("mpiexec") or shutil.which("mpirun")
    if result is None:
        raise SystemExit(
            "mpiexec was not found: pip install 'gradcore[mpi]' installs it, or set MPIEXEC to the one that belongs to "
            "the MPI of mpi4py"
        )
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gradcore.distributed.run",
        description="Start a program in several processes, and end all of them if one fails.",
    )
    parser.add_argument("--nproc-per-node", "--nproc_per_node", default="1", help="processes: a number, cpu or auto")
    parser.add_argument("--nnodes", default="1", help="machines: a number, or MIN:MAX where it may change at a restart")
    parser.add_argument(
        "--hostfile", type=Path, help="file with the name of a machine on each line, read at each start"
    )
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
    parser = _parser()
    options = parser.parse_args(argv)
    cores = os.cpu_count() or 1
    per_machine = cores if options.nproc_per_node in ("cpu", "auto") else int(options.nproc_per_node)
    try:
        least, greatest = parse_range(options.nnodes)
    except ValueError as error:
        parser.error(str(error))
    if options.no_mpi and (greatest > 1 or options.hostfile is not None):
        parser.error("--no-mpi starts processes on this machine alone, without --nnodes and --hostfile")
    machines = Machines(least, greatest, options.hostfile)
    program = ["-m", options.program] if options.module else [options.program]
    worker = [*SUPERVISOR, sys.executable, "-m", "gradcore.distributed.worker", *program, *options.arguments]
    mpiexec = "" if options.no_mpi else _find_mpiexec()
    run_id, attempt = uuid4().hex, 0
    while True:
        try:
            names = machines.choose(_JOIN)
        except RuntimeError as error:
            raise SystemExit(f"gradcore.distributed.run: {error}") from None
        if options.no_mpi:
            command = [sys.executable, "-m", "gradcore.distributed.direct", "-n", str(per_machine)]
        else:
            hosts = [] if options.hostfile is None else host_options(mpiexec, names, per_machine)
            command = [mpiexec, "-n", str(per_machine * len(names)), *hosts, *shlex.split(options.mpiexec_args)]
        with tempfile.TemporaryDirectory(prefix="gradcore-run-") as name:
            folder = Path(name)
            variables = {
                "OMP_NUM_THREADS": str(max(1, cores // per_machine)),
                # MPI does not need these two, and programs for torchrun read them.
                "MASTER_ADDR": names[0] if options.hostfile else "127.0.0.1" if greatest == 1 else socket.gethostname(),
                "MASTER_PORT": str(find_free_port()),
                **os.environ,
                "LOCAL_WORLD_SIZE": str(per_machine),
                "GRADCORE_RUN_FOLDER": name,
                "TORCHELASTIC_RUN_ID": run_id,
                "TORCHELASTIC_RESTART_COUNT": str(attempt),
                "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
                # Open MPI refuses more processes than processors; ours give the processor away while they wait.
                "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
                "OMPI_MCA_rmaps_base_oversubscribe": "1",
            }
            end = _run([*command, *worker], variables, folder, machines)
            if end.reason == "machines":
                print("gradcore.distributed.run: the machines have changed: restart", file=sys.stderr, flush=True)
                continue
            if not end.code:
                return 0
            code = _report(folder, end)
            reported = any(folder.glob("*.error"))
        if end.reason == "signal" or attempt == options.max_restarts:
            return code
        if least < greatest and not reported:
            if end.killed is not None:
                machines.lose(end.killed // per_machine)
            elif options.hostfile is not None:
                machines.lose_silent([mpiexec, *shlex.split(options.mpiexec_args)])
        attempt += 1
        print(f"gradcore.distributed.run: restart {attempt} of {options.max_restarts}", file=sys.stderr, flush=True)


@dataclass
class End:
    """The end of a run.

    Parameters
    ----------
    code : int
        The exit code.
    reason : str
        ``"signal"`` if the launcher got a signal that ends the run, ``"machines"`` if the machines
        have changed.
    killed : int, optional
        The rank of a process that ended first and without a report.
    """

    code: int
    reason: str = ""
    killed: int | None = None


def _run(command: Sequence[str], variables: dict[str, str], folder: Path, machines: Machines) -> End:
    """Run the processes, and return how they ended."""
    with (
        subprocess.Popen(command, env=variables, start_new_session=True, preexec_fn=_die_with_launcher) as launcher,
        _passing(launcher, folder) as signal_times,
        contextlib.closing(Watch(folder)) as watch,
    ):
        last_look, resized = time.monotonic(), None
        while launcher.poll() is None:
            watch.wait(0.1 if watch.is_watching else 0.01)
            now = time.monotonic()
            if resized is None and not signal_times and watch.failed is None and now > last_look + _LOOK:
                last_look = now
                if machines.have_changed():
                    resized = now
                    _signal_processes(launcher, folder, signal.SIGTERM)
            if watch.failed is None and not signal_times and resized is None:
                watch.look()
            elif watch.failed is not None and now > watch.failed + _PATIENCE:
                end_group(launcher, folder)
            stopped = signal_times[0] if signal_times else resized
            if stopped is not None and now > stopped + _GRACE:
                end_group(launcher, folder)
        limit = time.monotonic() + _DOUBT
        watch.wait(0)
        while watch.is_watching and time.monotonic() < limit:
            # MPI has sent signals to the processes, which take a moment to end.
            watch.wait(0.05)
        watch.kill()
        code = launcher.returncode or watch.code
        reason = "signal" if signal_times else "machines" if resized is not None and code else ""
        return End(code, reason, watch.find_killed())


def _die_with_launcher() -> None:
    """End the program that starts the processes when this launcher is killed. It ends the processes in turn."""
    die_with_parent(signal.SIGTERM)


def end_group(launcher: subprocess.Popen[bytes], folder: Path) -> None:
    """Kill the processes on this machine, and the program that has started them."""
    for path in folder.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
            os.kill(int(path.read_text()), signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(launcher.pid, signal.SIGKILL)


def explain_end(folder: Path, killed: int | None) -> str:
    """Return why processes ended without a report: one was killed, or did not arrive. The text may be empty."""
    for path in folder.glob("*.wait"):
        seconds = float(path.read_text() or "inf")
        if time.time() > path.stat().st_mtime + seconds:
            return f"rank {path.stem}: not all ranks called init_process_group within {seconds:g} s"
    if killed is None:
        return ""
    pid, fault = (folder / f"{killed}.pid").read_text(), folder / f"{killed}.fault"
    if has_text(fault):
        return f"rank {killed} (pid {pid}) failed first:\n{fault.read_text(errors='replace').strip()}"
    return f"rank {killed} (pid {pid}) was killed, or ended without an error of Python"


def has_text(path: Path) -> bool:
    """Return whether a file exists and is not empty."""
    return path.exists() and path.stat().st_size > 0


class Watch:
    """State of the running processes, according to files in the folder and to the system.

    A failure is printed as soon as it is detected. `failed` has its time, and `code` an exit code.

    Parameters
    ----------
    folder : Path
        The folder to which processes of this machine write their ids, failures, ends and whether they wait for others.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failed: float | None = None
        self.code = 0
        #: The times at which ranks were first seen to have ended without a report, or to have left others waiting.
        self.suspected: dict[int, float] = {}
        #: Ranks whose processes have ended, in this order as far as it is known; descriptors of the other processes.
        self.ended: list[int] = []
        self._descriptors: dict[int, int] = {}

    def wait(self, seconds: float) -> None:
        """Wait until a process ends, or for `seconds`. MPI ends the others at once, which hides the first one."""
        poll = getattr(os, "pidfd_open", None)
        watched = {*self.ended, *self._descriptors.values()}
        for path in self.folder.glob("*.pid"):
            text = path.read_text()
            if text and int(path.stem) not in watched:
                try:
                    self._descriptors[poll(int(text)) if poll else -1 - int(path.stem)] = int(path.stem)
                except ProcessLookupError:
                    self.ended.append(int(path.stem))
        if poll is None:
            time.sleep(seconds)
            pids = {rank: int((self.folder / f"{rank}.pid").read_text()) for rank in self._descriptors.values()}
            ready = [number for number, rank in self._descriptors.items() if has_ended(pids[rank])]
        else:
            ready = select.select(list(self._descriptors), [], [], seconds)[0]
        for number in ready:
            self.ended.append(self._descriptors.pop(number))
            if number >= 0:
                os.close(number)

    @property
    def is_watching(self) -> bool:
        """Return whether a process has begun that has not ended."""
        return bool(self._descriptors)

    def kill(self) -> None:
        """Kill the processes that have begun and have not ended."""
        for rank in self._descriptors.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int((self.folder / f"{rank}.pid").read_text()), signal.SIGKILL)

    def close(self) -> None:
        """Close the descriptors of processes."""
        for number in filter(lambda n: n >= 0, self._descriptors):
            os.close(number)
        self._descriptors.clear()

    def find_killed(self) -> int | None:
        """Return the rank of the first process that ended without a report, or None."""
        silent = [
            rank
            for rank in self.ended
            if not any((self.folder / f"{rank}.{kind}").exists() for kind in ("end", "error"))
        ]

        def time_of_end(rank: int) -> float:
            """Return the time that the parent of a process has noted; see `supervisor`."""
            path = self.folder / f"{(self.folder / f'{rank}.pid').read_text()}.gone"
            return float(path.read_text() or "inf") if path.exists() else math.inf

        # Without these times, this is a guess: the first rank seen to have ended. MPI ends the others at once.
        return min(silent, key=time_of_end, default=None)

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
            has_died = not end.exists() and pid and has_ended(pid)
            left_early = waiting and end.exists() and end.read_text() == "unknown"
            if not (has_died or left_early):
                continue
            if now < self.suspected.setdefault(rank, now) + _DOUBT:
                continue  # The report may still arrive.
            if has_died:
                self._say(explain_end(self.folder, self.find_killed()) or f"rank {rank} ended")
            elif left_early:
                waiting_ranks = ", ".join(map(str, sorted(waiting)))
                self._say(f"rank {rank} ended before init_process_group, in which rank {waiting_ranks} waits for it")
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


def _signal_processes(launcher: subprocess.Popen[bytes], folder: Path, number: int) -> None:
    """Send a signal to all processes."""
    pids = [int(path.read_text() or 0) for path in folder.glob("*.pid")]
    for pid in filter(None, pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    if not pids:  # No process has begun, or all are on other machines.
        launcher.send_signal(number)


@contextlib.contextmanager
def _passing(launcher: subprocess.Popen[bytes], folder: Path) -> Iterator[list[float]]:
    """Forward signals to the processes inside this context manager.

    It yields a list of the times of signals that end them.
    """
    signal_times: list[float] = []

    def pass_on(number: int, frame: object) -> None:
        if number in (signal.SIGINT, signal.SIGTERM):
            signal_times.append(time.monotonic())
        _signal_processes(launcher, folder, number)

    numbers = [getattr(signal, name) for name in _PASSED if hasattr(signal, name)]
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield signal_times
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(folder: Path, end: End) -> int:
    """Print the errors of the processes, first that of the one that failed first, and return its exit code."""
    code = end.code
    was_reported = (folder / "said").exists()  # The failure was reported while the processes ran.
    failures = sorted((json.loads(path.read_text()) for path in folder.glob("*.error")), key=lambda f: f["time"])
    if not failures and was_reported:
        return code if code > 0 else 128 - code
    explanation = "" if failures else explain_end(folder, end.killed)
    if explanation:
        print(f"gradcore.distributed.run: {explanation}", file=sys.stderr)
    elif not failures:
        outcome = f"signal {-code}" if code < 0 else f"exit code {code}"
        print(
            f"gradcore.distributed.run: the processes ended with {outcome}, without an error of Python", file=sys.stderr
        )
    if not failures:
        return code if code > 0 else 128 - code
    first = failures[0]
    if not was_reported:
        print(f"gradcore.distributed.run: rank {first['rank']} failed first:\n{first['text']}", file=sys.stderr)
    for failure in failures[1:]:
        last = failure["text"].strip().splitlines()[-1]
        print(f"rank {failure['rank']} failed {failure['time'] - first['time']:.1f} s later: {last}", file=sys.stderr)
    return int(first["code"])


if __name__ == "__main__":
    sys.exit(main())
