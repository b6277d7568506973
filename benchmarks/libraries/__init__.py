"""The libraries under comparison, by name."""

from __future__ import annotations

from benchmarks.libraries.base import Inputs, Library, NoProgramError, Program, UnavailableError
from benchmarks.libraries.by_hand import RawCuPy, RawNumPy
from benchmarks.libraries.functional import JAX, HIPSAutograd
from benchmarks.libraries.tensors import (
    GradCore,
    GradCoreCompile,
    GradCoreCompileFlush,
    GradCoreCompileNumPy,
    GradCoreNumPy,
    Torch,
    TorchCompile,
)

__all__ = ["LIBRARIES", "QUICK", "TITLES", "Inputs", "Library", "NoProgramError", "Program", "UnavailableError"]

LIBRARIES: dict[str, type[Library]] = {
    library.name: library
    for library in (
        GradCore, GradCoreNumPy, GradCoreCompile, GradCoreCompileFlush, GradCoreCompileNumPy, Torch, TorchCompile, JAX,
        HIPSAutograd, RawNumPy, RawCuPy,
    )
}  # fmt: skip
TITLES = {name: library.title or name for name, library in LIBRARIES.items()}
QUICK = tuple(name for name in LIBRARIES if name not in (TorchCompile.name, GradCoreCompileFlush.name))
