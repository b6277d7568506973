"""fully_shard, in two, three and four processes."""

from __future__ import annotations

import pytest

from tests.distributed.processes import needs_mpi, needs_rig, parameters, passes


@needs_mpi
@parameters("fsdp_checks.py", (2, 3))
def test_sharded_modules(module, size, name):
    passes(module, size, name)


@needs_mpi
@pytest.mark.slow
@parameters("fsdp_checks.py", (4,))
def test_sharded_modules_in_four(module, size, name):
    passes(module, size, name)


@needs_rig
@pytest.mark.slow
@parameters("fsdp_checks.py", (2,))
def test_sharded_modules_on_nccl(module, size, name):
    passes(module, size, name, "nccl")
