"""DistributedDataParallel and SyncBatchNorm, in two and three processes."""

from __future__ import annotations

from tests.distributed.processes import needs_mpi, parameters, passes


@needs_mpi
@parameters("ddp_checks.py", (2, 3))
def test_data_parallel(module, size, name):
    passes(module, size, name)
