"""The launcher: variables, failures, restarts, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.distributed.processes import environment, needs_mpi

HEAD = "import os, sys, time\nimport gradcore as gc, gradcore.distributed as dist\n"


def launch(tmp_path, program, *options, size=2, wait=True, **variables):
    path = tmp_path / "program.py"
    path.write_text(HEAD + program)
    command = [
        sys.executable,
        "-m",
        "gradcore.distributed.run",
        "--nproc-per-node",
        str(size),
        *options,
        str(path),
        "x",
    ]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**variables), cwd=tmp_path
    )
    if not wait:
        return child
    out, err = child.communicate(timeout=90)
    return child.returncode, out, err


@needs_mpi
def test_variables_and_arguments(tmp_path):
    code, out, err = launch(
        tmp_path,
        "dist.init_process_group()\nt = gc.ones(1)\ndist.all_reduce(t)\nv = os.environ\n"
        "print(v['RANK'], v['WORLD_SIZE'], v['LOCAL_RANK'], v['LOCAL_WORLD_SIZE'], t.item(), sys.argv[1:], "
        "dist.is_torchelastic_launched(), v['MASTER_ADDR'], v['MASTER_PORT'].isdecimal())\n",
    )
    assert code == 0, err
    lines = sorted(line for line in out.splitlines() if line)
    assert lines == [f"{r} 2 {r} 2 2.0 ['x'] True 127.0.0.1 True" for r in range(2)]


@needs_mpi
def test_lines_of_processes_do_not_mix(tmp_path):
    program = "for i in range(200):\n    print(os.environ['RANK'], i, 'of', 200)\n"
    code, out, err = launch(tmp_path, program, size=4, PYTHONUNBUFFERED="1")
    assert code == 0, err
    assert sorted(line for line in out.splitlines() if line) == sorted(
        f"{r} {i} of 200" for r in range(4) for i in range(200)
    )


@needs_mpi
def test_the_first_traceback_comes_first(tmp_path):
    begun = time.monotonic()
    code, _, err = launch(
        tmp_path,
        "dist.init_process_group()\nif dist.get_rank() == 1:\n    raise LookupError('of one')\ndist.barrier()\n",
    )
    assert code == 1
    assert "rank 1 failed first:\nTraceback" in err
    assert "LookupError: of one" in err
    assert "runpy" not in err
    assert time.monotonic() - begun < 60


@needs_mpi
def test_exit_codes(tmp_path):
    assert launch(tmp_path, "dist.init_process_group()\nsys.exit(3 * dist.get_rank())\n")[0] == 3
    code, _, err = launch(tmp_path, "dist.init_process_group()\nos.kill(os.getpid(), 9)\n")
    assert code != 0
    assert "without an error of Python" in err


@needs_mpi
def test_restarts(tmp_path):
    program = (
        "dist.init_process_group()\ndist.barrier()\n"
        "if dist.get_rank() == 0:\n    print('start', os.environ['TORCHELASTIC_RESTART_COUNT'], flush=True)\n"
        "    if not os.path.exists('seen'):\n        open('seen', 'w').close()\n        raise ValueError('once')\n"
        "dist.barrier()\n"
    )
    code, out, err = launch(tmp_path, program, "--max-restarts", "2")
    assert code == 0, err
    assert [line for line in out.splitlines() if line] == ["start 0", "start 1"]
    assert "restart 1 of 2" in err


@needs_mpi
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_signals_are_passed(tmp_path):
    program = (
        "import signal\ndist.init_process_group()\n"
        "def end(*_):\n    open(f'got{dist.get_rank()}', 'w').close()\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nopen(f'up{dist.get_rank()}', 'w').close()\ntime.sleep(60)\n"
    )
    child = launch(tmp_path, program, wait=False)
    end = time.monotonic() + 60
    while not all((tmp_path / f"up{r}").exists() for r in range(2)) and time.monotonic() < end:
        time.sleep(0.1)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert all((tmp_path / f"got{r}").exists() for r in range(2))


def test_a_missing_mpiexec_is_an_error(monkeypatch):
    from gradcore.distributed import run

    monkeypatch.delenv("MPIEXEC", raising=False)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match=r"gradcore\[mpi\]"):
        run.main(["--nproc-per-node", "2", "x.py"])


@pytest.mark.slow
def test_processes_without_mpi(tmp_path):
    program = (
        "import pathlib\n"
        "names = ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'MASTER_ADDR')\n"
        "text = ' '.join(os.environ[name] for name in names)\n"
        "pathlib.Path(os.environ['RANK']).write_text(text)\n"
    )
    code, _, err = launch(tmp_path, program, "--no-mpi")
    assert code == 0, err
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["0 2 0 2 127.0.0.1", "1 2 1 2 127.0.0.1"]
    program = "if os.environ['RANK'] == '0': raise LookupError('of rank zero')\ntime.sleep(600)"
    code, _, err = launch(tmp_path, program, "--no-mpi")
    assert code == 1
    assert "rank 0 failed first" in err
    assert "LookupError: of rank zero" in err
