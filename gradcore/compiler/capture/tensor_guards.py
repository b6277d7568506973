"""Guards of tensors: their memory, their history, and the gradients of leaves."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcore.autograd.gradients import backward
from gradcore.autograd.views import gradient_edge
from gradcore.backends.registry import find_cupy_backends
from gradcore.compiler.capture.bytecode import reads_grads
from gradcore.compiler.capture.checks import Checks, TensorGuard, Unguardable
from gradcore.compiler.capture.reasons import Code
from gradcore.compiler.capture.watch import FACTS, Observed
from gradcore.nn.parameter import Parameter
from gradcore.tensor import Tensor

__all__ = ["TensorGuards"]

#: The expression of `FACTS` that needs no guard for tensors without a history.
_OF_HISTORY = "{}.output_nr"
#: NumPy's flag bits of an array for "aligned" and "writeable".
_FLAGS = 0x100 | 0x400


class TensorGuards(Checks):
    """Guards of tensors.

    Parameters
    ----------
    scope : dict
        Objects that have a name in the lines.
    observed : Observed
        What earlier calls did.
    every : bool
        Whether the code may read attributes by computed names.
    """

    _class_of_library: Callable[[type], None]

    def __init__(self, scope: dict[str, Any], observed: Observed, every: bool) -> None:
        super().__init__(scope)
        self.facts = [FACTS[code] for code in observed.facts]
        #: Whether the function may continue if an attribute is missing, because it asks for one or catches errors.
        self.misses = every or bool(observed.handled)
        #: Whether `.grad` of leaves is read or set.
        self.reads_grads = every or observed.reads_grads or reads_grads(observed.executed)
        #: Whether user code reads `.grad`, and so may find that it is another tensor.
        self._compares_grads = every or observed.reads_grads
        self._calls_backward = backward.__code__ in observed.executed
        #: By the ids of tensors and objects that have been visited, the objects; tensors with their name and text.
        self._seen: dict[Any, Any] = {}
        #: The ids of tensors that each call uses, none of which is an argument. Their guards keep them alive.
        self._constants = set[int]()
        #: The expressions of gradients.
        self._grads: list[str] = []
        #: By the name of a tensor, the symbols of its dims with symbolic sizes.
        self.symbols: dict[str, dict[int, str]] = {}
        #: By name, the shapes of the tensors.
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._array_types = (np.ndarray, *(backend.array_type for backend in find_cupy_backends()))

    def _tensor(self, t: Any, expression: str, text: str, given: bool) -> None:
        """Guard the properties of a tensor that a program depends on, and its gradient if the function may read it."""
        if type(t) not in (Tensor, Parameter) or type(t._array) not in self._array_types:
            what = f"{text} is a {type(t).__name__} on {t._device}"
            raise Unguardable(Code.TENSOR, f"{what}: programs are made of plain tensors of the CPU and CUDA")
        self._class_of_library(type(t))
        if vars(t):
            raise Unguardable(Code.TENSOR, f"{text} has attributes of its own")
        is_bound = self.scope.get(expression) is t
        earlier = self._seen.get(id(t))
        if earlier is not None:
            is_same = earlier[0] == expression
            return None if is_same else self.require(f"({expression}) is {earlier[0]}", f"{text} is {earlier[1]}")
        o = f"t{len(self.tensors)}"
        self.lines.append(f"{o} = {expression}")
        constant = ""
        if given:
            self._require_other_tensor(o, text)
            self.require(f"id({o}) not in {self.bind(self._constants)}", f"{text} is no tensor from outside")
            if self._grads:
                others = " and ".join(f"{o} is not {grad}" for grad in self._grads)
                self.require(others, f"{text} is no gradient of another tensor")
            self.require(f"type({o}) is {self.bind(type(t))}", f"type of {text}")
        else:
            constant = expression if is_bound else self.bind(t)
            if not is_bound:
                self.require(f"{o} is {constant}", f"{text} is the same tensor")
            self._constants.add(id(t))
        self._seen[id(t)] = (constant or o, text, t)
        self.tensors.append(TensorGuard(text, t, given, constant=constant))
        self._memory(o, t, text, len(self.tensors) - 1, given)
        meta = t._autograd
        if meta is not None and (meta.tangents or meta.inference):
            raise Unguardable(Code.TENSOR, f"{text} has tangents, or is of inference mode")
        self._facts(t, o, text)
        if self.misses:
            self.require(f"not {o}.__dict__", f"{text} has no attributes of its own")
        base = None if meta is None else meta.base
        has_history = t._edge is not None or (base is not None and gradient_edge(t) is not None)
        if meta is None and not has_history:
            return self.require(f"{o}._autograd is None and {o}._edge is None", f"{text} has no history", True)
        if has_history:
            if self._calls_backward:
                raise Unguardable(Code.HISTORY, f"{text} has a history, through which the function may call backward")
            if not given or (meta is not None and (t._edge is None or meta.base is not None)):
                what = f"{text} is a view with a history, or found outside of the arguments with one"
                raise Unguardable(Code.TENSOR, what)
            self.require(f"{o}._edge is not None", f"{text} has a history", True)
            m = self.assign(f"{o}._autograd")
            retains = meta is not None and meta.retains_grad
            plain = f"not ({m}.tangents or {m}.inference or {m}.base is not None) and {m}.retains_grad is {retains}"
            self.require(f"{plain} if {m} else {not retains}", f"{text} is no view, and whether it retains_grad", True)
            if self.reads_grads:
                if meta is not None and meta.grad is not None:
                    raise Unguardable(Code.TENSOR, f"{text} has a history, and retains its gradient")
                self.require(f"{m} is None or {m}.grad is None", f"{text}.grad is None", True)
            return None
        if meta.observed or meta.retains_grad:
            raise Unguardable(Code.TENSOR, f"{text} has, or has had, hooks, or has a dtype for its gradient")
        m = self.assign(f"{o}._autograd")
        absent = [f"{o}._edge", f"{m}.tangents", f"{m}.inference", f"{m}.retains_grad", f"{m}.observed"]
        is_view = meta.base is not None
        absent.append(f"({m}.base is None or gradient_edge({o}) is not None)" if is_view else f"{m}.base is not None")
        conditions = f"{m}.requires_grad is {meta.requires_grad} and not ({' or '.join(absent)})"
        self.require(conditions, f"history and hooks of {text}", True)
        if not self.reads_grads:
            return None
        if meta.grad is None:
            return self.require(f"{m}.grad is None", f"{text}.grad is None", True)
        grad = meta.grad
        if type(grad) is not Tensor or grad._autograd is not None or grad._edge is not None or id(grad) in self._seen:
            raise Unguardable(Code.TENSOR, f"{text}.grad has history, or is used elsewhere")
        if self._compares_grads:
            self._require_other_tensor(f"{m}.grad", f"{text}.grad")
            self._grads.append(f"{m}.grad")
        start, g = len(self.lines), f"t{len(self.tensors)}"
        self.lines.append(f"{g} = {m}.grad")
        self._seen[id(grad)] = (g, f"{text}.grad", grad)
        self.require(f"type({g}) is Tensor and {g}._autograd is None and {g}._edge is None", f"{text}.grad")
        self.tensors.append(TensorGuard(f"{text}.grad", grad, given))
        self._memory(g, grad, f"{text}.grad", len(self.tensors) - 1, True)
        self.tensors[-1] = self.tensors[-1]._replace(lines=slice(start, len(self.lines)))
        self.passing.update(range(start + 1, len(self.lines)))
        return None

    def _require_other_tensor(self, expression: str, text: str) -> None:
        """Guard that a tensor is none of the arguments visited so far."""
        for guard in self.tensors:
            if guard.given and not guard.lines.stop:
                self.require(f"{expression} is not {self._seen[id(guard.tensor)][0]}", f"{text} is not {guard.name}")

    def _facts(self, t: Any, o: str, text: str) -> None:
        """Guard the other properties of a tensor that user code reads, see `gradcore.compiler.capture.watch.FACTS`."""
        meta = t._autograd
        if None in self.facts and (t._edge is not None or (meta is not None and (meta.base is not None or meta.hooks))):
            raise Unguardable(Code.TENSOR, f"{text} is a view, or has a history or hooks, which the function looks at")
        for each in self.facts:
            if each is not None and (t._edge is not None or each != _OF_HISTORY):
                property_expression, m = each.format(o), f"{o}._autograd"
                value = eval(property_expression, {o: t})
                # The version of an inference tensor cannot be read.
                self.require(f"not ({m} and {m}.inference) and {property_expression} == {value!r}", each.format(text))

    def _memory(self, o: str, t: Any, text: str, number: int, given: bool) -> None:
        """Assign the array of a tensor to a variable, and guard dtype, device, shape, strides and memory flags."""
        a, array = f"a{number}", t._array
        self.lines.append(f"{a} = {o}._array")
        self.shapes[text] = array.shape
        on_cpu = type(array) is np.ndarray
        symbols = self.symbols.get(text)
        shape, strides = f"{a}.shape == {array.shape}", f"{a}.strides == {array.strides}"
        if symbols:
            shape, strides = self._match_symbols(a, array, symbols, text), f"{a}.flags.c_contiguous"
        kind = f"{o}._dtype is {self.bind(t._dtype)} and {o}._device is {'CPU' if on_cpu else self.bind(t._device)}"
        memory = f"type({a}) is {'ndarray' if on_cpu else self.bind(type(array))}"
        if on_cpu:
            memory += f" and {a}.flags.num & {_FLAGS} == {array.flags.num & _FLAGS}"
        layout = f"{shape} and {strides} and {memory}"
        conditions = f"{kind} and {layout}"
        if not symbols and array.flags.c_contiguous:
            any_size = f"{kind} and {memory} and {a}.ndim == {array.ndim} and {a}.flags.c_contiguous"
            self.of_any_size[len(self.lines)] = f"if not ({any_size}): return 0"
        if on_cpu and not symbols:  # The array is usually that of the last call.
            is_last_array = f"{self.bind(weakref.ref(array))}() is {a}"
            conditions = f"{kind} and ({is_last_array} or {layout})" if given else f"{is_last_array} or {conditions}"
        description = f"{text}: shape {list(array.shape)}, strides {array.strides}, {t._dtype.name}"
        if symbols:
            sizes = ", ".join(symbols.get(i, str(n)) for i, n in enumerate(array.shape))
            description = f"{text}: shape [{sizes}] of sizes from 2, contiguous, {t._dtype.name}"
        self.require(conditions, description)

    def _match_symbols(self, a: str, array: Any, symbols: dict[int, str], text: str) -> str:
        """Return a condition that assigns each symbol the size of its first dim, and compares all other dims."""
        if not array.flags.c_contiguous:
            raise Unguardable(Code.TENSOR, f"{text} has sizes that change, and is not contiguous")
        first_dims = {symbol: dim for dim, symbol in reversed(symbols.items())}
        first_dims = {s: dim for s, dim in first_dims.items() if not any(f"({s} := " in line for line in self.lines)}
        assignments = "".join(f"({symbol} := {a}.shape[{dim}]) >= 2 and " for symbol, dim in first_dims.items())
        return f"{assignments}{a}.shape == ({''.join(f'{symbols.get(i, n)}, ' for i, n in enumerate(array.shape))})"
