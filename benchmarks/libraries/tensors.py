"""gradcore and PyTorch: the same programs run with both."""

from __future__ import annotations

import functools
import importlib
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.cases import Case
from benchmarks.libraries.base import Inputs, Library, Program, UnavailableError
from benchmarks.libraries.by_hand import cupy_elapsed, cupy_mark


class TensorLibrary(Library):
    """Libraries with PyTorch's interface."""

    #: Whether what is compiled is a whole step, backward and update included; else its caller runs backward.
    compiles_steps: ClassVar[bool] = False

    def tensor(self, value: np.ndarray, requires_grad: bool = False) -> Any:
        """Return `value` as a tensor on the device."""
        return self.namespace.tensor(value, device=self.device, requires_grad=requires_grad)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function of tensors that is run."""
        return function

    def prepare(self, case: Case, arrays: Inputs) -> Program:
        T = self.namespace
        leaves = [self.tensor(a, requires_grad=True) for a in arrays[0]]
        tensors = [*leaves, *(self.tensor(a) for a in arrays[1])]
        work = case.torch_setup(T, tensors)
        if work is None:
            function = functools.partial(case.torch_style, T)
            if case.differentiated:
                return self.differentiated(case, function, leaves, tensors)
            work = functools.partial(self.compiled(function), *tensors)
        else:
            work = self.compiled(work)
        return Program(work, work)

    def differentiated(
        self, case: Case, loss_function: Callable[..., Any], leaves: Sequence[Any], tensors: Sequence[Any]
    ) -> Program:
        """Return the program of a loss and its gradients."""
        no_grad = self.namespace.no_grad
        if not self.compiles_steps:
            loss_function = self.compiled(loss_function)

        def update() -> None:
            if case.learning_rate:
                with no_grad():
                    for leaf in leaves:
                        leaf -= case.learning_rate * leaf.grad
            for leaf in leaves:
                leaf.grad = None

        def outputs() -> Sequence[Any]:
            loss = loss_function(*tensors)
            loss.backward()
            gradients = [leaf.grad for leaf in leaves]
            update()
            return [loss, *gradients]

        def step() -> None:
            loss_function(*tensors).backward()
            update()

        if self.compiles_steps:  # of which nothing would be left without results
            work = self.compiled(outputs)
            return Program(work, work)
        return Program(step, outputs)

    def to_numpy(self, array: Any) -> np.ndarray:
        return array.detach().cpu().numpy()


class GradCore(TensorLibrary):
    """gradcore, eager, as it is installed: with compiled kernels where the installation could compile them."""

    name, module = "gradcore", "gradcore"
    environment: ClassVar = {"GRADCORE_COMPILED": "auto"}

    @property
    def version(self) -> str:
        """The version, and which kernels the CPU has."""
        kernels = "NumPy's kernels"
        if importlib.import_module("gradcore.compiled").is_used():
            found = importlib.import_module("gradcore.backends.compiled.library")
            path = found.find() or found.find_packaged()
            kernels = f"{path.name.partition('-')[0]} kernels".replace("compiled kernels", "this machine's kernels")
        return f"{super().version} with {kernels}"

    def open(self) -> None:
        found = str(self.tensor(np.zeros(1, np.float32)).device)
        if found.partition(":")[0] != self.device:
            raise UnavailableError(f"gradcore fell back to {found}")

    @classmethod
    def caches(cls, folder: Path) -> dict[str, str]:
        for path in importlib.import_module("gradcore.backends.compiled.library").libraries():  # of kernels
            with suppress(FileExistsError):
                (folder / path.name).symlink_to(path)
        return {"GRADCORE_CACHE": str(folder)}

    def limit_threads(self, count: int) -> None:
        self.namespace.set_num_threads(count)

    def wait(self, outputs: Any) -> None:
        if self.device == "cuda":  # gradcore's kernels run where CuPy's do
            importlib.import_module("cupy").cuda.Device().synchronize()

    def mark(self) -> Any:
        return cupy_mark() if self.device == "cuda" else None

    def elapsed(self, start: Any, end: Any) -> float:
        return cupy_elapsed(start, end)


class GradCoreNumPy(GradCore):
    """gradcore with NumPy's kernels alone, as where no compiler was there to install it."""

    name, title, devices = "gradcore-numpy", "NumPy kernels", ("cpu",)
    environment: ClassVar = {"GRADCORE_COMPILED": "0"}


class GradCoreCompile(GradCore):
    """gradcore with ``gradcore.compile`` of whole steps, in C++; the first calls record and wait for the compiler."""

    name, title, devices = "gradcore-compile", "gradcore.compile", ("cpu",)
    environment: ClassVar = {**GradCore.environment, "GRADCORE_COMPILE_CPP": "wait"}
    compiling_calls = 3
    compiles_steps = True

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self.namespace.compile(function)  # type: ignore[no-any-return]


class GradCoreCompileNumPy(GradCoreCompile):
    """The same as Python that calls kernels, which serves until the C++ is there, or where there is no compiler."""

    name, title = "gradcore-compile-numpy", "compile, no C++"
    environment: ClassVar = {**GradCore.environment, "GRADCORE_COMPILE_CPP": "0"}


class GradCoreCompileFlush(GradCoreCompile):
    """The same with subnormal numbers replaced by zeros, as XLA's programs do: the arithmetic of JAX."""

    name, title = "gradcore-compile-flush", "compile, flush"

    def open(self) -> None:
        super().open()
        if not self.namespace.set_flush_denormal(True):
            raise UnavailableError("gradcore cannot flush subnormal numbers here")


class Torch(TensorLibrary):
    """PyTorch, eager."""

    name, module = "torch", "torch"

    def open(self) -> None:
        if self.device == "cuda" and not self.namespace.cuda.is_available():
            raise UnavailableError("torch.cuda.is_available() is False")

    def wait(self, outputs: Any) -> None:
        if self.device == "cuda":
            self.namespace.cuda.synchronize()

    def mark(self) -> Any:
        if self.device != "cuda":
            return None
        event = self.namespace.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) / 1e3


class TorchCompile(Torch):
    """PyTorch with ``torch.compile``, which spends minutes on compiling: not in quick runs unless it is asked for."""

    name = "torch.compile"
    compiling_calls = 3

    @classmethod
    def caches(cls, folder: Path) -> dict[str, str]:
        return {"TORCHINDUCTOR_CACHE_DIR": str(folder)}

    def open(self) -> None:
        super().open()
        if self.device == "cpu" and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "c++", "clang++", "cl"))):
            raise UnavailableError("needs a C++ compiler, and none was found")

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.namespace.compiler.reset()
        return self.namespace.compile(function)
