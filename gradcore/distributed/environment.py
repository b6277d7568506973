"""Environment variables that launchers set: rank, number of processes, and local rank."""

from __future__ import annotations

import os

__all__ = ["local_rank", "rank", "size"]

#: The variables of torchrun and of our own launcher, of Open MPI, MPICH and Intel MPI, of PMIx, and of Slurm's srun.
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
_SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")


def _first(names: tuple[str, ...], slurm: str) -> int | None:
    if "SLURM_STEP_ID" in os.environ:
        # Only srun sets this variable. The other variables exist in a job even outside of srun.
        names = (*names, slurm)
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdecimal()), None)


def rank() -> int | None:
    """Return the rank of this process, or None if no variable has it."""
    return _first(_RANK, "SLURM_PROCID")


def size() -> int | None:
    """Return the number of processes, or None if no variable has it."""
    return _first(_SIZE, "SLURM_NTASKS")


def local_rank() -> int | None:
    """Return the rank of this process on its machine, or None if no variable has it."""
    return _first(_LOCAL_RANK, "SLURM_LOCALID")
