"""Libraries that differentiate functions of arrays: JAX and HIPS autograd."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.cases import Case
from benchmarks.libraries.base import Inputs, Library, NoProgramError, Program, updating_in_place


class FunctionalLibrary(Library):
    """Libraries that differentiate functions of arrays written in NumPy's manner."""

    numpy_module: ClassVar[str]

    @classmethod
    def style(cls, case: Case) -> Any:
        """Return the case's program for this library, or None."""
        return case.numpy_style

    @classmethod
    def has_program(cls, case: Case) -> bool:
        return cls.style(case) is not None

    def function(self, case: Case) -> Callable[..., Any]:
        """Return the case's function of arrays."""
        if not self.has_program(case):
            raise NoProgramError
        return functools.partial(self.style(case), importlib.import_module(self.numpy_module))


class HIPSAutograd(FunctionalLibrary):
    """HIPS autograd, a tape over NumPy."""

    name, module, numpy_module, devices = "autograd", "autograd", "autograd.numpy", ("cpu",)

    @classmethod
    def has_program(cls, case: Case) -> bool:
        return case.differentiated and super().has_program(case)

    def prepare(self, case: Case, arrays: Inputs) -> Program:
        parameters, constants = arrays
        every = tuple(range(len(parameters)))
        value_and_grad = self.namespace.value_and_grad(self.function(case), argnum=every)
        return updating_in_place(case, parameters, functools.partial(value_and_grad, *parameters, *constants))


class JAX(FunctionalLibrary):
    """JAX, with the whole step under ``jax.jit``; tracing and compiling are not in the times."""

    name, module, numpy_module = "jax", "jax", "jax.numpy"
    compiling_calls = 3

    @classmethod
    def caches(cls, folder: Path) -> dict[str, str]:
        least = {"COMPILE_TIME_SECS": "0", "ENTRY_SIZE_BYTES": "-1"}
        everything = {f"JAX_PERSISTENT_CACHE_MIN_{name}": value for name, value in least.items()}
        return {"JAX_COMPILATION_CACHE_DIR": str(folder), **everything}

    def open(self) -> None:
        # The other libraries multiply float32 matrices in full precision and need memory too.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        self.namespace.config.update("jax_default_matmul_precision", "highest")
        self.place = self.namespace.devices("gpu" if self.device == "cuda" else "cpu")[0]

    @classmethod
    def style(cls, case: Case) -> Any:
        return case.jax_style or case.numpy_style

    @classmethod
    def has_program(cls, case: Case) -> bool:
        return case.jax_setup is not None or super().has_program(case)

    def prepare(self, case: Case, arrays: Inputs) -> Program:
        jax = self.namespace
        if not self.has_program(case):
            raise NoProgramError
        parameters, constants = jax.device_put(arrays, self.place)
        if case.jax_setup is not None:
            work = case.jax_setup(jax, (*parameters, *constants))
            return Program(work, work)
        function = self.function(case)
        if not case.differentiated:
            work = functools.partial(jax.jit(function), *parameters, *constants)
            return Program(work, work)
        return self.differentiated(case, function, parameters, constants)

    def differentiated(
        self, case: Case, function: Callable[..., Any], parameters: Sequence[Any], constants: Sequence[Any]
    ) -> Program:
        """Return the program of a loss and its gradients, compiled as a whole."""
        jax = self.namespace
        value_and_grad = jax.value_and_grad(function, argnums=tuple(range(len(parameters))))
        differentiate = jax.jit(lambda parameters, constants: value_and_grad(*parameters, *constants))

        def outputs() -> Any:
            loss, gradients = differentiate(parameters, constants)
            return [loss, *gradients]

        if not case.learning_rate:
            return Program(outputs, outputs)

        @jax.jit
        def step(parameters: Any, constants: Any) -> Any:
            loss, gradients = value_and_grad(*parameters, *constants)
            return loss, [p - case.learning_rate * g for p, g in zip(parameters, gradients, strict=True)]

        current = parameters

        def run() -> Any:
            nonlocal current
            loss, current = step(current, constants)
            return loss, current

        return Program(run, outputs)

    def wait(self, outputs: Any) -> None:
        self.namespace.block_until_ready(outputs)
