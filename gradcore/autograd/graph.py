"""The public interface of the graph: nodes, gradient edges, hooks of tensors and hooks of saved tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gradcore.autograd.modes import local
from gradcore.autograd.node import Node, restrict_to_transformation
from gradcore.autograd.node import RemovableHandle as RemovableHandle
from gradcore.autograd.saved import (
    allow_mutation_on_saved_tensors,
    current_hooks,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from gradcore.autograd.variables import INFERENCE_COUNTER, AutogradMeta, TensorMeta, Variable, bump
from gradcore.autograd.views import gradient_edge
from gradcore.core.typing import AnyTensor, NamedTuple

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class _NodeAndNumber(NamedTuple):
    node: Node
    output_nr: int
    ownership_token: Any = None


class GradientEdge(_NodeAndNumber):
    """An edge of the graph, which `backward` and `grad` accept instead of a tensor. It does not keep data alive."""

    #: Shape, dtype and device of the gradient, or None for an edge that the user created.
    kind: TensorMeta | None = None


def get_gradient_edge(tensor: AnyTensor) -> GradientEdge:
    """Return the gradient edge of a tensor: its node and the number of the node's output.

    Parameters
    ----------
    tensor : Tensor
        Requires grad.

    Returns
    -------
    GradientEdge

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.
    """
    if not isinstance(tensor, Variable):
        raise TypeError(f"get_gradient_edge(): expected a Tensor, but got {type(tensor).__name__}")
    edge = gradient_edge(tensor)
    if edge is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    result = GradientEdge(*edge)
    result.kind = TensorMeta.of(tensor)
    return result


def current_graph_task() -> Any:
    """Return the graph task that this thread runs; None outside of backward."""
    return local.state.task


def current_saved_tensors_hooks() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """Return the innermost hooks on saved tensors that are active, `pack` and `unpack`."""
    return current_hooks()


def increment_version(tensor: AnyTensor) -> None:
    """Increment the version of one or several tensors, for an in-place write that autograd has not seen."""
    if not isinstance(tensor, Iterable):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for t in (tensor,) if isinstance(tensor, Variable) else tensor:
        if not isinstance(t, Variable):
            raise RuntimeError("increment_version expects each element of the iterable to be a tensor")
        if t._vc is not INFERENCE_COUNTER:  # Writes to inference tensors are not counted.
            bump(t)


# -- hooks of tensors --------------------------------------------------------------------------------------------------


def register_hook(t: AnyTensor, hook: Any) -> RemovableHandle:
    """Call ``hook(grad)`` whenever the gradient of a tensor is computed."""
    edge = gradient_edge(t)
    if edge is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if edge[0].is_accumulator:
        meta = t._autograd
        if meta.hooks is None:
            meta.hooks = {}
        edge[0]._own_hooks()  # leaves without hooks take a shorter path
        return RemovableHandle(meta.hooks, hook)
    if local.state.transforms:
        hook = restrict_to_transformation(hook, edge[0])
    return RemovableHandle(edge[0]._own_hooks().tensor.setdefault(edge[1], {}), hook)


def register_post_accumulate_hook(t: AnyTensor, hook: Any) -> RemovableHandle:
    """Call ``hook(tensor)`` after the gradient of a leaf has been updated."""
    edge = gradient_edge(t)
    if edge is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not edge[0].is_accumulator:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    meta = t._autograd
    if meta.post_accumulate_hooks is None:
        meta.post_accumulate_hooks = {}
    edge[0]._own_hooks()
    return RemovableHandle(meta.post_accumulate_hooks, hook)


def tensor_hooks(t: AnyTensor) -> dict[int, Any] | None:
    """Return the hooks of a tensor, None if it never had any."""
    edge = gradient_edge(t)
    if edge is None:
        return None
    if edge[0].is_accumulator:
        return None if t._autograd is None else t._autograd.hooks
    return None if edge[0]._hooks is None else edge[0]._hooks.tensor.get(edge[1])


def retain_grad(t: AnyTensor) -> None:
    """Make backward store the gradient of the non-leaf tensor `t` in ``t.grad``."""
    edge = gradient_edge(t)
    if edge is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if edge[0].is_accumulator or t.retains_grad:
        return
    if t._autograd is None:
        t._autograd = AutogradMeta()
    t._autograd.retains_grad = True
    edge[0]._own_hooks().retain[edge[1]] = weakref.ref(t)


class MultiHandle(RemovableHandle):
    """Handle of a multi-tensor hook, which removes it from all tensors."""

    def __init__(self, handles: Iterable[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Remove the hook; removing it twice does nothing."""
        for handle in self.handles:
            handle.remove()


def _finder(t: AnyTensor) -> Callable[[], Node | None]:
    """Return a function that returns the node of `t`, without keeping tensor or node alive."""
    node = get_gradient_edge(t).node
    if not node.is_accumulator:
        return weakref.ref(node)
    # A leaf has a node only while a graph refers to it, so the leaf itself is referenced.
    leaf = weakref.ref(t)

    def find() -> Node | None:
        tensor = leaf()
        edge = None if tensor is None else gradient_edge(tensor)
        return None if edge is None else edge[0]

    return find


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[[Any], None], *, mode: str = "all"
) -> RemovableHandle:
    """Call a function once per backward with the gradients of several tensors.

    Parameters
    ----------
    tensors : sequence of Tensor
        They require grad.
    fn : callable
        With ``mode="all"`` it gets the list of the gradients as soon as this backward has computed all of them, with
        None for tensors without a gradient. With ``"any"`` it gets the first gradient computed.
    mode : {"all", "any"}

    Returns
    -------
    RemovableHandle

    Examples
    --------
    >>> import gradcore
    >>> a, b = gradcore.ones(2, requires_grad=True), gradcore.ones(2, requires_grad=True)
    >>> handle = gradcore.autograd.graph.register_multi_grad_hook([a, b], print)
    >>> (2 * a + b).sum().backward()
    [tensor([2., 2.]), tensor([1., 1.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    key = object()
    nodes = [_finder(t) for t in tensors]

    def receive_gradient(i: int, grad: Any) -> None:
        task = local.state.task
        if mode == "any":
            if key not in task.local_data:
                task.local_data[key] = True
                fn(grad)
            return
        if key not in task.local_data:
            current_nodes = [find() for find in nodes]
            expected = sum(node is not None and task.will_run(node) for node in current_nodes)
            task.local_data[key] = [expected, [None] * len(current_nodes)]
        note = task.local_data[key]
        note[0] -= 1
        note[1][i] = grad
        if not note[0]:
            fn(note[1])

    def watch(i: int) -> Callable[[Any], None]:
        return lambda grad: receive_gradient(i, grad)

    return MultiHandle(t.register_hook(watch(i)) for i, t in enumerate(tensors))
