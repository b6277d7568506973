"""Base class of graph nodes, the AccumulateGrad node of leaves, and hooks. Nodes of operations are in `op_node`."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from gradcore.autograd import variables
from gradcore.autograd.input_buffer import TENSOR_GRADS
from gradcore.autograd.modes import ANOMALY, GRAD, local
from gradcore.autograd.variables import (
    Edge,
    TensorMeta,
    Variable,
    accumulate_grad,
    shape_of,
    tick,
    type_name,
    version_counter,
)
from gradcore.core import dtypes
from gradcore.core.errors import use_program_names
from gradcore.core.typing import AnyArray, AnyTensor

__all__ = [
    "FREED",
    "INFERENCE_SAVED",
    "AccumulateGrad",
    "Hooks",
    "Node",
    "RemovableHandle",
    "call_posthooks",
    "call_prehooks",
    "call_tensor_hooks",
    "freed_error",
    "is_freed_error",
    "modified_in_place",
    "operation_of",
    "redirect_edges",
    "restrict_to_transformation",
]


_ids = itertools.count()


class RemovableHandle:
    """Handle of a registered hook. ``remove()``, or the end of a ``with`` block, removes the hook.

    Parameters
    ----------
    table : dict
        The hooks, in order of registration; the handle adds `fn` to it.
    fn : callable, optional
        The hook. If it is left out, the caller stores the hook in ``table[handle.id]``.
    """

    def __init__(self, table: dict[int, Any], fn: Any = None) -> None:
        self._table: dict[int, Any] | None = table
        self.id = next(_ids)
        if fn is not None:
            table[self.id] = fn

    def remove(self) -> None:
        """Remove the hook; removing it twice does nothing."""
        if self._table is not None:
            self._table.pop(self.id, None)
            self._table = None

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Hooks:
    """The hooks of one node: one dict per kind, in the order of registration."""

    __slots__ = ("post", "pre", "retain", "saved", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, dict[int, Any]] = {}
        self.pre: dict[int, Any] = {}
        self.post: dict[int, Any] = {}
        #: Weak references to the tensors that retain their gradient, by output number.
        self.retain: dict[int, Any] = {}
        #: Whether saved tensors may have hooks.
        self.saved = False


class InputMetadata:
    """Shape, dtype and device of a node's incoming gradient.

    Attributes
    ----------
    shape : list of int
    dtype : dtype
    device : device
    """

    __slots__ = ("device", "dtype", "shape")

    is_nested_tensor = False
    is_cpp_nested_tensor = False

    def __init__(self, meta: TensorMeta | None, device: Any) -> None:
        shape, self.dtype, device = meta or ((), dtypes.float32, device)
        self.shape, self.device = list(shape), device.real

    def __repr__(self) -> str:
        return f"InputMetadata(shape={self.shape}, dtype={self.dtype}, device={self.device})"


class Node:
    """A recorded operation, the node of the graph that backward runs.

    Nodes have their PyTorch names (``AddBackward0``) and, as attributes, the values that they saved
    (``_saved_self``). They refer to their inputs' nodes and never to their own outputs. So there are no reference
    cycles, and the graph is freed as soon as the last tensor that refers to it is deleted.
    """

    __slots__ = ("__weakref__", "_device", "_dtype", "_edges", "_hooks", "_metadata", "_rebased", "_seq", "_shape")

    _n_outputs: int = 1
    #: Whether gradients that are neither the upstream gradient nor a view are new arrays that nobody else holds.
    _fresh: ClassVar[bool] = False
    is_accumulator: ClassVar[bool] = False
    #: Whether eager execution would have several nodes in the place of this one, so that hooks see no None.
    stands_for_several: ClassVar[bool] = False
    #: For such nodes with several outputs: for each output, the other outputs that are computed from it.
    feeds: Sequence[frozenset[int]] = ()
    #: Whether tensors with this history are leaves: made by the user, or inputs of a transformation.
    is_graph_input: ClassVar[bool] = False
    #: The node whose backward this node calls, see `CopySlices`.
    _inner: Any = None
    #: The device of the gradient for each edge, if some of them may differ from the node's device.
    _input_devices: Any = None

    _device: Any
    _edges: tuple[Edge | None, ...]
    _hooks: Hooks | None
    _seq: int
    _rebased: dict[int, tuple[weakref.ref[Node], int]]
    #: Shape and dtype of the only output.
    _shape: tuple[int, ...]
    _dtype: Any

    @classmethod
    def make(cls, device: Any, edges: tuple[Edge | None, ...], like: AnyTensor = None) -> Self:
        """Create a node with the next creation number.

        Parameters
        ----------
        device : device
            The device of the node's output.
        edges : tuple
            For each input the edge to which its gradient goes, or None.
        like : Tensor, optional
            The output, if there is only one. Its shape and dtype are stored.
        """
        node = cls()
        node._device, node._edges, node._seq, node._hooks = device, edges, tick(), None
        if like is not None:
            node._shape, node._dtype = like._array.shape, like._dtype
        return node

    def name(self) -> str:
        """Return the node's name, for example ``'AddBackward0'``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input, the node that its gradient goes to and the number of that node's output."""
        return tuple((None, 0) if edge is None else edge for edge in self.visible(self._edges))

    def visible(self, values: Any) -> Any:
        """Return the entries of `values` (one per edge) of differentiable inputs, without those of indices or masks."""
        return values

    def from_visible(self, values: Any) -> Any:
        """Return `values` with None inserted for the edges that `visible` leaves out (the inverse of `visible`)."""
        return values

    @property
    def requires_grad(self) -> bool:
        """True, because only operations that require grad are recorded as nodes."""
        return True

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary in which users can store data of their own."""
        try:
            return self._metadata
        except AttributeError:
            self._metadata: dict[Any, Any] = {}
            return self._metadata

    @property
    def _output_metas(self) -> Sequence[Any]:
        """For each output its `TensorMeta` at the time of recording, or None if the output is no tensor."""
        return (TensorMeta(self._shape, self._dtype, self._device),)

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        """For each output, the shape, dtype and device that its gradient must have."""
        return tuple(InputMetadata(meta, self._device) for meta in self._output_metas)

    def _edge_of_output(self, number: int) -> Edge | None:
        """Return the edge of an output: to this node, or to the node that `rebase_output` has put in its place."""
        reference, outer_number = getattr(self, "_rebased", {}).get(number, (None, 0))
        outer = None if reference is None else reference()
        return (self, number) if outer is None else (outer, outer_number)

    def rebase_output(self, number: int, edge: Edge) -> None:
        """Give an output another edge: after an in-place write to a view of it, or where it was computed again."""
        self._rebased = {**getattr(self, "_rebased", {}), number: (weakref.ref(edge[0]), edge[1])}

    def _register_hook_dict(self, hooks: dict[int, Any]) -> None:
        self._own_hooks().tensor.setdefault(0, {}).update(hooks)

    def _sequence_nr(self) -> int:
        return self._seq

    def _own_hooks(self) -> Hooks:
        if self._hooks is None:
            self._hooks, variables.leaf_order_matters = Hooks(), True
        return self._hooks

    @property
    def _seen_outputs(self) -> tuple[int, ...]:
        """The numbers of the outputs that have gradients."""
        return tuple(range(self._n_outputs))

    def register_hook(self, fn: Any) -> Any:
        """Call ``fn(grad_inputs, grad_outputs)`` after each backward of this node.

        `fn` may return gradients that replace `grad_inputs`. Returns a handle with ``remove()``.
        """
        return RemovableHandle(self._own_hooks().post, fn)

    def register_prehook(self, fn: Any) -> Any:
        """Call ``fn(grad_outputs)`` before each backward of this node; it may return replacements."""
        return RemovableHandle(self._own_hooks().pre, fn)

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        """Return the gradients for the edges, given the gradients of the outputs.

        Parameters
        ----------
        grads : array or tensor or None, or a list of them for several outputs
        arithmetic : RawGrads or TensorGrads
            The arithmetic of gradients: on raw arrays, or on tensors if backward is recorded.
        needed : sequence of bool, optional
            Which edges' gradients are needed; all that lead somewhere if None. The others may be computed too.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Drop the saved values; a second backward is then an error."""

    def compute_gradients(self, grads: AnyArray | list[AnyArray | None]) -> Sequence[AnyArray | None] | None:
        """Return the gradients for all edges as new arrays, or None if only `backward` can compute them.

        The engine calls this for nodes without a plan and without hooks, for gradients that are arrays, inside the
        context that silences NumPy's warnings.
        """
        return None

    def is_freed(self) -> bool:
        """Return whether the saved values have been released."""
        return False

    def __call__(self, *grads: Any) -> Any:
        """Run this node's backward on tensors."""
        numbers = self._seen_outputs
        if len(grads) != len(numbers):
            raise TypeError(f"expected {len(numbers)} arguments, got {len(grads)} instead")
        for i, grad in enumerate(grads):
            if grad is not None and not isinstance(grad, Variable):
                raise TypeError(f"argument {i} is not a Variable")
        by_output = dict(zip(numbers, grads, strict=True))
        output_grads = [by_output.get(i) for i in range(self._n_outputs)]
        results = self.visible(self.backward(output_grads[0] if self._n_outputs == 1 else output_grads, TENSOR_GRADS))
        return results[0] if len(results) == 1 else tuple(results)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")


Node.__module__ = "builtins"  # nodes print as PyTorch's: <AddBackward0 object at 0x...>


class AccumulateGrad(Node):
    """The node of a leaf, which adds the incoming gradient to ``variable.grad``."""

    __slots__ = ("variable",)

    is_accumulator = is_graph_input = True
    variable: Any

    @property
    def _output_metas(self) -> Sequence[Any]:
        return (TensorMeta.of(self.variable),)

    def name(self) -> str:
        """Return ``'torch::autograd::AccumulateGrad'``."""
        return "torch::autograd::AccumulateGrad"

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        is_constant = grads is not None and not (local.state.mode & GRAD and grads.requires_grad)
        accumulate_grad(self, grads._array if is_constant and grads._strided else grads)
        return ()

    def _own_hooks(self) -> Hooks:
        self.variable._autograd.observed = True  # the leaf's next accumulator looks for hooks too
        return super()._own_hooks()


AccumulateGrad.__module__ = "builtins"


# -- calling hooks -----------------------------------------------------------------------------------------------------

Table = dict[int, Any]


def redirect_edges(tensors: Iterable[AnyTensor | None], start: int, new_edges: Mapping[Edge, Edge]) -> None:
    """Replace the edges `new_edges` in the graph of `tensors` (or None), as far as it was recorded after `start`."""
    seen: set[Node] = set()
    stack: list[Node] = []
    for (node, number), edge in new_edges.items():
        node.rebase_output(number, edge)
    for t in tensors:
        if t is not None and t._edge is not None:
            t._edge = edge = new_edges.get(t._edge, t._edge)
            stack.append(edge[0])
    while stack:
        node = stack.pop()
        if node._seq > start and node not in seen:
            seen.add(node)
            node._edges = tuple([None if edge is None else new_edges.get(edge, edge) for edge in node._edges])
            stack += [edge[0] for edge in node._edges if edge is not None]


def restrict_to_transformation(hook: Callable[..., Any], node: Any) -> Callable[..., Any]:
    """Return a wrapper of `hook` that runs only in the backward of the `func` transformation that `node` belongs to.

    That is the innermost transformation whose inputs are reachable from `node`. Outer transformations run backward
    through the same nodes, to differentiate the gradient that the hook has seen; the hook must not run again then.
    """
    running = [level for level in local.state.transforms if level.reverse]
    innermost = -1
    stack, seen = [node], {node}
    while stack and innermost + 1 < len(running):
        node = stack.pop()
        if node.is_graph_input and not node.is_accumulator and node.level in running:
            innermost = max(innermost, running.index(node.level))
        inputs = {edge[0] for edge in node._edges if edge is not None} - seen
        seen |= inputs
        stack += inputs
    if innermost < 0:
        return hook
    owner = running[innermost]

    @functools.wraps(hook)
    def own(grad: Any) -> Any:
        level = next((level for level in reversed(local.state.transforms) if level.reverse), None)
        return hook(grad) if level is owner else None

    return own


def call_tensor_hooks(table: Table, grad: Any) -> Any:
    """Call the hooks of a tensor, each of which may replace the gradient, and return the last gradient (or None)."""
    for hook in list(table.values()):
        result = hook(grad)
        if result is not None:
            grad = _check_substitute(grad, result, hook)
    return grad


def call_prehooks(table: Table, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Call the prehooks of a node, each of which may replace the output gradients `grads`, and return the last ones."""
    for hook in list(table.values()):
        result = hook(grads)
        if result is not None:
            grads = _all_checked(grads, result, hook)
    return grads


def call_posthooks(table: Table, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Call the post hooks of a node, each of which may replace the input gradients `inputs`; return the last ones."""
    for hook in list(table.values()):
        result = hook(inputs, outputs)
        if result is not None:
            inputs = _all_checked(inputs, result, hook)
    return inputs


def _all_checked(before: tuple[Any, ...], result: Any, hook: Any) -> tuple[Any, ...]:
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'")
    after = result
    if len(after) != len(before):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(after)}, but expected "
            f"{len(before)})"
        )
    return tuple(_check_substitute(a, b, hook) for a, b in zip(before, after, strict=True))


def _check_substitute(before: Any, after: Any, hook: Any) -> Any:
    """Check and return the gradient `after` that a hook has returned in place of `before`.

    Raises
    ------
    TypeError
        If it is neither a tensor nor None.
    RuntimeError
        If it has another shape, dtype or device, or if it replaces None.
    """
    if after is None:
        return None
    if not isinstance(after, Variable):
        raise TypeError(f"expected Variable, but hook returned '{type(after).__name__}'")
    if before is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if after._dtype is not before._dtype:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was {type_name(before)} got {type_name(after)})"
        )
    if after._device is not before._device:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the device of value (was {before._device} got {after._device})"
        )
    if shape_of(after) != shape_of(before):
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size of value")
    return after


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", type(hook).__name__)


# -- errors ------------------------------------------------------------------------------------------------------------

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


def freed_error() -> RuntimeError:
    """Return the error of a backward through a graph that has been freed."""
    error = RuntimeError(FREED)
    vars(error)["is_of_freed_graph"] = True
    return error


def is_freed_error(error: BaseException) -> bool:
    """Return whether an error was made by `freed_error`."""
    return "is_of_freed_graph" in vars(error)


INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `gradcore.no_grad()` instead of `gradcore.inference_mode()`."
)


def operation_of(node: Any) -> str:
    """Return a node's name without ``Backward0``, as error messages have it: ``Exp``, ``Sum1``."""
    name, _, number = type(node).__name__.rpartition("Backward")
    return f"{name}{number}".removesuffix("0") if name else number


#: Dtypes without a legacy tensor class (such as ``torch.FloatTensor``) that error messages could name.
_WITHOUT_CLASS = ("bfloat16", "bool", "complex64", "complex128")


def _type_of(t: AnyTensor) -> str:
    if t._dtype.name in _WITHOUT_CLASS:
        return f"{t._device.type.upper()}{t._dtype.scalar_name}Type"
    return type_name(t)


def modified_in_place(t: AnyTensor, edge: Edge | None, expected: int) -> RuntimeError:
    """Return the error for a saved tensor (with its history `edge`) that is no longer at version `expected`."""
    source = ""
    if edge is not None and not edge[0].is_accumulator:
        source = f", which is output {edge[1]} of {operation_of(edge[0])},"
    if local.state.mode & ANOMALY:
        hint = (
            "the backtrace further above shows the operation that failed to compute its gradient. The variable in "
            "question was changed in there or anywhere later. Good luck!"
        )
    else:
        hint = (
            "enable anomaly detection to find the operation that failed to compute its gradient, with "
            + use_program_names("gradcore.autograd.set_detect_anomaly(True, check_nan=False).")
        )
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{_type_of(t)} {list(t._array.shape)}]{source} is at version {version_counter(t).version}; "
        f"expected version {expected} instead. Hint: {hint}"
    )
