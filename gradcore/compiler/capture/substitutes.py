"""Substitutes for the library's parts that report to the recorder during a capture.

Backends and the kernel tables of their devices are replaced by ones that capture each call and then make it. So are
the methods of generator states, the run of backward, and the tensor operators that take recorded numbers.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradcore.autograd.engine import GraphTask
from gradcore.backends.base import Kernels
from gradcore.backends.random.generator import PhiloxState
from gradcore.backends.registry import connect, devices_of, put
from gradcore.compiler.capture.arrays import RecordedArray, current
from gradcore.compiler.capture.host_calls import end_observation, observe
from gradcore.compiler.capture.numbers import OF_TENSORS, RecordedFloat, RecordedInteger, plain_numbers
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.capture.sizes import SymbolicNumber
from gradcore.core.operators import OPERATORS
from gradcore.tensor import Tensor
from gradcore.utils import checkpoint

__all__ = ["RecordingBackend", "Substitutes", "original_backend", "original_of", "plain_draw",
           "record_calls_of"]  # fmt: skip


class Substitutes:
    """The substitutes of backends and library functions during one capture.

    Parameters
    ----------
    recorder : Recorder
    backends : sequence of Backend
    hosts : sequence of object
        Optimizers, schedulers and scalers whose attribute access is reported to the recorder.
    """

    def __init__(self, recorder: Any, backends: Sequence[Any], hosts: Sequence[Any]) -> None:
        self.recorder, self.hosts = recorder, hosts
        self.backends = [_Substitute(backend) for backend in backends]

    def begin(self) -> None:
        """Capture the calls of this thread until `restore` is called."""
        self._begin()
        for name in _STATE_METHODS:
            setattr(PhiloxState, name, _watch_state_method(name))
        GraphTask.run = _report_run  # type: ignore[assignment,method-assign]
        for name in _OPERATORS:
            setattr(Tensor, name, _accept_numbers(original_of(getattr(Tensor, name))))
        checkpoint._checkpoint_without_reentrance = _watch_checkpoint  # type: ignore[assignment]
        observe(self.hosts, self.recorder.is_first)

    def restore(self) -> None:
        """Restore all originals, also if an interrupt has ended `begin`."""
        for name, method in _STATE_METHODS.items():
            setattr(PhiloxState, name, method)
        GraphTask.run = _run  # type: ignore[method-assign]
        for name in _OPERATORS:
            setattr(Tensor, name, original_of(vars(Tensor)[name]))
        checkpoint._checkpoint_without_reentrance = _checkpoint
        end_observation()
        self._end()

    @contextmanager
    def off(self) -> Iterator[None]:
        """Suspend the capture within the context."""
        watch = sys.getprofile()
        sys.setprofile(None)
        self._end()
        try:
            yield
        finally:
            self._begin()
            sys.setprofile(watch)

    def _begin(self) -> None:
        current.recorder = self.recorder
        for each in self.backends:
            each.begin()

    def _end(self) -> None:
        for each in self.backends:
            each.end()
        current.recorder = None


#: The operators of tensors that accept computed numbers.
_OPERATORS = {
    name
    for each in OPERATORS.values()
    for form, name in each.methods
    if each.symbol in OF_TENSORS and form in ("left", "right")
}


def _accept_numbers(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Return a tensor operator that also accepts recorded numbers."""

    def wrapper(self: Any, other: Any) -> Any:
        if other.__class__ in (RecordedFloat, RecordedInteger):
            recorder = current.recorder
            other = plain_numbers(other) if recorder is None else recorder.as_tensor(other, self)
        return operator(self, other)

    wrapper.original = operator  # type: ignore[attr-defined]
    return wrapper


def original_of(method: types.FunctionType) -> types.FunctionType:
    """Return a method of tensors, which may be the library's or a user's, without the substitute of a capture."""
    original: types.FunctionType = getattr(method, "original", method)
    return original


_run = GraphTask.run


def _report_run(task: GraphTask) -> None:
    """Run `GraphTask.run` and report it to the recorder."""
    if current.recorder is not None:
        current.recorder.run.backward.backward_runs(task)
    _run(task)


_checkpoint = checkpoint._checkpoint_without_reentrance


def _watch_checkpoint(function: Any, args: Any, named: Any, context_fn: Any, *how: Any) -> object:
    """Call `checkpoint`, but end the capture if contexts are given: the selective ones allow one backward only."""
    recorder = current.recorder
    if recorder is not None and context_fn is not checkpoint.noop_context_fn:
        recorder.stop(Code.CALL, "checkpoint() is called with contexts")
    return _checkpoint(function, args, named, context_fn, *how)


plain_draw = PhiloxState.draw
#: Methods of generator states that are captured (``draw``) or end a capture.
_STATE_METHODS = {name: getattr(PhiloxState, name) for name in ("assign", "draw", "place")}


def _watch_state_method(name: str) -> Callable[..., Any]:
    """Return a substitute for a method of generator states: draws are captured, other methods end the capture."""
    plain = _STATE_METHODS[name]

    def method(state: PhiloxState, *args: Any) -> Any:
        recorder = current.recorder
        if recorder is None:
            return plain(state, *args)
        if name == "draw":
            return recorder.draw(state, *args)
        recorder.stop(Code.GENERATOR, "the state of a generator is read or set")
        return plain(state, *args)

    return method


# -- backends and their parts -----------------------------------------------------------------------------------------


class _Recorded:
    """A function of a backend or array library whose calls and attributes are captured."""

    __slots__ = ("function", "name", "on_cpu")

    def __init__(self, name: str, function: Any, on_cpu: bool = True) -> None:
        self.name, self.function, self.on_cpu = name, function, on_cpu

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = current.recorder
        if recorder is None:
            return self.function(*args, **kwargs)
        return recorder.call(self.name, self.function, args, kwargs, self.on_cpu)

    def __getattr__(self, name: str) -> Any:
        if name in ("nout", "takes_out"):  # Programs choose the arrays ``out`` themselves.
            raise AttributeError(name)
        return record_calls_of(f"{self.name}.{name}", getattr(self.function, name), self.on_cpu)


class _Namespace:
    """A module of the array library whose functions are captured."""

    def __init__(self, name: str, module: Any, on_cpu: bool) -> None:
        self._name, self._module, self._on_cpu = name, module, on_cpu

    def __getattr__(self, name: str) -> Any:
        return _keep(self, name, record_calls_of(f"{self._name}.{name}", getattr(self._module, name), self._on_cpu))


def record_calls_of(name: str, value: Any, on_cpu: bool) -> Any:
    """Return a function or module whose calls are captured; other values unchanged."""
    if isinstance(value, types.ModuleType):
        return _Namespace(name, value, on_cpu)
    return value if isinstance(value, type) or not callable(value) else _Recorded(name, value, on_cpu)


def _keep(owner: object, name: str, value: Any) -> Any:
    """Return an attribute, and store captured functions and ints in `owner`, so that they are looked up once."""
    if value.__class__ in (_Recorded, int):
        vars(owner)[name] = value
    return value


class RecordingBackend:
    """A backend whose functions are captured."""

    #: Draws of numbers and what is computed of them are captured as calls of their own, which loops of programs fuse.
    has_dropout_factors = False

    def __init__(self, backend: Any) -> None:
        self._backend, self.type, self._on_cpu = backend, backend.type, backend.array_type is np.ndarray
        self.xp = _Namespace("xp", backend.xp, self._on_cpu)
        self.kernels = Kernels(_resolver(backend.kernels, self._on_cpu))

    @property
    def array_type(self) -> Any:
        return self._backend.array_type if current.recorder is None else RecordedArray

    def __getattr__(self, name: str) -> Any:
        return _keep(self, name, record_calls_of(f"backend.{name}", getattr(self._backend, name), self._on_cpu))

    def conj(self, array: Any) -> Any:
        """Return the conjugate of an array; a real array is returned as it is, which needs no call in the program."""
        is_real = isinstance(array, RecordedArray) and array.dtype.kind != "c"
        return array if is_real else record_calls_of("backend.conj", self._backend.conj, self._on_cpu)(array)

    def half_kernel(self, name: str) -> None:
        """Return None: conversions are captured, as they are fused into the loops around them."""

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, RecordedArray) or bool(self._backend.is_tensor(value))

    def asarray(self, value: Any) -> Any:
        """Return a stand-in array unchanged; other arrays become literals of the program."""
        return self._take_array(value, "asarray")

    def from_host(self, array: Any) -> Any:
        """Return a copy of a host array, captured if the array is a value of the program."""
        return self._take_array(array, "from_host")

    def _take_array(self, value: Any, name: str) -> Any:
        """Call the backend's method `name` to convert an array, and return a stand-in during a capture."""
        recorder, plain = current.recorder, getattr(self._backend, name)
        if recorder is None:
            return plain(value)
        if isinstance(value, RecordedArray):
            is_own_array = isinstance(value.array, self._backend.array_type)
            return value if is_own_array else recorder.call(f"backend.{name}", plain, (value,), {}, self._on_cpu)
        return recorder.adopt(plain(value))

    def to_host(self, array: Any) -> Any:
        if not isinstance(array, RecordedArray):
            return self._backend.to_host(array)
        if current.recorder is not None:
            current.recorder.stop(Code.ELEMENTS, "elements of a tensor are read")
        return self._backend.to_host(array.array)

    def item(self, array: Any) -> Any:
        """Return the only element of an array, on which the function may branch."""
        if not isinstance(array, RecordedArray):
            return self._backend.item(array)
        recorder = current.recorder
        return self._backend.item(array.array) if recorder is None else recorder.run.numbers.item(array)

    #: Backends also have this method under another name, which gradcore uses to test conditions.
    number = item

    def scalar(self, value: Any, dtype: Any) -> Any:
        if type(value) is SymbolicNumber and current.recorder is not None:
            return current.recorder.call("backend.scalar", self._backend.scalar, (value, dtype), {}, self._on_cpu)
        array = self._backend.scalar(value, dtype)
        return array if current.recorder is None else current.recorder.constant(array)

    def constant(self, table: Any) -> Any:
        array = self._backend.constant(table)
        return array if current.recorder is None else current.recorder.constant(array)

    def use_index(self, index: int | None) -> Any:
        return self._backend.use_index(index)

    def random_words(self, n: int, key: Any, counter: Any) -> Any:
        """Return all words at once, where plain backends generate them in chunks."""
        return _Recorded("random.words", self._words, self._on_cpu)(n, key, counter)

    def _words(self, n: int, key: Any, counter: Any) -> Any:
        return self._backend.random_words(n, key, counter)[:]

    def reserve_words(self, state: PhiloxState, words: int) -> tuple[Any, int]:
        recorder = current.recorder
        if recorder is None:
            return self._backend.reserve_words(state, words)  # type: ignore[no-any-return]
        return recorder.draw(state, words, self._backend)  # type: ignore[no-any-return]


def original_backend(backend: Any) -> Any:
    """Return a backend without the substitute of a capture, which another thread may be making."""
    return backend._backend if isinstance(backend, RecordingBackend) else backend


def _resolver(kernels: Any, on_cpu: bool) -> Callable[[str], Any]:
    return lambda name: _Recorded(f"kernels.{name}", kernels[name], on_cpu)


class _Substitute:
    """The substitute of one backend and of the kernel tables of its devices.

    Parameters
    ----------
    backend : Backend
    """

    def __init__(self, backend: Any) -> None:
        self.backend, self.recording = backend, RecordingBackend(backend)
        on_cpu = backend.array_type is np.ndarray
        self.devices = [(d, d.kernels, Kernels(_resolver(d.kernels, on_cpu))) for d in devices_of(backend)]

    def begin(self) -> None:
        put(self.recording)
        for where, _, kernels in self.devices:
            where.backend, where.kernels = self.recording, kernels  # type: ignore[assignment]

    def end(self) -> None:
        """Restore the backend and the kernel tables of its devices."""
        put(self.backend)
        for where in devices_of(self.recording):
            connect(where, self.backend)
        for where, kernels, _ in self.devices:
            where.kernels = kernels
