"""Functions and modules that run forward and backward as CUDA graphs, for use in programs that are not captured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradcore.amp.autocasting import is_autocast_cache_enabled, is_autocast_enabled
from gradcore.autograd.function import Function, once_differentiable
from gradcore.autograd.gradients import grad as gradients
from gradcore.cuda.devices import synchronize
from gradcore.cuda.graphs import CUDAGraph, graph, graph_pool_handle
from gradcore.cuda.streams import Stream, stream
from gradcore.tensor import Tensor
from gradcore.tensor.creation import empty_like
from gradcore.torch_names import paths
from gradcore.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

__all__ = ["make_graphed_callables"]


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Return versions of functions or modules that run forward and backward as one CUDA graph each.

    A call is one node of autograd's graph, so the rest of the program can stay uncaptured. Call the result with tensors
    of the same shapes, in the same order, as the samples.

    Parameters
    ----------
    callables : callable, Module, or tuple of these
        Modules are modified in place. While a module's training mode differs from the mode at capture, its original
        `forward` runs. Several callables share memory, so they must be called in the order of the tuple.
    sample_args : tuple of tensors, or tuple of tuples of tensors
        Arguments of each callable. They must require gradients if the arguments of later calls will.
    num_warmup_iters : int
        Number of times that forward and backward run before they are captured.
    allow_unused_input : bool
        Whether inputs that need gradients may be unused.
    pool : object, optional
        Memory pool to share with other graphs; see `graph_pool_handle`.

    Returns
    -------
    callable, Module, or tuple of these
        Callables that replay the graphs. Each call overwrites the results of the last call. Second derivatives are not
        supported.

    Raises
    ------
    RuntimeError
        If CUDA cannot be used, if autocasting keeps a cache, or if the work cannot be captured.
    AssertionError
        If a module has hooks or buffers that require gradients, or an argument is no tensor.

    Examples
    --------
    >>> import gradcore as gc
    >>> if gc.cuda.is_available():
    ...     layer = gc.nn.Linear(2, 3, device="cuda")
    ...     graphed = gc.cuda.make_graphed_callables(layer, (gc.ones(4, 2, device="cuda"),))
    """
    if is_autocast_enabled() and is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`."
        )
    alone = not isinstance(callables, tuple)
    functions, samples = ((callables,), (sample_args,)) if alone else (callables, sample_args)
    parts = [_Part(function, args) for function, args in zip(functions, samples, strict=True)]
    pool, side = graph_pool_handle() if pool is None else pool, Stream()
    synchronize()
    with stream(side):
        for part in parts:
            part.warm_up(num_warmup_iters, allow_unused_input)
    synchronize()
    # The graphs share memory, so they are recorded in one stream and in the order in which they will be replayed.
    for part in parts:
        part.record_forward(pool, side)
    for part in reversed(parts):
        part.record_backward(pool, side, allow_unused_input)
    result = tuple(part.result() for part in parts)
    return result[0] if alone else result


class _Part:
    """Function or module with its forward and backward graphs.

    Attributes
    ----------
    inputs : list of Tensor
        Tensors that the graphs read: arguments, then a module's parameters.
    outputs : list of Tensor
        Tensors that the forward graph writes.
    upstream, grads : list of (Tensor or None)
        Gradients that the backward graph reads, and those that it writes.
    """

    def __init__(self, function: Any, args: Sequence[Any]) -> None:
        self.function, self.args = function, args
        self.is_module = _is_module(function)
        if self.is_module:
            _check(function)
        tensors = tree_leaves(args)
        if not all(isinstance(arg, Tensor) for arg in tensors):
            raise AssertionError(
                "In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed."
            )
        self.parameters = list(function.parameters()) if self.is_module else []
        self.count, self.inputs = len(tensors), [*tensors, *self.parameters]
        self.structure: Any = None
        self.outputs: list[Any] = []
        self.upstream: list[Any] = []
        self.grads: list[Any] = [None] * len(self.inputs)
        self.forward, self.backward = CUDAGraph(), CUDAGraph()

    @property
    def inputs_with_grad(self) -> list[int]:
        """Indices of the inputs that require grad."""
        return [i for i, t in enumerate(self.inputs) if t.requires_grad]

    def differentiate(self, outputs: list[Any], upstream: list[Any], allow_unused: bool) -> Any:
        """Return the gradients of `outputs` with respect to the inputs that require grad."""
        return gradients(
            [o for o in outputs if o.requires_grad],
            [self.inputs[i] for i in self.inputs_with_grad],
            [g for g in upstream if g is not None],
            allow_unused=allow_unused,
        )

    def warm_up(self, times: int, allow_unused: bool) -> None:
        """Run forward and backward `times` times, so that kernels are compiled and chosen."""
        for _ in range(times):
            outputs = tree_leaves(self.function(*self.args))
            if any(o.requires_grad for o in outputs):
                self.differentiate(outputs, [_room(o) for o in outputs], allow_unused)

    def record_forward(self, pool: Any, side: Stream) -> None:
        with graph(self.forward, pool, side):
            self.outputs, self.structure = tree_flatten(self.function(*self.args))

    def record_backward(self, pool: Any, side: Stream, allow_unused: bool) -> None:
        self.upstream = [_room(o) for o in self.outputs]
        if all(g is None for g in self.upstream):
            return
        with graph(self.backward, pool, side):
            gradients = self.differentiate(self.outputs, self.upstream, allow_unused)
        for i, g in zip(self.inputs_with_grad, gradients, strict=True):
            self.grads[i] = g

    def result(self) -> Any:
        """Return the callable that replays the graphs: a function, or the module with a replaced `forward`."""
        node, module = _node_of(self), self.function

        def replay(*args: Any) -> Any:
            return tree_unflatten(node.apply(*tree_leaves(args), *self.parameters), self.structure)

        if not self.is_module:
            return replay
        plain, training = module.forward, module.training

        def forward(*args: Any, **kwargs: Any) -> Any:
            return (replay if module.training == training else plain)(*args, **kwargs)

        module.forward = forward
        return module


def _node_of(part: _Part) -> Any:
    """Return the autograd `Function` that replays the graphs of `part`."""

    class Graphed(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            for memory, value in zip(part.inputs[: part.count], inputs, strict=False):
                _fill(memory.detach(), value)
            part.forward.replay()
            return tuple(o.detach() for o in part.outputs)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *grads: Any) -> Any:
            for memory, value in zip(part.upstream, grads, strict=True):
                if memory is not None:
                    _fill(memory, value)
            part.backward.replay()
            return tuple(None if g is None else g.detach() for g in part.grads)

    return Graphed


def _fill(static: Any, source: Any) -> None:
    """Copy the tensor `source` to `static`, whose memory a graph reads, unless they share memory."""
    if not static.is_set_to(source):
        static.copy_(source)


def _room(output: Any) -> Any:
    return empty_like(output) if output.requires_grad else None


def _is_module(function: Any) -> bool:
    from gradcore.nn import Module  # imported when first used

    return isinstance(function, Module)


def _check(module: Any) -> None:
    if module._backward_hooks or module._forward_hooks or module._forward_pre_hooks:
        raise AssertionError(
            "Modules must not have hooks registered at the time they are passed. However, registering hooks on modules "
            "after passing them through make_graphed_callables is allowed."
        )
    if any(b.requires_grad for b in module.buffers()):
        raise AssertionError(
            "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only parameters may be "
            "trainable. All buffers must have ``requires_grad=False``."
        )


paths.show_public(__name__)
