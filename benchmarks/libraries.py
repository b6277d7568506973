"""The libraries under comparison, each behind three methods: prepare a case, wait for it, copy to NumPy."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from benchmarks.cases import Case
from benchmarks.cases.base import Arrays

Inputs = tuple[Arrays, Arrays]


class UnavailableError(Exception):
    """A library, or its use of a device, is not to be had on this machine; the message says why."""


class Program(NamedTuple):
    """A case made ready for one library.

    `run` does the work that is timed and returns what has to be waited for. `outputs` does the same work and
    returns all results: the loss and the gradients, or what the case computes.
    """

    run: Callable[[], Any]
    outputs: Callable[[], Sequence[Any]]


class NoProgramError(Exception):
    """A case has no program for a library; nothing is wrong."""


def updating_in_place(
    case: Case, parameters: Sequence[Any], differentiate: Callable[[], tuple[Any, Sequence[Any]]]
) -> Program:
    """Return the program of a library that hands out gradients as arrays and whose arrays can be changed."""

    def run() -> Sequence[Any]:
        if not case.differentiated:
            return differentiate()
        loss, gradients = differentiate()
        if case.learning_rate:
            for p, gradient in zip(parameters, gradients, strict=True):
                p -= case.learning_rate * gradient
        return [loss, *gradients]

    return Program(run, run)


class Library:
    """One library on one device.

    Parameters
    ----------
    device : str
        ``"cpu"`` or ``"cuda"``.

    Raises
    ------
    UnavailableError
        Where the library is not installed or cannot use the device.
    """

    name: ClassVar[str]
    module: ClassVar[str]
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def __init__(self, device: str) -> None:
        if device not in self.devices:
            raise UnavailableError(f"{self.name} has no {device}")
        self.device = device
        try:
            self.namespace = importlib.import_module(self.module)
            self.open()
        except UnavailableError:
            raise
        except Exception as error:  # a broken installation raises anything; the others go on
            raise UnavailableError(f"{type(error).__name__}: {error}") from error

    def open(self) -> None:
        """Take hold of the device; raise anything where that fails."""

    @property
    def version(self) -> str:
        """The installed version."""
        return getattr(self.namespace, "__version__", None) or importlib.metadata.version(self.module)

    def prepare(self, case: Case, arrays: Inputs) -> Program:
        """Place `arrays`, the inputs of `case`, on the device and return the program that works on them.

        Raises
        ------
        NoProgramError
            Where the case has nothing for this library.
        """
        raise NotImplementedError

    @classmethod
    def has_program(cls, case: Case) -> bool:
        """Whether `case` has something for this library."""
        return True

    def limit_threads(self, count: int) -> None:
        """Hold the library to `count` CPU threads, where the environment does not do it."""

    def wait(self, outputs: Any) -> None:
        """Return when the device has finished all work."""

    def mark(self) -> Any:
        """A point in the device's queue of work, where there is one: `elapsed` tells the time between two."""
        return None

    def elapsed(self, start: Any, end: Any) -> float:
        """Seconds of the device between two points, when it has passed both."""
        raise NotImplementedError

    def to_numpy(self, array: Any) -> np.ndarray:
        """Copy `array` to the CPU."""
        return np.asarray(array)


class RawNumPy(Library):
    """Forward and backward written out by hand: what NumPy gives to somebody with time."""

    name, module, devices = "numpy", "numpy", ("cpu",)

    def array(self, value: np.ndarray) -> Any:
        """Return a copy of `value` as an array of the library."""
        return value.copy()

    @classmethod
    def has_program(cls, case: Case) -> bool:
        return case.by_hand is not None

    def prepare(self, case: Case, arrays: Inputs) -> Program:
        if not self.has_program(case):
            raise NoProgramError
        parameters, constants = ([self.array(a) for a in group] for group in arrays)
        differentiate = functools.partial(case.by_hand, self.namespace, *parameters, *constants)
        return updating_in_place(case, parameters, differentiate)


class RawCuPy(RawNumPy):
    """The same on CUDA."""

    name, module, devices = "cupy", "cupy", ("cuda",)

    def open(self) -> None:
        self.namespace.cuda.runtime.getDeviceCount()

    def array(self, value: np.ndarray) -> Any:
        return self.namespace.asarray(value)

    def wait(self, outputs: Any) -> None:
        self.namespace.cuda.Device().synchronize()

    def mark(self) -> Any:
        return cupy_mark()

    def elapsed(self, start: Any, end: Any) -> float:
        return cupy_elapsed(start, end)

    def to_numpy(self, array: Any) -> np.ndarray:
        return self.namespace.asnumpy(array)


def cupy_mark() -> Any:
    """Record an event in CuPy's queue."""
    cuda = importlib.import_module("cupy").cuda
    event = cuda.Event()
    event.record()
    return event


def cupy_elapsed(start: Any, end: Any) -> float:
    """Seconds between two events."""
    cuda = importlib.import_module("cupy").cuda
    return float(cuda.get_elapsed_time(start, end)) / 1e3


class TensorLibrary(Library):
    """Libraries with PyTorch's interface."""

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
            function = self.compiled(functools.partial(case.torch_style, T))
            if case.differentiated:
                return self.differentiated(case, function, leaves, tensors)
            work = functools.partial(function, *tensors)
        return Program(work, work)

    def differentiated(
        self, case: Case, loss_function: Callable[..., Any], leaves: Sequence[Any], tensors: Sequence[Any]
    ) -> Program:
        """Return the program of a loss and its gradients."""
        no_grad = self.namespace.no_grad

        def outputs() -> Sequence[Any]:
            loss = loss_function(*tensors)
            loss.backward()
            gradients = [leaf.grad for leaf in leaves]
            for leaf in leaves:
                leaf.grad = None
            return [loss, *gradients]

        def step() -> None:
            loss_function(*tensors).backward()
            if case.learning_rate:
                with no_grad():
                    for leaf in leaves:
                        leaf -= case.learning_rate * leaf.grad
            for leaf in leaves:
                leaf.grad = None

        return Program(step, outputs)

    def to_numpy(self, array: Any) -> np.ndarray:
        return array.detach().cpu().numpy()


class GradCore(TensorLibrary):
    """gradcore, eager."""

    name, module = "gradcore", "gradcore"

    def open(self) -> None:
        found = str(self.tensor(np.zeros(1, np.float32)).device)
        if found.partition(":")[0] != self.device:
            raise UnavailableError(f"gradcore fell back to {found}")

    def limit_threads(self, count: int) -> None:
        self.namespace.set_num_threads(count)

    def wait(self, outputs: Any) -> None:
        if self.device == "cuda":  # gradcore's kernels run where CuPy's do
            importlib.import_module("cupy").cuda.Device().synchronize()

    def mark(self) -> Any:
        return cupy_mark() if self.device == "cuda" else None

    def elapsed(self, start: Any, end: Any) -> float:
        return cupy_elapsed(start, end)


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

    def open(self) -> None:
        super().open()
        if self.device == "cpu" and not any(map(shutil.which, (os.environ.get("CXX", "g++"), "c++", "clang++", "cl"))):
            raise UnavailableError("needs a C++ compiler, and none was found")

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.namespace.compiler.reset()
        return self.namespace.compile(function)


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
