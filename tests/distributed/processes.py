"""Real processes of MPI for tests: one start runs many checks, each of which becomes a test."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def launcher() -> str | None:
    """The mpiexec of this Python's environment, or of the system."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or launcher() is None, reason="needs mpi4py and an MPI: gradcore[mpi]"
)


def environment(**more: str) -> dict[str, str]:
    """Variables of processes: one thread each, as there may be more processes than processors."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **more}


def start(size: int, *args: str, seconds: float = 120, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program in processes of MPI."""
    command = [launcher() or "mpiexec", "-n", str(size), sys.executable, *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, env=environment(**more), stdin=subprocess.DEVNULL
    )


def checks_of(path: Path) -> dict[str, Callable[[], None]]:
    """The functions of a module whose names begin with ``check_``."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if name.startswith("check_")}


@functools.cache
def outcomes(module: str, size: int) -> dict[str, list[str]]:
    """What went wrong in each check of a module, by rank; empty strings where nothing did."""
    with tempfile.TemporaryDirectory() as folder:
        done = start(size, str(Path(__file__)), str(HERE / module), folder)
        files = sorted(Path(folder).glob("*.json"))
        assert len(files) == size, f"{done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        each = [json.loads(file.read_text()) for file in files]
    return {name: [found[name] for found in each] for name in each[0]}


def parameters(module: str, sizes: tuple[int, ...] = (2, 3, 4)) -> Any:
    """Every check of a module, with every number of processes."""
    cases = [(module, size, name) for size in sizes for name in checks_of(HERE / module)]
    return pytest.mark.parametrize(
        ("module", "size", "name"), cases, ids=[f"{size}-{name[6:]}" for _, size, name in cases]
    )


def passes(module: str, size: int, name: str) -> None:
    """A check has passed in all processes."""
    wrong = {rank: text for rank, text in enumerate(outcomes(module, size)[name]) if text}
    assert not wrong, "\n".join(f"rank {rank}:\n{text}" for rank, text in wrong.items())


def main(module: str, folder: str) -> None:
    """Run all checks of a module in this process, which is one of several."""
    from datetime import timedelta

    import gradcore.distributed as dist

    dist.init_process_group("mpi", timeout=timedelta(seconds=40))
    found = {}
    for name, check in checks_of(Path(module)).items():
        try:
            check()
            dist.barrier()
            found[name] = ""
        except BaseException:
            found[name] = traceback.format_exc()
    Path(folder, f"{dist.get_rank()}.json").write_text(json.dumps(found))
    if any(found.values()):
        from mpi4py import MPI

        time.sleep(1)  # for the files of the others
        MPI.COMM_WORLD.Abort(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
