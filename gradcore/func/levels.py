"""What the transformations share: levels of differentiation on one tape, arguments, results."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradcore.autograd import forward
from gradcore.autograd.batch_dims import broadcast_to_batch
from gradcore.autograd.edges import gradient_edge, requires_grad
from gradcore.autograd.gradients import grad
from gradcore.autograd.modes import GRAD, INFERENCE, local
from gradcore.autograd.node import Node
from gradcore.autograd.variables import Meta, Variable, alias, tick
from gradcore.backends.vmap import batched_device
from gradcore.creation import tensor, zeros_like
from gradcore.tensor import Tensor
from gradcore.utils._pytree import tree_map

__all__ = [
    "Argnums",
    "ReverseLevel",
    "check_randomness",
    "check_real",
    "check_results",
    "differentiating",
    "place_of",
    "replaced",
    "selected",
    "split_aux",
]

Argnums = int | tuple[int, ...]


class LevelInput(Node):
    """Where the graph of a reverse-mode transformation begins; behind it lies what the caller records."""

    __slots__ = ("level",)

    of_leaf = True
    level: ReverseLevel

    def backward(self, grads: Any, raw: bool) -> Any:
        return [grads]


class differentiating:
    """While a transformation runs its function, or backward; with `recording`, whatever the caller's mode is."""

    __slots__ = ("before", "level", "recording")

    def __init__(self, level: Any, recording: bool = False) -> None:
        self.level, self.recording = level, recording

    def __enter__(self) -> None:
        state = local.state
        self.before = state.transforms, state.mode
        levels = (*state.transforms, self.level)
        state.transforms, state.mode = levels, state.mode & ~INFERENCE | GRAD if self.recording else state.mode

    def __exit__(self, *exc: object) -> None:
        state = local.state
        state.transforms, mode = self.before
        if self.recording:
            state.mode = mode


def as_input(value: Any) -> Any:
    """A floating-point or complex number or array as the tensor to differentiate with respect to; else as it is."""
    if isinstance(value, (float, complex, np.inexact)) or (isinstance(value, np.ndarray) and value.dtype.kind in "fc"):
        return tensor(value)
    return value


class ReverseLevel:
    """One reverse-mode transformation: what it records is its own, unless the caller's gradients depend on it.

    Everything is on one tape. The inputs of a level are new names of the caller's tensors, with a `LevelInput` between
    them and the caller's history, so that derivatives of different levels are never confused.
    """

    reverse = True

    def __init__(self) -> None:
        self.start = tick()
        #: The tensors that were given a history by writes in place, by identity.
        self.written: dict[int, weakref.ref[Tensor]] = {}

    def __enter__(self) -> ReverseLevel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def kept(self, out: Tensor) -> Tensor:
        """Another name of an output, which keeps its history where the output is a captured tensor."""
        return _with_tangents(alias(out, gradient_edge(out)), out) if id(out) in self.written else out

    def note_write(self, t: Tensor) -> None:
        """Remember a tensor that has been written in place, and the base of a view."""
        for each in (t, t._base):
            if each is not None:
                self.written[id(each)] = weakref.ref(each)

    def release(self) -> None:
        """Take this level's own history from the tensors that were written and outlive it: captured ones."""
        written = [t for ref in self.written.values() if (t := ref()) is not None]
        self.written.clear()
        ending = [t for t in written if requires_grad(t) and not self._stays(t)]
        for t in ending:
            t._edge = None

    def recording(self) -> differentiating:
        """Record, whatever the caller's mode is."""
        return differentiating(self, True)

    def enter(self, value: Any) -> Tensor:
        """A tensor as an input of this level.

        Raises
        ------
        ValueError
            If it is no tensor.
        RuntimeError
            If its dtype cannot be differentiated.
        """
        value = as_input(value)
        if not isinstance(value, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
        if value._dtype.category < 2:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if local.state.batches:
            value = broadcast_to_batch(value, batched_device(local.state.batches, value._device))
        node = LevelInput.make(value._device, (gradient_edge(value),), value)
        node.level = self
        entered = alias(value, (node, 0))
        entered._meta = Meta()
        entered._meta.requires_grad = True
        return _with_tangents(entered, value)

    def leave(self, value: Any) -> Any:
        """A result without the history that is this level's own; anything but a tensor as it is."""
        if not isinstance(value, Tensor) or not requires_grad(value) or self._stays(value):
            return value
        return _with_tangents(alias(value, None), value)

    def _stays(self, value: Tensor) -> bool:
        """Whether a tensor keeps its history when the level ends."""
        return bool(local.state.mode & GRAD) and self.depends_on_caller([value])

    def depends_on_caller(self, tensors: Iterable[Any]) -> bool:
        """Whether the history of any of `tensors` leads out of this level.

        That is to a leaf, to a node from before this level, or into another transformation that is running: one that
        calls a function that this level has returned.
        """
        running = local.state.transforms
        edges = [gradient_edge(t) for t in tensors]
        stack = list({edge[0] for edge in edges if edge is not None})
        seen = set(stack)
        while stack:
            node = stack.pop()
            if not node._edges or node._seq < self.start:
                return True
            if node.__class__ is LevelInput and node.level is not self and node.level in running:
                return True
            for edge in node._edges:
                if edge is not None and edge[0] not in seen:
                    seen.add(edge[0])
                    stack.append(edge[0])
        return False

    def pulled(
        self,
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        cotangents: Sequence[Any],
        retain_graph: bool = True,
        create_graph: bool = True,
    ) -> list[Any]:
        """The vector-Jacobian product, zeros where an input does not matter."""
        pairs = [(out, c) for out, c in zip(outputs, cotangents, strict=True) if requires_grad(out)]
        if not pairs:
            return [zeros_like(t) for t in inputs]
        outputs, cotangents = [list(column) for column in zip(*pairs, strict=True)]
        with differentiating(self):
            return list(
                grad(outputs, inputs, cotangents, retain_graph or create_graph, create_graph, materialize_grads=True)
            )

    def gradients(
        self, outputs: Sequence[Any], inputs: Sequence[Any], cotangents: Sequence[Any], retain_graph: bool
    ) -> list[Any]:
        """The same as results of the transformation, recorded only where the caller's gradients depend on them."""
        for c in cotangents:
            if c is not None and not isinstance(c, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(c).__name__}")
        for level in local.state.transforms:  # what they record leads through this level, which may be older
            if isinstance(level, ReverseLevel):
                level.start = min(level.start, self.start)
        create = bool(local.state.mode & GRAD) and (
            any(c is not None and requires_grad(c) for c in cotangents) or self.depends_on_caller(outputs)
        )
        return [self.leave(g) for g in self.pulled(outputs, inputs, cotangents, retain_graph, create)]


def _with_tangents(t: Tensor, source: Tensor) -> Tensor:
    """`t` with the forward-mode tangents of `source`, of which it is another name."""
    tangents = None if source._meta is None else source._meta.tangents
    for level, tangent in (tangents or {}).items():
        forward.attach(t, level, tangent)
    return t


# -- arguments and results ------------------------------------------------------------------------------------------


def place_of(argnums: Argnums, count: int) -> tuple[int, ...]:
    """The positions that `argnums` names among `count` positional arguments.

    Raises
    ------
    RuntimeError
        If there is no such argument, if one is named twice, or if none is named.
    """
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    places = []
    for n in (argnums,) if isinstance(argnums, int) else argnums:
        if not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
        if not -count <= n < count:
            raise RuntimeError(f"Got argnum={n}, but only {count} positional inputs")
        places.append(n % count)
    if not places:
        raise RuntimeError("argnums must be non-empty")
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {tuple(places)}")
    return tuple(places)


def selected(args: Sequence[Any], argnums: Argnums) -> Any:
    """The arguments that `argnums` names: one, or a tuple of them."""
    places = place_of(argnums, len(args))
    return tree_map(as_input, args[places[0]] if isinstance(argnums, int) else tuple(args[i] for i in places))


def replaced(args: Sequence[Any], argnums: Argnums, values: Any) -> list[Any]:
    """The arguments with those that `argnums` names exchanged for `values` (one, or a tuple of them)."""
    out = list(args)
    for i, value in zip(place_of(argnums, len(args)), (values,) if isinstance(argnums, int) else values, strict=True):
        out[i] = value
    return out


def split_aux(result: Any, has_aux: bool, api: str) -> tuple[Any, Any]:
    """The output of a function and what it returns beside it (None without `has_aux`)."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{api}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def check_results(outputs: Sequence[Any], api: str) -> None:
    """Raise unless a function has returned tensors only, and at least one."""
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise RuntimeError(f"{api}: Expected f to be a function that has non-empty output (got output = {outputs})")
    for out in outputs:
        if not isinstance(out, Variable):
            raise RuntimeError(f"{api}: expected f(*primals) to return only tensors, got unsupported type {type(out)}")


def check_randomness(randomness: str) -> None:
    """Raise unless it is said in a known way what random numbers are to samples."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def check_real(tensors: Iterable[Any], api: str, what: str) -> None:
    """Raise where a Jacobian would be complex."""
    for i, t in enumerate(tensors):
        if isinstance(t, Variable) and t._dtype.is_complex:
            raise RuntimeError(
                f"{api}: Expected all {what} to be real but received complex tensor at flattened input idx: {i}"
            )
