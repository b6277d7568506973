"""Processes that no launcher of MPI has started: `multiprocessing.spawn`, and one command for each."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gradcore.distributed import pmi_server
from tests.distributed.processes import environment, needs_mpi

PROGRAM = """
import os, signal, sys, time
import gradcore as gc
import gradcore.distributed as dist
import gradcore.multiprocessing as mp
from gradcore.nn.parallel import DistributedDataParallel as DDP

def train(rank, size, how):
    dist.init_process_group("gloo", rank=rank, world_size=size)
    net = DDP(gc.nn.Linear(4, 2))
    optimizer = gc.optim.SGD(net.parameters(), 0.1)
    for step in range(3):
        optimizer.zero_grad()
        net(gc.full((3, 4), float(rank))).sum().backward()
        optimizer.step()
        if rank == 1 and step == 1 and how == "raises":
            raise LookupError("of rank one")
        if rank == 1 and step == 1 and how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
    weights = [gc.empty(2, 4) for _ in range(size)]
    dist.all_gather(weights, net.module.weight.detach())
    assert all(gc.equal(w, weights[0]) for w in weights)
    sys.stdout.write(f"rank {rank} of {dist.get_world_size()} has trained\\n")
    dist.destroy_process_group()

if __name__ == "__main__":
    how, start = sys.argv[1:3]
    if start == "spawn":
        mp.spawn(train, args=(2, how), nprocs=2)
    else:
        train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), how)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def variables(**more: str) -> dict[str, str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return environment(MASTER_ADDR="localhost", MASTER_PORT=str(port), **more)


def run(program: str, how: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, program, how, "spawn"]
    return subprocess.run(command, env=variables(), capture_output=True, text=True, timeout=120, check=False)


@needs_mpi
def test_spawned_processes_train(program: str) -> None:
    done = run(program, "trains")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2 has trained", "rank 1 of 2 has trained"]


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("how", ["raises", "is killed"])
def test_a_process_that_fails_ends_the_others(program: str, how: str) -> None:
    done = run(program, how)
    assert done.returncode != 0
    assert "has trained" not in done.stdout
    assert "terminated with exit code" in done.stderr
    if how == "raises":
        assert "LookupError: of rank one" in done.stderr


@needs_mpi
@pytest.mark.slow
def test_one_command_for_each(program: str) -> None:
    both = variables(WORLD_SIZE="2")
    children = [
        subprocess.Popen(
            [sys.executable, program, "trains", "alone"],
            env={**both, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (1, 0)
    ]
    said = [child.communicate(timeout=120)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert said == ["rank 1 of 2 has trained\n", "rank 0 of 2 has trained\n"]


@needs_mpi
def test_programs_that_a_process_starts_are_no_part_of_its_world() -> None:
    inner = (
        "import gradcore.distributed as d, os; d.init_process_group('mpi'); "
        "print(d.get_world_size(), *(n for n in os.environ if n.startswith('PMI')))"
    )
    code = (
        "import gradcore.distributed as d, os, subprocess, sys\n"
        "d.init_process_group('gloo')\n"
        "assert d.get_world_size() == 2\n"
        "env = {k: v for k, v in os.environ.items() if k not in ('RANK', 'WORLD_SIZE')}\n"
        f"subprocess.run([sys.executable, '-c', {inner!r}], env=env, check=True, timeout=60)\n"
        "d.barrier()\n"
        "d.destroy_process_group()\n"
    )
    both = variables(WORLD_SIZE="2")
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code], env={**both, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    said = [child.communicate(timeout=120)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert said == ["1\n", "1\n"]


@needs_mpi
def test_an_unknown_rank_is_an_error() -> None:
    code = "import gradcore.distributed as d; d.init_process_group('gloo', world_size=2)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    assert "the rank of this process among 2 is not known: rank, or the variable RANK" in done.stderr


def test_strangers_get_nothing_from_the_process_manager() -> None:
    manager = subprocess.Popen(
        [sys.executable, "-I", "-S", pmi_server.__file__, json.dumps({"ids": [11, 12], "host": "127.0.0.1"})],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert manager.stdin is not None
    assert manager.stdout is not None
    address = "127.0.0.1", int(manager.stdout.readline())
    for message in (
        b"cmd=initack pmiid=1\n",
        b"cmd=put key=a value=b\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\xff" * 50 + b"\n",
    ):
        with socket.create_connection(address, 20) as stranger:
            stranger.sendall(message)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(100) == b""
    ranks = [socket.create_connection(address, 20) for _ in range(2)]
    for rank, connection in enumerate(ranks):
        connection.sendall(f"cmd=initack pmiid={11 + rank}\n".encode())
        assert connection.makefile().readline() == "cmd=initack rc=0\n"
    ranks[0].close()  # without a word
    assert manager.wait(20) == 1
    ranks[1].close()
    manager.stdin.close()
    manager.stdout.close()
