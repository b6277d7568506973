"""Building blocks of `gradcore.func`: levels of reverse and forward mode on one tape, and batches.

Transformations are functions of these alone: `GradLevel` differentiates what a function records, `ForwardLevel` carries
tangents through it, `vectorize` and `batch_scope` run it on all samples of a batch at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradcore.autograd import forward, variables
from gradcore.autograd.batch_dims import add_batch_dim, basis, batch_scope, broadcast_to_batch, remove_batch_dim
from gradcore.autograd.batch_dims import map_samples as vectorize
from gradcore.autograd.derivatives import PLANS, UNCHANGED
from gradcore.autograd.engine import run_backward
from gradcore.autograd.forward import ForwardLevel, primal, tangent_of
from gradcore.autograd.gradients import grad, root_of
from gradcore.autograd.modes import GRAD, INFERENCE, local
from gradcore.autograd.node import Node
from gradcore.autograd.variables import AutogradMeta, alias, tick
from gradcore.autograd.views import gradient_edge, requires_grad
from gradcore.backends.vmap import VmapLevel, batched_device
from gradcore.core.typing import AnyTensor
from gradcore.tensor import Tensor
from gradcore.tensor.creation import tensor, zeros_like

__all__ = [
    "ForwardLevel",
    "GradLevel",
    "VmapLevel",
    "add_batch_dim",
    "as_input",
    "basis",
    "batch_scope",
    "is_batched_at",
    "is_within_vmap",
    "primal",
    "remove_batch_dim",
    "tangent_of",
    "transform_scope",
    "vectorize",
]


class LevelInput(Node):
    """Node of an input of a reverse-mode transformation, at which its graph ends and the caller's begins."""

    __slots__ = ("level",)

    is_graph_input = True
    level: GradLevel
    #: Required by the engine's loop, which runs this node like an operation that saves nothing.
    metas = None
    saved = ()

    def check(self) -> None:
        """Do nothing: the node saves no tensor that could have been modified."""

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        return [grads]


for _plans in PLANS.values():
    _plans[LevelInput] = (UNCHANGED,), None, None, None


class transform_scope:
    """Context in which a transformation runs its function or backward; with `recording`, operations are recorded."""

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


def is_within_vmap() -> bool:
    """Return whether a function runs on batches of `vmap`."""
    return bool(local.state.batches)


def as_input(value: Any) -> Any:
    """Return a floating-point or complex number or array as a differentiable tensor, and other values unchanged."""
    if isinstance(value, (float, complex, np.inexact)) or (isinstance(value, np.ndarray) and value.dtype.kind in "fc"):
        return tensor(value)
    return value


class GradLevel:
    """Level of a reverse-mode transformation.

    The history that it records is removed at the end, unless gradients of the caller depend on it.

    All levels record in one graph. The inputs of a level are aliases of the caller's tensors. A `LevelInput` node
    between each alias and the caller's history keeps the derivatives of different levels apart.
    """

    reverse = True

    def __init__(self) -> None:
        self.start = tick()
        #: Weak references to the tensors that got a history by in-place writes, by their ids.
        self.written: dict[int, weakref.ref[Tensor]] = {}

    def __enter__(self) -> GradLevel:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.written:
            self.release()

    def keep_history(self, out: Tensor) -> Tensor:
        """Return an alias of an output, which keeps its history if the output is a captured tensor."""
        return _with_tangents(alias(out, gradient_edge(out)), out) if id(out) in self.written else out

    def note_write(self, t: Tensor) -> None:
        """Remember that a tensor, and the base of a view, has been modified in place."""
        for each in (t, t._base):
            if each is not None:
                self.written[id(each)] = weakref.ref(each)

    def release(self) -> None:
        """Remove this level's history from the modified tensors that outlive it: captured ones."""
        modified = [t for ref in self.written.values() if (t := ref()) is not None]
        self.written.clear()
        ending = [t for t in modified if requires_grad(t) and not self._outlives_level(t)]
        for t in ending:
            t._edge = None

    def recording(self) -> transform_scope:
        """Record inside of the context, whatever the caller's mode is."""
        return transform_scope(self, True)

    def enter(self, value: Any) -> Tensor:
        """Return a tensor as an input of this level.

        Raises
        ------
        ValueError
            If it is no tensor.
        RuntimeError
            If its dtype cannot be differentiated.
        """
        if not isinstance(value, Tensor) and not isinstance(value := as_input(value), Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
        if not value.dtype.is_differentiable:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if local.state.batches:
            value = broadcast_to_batch(value, batched_device(local.state.batches, value._device))
        node = LevelInput.make(value._device, (gradient_edge(value),), value)
        node.level = self
        level_input = alias(value, (node, 0))
        meta = level_input._autograd = AutogradMeta()
        meta.requires_grad = True
        return level_input if value._autograd is None else _with_tangents(level_input, value)

    def leave(self, value: Any) -> Any:
        """Return a result without this level's history; anything but a tensor is returned unchanged."""
        if not isinstance(value, Tensor) or not requires_grad(value) or self._outlives_level(value):
            return value
        return _with_tangents(alias(value, None), value)

    def _outlives_level(self, value: Tensor) -> bool:
        """Return whether a tensor keeps its history when the level ends."""
        return bool(local.state.mode & GRAD) and self.depends_on_caller([value])

    def depends_on_caller(self, tensors: Iterable[AnyTensor]) -> bool:
        """Return whether the history of any of `tensors` leads out of this level.

        It does if it leads to a leaf, to a node from before this level, or into another running transformation. The
        last case occurs if that transformation calls a function that this level has returned.
        """
        return self._explore(tensors)[0]

    def _explore(self, tensors: Iterable[AnyTensor]) -> tuple[bool, bool]:
        """Return whether the history of `tensors` leads out of this level, and whether it ends elsewhere, too.

        It ends elsewhere at inputs of transformations that are not running any more. If it does neither, all of it
        leads to inputs of this level.
        """
        running = local.state.transforms
        edges = [gradient_edge(t) for t in tensors]
        stack = [edge[0] for edge in edges if edge is not None]
        seen = set(stack)
        start, ends_elsewhere = self.start, False
        while stack:
            node = stack.pop()
            following = node._edges
            if not following or node._seq < start:
                return True, ends_elsewhere
            if node.__class__ is LevelInput and node.level is not self:
                if node.level in running:
                    return True, ends_elsewhere
                ends_elsewhere = True
            for edge in following:
                if edge is not None and (node := edge[0]) not in seen:
                    seen.add(node)
                    stack.append(node)
        return False, ends_elsewhere

    def pull_back(
        self,
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        cotangents: Sequence[Any],
        retain_graph: bool = True,
        create_graph: bool = True,
    ) -> list[Any]:
        """Return the vector-Jacobian product, with zeros for inputs that the outputs do not depend on."""
        pairs = [(out, c) for out, c in zip(outputs, cotangents, strict=True) if requires_grad(out)]
        if not pairs:
            return [zeros_like(t) for t in inputs]
        outputs, cotangents = [list(column) for column in zip(*pairs, strict=True)]
        with transform_scope(self):
            return list(
                grad(outputs, inputs, cotangents, retain_graph or create_graph, create_graph, materialize_grads=True)
            )

    def gradients(
        self, outputs: Sequence[Any], inputs: Sequence[Any], cotangents: Sequence[Any], retain_graph: bool
    ) -> list[Any]:
        """Return gradients as results of the transformation.

        They are recorded only if gradients of the caller depend on them.
        """
        for c in cotangents:
            if c is not None and not isinstance(c, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(c).__name__}")
        self._include_in_outer()
        create = bool(local.state.mode & GRAD) and (
            any(c is not None and requires_grad(c) for c in cotangents) or self.depends_on_caller(outputs)
        )
        return [self.leave(g) for g in self.pull_back(outputs, inputs, cotangents, retain_graph, create)]

    def gradients_and_value(self, output: Tensor, inputs: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """Return the gradients of one real number, and the number, as results of the transformation.

        The history is looked at once. It is not kept, unless the caller's gradients depend on it.
        """
        captures = self._captures_of(inputs)
        if captures is None or not requires_grad(output) or self._explore((output,)) != (False, False):
            return self.gradients([output], inputs, [None], False), self.leave(output)
        self._include_in_outer()
        with transform_scope(self):
            captured = run_backward(
                (root_of(output),), retain_graph=False, create_graph=False, captures=captures, accumulate=False,
                all_needed=True,
            )  # fmt: skip
        gradients = [zeros_like(t) if (g := captured.get(i)) is None else g for i, t in enumerate(inputs)]
        return gradients, alias(output, None)

    def _captures_of(self, inputs: Sequence[Tensor]) -> dict[Node, list[tuple[int, int]]] | None:
        """Return the engine's captures for `inputs`, or None where its plain loop cannot be used."""
        if local.state.mode & ~GRAD or variables.subclasses_used:
            return None
        captures: dict[Node, list[tuple[int, int]]] = {}
        for i, t in enumerate(inputs):
            edge = gradient_edge(t)
            if edge is None or edge[0].__class__ is not LevelInput:
                return None
            captures[edge[0]] = [(0, i)]
        return captures

    def _include_in_outer(self) -> None:
        """Extend the enclosing levels to the start of this one, since their graphs lead through it."""
        for level in local.state.transforms:
            if isinstance(level, GradLevel):
                level.start = min(level.start, self.start)


def _with_tangents(t: Tensor, source: Tensor) -> Tensor:
    """Return `t`, an alias of `source`, with the forward-mode tangents of `source`."""
    for level, tangent in (forward.all_tangents(source) or {}).items():
        forward.attach(t, level, tangent)
    return t


def is_batched_at(t: Tensor, level: VmapLevel) -> bool:
    """Return whether a tensor has one sample for each sample of the level."""
    return level in t._device.levels
