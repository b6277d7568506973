"""Processes that fail: the others end too, with an error, in time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.distributed.processes import needs_mpi, start

PROGRAM = str(Path(__file__).with_name("failing.py"))


@needs_mpi
@pytest.mark.parametrize("how", ["raises", "is killed", "hangs", "ends"])
def test_others_do_not_wait_forever(how):
    begun = time.monotonic()
    done = start(3, PROGRAM, how, seconds=60)
    assert done.returncode != 0
    assert "went on" not in done.stdout
    assert time.monotonic() - begun < 40
    if how == "raises":
        assert "LookupError: of rank one" in done.stderr
    if how in ("hangs", "ends"):
        assert "DistBackendError: rank " in done.stdout
        assert "all_reduce(shape (3,), dtype float32, op SUM) on cpu, in group 'world', did not finish within 3 s" in (
            done.stdout
        )


@needs_mpi
def test_a_failed_group_refuses_further_calls():
    done = start(2, PROGRAM, "hangs", seconds=60)
    assert "True" in done.stdout


@needs_mpi
def test_sizes_that_differ_are_an_error():
    done = start(2, PROGRAM, "gives another size", seconds=60)
    assert done.returncode != 0
    assert "went on" not in done.stdout
    assert "rank 0: all_reduce(shape (3,), dtype float32, op SUM); rank 1: all_reduce(shape (300,)" in done.stdout


@needs_mpi
def test_variables_that_contradict_mpi_are_an_error():
    code = "import gradcore.distributed as d; d.init_process_group('mpi')"
    done = start(2, "-c", code, WORLD_SIZE="4", seconds=60)
    assert done.returncode != 0
    assert "MPI has started this process as rank" in done.stderr
