"""The libraries under comparison, by name."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.libraries.base import Inputs, Library, NoProgramError, Program, UnavailableError
from benchmarks.libraries.by_hand import RawCuPy, RawNumPy
from benchmarks.libraries.functional import JAX, HIPSAutograd
from benchmarks.libraries.tensors import GradCore, Torch, TorchCompile

__all__ = ["LIBRARIES", "QUICK", "Inputs", "Library", "NoProgramError", "Program", "UnavailableError", "open_libraries"]

LIBRARIES: dict[str, type[Library]] = {
    library.name: library for library in (GradCore, Torch, TorchCompile, JAX, HIPSAutograd, RawNumPy, RawCuPy)
}
QUICK = tuple(name for name in LIBRARIES if name != TorchCompile.name)


def open_libraries(names: Sequence[str], device: str, threads: int) -> tuple[dict[str, Library], dict[str, str]]:
    """Open what can be opened.

    Parameters
    ----------
    names : sequence of str
        Keys of `LIBRARIES`.
    device : str
        ``"cpu"`` or ``"cuda"``.
    threads : int
        CPU threads of each.

    Returns
    -------
    dict
        The libraries that are ready, by name.
    dict
        The reason for each of the others that could have used this device.
    """
    ready, missing = {}, {}
    for name in names:
        if device in LIBRARIES[name].devices:
            try:
                ready[name] = LIBRARIES[name](device)
                ready[name].limit_threads(threads)
            except UnavailableError as error:
                missing[name] = str(error)
    return ready, missing
