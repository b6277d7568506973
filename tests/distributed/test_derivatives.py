"""Derivatives of collectives: in two and three processes of MPI."""

from __future__ import annotations

from tests.distributed.processes import needs_mpi, parameters, passes


@needs_mpi
@parameters("derivative_checks.py", (2, 3))
def test_derivatives(module, size, name):
    passes(module, size, name)
