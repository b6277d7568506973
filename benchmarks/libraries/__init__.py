"""The libraries under comparison, by name."""

from __future__ import annotations

from benchmarks.libraries.base import Inputs, Library, NoProgramError, Program, UnavailableError
from benchmarks.libraries.by_hand import RawCuPy, RawNumPy
from benchmarks.libraries.functional import JAX, HIPSAutograd
from benchmarks.libraries.tensors import GradCore, GradCoreCompiled, Torch, TorchCompile

__all__ = ["LIBRARIES", "QUICK", "Inputs", "Library", "NoProgramError", "Program", "UnavailableError"]

LIBRARIES: dict[str, type[Library]] = {
    library.name: library
    for library in (GradCore, GradCoreCompiled, Torch, TorchCompile, JAX, HIPSAutograd, RawNumPy, RawCuPy)
}
QUICK = tuple(name for name in LIBRARIES if name != TorchCompile.name)
