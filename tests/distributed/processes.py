"""Real processes for tests: one start runs many checks, each of which becomes a test.

They are started by MPI, or, for NCCL, in the rig of `tests/cupy_host`, one for each of its devices.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import devices

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def launcher() -> str | None:
    """Return the path of mpiexec in this Python's environment, or else in the system."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or launcher() is None, reason="needs mpi4py and an MPI: gradcore[mpi]"
)


RIG = devices.RIG / "venv" / "bin" / "python"

#: As the others in this folder they run where gradcore[mpi] is, and so in no run of the whole suite without it.
needs_rig = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or not (devices.RIG / "lib" / "libcupyhost.so").exists(),
    reason="needs gradcore[mpi], and a build of tests/cupy_host/build.sh",
)


def environment(**more: str) -> dict[str, str]:
    """Variables of processes: one thread each, as there may be more processes than processors."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **more}


def start(size: int, *args: str, seconds: float = 400, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program in processes of MPI."""
    command = [launcher() or "mpiexec", "-n", str(size), sys.executable, *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, env=environment(**more), stdin=subprocess.DEVNULL
    )


def start_on_rig(size: int, *args: str, seconds: float = 400, **more: str) -> list[tuple[int, str, str]]:
    """Run a program in processes that have a device of the rig each; exit codes and output, by rank."""
    variables = {
        "CUPY_HOST": "1", "CUPY_HOST_DEVICES": str(size), "CUPY_HOST_OPTIMIZE": "-O0", "CUPY_HOST_NO_SIGNALS": "1",
        "NCCL_STAND_IN": "1", "WORLD_SIZE": str(size), "PYTHONUNBUFFERED": "1", **more,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        variables["INIT_METHOD"] = f"file://{folder}/number"
        children = [
            subprocess.Popen(
                [str(RIG), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                env=environment(RANK=str(rank), LOCAL_RANK=str(rank), **variables),
            )
            for rank in range(size)
        ]  # fmt: skip
        try:
            with ThreadPoolExecutor(size) as pool:
                outputs = list(pool.map(lambda child: child.communicate(timeout=seconds), children))
        finally:
            for child in children:
                child.kill()
        return [(child.returncode, *output) for child, output in zip(children, outputs, strict=True)]


def checks_of(path: Path) -> dict[str, Callable[[], None]]:
    """Return the functions of a module whose names begin with ``check_``."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if name.startswith("check_")}


@functools.cache
def outcomes(module: str, size: int, backend: str = "mpi") -> dict[str, list[str]]:
    """Return the error of each check of a module, by rank. A check that passes has an empty string."""
    with tempfile.TemporaryDirectory() as folder:
        args = ("-m", "tests.distributed.processes", str(HERE / module), folder, backend)
        done: Any = start(size, *args) if backend == "mpi" else start_on_rig(size, *args)
        files = sorted(Path(folder).glob("*.json"))
        each = [json.loads(file.read_text()) for file in files]
        wrong = "\n".join(text for found in each for text in found.values() if text)
        assert len(files) == size, f"{str(done)[-9000:]}\n{wrong}"
    return {name: [found[name] for found in each] for name in each[0]}


def parameters(module: str, sizes: tuple[int, ...] = (2, 3, 4)) -> Any:
    """Every check of a module, with every number of processes."""
    cases = [(module, size, name) for size in sizes for name in checks_of(HERE / module)]
    return pytest.mark.parametrize(
        ("module", "size", "name"), cases, ids=[f"{size}-{name[6:]}" for _, size, name in cases]
    )


def passes(module: str, size: int, name: str, backend: str = "mpi") -> None:
    """Check that a check has passed in all processes."""
    wrong = {rank: text for rank, text in enumerate(outcomes(module, size, backend)[name]) if text}
    assert not wrong, "\n".join(f"rank {rank}:\n{text}" for rank, text in wrong.items())


def main(module: str, folder: str, backend: str) -> None:
    """Run all checks of a module in this process, which is one of several."""
    from datetime import timedelta

    import gradcore.distributed as dist

    if backend == "nccl":
        importlib.import_module("tests.distributed.nccl_stand_in")
    dist.init_process_group(backend, os.environ.get("INIT_METHOD"), timeout=timedelta(seconds=120))
    found = {}
    for name, check in checks_of(Path(module)).items():
        try:
            with devices.tensors_on(f"cuda:{dist.get_rank()}") if backend == "nccl" else contextlib.nullcontext():
                check()
                dist.barrier()
            found[name] = ""
        except BaseException:
            found[name] = traceback.format_exc()
    Path(folder, f"{dist.get_rank()}.json").write_text(json.dumps(found))
    if any(found.values()):
        time.sleep(1)  # for the files of the others
        if backend == "mpi":
            from mpi4py import MPI

            MPI.COMM_WORLD.Abort(1)
        os._exit(1)
    dist.barrier()  # all files are there: a process whose group has failed ends the others when it ends


if __name__ == "__main__":
    main(*sys.argv[1:])
