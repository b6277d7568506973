"""The machines on which the launcher starts processes. Their number may change whenever a job is started again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

__all__ = ["Machines", "host_options", "parse_range"]

#: Seconds between two reads of a file that names too few machines; seconds within which a machine must start a program.
_PAUSE, _ANSWER = 1.0, 20.0


def parse_range(text: str) -> tuple[int, int]:
    """Return the least and the most machines of an option ``N`` or ``MIN:MAX``."""
    parts = text.split(":")
    numbers = [int(part) for part in parts if part.isdecimal()]
    if not len(parts) == len(numbers) <= 2 or not 1 <= numbers[0] <= numbers[-1]:
        raise ValueError(f"--nnodes must be a number of machines or MIN:MAX, such as 1:4, not {text!r}")
    return numbers[0], numbers[-1]


class Machines:
    """The machines of a job, from which `choose` takes those for the next start.

    Parameters
    ----------
    least, most : int
        How many the job needs, and how many it uses at most.
    path : Path, optional
        A file with the name of one machine on each line, which is read again before each start. Without it, machines
        have no names: ``mpiexec`` places one share of the processes for each.
    """

    def __init__(self, least: int, most: int, path: Path | None = None) -> None:
        self.least, self.most, self.path = least, most, path
        #: The machines in use since the last `choose`.
        self.used: list[str] = []
        self._lost: set[str] = set()
        self._listed: list[str] = []

    def _list(self) -> list[str]:
        """Return the names of all machines that there are, without repetitions."""
        if self.path is None:
            return [str(i) for i in range(self.most)]
        try:
            lines = self.path.read_text().splitlines()
        except FileNotFoundError:  # The file is being replaced.
            return self._listed
        names = (line.partition("#")[0].strip() for line in lines)
        return list(dict.fromkeys(filter(None, names)))

    def choose(self, seconds: float) -> list[str]:
        """Return the machines for the next start, and wait up to `seconds` until the file names enough of them.

        Raises
        ------
        RuntimeError
            If there are too few.
        """
        end = time.monotonic() + seconds
        while True:
            names = self._list()
            if names != self._listed:
                self._listed, self._lost = names, set()
            usable = [name for name in names if name not in self._lost]
            # Better a machine that has failed once than too few.
            failed_before = [name for name in names if name in self._lost]
            self.used = (usable + failed_before[: max(0, self.least - len(usable))])[: self.most]
            if len(self.used) >= self.least:
                return self.used
            if time.monotonic() > end:
                raise RuntimeError(f"{self.path} names {len(names)} machines, and --nnodes asks for {self.least}")
            time.sleep(_PAUSE)

    def have_changed(self) -> bool:
        """Return whether the file now names other machines than those in use, and enough of them."""
        names = self._list()
        if self.path is None or names == self._listed or len(names) < self.least:
            return False
        return names[: self.most] != self.used

    def lose(self, number: int) -> None:
        """Leave a machine in use out of further starts, as long as there are enough others."""
        self._lost.add(self.used[number])

    def lose_silent(self, mpiexec: Sequence[str]) -> None:
        """Leave out the machines on which ``mpiexec``, with options, does not start a program."""
        with ThreadPoolExecutor(max(1, min(32, len(self.used)))) as pool:
            answers = list(pool.map(lambda name: _answers(mpiexec, name), self.used))
        if any(answers):  # If no machine answers, the machines are not the cause.
            self._lost.update(name for name, answer in zip(self.used, answers, strict=True) if not answer)


def _answers(mpiexec: Sequence[str], name: str) -> bool:
    """Return whether ``mpiexec`` starts a program on a machine."""
    command = [*mpiexec, *host_options(mpiexec[0], [name], 1), "-n", "1", sys.executable, "-I", "-c", ""]
    try:
        return not subprocess.run(command, capture_output=True, timeout=_ANSWER, check=False).returncode
    except subprocess.TimeoutExpired:
        return False


def host_options(mpiexec: str, names: Sequence[str], each: int) -> list[str]:
    """Return options of ``mpiexec`` that place `each` processes on each machine, in the order of the names."""
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout.lower()
    is_open_mpi = "open mpi" in version or "openrte" in version or "prte" in version
    return ["--host" if is_open_mpi else "-hosts", ",".join(f"{name}:{each}" for name in names)]
