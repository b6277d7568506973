"""The engine NCCL, with a stand-in for NCCL on the devices of the rig. Nothing here has seen a GPU."""

from __future__ import annotations

import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace

import pytest

import gradcore.distributed as dist
from gradcore.distributed import rendezvous
from gradcore.distributed.work import Request, Work, _progress, watch
from tests.distributed.processes import RIG, environment, needs_rig, parameters, passes, start_on_rig

# -- in the rig --------------------------------------------------------------------------------------------------------


@needs_rig
@parameters("collectives_checks.py", (2,))
def test_collectives(module, size, name):
    passes(module, size, name, "nccl")


@needs_rig
@pytest.mark.slow
@parameters("collectives_checks.py", (3,))
def test_collectives_of_three(module, size, name):
    passes(module, size, name, "nccl")


@needs_rig
@pytest.mark.slow
@parameters("derivative_checks.py", (2,))
def test_derivatives(module, size, name):
    passes(module, size, name, "nccl")


@needs_rig
@parameters("ddp_checks.py", (2,))
def test_data_parallel(module, size, name):
    passes(module, size, name, "nccl")


@needs_rig
@parameters("nccl_checks.py", (2,))
def test_streams_and_devices(module, size, name):
    passes(module, size, name, "nccl")


@needs_rig
@pytest.mark.parametrize("how", ["sleeps", pytest.param("is killed", marks=pytest.mark.slow), "gives another size"])
def test_others_do_not_wait_forever(how):
    done = start_on_rig(2, "-m", "tests.distributed.failing", how, "nccl")
    for rank, (code, output, errors) in enumerate(done):
        if rank == 0 or how == "gives another size":
            assert code != 0
            assert "DistBackendError: rank " in output, errors
            assert "True" in output  # a failed group refuses further calls
            assert "went on" not in output


@needs_rig
def test_a_file_that_cannot_be_written():
    code = (
        "import gradcore as gc, gradcore.distributed as dist\n"
        "import tests.distributed.nccl_stand_in\n"
        "dist.init_process_group('nccl', 'file:///dev/null/nothing')"
    )
    for found, _, errors in start_on_rig(2, "-c", code):
        assert found != 0
        assert "DistNetworkError: rank" in errors


@needs_rig
@pytest.mark.slow
def test_what_a_machine_with_gpus_runs_first():
    code = "import tests.distributed.nccl_stand_in; from gradcore.distributed import check; check.main([])"
    command = [str(RIG), "-m", "gradcore.distributed.direct", "-n", "2", str(RIG), "-c", code]
    variables = {"CUPY_HOST": "1", "CUPY_HOST_OPTIMIZE": "-O0", "NCCL_STAND_IN": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(**variables), timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "2 processes, nccl, cuda"
    assert [line[:3] for line in lines[1:8]] == ["ok:"] * 7


# -- without a device --------------------------------------------------------------------------------------------------


class Endless(Request):
    """A call that the device never finishes."""

    watched = True

    def done(self):
        return False

    def ready(self):
        return True


def test_a_thread_that_goes_on_with_results_that_do_not_come_gets_the_error():
    failed = []
    group = SimpleNamespace(timeout=timedelta(seconds=0.1), fail=lambda why, work: failed.append(why))
    work = Work(group, Endless(), lambda: "rank 0 of 2: all_reduce", ())
    assert work.wait()  # the stream waits
    with pytest.raises(dist.DistBackendError, match=r"rank 0 of 2: all_reduce did not finish within 0\.1 s"):
        _watched(work)
    deadline = time.monotonic() + 60
    while not failed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(failed) == 1
    with pytest.raises(dist.DistBackendError, match="did not finish"):
        Work.wait(Work(group, Failing(), lambda: "rank 0 of 2: barrier", ()))


def test_the_thread_seldom_looks_at_what_makes_progress_by_itself():
    class Counted(Endless):
        looks = 0

        def done(self):
            type(self).looks += 1
            return False

    group = SimpleNamespace(timeout=timedelta(seconds=0.5), fail=lambda why, work: None)
    watch(Work(group, Counted(), lambda: "all_reduce", ()))
    time.sleep(0.5)
    assert 1 <= Counted.looks <= 60  # 2,500 as often as calls of MPI
    deadline = time.monotonic() + 60
    while _progress._works and time.monotonic() < deadline:
        time.sleep(0.01)
    before, Counted.looks = Counted.looks, 0
    time.sleep(0.1)
    assert Counted.looks == 0, before  # nothing is pending


def _watched(work):
    watch(work)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.01)


class Failing(Endless):
    """A call that the host waits for."""

    def ready(self):
        return False


@pytest.mark.parametrize("method", ["tcp", "env", "file"])
def test_processes_find_each_other(method, tmp_path, monkeypatch):
    for _ in range(5):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(port))
        where = {"tcp": f"tcp://127.0.0.1:{port}", "env": None, "file": f"file://{tmp_path}/number"}[method]
        made = []

        def make(made=made):
            made.append(0)
            return b"a number"

        with ThreadPoolExecutor(3) as pool:
            ranks = [pool.submit(rendezvous.share, make, rank, 3, where, 30.0) for rank in (2, 1, 0)]
            try:
                assert [each.result() for each in ranks] == [b"a number"] * 3
            except dist.DistNetworkError:  # somebody else has taken the port meanwhile
                continue
        assert len(made) == 1
        return
    raise AssertionError("no port is free")


def test_processes_that_do_not_come():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(dist.DistNetworkError, match=r"rank 1 of 2: the processes did not find each other"):
        rendezvous.share(bytes, 1, 2, f"tcp://127.0.0.1:{port}", 0.2)
    with pytest.raises(ValueError, match="init_method must be"):
        rendezvous.share(bytes, 1, 2, "http://127.0.0.1", 0.2)
