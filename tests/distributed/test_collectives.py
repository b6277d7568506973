"""Collectives, messages, groups: in two, three and four processes of MPI."""

from __future__ import annotations

from tests.distributed.processes import needs_mpi, parameters, passes


@needs_mpi
@parameters("collectives_checks.py")
def test_collectives(module, size, name):
    passes(module, size, name)


@needs_mpi
@parameters("mesh_checks.py", sizes=(4,))
def test_meshes(module, size, name):
    passes(module, size, name)
