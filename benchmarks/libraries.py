"""The libraries under comparison, each behind three methods: prepare a case, wait for it, copy to NumPy."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from benchmarks.cases import Case


class UnavailableError(Exception):
    """A library, or its use of a device, is not to be had on this machine; the message says why."""


class Program(NamedTuple):
    """A case made ready for one library.

    `run` does the work that is timed and returns what has to be waited for. `outputs` does the same work and
    returns the loss and the gradients.
    """

    run: Callable[[], Any]
    outputs: Callable[[], tuple[Any, Sequence[Any]]]


def updating_in_place(
    case: Case, parameters: Sequence[Any], differentiate: Callable[[], tuple[Any, Sequence[Any]]]
) -> Program:
    """Return the program of a library that hands out gradients as arrays and whose arrays can be changed."""

    def run() -> tuple[Any, Sequence[Any]]:
        loss, gradients = differentiate()
        if case.learning_rate:
            for p, gradient in zip(parameters, gradients, strict=True):
                p -= case.learning_rate * gradient
        return loss, gradients

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

    def prepare(self, case: Case) -> Program:
        """Place the inputs of `case` on the device and return the program that works on them."""
        raise NotImplementedError

    def wait(self, outputs: Any) -> None:
        """Return when the device has finished all work."""

    def to_numpy(self, array: Any) -> np.ndarray:
        """Copy `array` to the CPU."""
        return np.asarray(array)


class RawNumPy(Library):
    """Forward and backward written out by hand: what NumPy gives to somebody with time."""

    name, module, devices = "numpy", "numpy", ("cpu",)

    def array(self, value: np.ndarray) -> Any:
        """Return a copy of `value` as an array of the library."""
        return value.copy()

    def prepare(self, case: Case) -> Program:
        parameters, constants = ([self.array(a) for a in arrays] for arrays in case.arrays())
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

    def to_numpy(self, array: Any) -> np.ndarray:
        return self.namespace.asnumpy(array)


class TensorLibrary(Library):
    """Libraries with PyTorch's interface."""

    def tensor(self, value: np.ndarray, requires_grad: bool = False) -> Any:
        """Return `value` as a tensor on the device."""
        return self.namespace.tensor(value, device=self.device, requires_grad=requires_grad)

    def loss_function(self, case: Case) -> Callable[..., Any]:
        """Return the function of the case's tensors that is differentiated."""
        return lambda *tensors: case.torch_style(self.namespace, *tensors)

    def prepare(self, case: Case) -> Program:
        parameters, others = case.arrays()
        leaves = [self.tensor(a, requires_grad=True) for a in parameters]
        constants = [self.tensor(a) for a in others]
        loss_function, no_grad = self.loss_function(case), self.namespace.no_grad

        def outputs() -> tuple[Any, Sequence[Any]]:
            loss = loss_function(*leaves, *constants)
            loss.backward()
            gradients = [leaf.grad for leaf in leaves]
            for leaf in leaves:
                leaf.grad = None
            return loss, gradients

        def step() -> None:
            loss_function(*leaves, *constants).backward()
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

    def wait(self, outputs: Any) -> None:
        if self.device == "cuda":  # gradcore's kernels run where CuPy's do
            importlib.import_module("cupy").cuda.Device().synchronize()


class Torch(TensorLibrary):
    """PyTorch, eager."""

    name, module = "torch", "torch"

    def open(self) -> None:
        if self.device == "cuda" and not self.namespace.cuda.is_available():
            raise UnavailableError("torch.cuda.is_available() is False")

    def wait(self, outputs: Any) -> None:
        if self.device == "cuda":
            self.namespace.cuda.synchronize()


class TorchCompile(Torch):
    """PyTorch with ``torch.compile``: minutes of compiling, so only where it is asked for."""

    name = "torch.compile"

    def loss_function(self, case: Case) -> Callable[..., Any]:
        self.namespace.compiler.reset()
        return self.namespace.compile(super().loss_function(case))


class FunctionalLibrary(Library):
    """Libraries that differentiate functions of arrays written in NumPy's manner."""

    numpy_module: ClassVar[str]

    def loss_function(self, case: Case) -> Callable[..., Any]:
        """Return the function of the case's arrays that is differentiated."""
        xp = importlib.import_module(self.numpy_module)
        style = getattr(case, f"{self.name}_style", case.numpy_style)
        return lambda *arrays: style(xp, *arrays)


class HIPSAutograd(FunctionalLibrary):
    """HIPS autograd, a tape over NumPy."""

    name, module, numpy_module, devices = "autograd", "autograd", "autograd.numpy", ("cpu",)

    def prepare(self, case: Case) -> Program:
        parameters, constants = case.arrays()
        every = tuple(range(len(parameters)))
        value_and_grad = self.namespace.value_and_grad(self.loss_function(case), argnum=every)
        return updating_in_place(case, parameters, functools.partial(value_and_grad, *parameters, *constants))


class JAX(FunctionalLibrary):
    """JAX, with the whole step under ``jax.jit``; tracing and compiling are not in the times."""

    name, module, numpy_module = "jax", "jax", "jax.numpy"

    def open(self) -> None:
        # The other libraries multiply float32 matrices in full precision and need memory too.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        self.namespace.config.update("jax_default_matmul_precision", "highest")
        self.place = self.namespace.devices("gpu" if self.device == "cuda" else "cpu")[0]

    def prepare(self, case: Case) -> Program:
        jax = self.namespace
        parameters, constants = jax.device_put(case.arrays(), self.place)
        every = tuple(range(len(parameters)))
        value_and_grad = jax.value_and_grad(self.loss_function(case), argnums=every)
        differentiate = jax.jit(lambda parameters, constants: value_and_grad(*parameters, *constants))

        def outputs() -> Any:
            return differentiate(parameters, constants)

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
DEFAULT = tuple(name for name in LIBRARIES if name != TorchCompile.name)


def open_libraries(names: Sequence[str], device: str) -> tuple[dict[str, Library], dict[str, str]]:
    """Open what can be opened.

    Parameters
    ----------
    names : sequence of str
        Keys of `LIBRARIES`.
    device : str
        ``"cpu"`` or ``"cuda"``.

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
            except UnavailableError as error:
                missing[name] = str(error)
    return ready, missing
