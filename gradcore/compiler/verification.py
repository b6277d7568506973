"""Verification: before every n-th call of a program, call the function eagerly on the same state, and compare.

The eager call uses the caller's own tensors and objects, so that aliases stay aliases. The state that it may change is
saved before and restored afterwards: tensors, the default generator, optimizers, schedulers and gradient scalers. Then
the program runs, and only its effects remain.
"""

from __future__ import annotations

import collections
import enum
import operator
import re
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gradcore.autograd.gradients import grad as gradients_of
from gradcore.autograd.node import is_freed_error
from gradcore.autograd.variables import Variable, wrap
from gradcore.backends.base import Backend
from gradcore.backends.registry import find_cupy_backends
from gradcore.compiler.autograd.node import cut_history, grad_of, with_history
from gradcore.compiler.capture.host_calls import runs_user_code
from gradcore.compiler.capture.objects import SCALARS
from gradcore.compiler.capture.watch import Watch
from gradcore.compiler.specialization import Specialization
from gradcore.core import dtypes
from gradcore.core.device import device
from gradcore.core.locks import process_lock
from gradcore.core.typing import AnyArray, AnyTensor
from gradcore.optim.optimizer import Optimizer
from gradcore.tensor.random.generator import default_generator

__all__ = ["Uncopyable", "VerificationError", "Verifier"]

_Args: TypeAlias = tuple[object, ...]
_Named: TypeAlias = dict[str, object]

#: The largest allowed difference from eager execution by dtype, relative to the largest element. Programs in C++ add
#: in a different order and use different exponential functions. Python numbers count as float32.
ALLOWED = {"bfloat16": 4e-2, "float16": 4e-3, "float32": 2e-5, "complex64": 2e-5, "float64": 1e-11, "complex128": 1e-11}
RESULT = "the result"
_NUMBERS = (bool, int, float, complex)
#: Types of objects that are not saved: they are immutable, or no state of the function.
_CONSTANT = (
    type(None), *_NUMBERS, str, bytes, type, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    types.ModuleType, np.ufunc, *SCALARS, np.dtype, dtypes.dtype, device, enum.Enum, weakref.ref, Backend,
)  # fmt: skip
#: The functions that empty and refill each type of container.
_CONTAINERS: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {
    dict: (dict.clear, dict.update), list: (list.clear, list.extend), set: (set.clear, set.update),
    collections.deque: (collections.deque.clear, collections.deque.extend),
}  # fmt: skip
_MOST_NAMED = 8
#: Lock for eager calls, because the stance that they set applies to the whole process.
_eager_lock = process_lock()


class VerificationError(RuntimeError):
    """Raised when the results of a compiled function differ from those of its eager execution."""


class Uncopyable(Exception):
    """Raised when the state of an object cannot be saved and restored."""


class Leaf(NamedTuple):
    """A copied tensor or number of a result.

    Attributes
    ----------
    text : str
        A description of everything that is compared exactly: type, dtype, shape, history, identity with an argument.
    allowed : float
        The allowed difference, relative to the largest element.
    array : ndarray or None
    """

    text: str
    allowed: float
    array: AnyArray


class Snapshot:
    """A saved copy of the state that a call may change.

    Parameters
    ----------
    roots : iterable of object
        Tensors, optimizers, schedulers and gradient scalers. All objects that they refer to are saved as well.

    Raises
    ------
    Uncopyable
    """

    def __init__(self, roots: Iterable[object]) -> None:
        self.generator = default_generator._state.copy()
        self.array_types = (np.ndarray, *(backend.array_type for backend in find_cupy_backends()))
        self.steps: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        waiting, referenced = [*roots], dict[int, object]()
        while waiting:
            each = waiting.pop()
            if id(each) not in referenced and not isinstance(each, _CONSTANT):
                referenced[id(each)] = each
                waiting += self._save(each)

    def restore(self) -> None:
        """Restore the saved state."""
        default_generator._state.assign(self.generator)
        for function, args in self.steps:
            function(*args)

    def _save(self, value: Any) -> Iterable[object]:
        """Save an object, and return the objects that it refers to."""
        if isinstance(value, Variable):
            return self._save_tensor(value)
        if isinstance(value, (tuple, frozenset)):
            return value
        for kind, (clear, fill) in _CONTAINERS.items():
            if isinstance(value, kind):
                saved = kind(value)
                self.steps += [(clear, (value,)), (fill, (value, saved))]
                return (*saved, *saved.values()) if kind is dict else saved
        if isinstance(value, self.array_types):
            self._save_array(value)
            return ()
        slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()) if name[:2] != "__"]
        attributes = getattr(value, "__dict__", None)
        if attributes is None and not slots:
            raise Uncopyable(f"a {type(value).__qualname__} cannot be copied")
        slot_values = {name: getattr(value, name) for name in slots if hasattr(value, name)}
        self.steps += [(object.__setattr__, (value, *item)) for item in slot_values.items()]
        return [attributes, *slot_values.values()]

    def _save_tensor(self, t: AnyTensor) -> list[object]:
        """Save a tensor's elements, version and gradient, and return the objects that it refers to."""
        meta, counter = t._autograd, t._vc
        self.steps += [(setattr, (t, name, getattr(t, name))) for name in ("_array", "_autograd", "_edge", "_vc")]
        if counter is not None:
            self.steps.append((setattr, (counter, "version", counter.version)))
        self._save_array(t._array)
        if meta is None:
            return []
        self.steps += [(setattr, (meta, name, getattr(meta, name))) for name in ("grad", "requires_grad")]
        return [meta.grad, meta.base]

    def _save_array(self, array: AnyArray) -> None:
        if not isinstance(array, np.ndarray) or array.flags.writeable:
            self.steps.append((operator.setitem, (array, ..., array.copy())))


# -- outcomes -----------------------------------------------------------------------------------------------------


def _state_of(host: Any) -> dict[str, Any]:
    """Return the state of an optimizer, scheduler or gradient scaler.

    The states of an optimizer are numbered in the order of creation: `state_dict` numbers them by parameter, and raises
    KeyError if a parameter is no longer in any group.
    """
    if not isinstance(host, Optimizer):
        return host.state_dict()  # type: ignore[no-any-return]
    groups = [{**group, "params": [*map(id, group["params"])]} for group in host.param_groups]
    return {"state": dict(enumerate(host.state.values())), "param_groups": groups}


def leaves_of(value: object, path: str, known: dict[int, str]) -> Iterator[tuple[str, Leaf]]:
    """Yield the tensors and numbers in a result by path; `known` names the objects from outside."""
    shared_name = known.get(id(value))
    if shared_name is not None:
        yield path, Leaf(f"is {shared_name}", 0.0, None)
    elif isinstance(value, Variable):
        yield path, leaf_of_tensor(value)
    elif isinstance(value, (dict, list, tuple)):
        yield path, Leaf(f"{type(value).__name__} of {len(value)}", 0.0, None)
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves_of(each, f"{path}[{key!r}]", known)
    elif isinstance(value, _NUMBERS):
        is_exact = isinstance(value, (bool, int))
        yield path, Leaf(type(value).__name__, 0.0 if is_exact else ALLOWED["float32"], np.asarray(value))
    else:
        yield path, Leaf(f"{value!r}" if isinstance(value, _CONSTANT) else type(value).__qualname__, 0.0, None)


def leaf_of_tensor(t: AnyTensor) -> Leaf:
    """Return a copy of a tensor."""
    text = f"{type(t).__name__} of {t._dtype.name} {[*t.shape]} on {t._device}"
    text += " that requires grad" if t.requires_grad else ""
    return Leaf(text, ALLOWED.get(t._dtype.name, 0.0), np.array(t._device.backend.to_host(t._array)))


def gradients_in(result: object, names: dict[str, AnyTensor]) -> Iterator[tuple[str, Leaf]]:
    """Yield the gradients of a result for fixed upstream gradients, by the names of the tensors."""
    outs = [t for t in with_history(result) if not any(t is outside_tensor for outside_tensor in names.values())]
    inputs = {name: t for name, t in names.items() if t.requires_grad}
    if not (outs and inputs):
        return
    with cut_history([*inputs.values()]):
        gradients = _sum_gradients(outs, [*inputs.values()])
    for name, t in zip(inputs, gradients, strict=True):
        if t is not None and bool((t != 0).any()):  # A missing gradient counts as zeros.
            yield f"the gradient of {name}", leaf_of_tensor(t.detach())


def _sum_gradients(outs: list[AnyTensor], inputs: list[AnyTensor]) -> Sequence[AnyTensor]:
    """Return the gradients of `inputs`, summed over the results whose graph has not been freed."""
    try:
        return gradients_of(outs, inputs, [*map(_arriving, outs)], retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        if not is_freed_error(error):
            raise
    per_result = [_sum_gradients([out], inputs) for out in outs] if len(outs) > 1 else []
    gradients_by_input = [[g for g in gradients if g is not None] for gradients in zip(*per_result, strict=True)]
    return [sum(each[1:], each[0]) if each else None for each in gradients_by_input] or [None] * len(inputs)


def _arriving(t: AnyTensor) -> AnyTensor:
    """Return an upstream gradient for a result, with distinct elements."""
    backend = t._device.backend
    with backend.use_index(t._device.index):
        values = np.cos(np.arange(t.numel())).reshape(t.shape).astype(t._dtype.numpy)
        return wrap(backend.from_host(values), t._device, t._dtype)


def find_differences(eager: dict[str, Leaf], compiled: dict[str, Leaf]) -> Iterator[str]:
    """Yield descriptions of the differences between two results.

    Gradients that are zero but for rounding are common, so all gradients are compared relative to the largest of
    them, and so is each state of an optimizer. A parameter has no exact value where its gradient is that small:
    `Adam` divides by it. A result may be such a gradient too, if all of its elements are tiny beside the largest of
    the other results.
    """
    scales: dict[str, float] = {}
    for path, leaf in eager.items():
        scales[_kind(path)] = max(_scale(leaf), scales.get(_kind(path), 0.0))
    noise = ALLOWED["float32"] * scales.get(_kind(".grad"), 0.0)
    largest = max((scale for path, scale in scales.items() if path.startswith(RESULT)), default=0.0)
    for path in {**eager, **compiled}:
        expected, got = eager.get(path), compiled.get(path)
        if expected is None or got is None or expected.text != got.text:
            yield f"{path}: eager {expected.text if expected else 'nothing'}, compiled {got.text if got else 'nothing'}"
        elif expected.array is not None:
            grad = eager.get(f"{path}.grad")
            compared = True if grad is None or grad.array.shape != expected.array.shape else np.abs(grad.array) > noise
            allowed = expected.allowed * scales[_kind(path)]
            if path.startswith(RESULT) and scales[_kind(path)] < expected.allowed * largest / 16:
                allowed = expected.allowed * largest / 16
            yield from (f"{path}: {text}" for text in _compare(expected, got, allowed, compared))


def _kind(path: str) -> str:
    """Return the group of a leaf. Leaves of a group are compared relative to the largest element in it."""
    if path.startswith("the gradient of ") or path.endswith(".grad"):
        return "gradients"
    return re.sub(r"\['state'\]\[\d+\]", "", path)


def _as_wide(leaf: Leaf) -> AnyArray:
    """Return the elements of a leaf as float64 or complex128; integers and bools are not converted."""
    if leaf.allowed == 0:
        return leaf.array
    with np.errstate(invalid="ignore"):  # The cast of NaN warns.
        return leaf.array.astype(np.complex128 if leaf.array.dtype.kind == "c" else np.float64)


def _scale(leaf: Leaf) -> float:
    if leaf.array is None or leaf.allowed == 0:
        return 0.0
    magnitudes = np.abs(_as_wide(leaf))
    return float(np.max(magnitudes, where=np.isfinite(magnitudes), initial=0.0))


def _compare(eager: Leaf, compiled: Leaf, allowed: float, compared: AnyArray) -> Iterator[str]:
    """Yield a description of the elements that differ by more than `allowed`, if there are any."""
    a, b = _as_wide(eager), _as_wide(compiled)
    differs = (a != b) & (compared | (a.dtype.kind not in "fc"))
    if eager.allowed:
        with np.errstate(invalid="ignore"):
            difference = np.abs(a - b)
        differs &= ~(difference <= allowed) & ~(np.isnan(a) & np.isnan(b))
    if differs.any():
        index = tuple(int(i) for i in np.argwhere(differs)[0])
        amount = f", by up to {difference[differs].max():.3g} (allowed: {allowed:.3g})" if eager.allowed else ""
        where = f"; first at {[*index]}" if index else ""
        yield (
            f"{int(differs.sum())} of {a.size} elements differ{amount}{where}: eager {eager.array[index]}, "
            f"compiled {compiled.array[index]}"
        )


# -- calls --------------------------------------------------------------------------------------------------------


class Verifier:
    """Verification of the programs of a compiled function.

    Parameters
    ----------
    compiled : CompiledFunction
    every : int
        Verify every `every`-th call of a program.
    eagerly : callable
        Function that returns a context in which compiled functions run eagerly.
    """

    def __init__(self, compiled: Any, every: int, eagerly: Callable[[], Any]) -> None:
        self.compiled, self.every, self.eagerly = compiled, every, eagerly
        self.calls = 0

    def wrap_entry(self, entry: Specialization, state: list[str]) -> Specialization:
        """Return a specialization of which every n-th call is verified.

        Parameters
        ----------
        entry : Specialization
        state : list of str
            The state that the function could see during the capture, see `CompiledFunction.visible_state`.
        """
        plain = entry.run

        def run(args: _Args, named: _Named, is_check: bool = False) -> Any:
            if is_check:
                return plain(args, named, True)
            if (self.calls + 1) % self.every == 0 and type(plain(args, named, True)) is not int:
                result = self._verify(entry, state, args, named)
            else:
                result = plain(args, named)
            self.calls += type(result) is not int
            return result

        return entry._replace(run=run)

    def _verify(self, entry: Specialization, state: list[str], args: _Args, named: _Named) -> Any:
        """Call the function eagerly, restore the state, call the program, and compare."""
        hosts, names = entry.guards.hosts, entry.guards.tensors_by_name(args, named)
        try:
            if any(map(runs_user_code, hosts)):
                raise Uncopyable("an optimizer or scheduler runs functions of yours, whose effects would happen twice")
            snapshot = Snapshot([*names.values(), *hosts])
        except Uncopyable as why:
            name = self.compiled._name()
            warnings.warn(f"compile(verify={self.every}): calls of {name} are not verified: {why}", stacklevel=4)
            self.every = 1 << 62
            return entry.run(args, named)
        if entry.decides or entry.sizes is not None:
            outcome = entry.run(args, named)
            if type(outcome) is int:  # The program is for other arguments; an eager call would come before another one.
                return outcome
            snapshot.restore()
        names_by_id = {id(t): name for name, t in names.items()} | _containers_in((*args, *named.values()), "argument")
        watch = Watch(self.compiled._code(), with_host_calls=False)
        error: Exception | None = None
        eager: dict[str, Leaf] = {}
        try:
            with _eager_lock, self.eagerly(), watch.on():
                result = self.compiled.eager(*args, **named)
            eager = self._outcome(result, names, hosts, names_by_id)
        except Exception as raised:
            error = raised
        finally:
            snapshot.restore()
        outcome = entry.run(args, named)
        if type(outcome) is int:
            differences = [f"the function changes what it depends on: {entry.guards.texts[outcome]}"]
        elif error is not None:
            differences = [f"eager execution raises {type(error).__name__}: {error}"]
        else:
            differences = [*find_differences(eager, self._outcome(outcome[0], names, hosts, names_by_id))]
        if watch.refused is not None:
            differences.append(f"in eager execution, {watch.refused}")
        if differences:
            raise VerificationError(self._describe(differences, state, args, named, watch)) from error
        return outcome

    def _outcome(
        self, result: object, names: dict[str, AnyTensor], hosts: list[Any], known: dict[int, str]
    ) -> dict[str, Leaf]:
        """Return the leaves of a result, its gradients, and the state after a call."""
        out = dict(leaves_of(result, RESULT, known))
        out |= gradients_in(result, names)
        for name, t in names.items():
            out[name] = leaf_of_tensor(t)
            grad = grad_of(t)
            if grad is not None:
                out[f"{name}.grad"] = leaf_of_tensor(grad)
        for i, host in enumerate(hosts):
            out |= leaves_of(_state_of(host), f"the state of {type(host).__name__} {i}", {})
        if threading.active_count() == 1:  # Other threads could draw in between.
            state = default_generator._state
            out["the state of the default generator"] = Leaf(f"{state.key}, {state.counter}", 0.0, None)
        return out

    def _describe(self, found: list[str], state: list[str], args: _Args, named: _Named, watch: Watch) -> str:
        """Return the error message."""
        compiled = self.compiled
        lines = [f"compile(verify={self.every}): a program of {compiled._name()}{compiled._line()} differs from eager "
                 "execution, whose outcome is right:", *found[:_MOST_NAMED]]  # fmt: skip
        lines += [f"and {len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
        new_code = [f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})" for code in
                    watch.users - compiled._observed.users]  # fmt: skip
        changed = [each for each in compiled.visible_state(args, named) if each not in state and ".grad" not in each]
        lines += [f"this code did not run before: {each}" for each in sorted(new_code)[:_MOST_NAMED]]
        lines += [f"this has changed since the capture, and no guard says so: {each}" for each in changed[:_MOST_NAMED]]
        end = "pass what changes as an argument, or mark the function with gradcore.compiler.disable"
        return "\n  ".join([*lines, f"Please report this as a bug; until it is fixed, {end}."])


def _containers_in(value: object, name: str) -> dict[int, str]:
    """Return the names of lists and dicts among the arguments, by id."""
    if not isinstance(value, (dict, list, tuple)):
        return {}
    # Ids stay valid, because the caller holds the objects.
    result = {} if isinstance(value, tuple) else {id(value): name}
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        result |= _containers_in(each, f"{name}[{key!r}]")
    return result
