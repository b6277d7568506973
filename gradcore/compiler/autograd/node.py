"""The autograd node of a compiled function: its backward runs the backward program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import call as call_directly
from typing import Any, NamedTuple

import numpy as np

from gradcore.autograd import variables
from gradcore.autograd.grad_mode import enable_grad
from gradcore.autograd.gradients import grad as gradients_of
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.node import Node, freed_error, redirect_edges
from gradcore.autograd.saved import SavedTensor, check_version
from gradcore.autograd.variables import TensorMeta, Variable, new, tick, wrap
from gradcore.autograd.views import gradient_edge
from gradcore.backends.registry import CPU
from gradcore.compiler.capture.numbers import plain_numbers
from gradcore.compiler.capture.reasons import Code
from gradcore.core.typing import AnyArray
from gradcore.tensor import Tensor
from gradcore.tensor.random.generator import repeat_draws

__all__ = ["Backward", "CompiledFunctionBackward", "ReplayedCall", "all_tensors_in", "as_freed", "as_leaf",
           "connect", "cut_history", "grad_of", "ignore", "tensors_in", "unique",
           "watch", "with_grads", "with_history"]  # fmt: skip


class Backward(NamedTuple):
    """The backward of a specialization: the backward program, and facts about the forward that it needs.

    Attributes
    ----------
    function : callable
        The original function, called eagerly for higher derivatives.
    run : callable
        The backward program: ``(*saved arrays, *upstream gradients) -> gradients``, of the `inputs` that have one.
    inputs : tuple of int
        The numbers of the tensors that receive gradients.
    found : tuple of bool
        For each of `inputs`, whether there is a gradient.
    reached : tuple of frozenset
        For each result, the positions in `inputs` of the tensors that it depends on.
    watched : tuple of int
        The tensors whose memory is saved.
    repeatable : bool
        Whether the function can be called again, because it has no side effects.
    changed : callable
        Function that describes the state that has changed since a call; see `Guards.changed_since`.
    fresh : bool
        Whether the gradients are new arrays.
    with_grad : tuple of bool
        If the function reads ``.grad``, whether each tensor had a gradient before the call.
    alone : tuple
        If there are only a few results, for each one a backward program of its own (a `LazyRun`).
    metas : tuple of TensorMeta
        The metadata of the results, or an empty tuple if sizes differ between calls.
    freed : tuple of frozenset
        For each result, the results whose graph a backward from it frees: those that share nodes with it.
    feeds : tuple of frozenset
        For each result, the other results that are computed from it.
    """

    function: Callable[..., Any]
    run: Callable[..., Any]
    inputs: tuple[int, ...]
    found: tuple[bool, ...]
    reached: tuple[frozenset[int], ...]
    watched: tuple[int, ...]
    repeatable: bool
    changed: Callable[..., str | None]
    fresh: bool
    with_grad: tuple[bool, ...]
    alone: tuple[Any, ...]
    metas: tuple[TensorMeta, ...]
    freed: tuple[frozenset[int], ...]
    feeds: tuple[frozenset[int], ...]


#: A call of a program: the tensors that it depends on, their arrays, positional and keyword arguments, and the state of
#: the generator if random numbers were drawn.
ReplayedCall = tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], dict[str, Any], Any]


class CompiledFunctionBackward(Node):
    """Backward node of a compiled function."""

    stands_for_several = True
    __slots__ = ("_n_outputs", "_output_metas", "arrived", "call", "feeds", "freed", "half", "results", "saved")

    half: Backward
    #: The call that can be repeated, or None after it has been freed.
    call: ReplayedCall | None
    #: The arrays saved for the backward program, or None after they have been freed.
    saved: Any
    #: The tensors that the call has created, such as results and gradients, whose memory is among the saved arrays.
    results: Sequence[SavedTensor]
    _n_outputs: int
    _output_metas: Sequence[TensorMeta]
    #: If there are several results: those that the last backward came from, and those whose graph has been freed.
    arrived: Sequence[int]
    freed: frozenset[int]

    @property
    def _fresh(self) -> bool:  # type: ignore[override]
        return self.half.fresh

    def release(self) -> None:
        if not self.saved:  # Without saved arrays, backward can be repeated.
            return
        if self._n_outputs > 1:
            self.freed = self.freed.union(*[self.half.freed[i] for i in self.arrived])
            if len(self.freed) < self._n_outputs:
                return
        self.saved = self.call = None
        self.results = ()

    def is_freed(self) -> bool:
        return self.saved is None

    def check(self, arriving: Sequence[Any]) -> Any:
        """Raise an error if arrays that are saved for the results with a gradient have been freed or written to.

        Returns
        -------
        Backward or LazyRun or None
            The program for these results, or None if there is none.
        """
        if self.saved is None:
            raise freed_error()
        half: Any = self.half
        program, present = half, [i for i, g in enumerate(arriving) if g is not None]
        if len(present) < len(arriving):
            program = half.alone[present[0]] if half.alone and len(present) == 1 else None
        if self._n_outputs > 1:
            self.arrived = present
            if not self.freed.isdisjoint(present):
                raise freed_error()
        if variables.last_write > self._seq:
            for i in (half if program is None else program).watched:
                check_version(self.call[0][i], self._seq)  # type: ignore[index]
            for each in self.results:
                each.check(self)
        return program

    def compute_gradients(self, grads: Any) -> Sequence[AnyArray] | None:
        arriving = grads if self._n_outputs > 1 else [grads]
        array_type = self._device.backend.array_type
        if not self.half.fresh or any(g is not None and not isinstance(g, (np.generic, array_type)) for g in arriving):
            return None
        return self._run_program(arriving, call_directly)

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        arriving = grads if self._n_outputs > 1 else [grads]
        half = self.half
        if arithmetic.recorded:
            self.check(arriving)
            return _again(self, [arithmetic.as_tensor(g) for g in arriving], arithmetic)
        gradients = self._run_program(arriving, local.state.run)
        if gradients is not None:
            return gradients
        dense = [_to_array(g, t) for g, t in zip(arriving, self._output_metas, strict=True)]
        results = _insert_missing(local.state.run(half.run, *self.saved, *dense), half.found)
        affected = {i for each, g in zip(half.reached, arriving, strict=True) if g is not None for i in each}
        results = [g if i in affected else None for i, g in enumerate(results)]
        if half.repeatable and any(_has_nan(g) for g in results if g is not None):
            # NaN may be zero times infinity from a result without a gradient, whose branch eager backward skips.
            with contextlib.suppress(Exception):  # The call cannot be repeated if state has changed.
                return _again(self, [None if g is None else arithmetic.as_tensor(g) for g in arriving], arithmetic)
        return results

    def _run_program(self, arriving: Sequence[Any], run: Callable[..., Any]) -> Sequence[Any] | None:
        """Return the gradients for all edges, or None if there is no program for the results that have a gradient."""
        program = self.check(arriving)
        if program is None:
            return None
        dense = [_to_array(g, t) for g, t in zip(arriving, self._output_metas, strict=True) if g is not None]
        return _insert_missing(run(program.run, *self.saved, *dense), program.found)


class FreedBackward(CompiledFunctionBackward):
    """Node of a result whose graph the function has freed by backward.

    Each call of a training step creates one, but its edges to the leaves `inputs` only if somebody looks at them.
    """

    __slots__ = ("inputs",)

    def __getattr__(self, name: str) -> Any:
        if name == "_edges":
            self._edges = tuple(map(gradient_edge, self.inputs))
        return object.__getattribute__(self, name)


def _insert_missing(gradients: Sequence[Any], exists: tuple[bool, ...]) -> Sequence[Any]:
    """Return the gradients with None for the inputs that have none."""
    if len(gradients) == len(exists):
        return gradients
    remaining = iter(gradients)
    return [next(remaining) if each else None for each in exists]


def connect(half: Backward, device: Any, results: Any, saved: Any, call: ReplayedCall) -> list[Any]:
    """Return the results of a program, all on one device, as tensors whose node is connected to the inputs."""
    tensors, node = call[0], new_node(CompiledFunctionBackward)
    edges = tuple([gradient_edge(tensors[i]) if has else None for i, has in zip(half.inputs, half.found, strict=True)])
    node._device, node._edges, node._seq, node._hooks = device, edges, tick(), None
    node.half, node.call, node.saved, node.results = half, call, saved, ()
    outs = [wrap(array, device, None, (node, i)) for i, array in enumerate(results)]
    node.freed, node.arrived, node.feeds = frozenset(), (), half.feeds
    node._n_outputs, node._output_metas = len(outs), half.metas or [TensorMeta.of(t) for t in outs]
    return outs


def watch(out: Any, tensors: Sequence[Any]) -> None:
    """Store the versions of tensors whose memory is saved for the backward of the result `out`."""
    out._edge[0].results = [SavedTensor.save_output(t, t._edge[1] if t._edge else 0) for t in tensors]


@contextmanager
def cut_history(tensors: Sequence[Any]) -> Iterator[None]:
    """Make backward end at the nodes of `tensors` within the context, without calling their hooks.

    Without this, a leaf would also receive gradients through the history of arguments, and hooks would run twice.
    """
    nodes = {edge[0] for edge in map(gradient_edge, tensors) if edge is not None}
    before = [(node, node._edges, node._hooks) for node in nodes]
    for node in nodes:
        node._edges, node._hooks = (), None
    try:
        yield
    finally:
        for node, edges, hooks in before:
            node._edges, node._hooks = edges, hooks


@contextmanager
def with_grads(metas: Sequence[Any], grads: Sequence[Any]) -> Iterator[None]:
    """Set other gradients of leaves within the context; a meta is None for a tensor that is no leaf."""
    leaves = [(meta, meta.grad, grad) for meta, grad in zip(metas, grads, strict=True) if meta is not None]
    for meta, _, grad in leaves:
        meta.grad = grad
    try:
        yield
    finally:
        for meta, grad, _ in leaves:
            meta.grad = grad


def _to_array(grad: Any, meta: TensorMeta) -> Any:
    """Return a gradient as a C-contiguous array. `grad` may be a Python number, or None for zeros."""
    backend = meta.device.backend
    if grad is None:
        with backend.use_index(meta.device.index):
            return backend.xp.zeros(meta.shape, meta.dtype.numpy)
    if backend.array_type is np.ndarray:
        return np.asarray(grad, order="C")
    if not isinstance(grad, backend.array_type):
        return backend.xp.full((), grad, grad.dtype)
    return backend.xp.asarray(grad, order="C")


def as_freed(t: Any, metas: Sequence[TensorMeta] = (), inputs: Sequence[Any] = ()) -> Any:
    """Return the result `t` with a node that raises the error for a graph that has been freed by backward.

    `metas` has the metadata of `t`, or is empty if its sizes differ between calls. `inputs` are its leaves.
    """
    node = new_node(FreedBackward)
    node._device, node.inputs, node._seq, node._hooks = t._device, inputs, tick(), None
    node._n_outputs, node._output_metas, node.saved = 1, metas or [TensorMeta.of(t)], None
    t._edge = (node, 0)
    return t


def _has_nan(array: Any) -> bool:
    return array.dtype.kind in "fc" and bool((array != array).any())


def _again(node: CompiledFunctionBackward, grads: Any, arithmetic: Any) -> Any:
    """Return gradients that have a history, by calling the function again eagerly and differentiating it."""
    assert node.call is not None
    half, (tensors, arrays, args, named, place) = node.half, node.call
    inputs = [tensors[i] for i in half.inputs]
    if not half.repeatable:
        text = "the gradients of a compiled function that writes to tensors in place cannot be differentiated: "
        raise RuntimeError(f"{text}call it without gradcore.compile, or compile all of the step")
    for t in tensors:
        check_version(t, node._seq)
    changed = half.changed(args, named, tensors, arrays)
    if any(had and grad_of(t) is None for t, had in zip(tensors, half.with_grad, strict=False)):
        changed = "the gradient of a tensor"
    if changed is not None:
        raise RuntimeError(
            "the gradients of a compiled function cannot be differentiated once something that it depends on has "
            f"changed: {changed}. Compute them before, or call it without gradcore.compile"
        )
    recorded, start = bool(local.state.mode & GRAD), tick()
    # Since then, backward may have set gradients, and hooks may have been registered.
    new_leaves = [t._autograd for t, had in zip(tensors, half.with_grad, strict=False) if not had]
    with cut_history(inputs), with_grads(new_leaves, [None] * len(new_leaves)):
        with enable_grad(), contextlib.nullcontext() if place is None else repeat_draws(place):
            outs = with_history(half.function(*args, **named))
        outs = [out for out in outs if not any(out is t for t in tensors)]
        redirected = {out._edge: (node, i) for i, out in enumerate(outs)}
        pairs = [(out, g) for out, g in zip(outs, grads, strict=True) if g is not None]
        if not pairs:
            return [None] * len(inputs)
        outs, upstream = [out for out, _ in pairs], [g for _, g in pairs]
        gradients = gradients_of(outs, inputs, upstream, create_graph=recorded, allow_unused=True)
    redirect_edges(gradients, start, redirected)  # Hooks see all that flows into the results of the first call.
    return [arithmetic.from_tensor(g) for g in gradients]


new_node: Any = object.__new__
for _kind in (CompiledFunctionBackward, FreedBackward):  # They print as <CompiledFunctionBackward object at 0x...>.
    _kind.__module__, _kind.__name__, _kind.__qualname__ = "builtins", *["CompiledFunctionBackward"] * 2


def as_leaf(array: Any, dtype: Any, device: Any = CPU) -> Any:
    """Return an array as a tensor without history."""
    t = new(Tensor)
    t._array, t._device, t._dtype = array, device, dtype
    t._edge = t._autograd = t._vc = None
    return t


def grad_of(t: Any) -> Any:
    return None if t._autograd is None else t._autograd.grad


def ignore(code: Code, text: str) -> None:
    """Do nothing: used where unsupported values have been refused before."""


def with_history(result: Any, refuse: Callable[[Code, str], None] = ignore) -> list[Any]:
    """Return the distinct tensors in a result that have a history."""
    return [t for t in unique(tensors_in(result, refuse)) if t._edge is not None]


def unique(tensors: list[Any]) -> list[Any]:
    return list({id(t): t for t in tensors}.values())


def all_tensors_in(value: Any) -> list[Any]:
    """Return the tensors in lists, tuples and dicts."""
    if isinstance(value, Variable):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [t for each in parts for t in all_tensors_in(each)]


def tensors_in(value: Any, refuse: Callable[[Code, str], None]) -> list[Any]:
    """Return the tensors in a result; call `refuse` for values that a program cannot return."""
    if isinstance(value, Variable):
        return [value]
    if type(value) in (tuple, list) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return [t for each in value for t in tensors_in(each, refuse)]
    if type(value) is dict:
        return [t for each in value.values() for t in tensors_in(each, refuse)]
    if not (value is None or plain_numbers(value).__class__ in (bool, int, float, complex, str)):
        refuse(Code.RESULT, f"a result is a {type(value).__name__}")
    return []
