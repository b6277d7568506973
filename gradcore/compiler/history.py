"""The node of a program whose results have a history: its backward is a program as well."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradcore.autograd import variables
from gradcore.autograd.grad_mode import enable_grad
from gradcore.autograd.gradients import grad as gradients_of
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.node import FREED, Node
from gradcore.autograd.saved import SavedTensor, check_version
from gradcore.autograd.variables import TensorMeta, wrap
from gradcore.autograd.views import gradient_edge
from gradcore.backends.registry import CPU
from gradcore.random.generator import repeated

__all__ = ["Backward", "CompiledFunctionBackward", "ReplayedCall", "connect", "freed"]


class Backward(NamedTuple):
    """The second half of a program.

    Attributes
    ----------
    function : callable
        The compiled function as it was written, for derivatives of derivatives.
    chosen : callable
        Those of its results, in order, that have a history.
    run : callable
        The backward program: of saved arrays and the gradients of results, the gradients of `inputs` that exist.
    inputs : tuple of int
        Which tensors have gradients.
    found : tuple of bool
        For each of them, whether there is a gradient.
    watched : tuple of int
        The tensors whose memory is saved.
    watched_results : tuple of int
        The results whose memory is saved.
    repeatable : bool
        Whether the function can be called again: it writes to nothing.
    fresh : bool
        Whether the gradients are new arrays.
    """

    function: Callable[..., Any]
    chosen: Callable[[Any], list[Any]]
    run: Callable[..., Any]
    inputs: tuple[int, ...]
    found: tuple[bool, ...]
    watched: tuple[int, ...]
    watched_results: tuple[int, ...]
    repeatable: bool
    fresh: bool


class ReplayedCall:
    """A call that a program has made: the tensors that took part, its arguments, the generator's state if it drew."""

    __slots__ = ("args", "named", "place", "tensors")

    def __init__(self, tensors: Any, args: Any, named: Any, place: Any) -> None:
        self.tensors, self.args, self.named, self.place = tensors, args, named, place


class CompiledFunctionBackward(Node):
    """A compiled function in the graph."""

    half: Backward
    call: ReplayedCall
    #: The arrays that the backward program needs of the first; None once they have been freed.
    saved: Any
    #: The results whose memory is among these.
    results: list[SavedTensor]
    _metas: list[TensorMeta]

    @property
    def _output_metas(self) -> Sequence[Any]:
        return self._metas

    def release(self) -> None:
        self.saved = None

    def is_freed(self) -> bool:
        return self.saved is None

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        if self.saved is None:
            raise RuntimeError(FREED)
        if variables.last_write > self._seq:
            for i in self.half.watched:
                check_version(self.call.tensors[i], self._seq)
            for each in self.results:
                each.check(self)
        half, given = self.half, grads if self._n_outputs > 1 else [grads]
        if arithmetic.recorded or any(g is None for g in given):
            return _again(self, [arithmetic.as_tensor(g) for g in given], arithmetic)
        arrays = iter(local.state.run(half.run, *self.saved, *[np.asarray(g, order="C") for g in given]))
        return [next(arrays) if exists else None for exists in half.found]


class _FreshBackward(CompiledFunctionBackward):
    """One whose gradients are new arrays."""

    _fresh = True

    def name(self) -> str:
        return CompiledFunctionBackward.__name__


def connect(half: Backward, results: Any, saved: Any, call: ReplayedCall) -> list[Any]:
    """The tensors of a program's results, connected to its inputs."""
    inputs = [call.tensors[i] for i in half.inputs]
    node: Any = (_FreshBackward if half.fresh else CompiledFunctionBackward).make(
        CPU, tuple(map(gradient_edge, inputs))
    )
    outs = [wrap(array, CPU, None, (node, i)) for i, array in enumerate(results)]
    node._n_outputs, node._metas = len(outs), [TensorMeta.of(t) for t in outs]
    node.half, node.call, node.saved = half, call, saved
    node.results = [SavedTensor.of_output(outs[i], i) for i in half.watched_results]
    return outs


def freed(t: Any) -> Any:
    """A result whose graph the function has freed itself, as it has called backward."""
    node: Any = CompiledFunctionBackward.make(CPU, ())
    node._n_outputs, node._metas, node.saved = 1, [TensorMeta.of(t)], None
    t._edge = (node, 0)
    return t


def _again(node: CompiledFunctionBackward, grads: Any, arithmetic: Any) -> Any:
    """The gradients by calling the function once more, as it is: so they have a history, and may be incomplete."""
    half, call = node.half, node.call
    inputs = [call.tensors[i] for i in half.inputs]
    if not half.repeatable:
        raise RuntimeError(
            "the gradients of a compiled function that writes to tensors in place cannot be differentiated, nor "
            "computed if the gradients of some of its results are missing: call it without gradcore.compile, or "
            "compile all of the step"
        )
    for t in call.tensors:
        check_version(t, node._seq)
    recorded = bool(local.state.mode & GRAD)
    with enable_grad(), contextlib.nullcontext() if call.place is None else repeated(call.place):
        outs = half.chosen(half.function(*call.args, **call.named))
    pairs = [(out, g) for out, g in zip(outs, grads, strict=True) if g is not None]
    if not pairs:
        return [None] * len(inputs)
    outs, given = [out for out, _ in pairs], [g for _, g in pairs]
    found = gradients_of(outs, inputs, given, create_graph=recorded, allow_unused=True)
    return [arithmetic.from_tensor(g) for g in found]


CompiledFunctionBackward.__module__ = "builtins"  # nodes print as <CompiledFunctionBackward object at 0x...>
