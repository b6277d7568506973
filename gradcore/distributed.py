"""Queries of ``torch.distributed`` for a program in one process."""

from __future__ import annotations

from typing import Any

from gradcore import paths

__all__ = [
    "get_rank",
    "get_world_size",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
]


def is_available() -> bool:
    """Whether processes can work together: they cannot."""
    return False


is_initialized = is_gloo_available = is_mpi_available = is_nccl_available = is_torchelastic_launched = is_available


def get_rank(group: Any = None) -> int:
    """The number of this process among those that work together: it is alone."""
    return 0


def get_world_size(group: Any = None) -> int:
    """Return the number of processes: one."""
    return 1


#: Modules below this one are looked for, and have a reason not to be there.
__path__: list[str] = []


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}: gradcore runs in one process, and is_available() is False; "
        "nn.DataParallel uses several devices"
    )


paths.show_public(__name__)
