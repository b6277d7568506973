"""Nodes: what backward runs. Those at leaves are here, those of operations in `op_node`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from gradcore import dtypes
from gradcore.autograd.input_buffer import TENSOR_GRADS
from gradcore.autograd.modes import GRAD, local
from gradcore.autograd.variables import Edge, Order, TensorMeta, Variable, accumulate_grad, tick

__all__ = ["AccumulateGrad", "Hooks", "Node"]


class Hooks:
    """The hooks of one node, by kind, in the order of registration."""

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
    """What a gradient that arrives at a node is like.

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
    """A recorded operation: what backward runs.

    Nodes have their PyTorch names (``AddBackward0``) and, as attributes, the values that they saved
    (``_saved_self``). They refer to their inputs' nodes and never to their own outputs, so that memory goes when
    the last name goes.
    """

    __slots__ = ("__weakref__", "_device", "_dtype", "_edges", "_hooks", "_metadata", "_seq", "_shape")

    _n_outputs: int = 1
    #: Whether gradients that are neither the upstream gradient nor a view are new arrays that nobody else holds.
    _fresh: ClassVar[bool] = False
    is_accumulator: ClassVar[bool] = False
    #: Whether tensors with this history are leaves: made by the user, or inputs of a transformation.
    is_graph_input: ClassVar[bool] = False
    #: A node that backward of this one runs, see `CopySlices`.
    _inner: Any = None
    #: The devices of the gradients for the edges, where they may be others than the node's.
    _input_devices: Any = None

    _device: Any
    _edges: tuple[Edge | None, ...]
    _hooks: Hooks | None
    _seq: int
    #: Shape and dtype of the only output.
    _shape: tuple[int, ...]
    _dtype: Any

    @classmethod
    def make(cls, device: Any, edges: tuple[Edge | None, ...], like: Any = None) -> Self:
        """A node that is recorded now.

        Parameters
        ----------
        device : device
            Where its output lies.
        edges : tuple
            Where the gradients for its inputs go.
        like : Tensor, optional
            Its output, where there is only one.
        """
        node = cls()
        node._device, node._edges, node._seq, node._hooks = device, edges, tick(), None
        if like is not None:
            node._shape, node._dtype = like._array.shape, like._dtype
        return node

    def name(self) -> str:
        """The node's name, for example ``'AddBackward0'``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each input, the node that its gradient goes to and the number of that node's output."""
        return tuple((None, 0) if edge is None else edge for edge in self.shown(self._edges))

    def shown(self, values: Any) -> Any:
        """Of values for all edges, those for inputs that can have gradients: an index is none of them."""
        return values

    def spread(self, values: Any) -> Any:
        """The inverse of `shown`, with None for the others."""
        return values

    @property
    def requires_grad(self) -> bool:
        """True: what is recorded requires grad."""
        return True

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes."""
        try:
            return self._metadata
        except AttributeError:
            self._metadata: dict[Any, Any] = {}
            return self._metadata

    @property
    def _output_metas(self) -> Sequence[Any]:
        """For each output the `TensorMeta`, as noted when it was recorded; None for an output that is no tensor."""
        return (TensorMeta(self._shape, self._dtype, self._device),)

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        """For each output, the shape, dtype and device that its gradient must have."""
        return tuple(InputMetadata(meta, self._device) for meta in self._output_metas)

    def _edge_of_output(self, number: int) -> Edge | None:
        """The history of an output: the node itself or, where it wrote in place to a view, that of the view."""
        reference, outer_number = getattr(self, "_rebased", None) or (None, 0)
        outer = None if reference is None else reference()
        return (self, number) if outer is None else (outer, outer_number)

    def _register_hook_dict(self, hooks: dict[int, Any]) -> None:
        self._own_hooks().tensor.setdefault(0, {}).update(hooks)

    def _sequence_nr(self) -> int:
        return self._seq

    def _own_hooks(self) -> Hooks:
        if self._hooks is None:
            self._hooks, Order.matters = Hooks(), True
        return self._hooks

    @property
    def _seen_outputs(self) -> tuple[int, ...]:
        """The numbers of the outputs that have gradients."""
        return tuple(range(self._n_outputs))

    def register_hook(self, fn: Any) -> Any:
        """Call ``fn(grad_inputs, grad_outputs)`` after each backward of this node.

        `fn` may return gradients that replace `grad_inputs`. Returns a handle with ``remove()``.
        """
        from gradcore.autograd.hooks import RemovableHandle

        return RemovableHandle(self._own_hooks().post, fn)

    def register_prehook(self, fn: Any) -> Any:
        """Call ``fn(grad_outputs)`` before each backward of this node; it may return replacements."""
        from gradcore.autograd.hooks import RemovableHandle

        return RemovableHandle(self._own_hooks().pre, fn)

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        """Gradients for the edges, given those of the outputs.

        Parameters
        ----------
        grads : array or tensor or None, or a list of them for several outputs
        arithmetic : RawGrads or TensorGrads
            Whether gradients are arrays or tensors, and what can be done with them.
        needed : sequence of bool, optional
            Which edges' gradients are needed; all that lead somewhere if None. The others may be computed too.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Let go of saved values; a second backward is then an error."""

    def is_freed(self) -> bool:
        """Whether the saved values are gone."""
        return False

    def __call__(self, *grads: Any) -> Any:
        """Run this node's backward on tensors."""
        seen = self._seen_outputs
        if len(grads) != len(seen):
            raise TypeError(f"expected {len(seen)} arguments, got {len(grads)} instead")
        for i, grad in enumerate(grads):
            if grad is not None and not isinstance(grad, Variable):
                raise TypeError(f"argument {i} is not a Variable")
        given = dict(zip(seen, grads, strict=True))
        carried = [given.get(i) for i in range(self._n_outputs)]
        results = self.shown(self.backward(carried[0] if self._n_outputs == 1 else carried, TENSOR_GRADS))
        return results[0] if len(results) == 1 else tuple(results)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")


Node.__module__ = "builtins"  # nodes print as PyTorch's: <AddBackward0 object at 0x...>


class AccumulateGrad(Node):
    """The end of an edge at a leaf: adds the gradient to ``variable.grad``."""

    __slots__ = ("variable",)

    is_accumulator = is_graph_input = True
    variable: Any

    @property
    def _output_metas(self) -> Sequence[Any]:
        return (TensorMeta.of(self.variable),)

    def name(self) -> str:
        """``'torch::autograd::AccumulateGrad'``."""
        return "torch::autograd::AccumulateGrad"

    def backward(self, grads: Any, arithmetic: Any, needed: Any = None) -> Any:
        plain = grads is not None and not (local.state.mode & GRAD and grads.requires_grad)
        accumulate_grad(self, grads._array if plain else grads)
        return ()


AccumulateGrad.__module__ = "builtins"
