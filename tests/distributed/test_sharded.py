"""Optimisers with shared state, and checkpoints, in two and three processes."""

from __future__ import annotations

from tests.distributed.processes import needs_mpi, parameters, passes


@needs_mpi
@parameters("sharded_checks.py", (2, 3))
def test_sharded_state(module, size, name):
    passes(module, size, name)
