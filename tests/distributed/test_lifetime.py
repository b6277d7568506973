"""Jobs of which a process fails, in each phase of its life and in each way: all end in time, and say why."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradcore.distributed.run import SUPERVISOR, Watch
from tests.distributed.failing_phases import find_fault
from tests.distributed.failing_phases import run as run_phase
from tests.distributed.processes import environment, launcher, needs_mpi

#: How a process fails, and the exit code of the job (None: any but 0).
WAYS: dict[str, tuple[str, int | None]] = {
    "raises": ("raise FileNotFoundError('data of rank 1')", 1),
    "exits with 3": ("sys.exit(3)", 3),
    "exits with 0": ("sys.exit(0)", None),
    "is killed": ("os.kill(os.getpid(), 9)", None),
    "sleeps": ("time.sleep(600)", None),
    "cannot import": ("import gradcore_has_no_such_module", 1),
}
PHASES = ("before gradcore", "before init", "after init", "in the middle")
#: Seconds after which processes that wait give up.
LIMIT = 6


def program(phase: str, way: str) -> str:
    lines = {
        "before gradcore": "import os, sys, time",
        "before init": "import gradcore as gc, gradcore.distributed as dist; from datetime import timedelta",
        "after init": f"dist.init_process_group('mpi', timeout=timedelta(seconds={LIMIT}))",
        "in the middle": "t = gc.ones(3); dist.all_reduce(t)",
    }
    made = []
    for name, line in lines.items():
        made.append(line)
        if name == phase:
            made.append(f"if os.environ.get('RANK', os.environ.get('PMI_RANK')) == '1':\n    {WAYS[way][0]}")
    return "\n".join([*made, "dist.all_reduce(t)", "print('went on')"])


def ended(path: Path, *command: str, seconds: float = 60) -> tuple[int, str, float]:
    """Run a job; return its exit code, all that it says, and how long it took."""
    begun = time.monotonic()
    with subprocess.Popen(
        [*command, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    ) as job:
        try:
            said, _ = job.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            pytest.fail(f"the job did not end within {seconds} s")
    return job.returncode, said, time.monotonic() - begun


RUN = (sys.executable, "-m", "gradcore.distributed.run", "--nproc-per-node", "2")


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize(("phase", "way"), list(itertools.product(PHASES, WAYS)))
def test_a_job_ends_when_one_process_fails(phase: str, way: str, tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(program(phase, way))
    code, said, took = ended(path, *RUN)
    assert "went on" not in said
    assert code == WAYS[way][1] if WAYS[way][1] is not None else code != 0, said
    assert took < 40  # ten times what it needs, but for the limit
    expected = {
        "raises": "rank 1 failed first:\nTraceback",
        "cannot import": "ModuleNotFoundError: No module named 'gradcore_has_no_such_module'",
        "exits with 3": "SystemExit: 3",
    }
    if way in expected:
        assert expected[way] in said
        assert said.count("failed first") == 1
    elif phase in PHASES[:2]:
        kinds = {"exits with 0": "rank 1 ended before init_process_group", "is killed": "rank 1 (pid"}
        assert kinds.get(way, "not all ranks called init_process_group within 6 s") in said
    left = subprocess.run(["pgrep", "-f", str(path)], capture_output=True, text=True, check=False).stdout
    assert not left.split()


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "kind"),
    [
        ("in forward", "raises"),
        ("in a hook of backward", "exits with 3"),
        ("in a step of the optimizer", "segmentation fault"),
        ("while a checkpoint is written", "is killed"),
        ("while a collective is in progress", "hangs"),
        ("at exit", "exits with 3"),
    ],
)
def test_a_sample_of_all_phases_and_kinds(phase: str, kind: str, tmp_path: Path) -> None:
    """`tests.distributed.failing_phases` runs all of them, within five seconds on an idle machine."""
    assert not find_fault(phase, kind, run_phase(phase, kind, tmp_path), patience=40)


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("way", ["raises", "cannot import", "sleeps"])
def test_the_same_without_our_launcher(way: str, tmp_path: Path) -> None:
    """MPICH's alone: gradcore.distributed asks it to end the job."""
    path = tmp_path / "job.py"
    path.write_text(program("before init", way))
    code, said, took = ended(path, launcher() or "mpiexec", "-n", "2", sys.executable)
    assert code != 0
    assert "went on" not in said
    assert took < 40
    kinds = {"raises": "FileNotFoundError: data of rank 1", "cannot import": "ModuleNotFoundError"}
    assert kinds.get(way, "not all ranks called init_process_group within 6 s") in said


@needs_mpi
@pytest.mark.skipif(sys.platform != "linux", reason="signals for the death of a parent are Linux's")
def test_nothing_survives_the_launcher(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    with subprocess.Popen([*RUN, str(path)], stdout=subprocess.PIPE, text=True, env=environment()) as job:
        assert job.stdout is not None
        pids = [int(job.stdout.readline()) for _ in range(2)]
        job.kill()
    for _ in range(200):
        if all(map(is_gone, pids)):
            break
        time.sleep(0.1)
    else:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        pytest.fail("processes survived the launcher")


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_the_first_of_several_killed_processes_is_named(tmp_path: Path) -> None:
    for rank, time_of_end in ((0, 3.0), (1, 1.0), (2, 2.0)):
        (tmp_path / f"{rank}.pid").write_text(f"{10 + rank}")
        (tmp_path / f"{10 + rank}.gone").write_text(repr(time_of_end))
    watch = Watch(tmp_path)
    watch.ended = [0, 2, 1]
    assert watch.find_killed() == 1
    (tmp_path / "1.error").touch()  # it has reported its failure
    assert watch.find_killed() == 2


@pytest.mark.skipif(sys.platform != "linux", reason="processes have such a parent on Linux alone")
@pytest.mark.parametrize("how", ["exit 3", "kill -9 $$", "kill -15 $$", "exit 0"])
def test_the_parent_notes_an_end_and_ends_in_the_same_way(how: str, tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", f"echo $$ > pid; {how}"]
    variables = {**os.environ, "GRADCORE_RUN_FOLDER": str(tmp_path)}
    direct = subprocess.run(command, cwd=tmp_path, check=False)
    done = subprocess.run([*SUPERVISOR, *command], cwd=tmp_path, env=variables, check=False, timeout=120)
    assert done.returncode == direct.returncode
    pid = (tmp_path / "pid").read_text().strip()
    assert 0 < time.time() - float((tmp_path / f"{pid}.gone").read_text()) < 20


@pytest.mark.skipif(sys.platform != "linux", reason="processes have such a parent on Linux alone")
def test_the_parent_passes_signals_on_and_takes_its_child_with_it(tmp_path: Path) -> None:
    path = tmp_path / "child.py"
    path.write_text(
        # Not `print`, as the signal may arrive in the other one.
        'import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"2\\n"))\nprint(1, flush=True)\n'
        "while True:\n    signal.pause()\n"
    )
    with subprocess.Popen([*SUPERVISOR, sys.executable, str(path)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"1\n"
        parent.send_signal(signal.SIGUSR1)
        assert parent.stdout.readline() == b"2\n"
        parent.kill()
        assert parent.stdout.read() == b""  # the child has ended, too
